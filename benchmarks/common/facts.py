"""facts: what a figure measured, kept apart from what is said about it.

A figure is a function of a `Facts` and of its size. While it is measured, the facts are made by the
functions that it names; when the page is written they are what was kept, and nothing is run. So
every sentence, verdict and table is made by the code of today from numbers of then, and none can
outlive the code that wrote it. Facts are kept with what they were asked for: a figure whose code
now asks for others, or has other constants, is not drawn from them (`Outdated`).
"""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Facts", "Outdated"]


class Outdated(Exception):
    """What was kept is not what the figure asks for now."""


class Facts:
    """Facts by the names of the functions that measure them.

    Args:
        kept: what was measured before; nothing is measured then. None measures.
    """

    def __init__(self, kept: dict[str, Any] | None = None) -> None:
        self.frozen = kept is not None
        self.known: dict[str, Any] = dict(kept or {})

    def __call__(self, measure: Callable[..., Any], *given: Any) -> Any:
        """What `measure(*given)` gave, as JSON keeps it.

        Raises:
            Outdated: it was not kept, or under other constants of its module.
        """
        name = f"{measure.__module__.rpartition('.')[2]}.{measure.__name__}"
        asked = {"given": repr(given), "constants": _constants(measure)}
        if name not in self.known:
            if self.frozen:
                raise Outdated(f"{name} was not measured")
            told = json.loads(json.dumps(measure(*given)))
            self.known[name] = {**asked, "found": told}
        kept = self.known[name]
        if {key: kept[key] for key in asked} != asked:
            raise Outdated(f"{name} was measured with other constants")
        return kept["found"]


def _constants(measure: Callable[..., Any]) -> str:
    """A digest of the plain constants of the package that measures."""
    package = measure.__module__.rpartition(".")[0] or measure.__module__
    plain = sorted(
        f"{module.__name__}.{name} = {value!r}"
        for module in list(sys.modules.values())
        if f"{getattr(module, '__name__', '')}.".startswith(f"{package}.")
        for name, value in vars(module).items()
        if name.isupper() and _plain(value)
    )
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()[:12]


def _plain(value: Any) -> bool:
    """A number, words, or a list of such: what says the same in every process."""
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    return isinstance(value, (int, float, str))
