"""flags: checks a command line before it is parsed, and says in one sentence what is wrong.

Names of commands and flags, choices and numbers are checked against the commands' own fields. Valid
ones are left to the parser.
"""

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from foregather.errors import InputError
from foregather.units import to_whole

__all__ = ["check_arguments", "commands_of", "flags_of"]

_MOST = 1 << 64  # the largest seed; nothing is larger
#: Ranges of whole numbers that mean the same in all commands, by the last part of the flag.
_RANGES = {
    "threads": (0, (1 << 31) - 1),
    "batches": (0, (1 << 62) - 1),
    "epochs": (0, (1 << 62) - 1),
    "parts": (1, 1 << 20),
    "bulk": (0, 1 << 20),
    "bulks": (0, 1 << 20),
    "row-bytes": (1, 1 << 40),
}


def commands_of(union: Any) -> dict[str, type]:
    """The commands of a union of annotated classes, by name."""
    found = {}
    for one in get_args(union):
        kind, *rest = get_args(one)
        found[next(name for note in rest if (name := getattr(note, "name", None)))] = kind
    return found


def flags_of(command: type, prefix: str = "") -> dict[str, Any]:
    """The flags of a command without their dashes, and the type of each."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind: Any = hint
        notes: list[Any] = []
        if get_origin(hint) is Annotated:
            kind, *notes = get_args(hint)
        if tyro.conf.Positional in notes:
            continue
        shown = next((note.name for note in notes if isinstance(_name(note), str)), name)
        if dataclasses.is_dataclass(kind):
            inner = f"{prefix}{shown}." if shown else prefix
            found |= flags_of(kind, inner)  # type: ignore[arg-type]
        else:
            found[f"{prefix}{shown}".replace("_", "-")] = kind
    return found


def _name(note: Any) -> Any:
    return getattr(note, "name", None)


def check_arguments(arguments: Sequence[str], commands: Mapping[str, type]) -> None:
    """Refuses an invalid command line.

    Raises:
        InputError: the command or a flag does not exist, or a value is not one of the choices or
            not a number; the message says what was given, what was expected, and the closest name.
    """
    if not arguments:
        raise InputError(
            "no command is given; foregather --help lists them, and foregather quickstart shows "
            "what they do on a small graph"
        )
    if {"-h", "--help"} & set(arguments) or arguments[0].startswith("-"):
        return
    name, *rest = arguments
    if name not in commands:
        meant = _nearest(name, commands) or f"expected {', '.join(commands)}"
        raise InputError(f"there is no command {name!r}; {meant}")
    flags = flags_of(commands[name])
    for position, text in enumerate(rest):
        if not text.startswith("--") or text == "--" or text.startswith("--tyro-"):
            continue
        flag, equal, value = text[2:].partition("=")
        kind = _kind(flag.replace("_", "-"), flags, name)
        if kind is bool:
            continue
        given = [value] if equal else _values(rest[position + 1 :])
        _check(f"--{flag}", kind, given)
    _check_needed(name, commands[name], flags, rest)


def _check_needed(name: str, command: type, flags: Mapping[str, Any], rest: Sequence[str]) -> None:
    """Refuses a command line without an argument or a flag that the command needs."""
    if not dataclasses.is_dataclass(command):
        return
    hints = get_type_hints(command, include_extras=True)
    places, wanted = [], []
    for field in dataclasses.fields(command):
        if (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING):
            continue
        notes = (
            get_args(hints[field.name])[1:] if hasattr(hints[field.name], "__metadata__") else ()
        )
        if tyro.conf.Positional in notes:
            shown = next((m for note in notes if (m := getattr(note, "metavar", None))), None)
            kind = get_args(hints[field.name])[0]
            choices = "|".join(get_args(kind)) if get_origin(kind) is Literal else ""
            places.append(str(shown or choices or field.name.upper()))
        elif not dataclasses.is_dataclass(hints[field.name]):
            wanted.append(f"--{field.name.replace('_', '-')}")
    words, given = _words_and_flags(rest, flags)
    if given & {"--config", "--resume"}:  # the file or the run names them
        return
    lacking = [*places[words:], *(flag for flag in wanted if flag not in given)]
    if lacking:
        line = " ".join(["foregather", name, *places, *(f"{flag} ..." for flag in wanted)])
        raise InputError(
            f"{name} is given no {' and no '.join(lacking)}; write {line}, and see foregather "
            f"{name} --help"
        )


def _words_and_flags(rest: Sequence[str], flags: Mapping[str, Any]) -> tuple[int, set[str]]:
    """How many words are no values of flags, and which flags are given."""
    given: set[str] = set()
    count, taken = 0, 0.0
    for place, text in enumerate(rest):
        if text == "--":
            return count + len(rest) - place - 1, given
        if text.startswith("--"):
            flag, equal, _ = text[2:].partition("=")
            given.add(f"--{flag.replace('_', '-')}")
            taken = 0 if equal else _takes(flags.get(flag.replace("_", "-"), bool))
        elif taken > 0:
            taken -= 1
        else:
            count += 1
    return count, given


def _takes(kind: Any) -> float:
    """How many words a flag takes as its values."""
    if get_origin(kind) in (Union, types.UnionType):
        return max(_takes(one) for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is tuple:
        return math.inf if get_args(kind)[-1] is Ellipsis else len(get_args(kind))
    return 0 if kind is bool else 1


def _kind(flag: str, flags: Mapping[str, Any], command: str) -> Any:
    if flag in flags:
        return flags[flag]
    section, dot, last = flag.rpartition(".")
    positive = f"{section}{dot}{last.removeprefix('no-')}"
    if last.startswith("no-") and flags.get(positive) is bool:
        return bool
    meant = _nearest(flag, [f"--{name}" for name in flags]) or _inside(flag, flags)
    told = meant or f"see foregather {command} --help"
    raise InputError(f"{command} has no flag --{flag}; {told}")


def _inside(flag: str, flags: Iterable[str]) -> str:
    """Finds the closest flag by the part after its section."""
    by_last = {name.split(".")[-1]: f"--{name}" for name in reversed([*flags])}
    near = difflib.get_close_matches(flag.split(".")[-1], list(by_last), 1, 0.6)
    return f"did you mean {by_last[near[0]]}?" if near else ""


def _nearest(text: str, names: Iterable[str]) -> str:
    known = {name.lstrip("-"): name for name in names}
    near = difflib.get_close_matches(text, list(known), 1, 0.6)
    return f"did you mean {known[near[0]]}?" if near else ""


def _values(following: Sequence[str]) -> list[str]:
    """The words up to the next flag."""
    found = []
    for text in following:
        if text.startswith("--"):
            break
        found.append(text)
    return found


def _check(flag: str, kind: Any, given: list[str]) -> None:
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [one for one in get_args(kind) if one is not type(None)]
        if len(kinds) != 1 or given[:1] == ["None"]:
            return
        kind = kinds[0]
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        given = given if inner[-1] is Ellipsis else given[: len(inner)]
        for value in given:
            _check_one(flag, inner[0], value)
        return
    if not given:
        raise InputError(f"{flag} has no value, expected {_wanted(kind)}")
    _check_one(flag, kind, given[0])


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    return {int: "a whole number", float: "a number"}.get(kind, "one")


def _check_one(flag: str, kind: Any, value: str) -> None:
    if get_origin(kind) is Literal:
        choices = [str(one) for one in get_args(kind)]
        if value not in choices:
            meant = _nearest(value, choices)
            told = f"{_wanted(kind)}{'; ' + meant if meant else ''}"
            raise InputError(f"{flag} is {value!r}, expected {told}")
    elif kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            raise InputError(f"{flag} is {value!r}, expected {_wanted(kind)}") from None
        if not math.isfinite(number):
            raise InputError(f"{flag} is {value!r}, expected a finite number")
        if kind is int and not abs(number) < _MOST:
            raise InputError(f"{flag} is {value!r}, expected a whole number below 2^64")
        name = flag.lstrip("-").replace("_", "-").rpartition(".")[2]
        if kind is int and name in _RANGES:
            to_whole(number, flag, *_RANGES[name])
