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

__all__ = ["check_arguments", "commands_of", "flags_of", "places_of_words", "with_switches"]

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
#: Words that a flag of yes or no may be followed by, and words that look like one.
_BOOLS = {"True": True, "true": True, "False": False, "false": False}
_LIKE_BOOLS = {"true", "false", "0", "1", "yes", "no", "on", "off", "none"}


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


def with_switches(arguments: Sequence[str], commands: Mapping[str, type]) -> list[str]:
    """The command line with `--flag True` as `--flag`, and `--flag False` as `--no-flag`.

    Raises:
        InputError: a flag of yes or no is given another value.
    """
    if not arguments or arguments[0] not in commands:
        return list(arguments)
    flags = flags_of(commands[arguments[0]])
    made: list[str] = []
    rest = list(reversed(arguments))
    while rest:
        text = rest.pop()
        if text == "--":
            return [*made, text, *reversed(rest)]
        switch = _switch(text, flags)
        value = text.partition("=")[2] if "=" in text else None
        if switch and value is None and rest and rest[-1].lower() in _LIKE_BOOLS:
            value = rest.pop()
        made.append(text if not switch or value is None else _switched(text, switch, value))
    return made


def _switch(text: str, flags: Mapping[str, Any]) -> str:
    """The flag of yes or no that a word sets, without dashes and `no-`; empty: none."""
    flag = text.removeprefix("--").partition("=")[0].replace("_", "-")
    section, dot, last = flag.rpartition(".")
    for name in (flag, f"{section}{dot}{last.removeprefix('no-')}"):
        if text.startswith("--") and flags.get(name) is bool:
            return name
    return ""


def _switched(text: str, switch: str, value: str) -> str:
    """The flag as it is written without a value."""
    given = text.partition("=")[0]
    if given.replace("_", "-") != f"--{switch}":
        raise InputError(
            f"{given} is {value!r}, but it takes no value; leave it out, or write --{switch} True "
            f"or --{switch} False"
        )
    if value not in _BOOLS:
        raise InputError(f"{given} is {value!r}, expected True or False")
    section, dot, last = switch.rpartition(".")
    return f"--{switch}" if _BOOLS[value] else f"--{section}{dot}no-{last}"


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
    _check_surplus(name, command, flags, rest)
    if given & {"--config", "--resume"}:  # the file or the run names them
        return
    lacking = [*places[len(words) :], *(flag for flag in wanted if flag not in given)]
    if lacking:
        line = " ".join(["foregather", name, *places, *(f"{flag} ..." for flag in wanted)])
        raise InputError(
            f"{name} is given no {' and no '.join(lacking)}; write {line}, and see foregather "
            f"{name} --help"
        )


def _check_surplus(name: str, command: type, flags: Mapping[str, Any], rest: Sequence[str]) -> None:
    """Refuses more words than the command has places for."""
    room, shown = 0.0, []
    for field, hint in get_type_hints(command, include_extras=True).items():
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        if tyro.conf.Positional in notes:
            room += _takes(get_args(hint)[0])
            metavar = next((m for note in notes if (m := getattr(note, "metavar", None))), None)
            shown.append(metavar or field.upper())
    words = places_of_words(rest, flags)
    if len(words) <= room:
        return
    last = words[int(room)]
    if last and (switch := _switch(rest[last - 1], flags)):
        raise InputError(f"--{switch} is {rest[last]!r}, expected True or False")
    given = " and ".join(repr(rest[place]) for place in words)
    raise InputError(
        f"{name} is given {given}, expected {' '.join(shown) or 'only flags'}; leave out "
        f"{rest[last]!r}, or see foregather {name} --help"
    )


def places_of_words(rest: Sequence[str], flags: Mapping[str, Any]) -> list[int]:
    """Where the words are that are neither flags nor values of flags."""
    return _words_and_flags(rest, flags)[0]


def _words_and_flags(rest: Sequence[str], flags: Mapping[str, Any]) -> tuple[list[int], set[str]]:
    """Which words are no values of flags, by place, and which flags are given."""
    given: set[str] = set()
    words: list[int] = []
    taken = 0.0
    for place, text in enumerate(rest):
        if text == "--":
            return [*words, *range(place + 1, len(rest))], given
        if text.startswith("--"):
            flag, equal, _ = text[2:].partition("=")
            given.add(f"--{flag.replace('_', '-')}")
            taken = 0 if equal else _takes(flags.get(flag.replace("_", "-"), bool))
        elif taken > 0:
            taken -= 1
        else:
            words.append(place)
    return words, given


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
