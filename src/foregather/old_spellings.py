"""old_spellings: arguments of release 0.1 that are fields of values now, for one more release.

They are taken with a DeprecationWarning at the caller's line, which has the new spelling. What
nobody knows is refused with the nearest name that is known.
"""

import difflib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from foregather.errors import InputError

__all__ = ["from_old_arguments", "refuse_unknown", "warn_old_spelling"]

Options = TypeVar("Options")


def from_old_arguments(
    given: Any, others: dict[str, Any], usual: Options, argument: str, owner: str
) -> Options:
    """The options given, or made from arguments of release 0.1 that are fields of them now.

    Args:
        given: the options, or None.
        others: arguments by name; those that are fields are taken out.
        usual: the options if none are given.
        argument: what the options are called.
        owner: whose argument that is.

    Raises:
        InputError: both are there, or what is given is of another kind.
    """
    kind = type(usual)
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    old = {name: others.pop(name) for name in names if name in others}
    if given is not None and not isinstance(given, kind):
        raise InputError(f"{argument} is {given!r}, expected {_spelled(kind, ())}")
    if not old:
        return usual if given is None else given
    now = f"{argument}={_spelled(kind, old)}"
    if given is not None:
        raise InputError(f"{', '.join(old)} and {argument} are both given; write {now}")
    warn_old_spelling(f"{', '.join(f'{one}=' for one in old)} of {owner}", now)
    return replace(usual, **old)  # type: ignore[type-var]  # as above


def _spelled(kind: type, names: Iterable[str]) -> str:
    return f"foregather.{kind.__name__}({', '.join(f'{one}=...' for one in names) or '...'})"


def refuse_unknown(others: Mapping[str, Any], owner: Callable[..., Any], *also: str) -> None:
    """Raises for arguments that nobody knows.

    Args:
        others: what is left of them, by name.
        owner: what was called, whose arguments one may have been meant to be.
        also: further names that it knows.

    Raises:
        TypeError: the message has the nearest name that is known.
    """
    for name in others:
        taken = inspect.signature(owner).parameters.values()
        known = [one.name for one in taken if one.kind is not one.VAR_KEYWORD]
        near = difflib.get_close_matches(name, [*known, *also], 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{owner.__name__} got an unexpected argument {name!r}{meant}")


def warn_old_spelling(old: str, new: str) -> None:
    """Warns whoever called foregather, at their line, of what is written otherwise now."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    text = f"{old} is spelled {new} now; the old spelling goes with the next release"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "foregather" or module.startswith("foregather.")
