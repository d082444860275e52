"""checks: options that several samplers of typed graphs have."""

from typing import Any

from foregather.errors import InputError
from foregather.sampling.layerwise import Debias

__all__ = ["DEBIAS", "check_debias", "check_one_of"]

#: In the order of their numbers in the core.
DEBIAS: tuple[Debias, ...] = (None, "exact", "reference")


def check_one_of(name: str, value: Any, kinds: Any) -> None:
    """Raises InputError unless a value is one of a Literal."""
    known = kinds.__args__
    if value not in known:
        raise InputError(f"{name} is {value!r:.40}, expected {' or '.join(map(repr, known))}")


def check_debias(value: Any) -> None:
    """Raises InputError unless it is one."""
    if value not in DEBIAS:
        raise InputError(f'debias is {value!r:.40}, expected "exact", "reference" or None')
