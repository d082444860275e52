"""identity: a sampler as text, the same in every process that makes the same sampler.

Ranks compare it before they sample, and a saved position only fits a loader with the same text. The
text is the class and its attributes, arrays by their digest; it never contains the address of an
object. For a dataclass with plain fields it equals its `repr`.
"""

import dataclasses
import functools
import hashlib
import importlib
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import InputError

__all__ = ["identity_of", "values_of"]

_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+", re.IGNORECASE)
_PLAIN = (type(None), bool, int, float, complex, str, PurePath, range, slice, type(Ellipsis))


class _NoForm(Exception):
    """A value that has no such text, and where it was found."""


def identity_of(sampler: Any) -> str:
    """Returns the class of a sampler and its attributes, without values that training changes.

    Fields of a dataclass with compare=False and repr=False, and values cached by a cached_property,
    are left out. Modules of torch count by class and shapes; see `values_of`.

    Raises:
        InputError: an attribute has no such text; the message says what to do.
    """
    return _identity(sampler, False)


def values_of(sampler: Any) -> str:
    """As `identity_of`, with the values of torch modules, which must be equal on all ranks."""
    return _identity(sampler, True)


def _identity(sampler: Any, values: bool) -> str:
    kind = type(sampler)
    try:
        return _Writer(values).write(sampler, "")
    except _NoForm as found:
        if _own_repr(kind) and not _ADDRESS.search(text := repr(sampler)):
            return text
        raise InputError(
            f"sampler is a {kind.__qualname__} with {found}, which cannot be compared; use a "
            "module-level function or a dataclass instead, leave it out with field(compare=False, "
            f"repr=False), or give {kind.__qualname__} a __repr__ that includes everything it "
            "depends on"
        ) from None


class _Writer:
    """Writes values as text and detects cycles."""

    def __init__(self, values: bool) -> None:
        self.values = values
        self._inside: list[int] = []

    def write(self, value: Any, place: str) -> str:
        """The text of a value.

        Raises:
            _NoForm: there is none.
        """
        if isinstance(value, Enum):
            return str(value)
        if isinstance(value, _PLAIN) and not isinstance(value, np.generic):
            return repr(value)
        if id(value) in self._inside:
            raise _NoForm(f"{place or 'itself'}, which contains itself")
        self._inside.append(id(value))
        try:
            return self._compound(value, place)
        finally:
            self._inside.pop()

    def _compound(self, value: Any, place: str) -> str:
        if isinstance(value, np.generic | np.ndarray):
            return _array(value, place)
        if isinstance(value, bytes | bytearray):
            return f"bytes({len(value)}, {hashlib.sha256(value).hexdigest()[:16]})"
        if callable(value) and (hasattr(value, "__qualname__") or isinstance(value, np.ufunc)):
            return _named(value, place)
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return f"partial({', '.join(self.write(part, place) for part in parts)})"
        if isinstance(value, tuple | list | set | frozenset | Mapping) and not _fields(value):
            return self._collection(value, place)
        if hasattr(value, "state_dict") and hasattr(value, "named_parameters"):
            return self._module(value, place)
        if hasattr(value, "detach") and hasattr(value, "numpy"):
            return self._tensor(value)
        if type(value).__module__ in ("torch", "numpy.dtypes", "numpy"):  # dtypes and devices
            if (text := repr(value)) and not _ADDRESS.search(text) and "object" not in text:
                return text
            raise _NoForm(f"{place or 'itself'}, a {type(value).__qualname__}")
        return self._object(value, place)

    def _collection(self, value: Any, place: str) -> str:
        if isinstance(value, Mapping):
            pairs = [
                f"{self.write(key, place)}: {self.write(one, f'{place}[{key!r}]')}"
                for key, one in value.items()
            ]
            return f"{{{', '.join(sorted(pairs))}}}"
        parts = [self.write(one, f"{place}[{at}]") for at, one in enumerate(value)]
        if isinstance(value, list):
            return f"[{', '.join(parts)}]"
        if isinstance(value, tuple):
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        return f"{{{', '.join(sorted(parts))}}}"

    def _module(self, value: Any, place: str) -> str:
        plain = {
            name: repr(one)
            for name, one in vars(value).items()
            if isinstance(one, _PLAIN) and not name.startswith("_") and name != "training"
        }
        held = {
            name: self._tensor(one, learnt=True)
            for name, one in value.state_dict().items()
            if hasattr(one, "detach")
        }
        parts = [f"{name}={text}" for name, text in sorted((plain | held).items())]
        return f"{type(value).__qualname__}({', '.join(parts)})"

    def _tensor(self, value: Any, learnt: bool = False) -> str:
        shape = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if (learnt or value.requires_grad) and not self.values:
            return f"tensor({shape})"
        import torch

        host = value.detach().cpu().contiguous().reshape(-1)
        raw = host.view(torch.uint8).numpy() if host.numel() else np.empty(0, np.uint8)
        return f"tensor({shape}, {_core.xxh64(raw):016x})"

    def _object(self, value: Any, place: str) -> str:
        kind, found = type(value), _fields(value)
        if kind.__module__.startswith("foregather.") and _own_repr(kind):
            return repr(value)  # complete
        names = {} if found is None else {f.name: f.compare or f.repr for f in found}
        if not names and (kind.__module__ == "builtins" or _is_foreign(value)):
            raise _NoForm(f"{place or 'itself'}, a {kind.__qualname__}")
        kept = {
            name for base in kind.__mro__ for name, one in vars(base).items()
            if isinstance(one, functools.cached_property)
        }  # fmt: skip
        for name in [*_slots(kind), *getattr(value, "__dict__", {})]:
            if name not in kept and hasattr(value, name):
                names.setdefault(name, True)
        parts = [
            f"{name}={self.write(getattr(value, name), f'{place}.{name}')}"
            for name, counts in names.items()
            if counts
        ]
        return f"{kind.__qualname__}({', '.join(parts)})"


def _fields(value: Any) -> Any:
    """The fields of an instance of a dataclass, or None."""
    is_value = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.fields(value) if is_value else None


def _is_foreign(value: Any) -> bool:
    """Whether an object's state is outside Python: in a file, a lock, or C memory."""
    if not hasattr(value, "__dict__") and not _slots(type(value)):
        return True
    return hasattr(value, "fileno") or hasattr(value, "__next__")


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in reversed(kind.__mro__):
        names = vars(base).get("__slots__", ())
        names = (names,) if isinstance(names, str) else names
        found += [name for name in names if name not in ("__dict__", "__weakref__")]
    return found


def _array(value: Any, place: str) -> str:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _NoForm(f"{place or 'itself'}, an array of objects")
    if array.ndim == 0:
        return f"{array.dtype}({array.item()!r})"
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"array({array.dtype}{list(array.shape)}, {_core.xxh64(raw):016x})"


def _named(value: Any, place: str) -> str:
    """Writes a function or class that another process can find by the same name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, np.ufunc):
        module, name = "numpy", value.__name__
    what = "a lambda" if "<lambda>" in str(name) else "a function that is not in a module"
    if isinstance(value, type):
        return f"{module}.{name}"
    try:
        found: Any = importlib.import_module(module or "builtins")
        for part in str(name).split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        raise _NoForm(f"{place or 'itself'}, {what}") from None
    if found is not value:
        raise _NoForm(f"{place or 'itself'}, {what}")
    return f"{module}.{name}"


def _own_repr(kind: type) -> bool:
    """Whether a class has a hand-written `__repr__`, not one from a dataclass or Python."""
    for base in kind.__mro__[:-1]:
        if "__repr__" in vars(base):
            return not hasattr(vars(base)["__repr__"], "__wrapped__")  # as dataclasses make it
    return False
