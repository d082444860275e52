"""toml_values: from the tables of a TOML file to typed values, each checked, and back to text."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from foregather.errors import InputError

__all__ = ["flat", "make_value", "read_values", "to_toml"]

Made = TypeVar("Made")


def make_value(
    kind: type[Made], table: Mapping[str, Any], name: str, every: list[str], prefix: str = ""
) -> Made:
    """A dataclass from a table, by `read_values`."""
    return kind(**read_values(kind, table, name, every, prefix))


def read_values(
    kind: type[Any], table: Mapping[str, Any], name: str, every: list[str], prefix: str = ""
) -> dict[str, Any]:
    """The values of a dataclass's fields from a table; sections are dataclasses too.

    Args:
        kind: the dataclass.
        table: as read.
        name: of the file, for messages.
        every: all keys there are, with their sections.
        prefix: the section, with a dot.

    Raises:
        InputError: an unknown key, with the nearest known one, or a value of another type.
    """
    hints = get_type_hints(kind)
    values = {}
    for key, value in table.items():
        if key not in hints:
            near = difflib.get_close_matches(key, list(hints), 1, 0.5)
            near = [f"{prefix}{one}" for one in near] or _far(key, every)
            meant = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(hints)}"
            raise InputError(f"{name} has an unknown key {prefix}{key}{meant}")
        values[key] = _value(hints[key], value, f"{prefix}{key}", name, every)
    return values


def _far(key: str, every: list[str]) -> list[str]:
    """The nearest key of any section, with the section's name."""
    known = {name.split(".")[-1]: name for name in reversed(every)}  # of equals, the first
    return [known[near] for near in difflib.get_close_matches(key, list(known), 1, 0.6)]


def _value(kind: Any, value: Any, key: str, name: str, every: list[str]) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise InputError(f"{name} has {key} = {value!r}, expected a section [{key}]")
        return make_value(kind, value, name, every, f"{key}.")
    fits, wanted = False, getattr(kind, "__name__", str(kind))
    if get_origin(kind) is Literal:
        fits, wanted = value in get_args(kind), "one of " + ", ".join(get_args(kind))
    elif get_origin(kind) is tuple:
        fits, wanted = isinstance(value, list) and all(type(v) is int for v in value), "integers"
        value = tuple(value) if fits else value
    elif get_origin(kind) is dict:
        fits, wanted = isinstance(value, dict), "a table"
    elif kind is float:
        fits, wanted = type(value) in (int, float), "a number"
        value = float(value) if fits else value
    elif kind is str and type(value) is int:  # sizes and counts may be plain numbers
        fits, value = True, str(value)
    else:
        fits = type(value) is kind
    if not fits:
        raise InputError(f"{name} has {key} = {value!r}, expected {wanted}")
    return value


def to_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(str(k))} = {to_toml(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(to_toml(one) for one in value)}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)  # strings, integers and booleans look the same in both


def flat(settings: Any) -> dict[str, Any]:
    """The values of a dataclass of sections by name, `section.key`."""
    found: dict[str, Any] = {}
    for key, value in asdict(settings).items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": one for inner, one in value.items()}
        else:
            found[key] = value
    return found
