"""help: the parser's help text without what only says that nothing was given, and without types.

The parser adds a default to every flag, None to the values of one that may be left out, and
brackets to choices and to several values; it also breaks lines where the source does. Nothing of
that says more than the flag's sentence, so it is removed, and sentences are wrapped anew; boxes
stay boxes.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any

__all__ = ["tidy", "with_tidy_help"]

# True is the default of a flag shown as --no-x, beside which it reads as its opposite.
_NO_DEFAULT = re.compile(r"\s*\(default: ?(?:None|False|True|''|\(\)|)\)")
_SEVERAL = re.compile(r"\[([A-Z]+) \[\1 \.\.\.\]\]")  # [INT [INT ...]]
_BRACED = re.compile(r"\{([^{}]*)\}")  # {STR STR}, {auto,yes,no}
_COMMANDS = re.compile(r"\{\w+(?:,[\w-]+){5,}\}")  # of the whole program, in its usage
#: The border, the flag or argument, the gap, and the beginning of its sentence.
_ITEM = re.compile(r"(│? {1,2})((?:-|\[?[A-Z]|\{)\S*(?: \S+)*)(?:( {2,})(\S.*?))?( *│?)")
_MORE = re.compile(r"(│? +)(\S.*?)( *│?)")


def tidy(text: str) -> str:
    """Removes defaults that are nothing and brackets of types from a help text."""
    lines = text.split("\n")
    made: list[str] = []
    at = 0
    while at < len(lines):
        item = _ITEM.fullmatch(lines[at])
        if item is None:
            if lines[at].strip("│ ") == "(required)":  # as its usage says
                at += 1
                continue
            made.append(
                _COMMANDS.sub("COMMAND", lines[at]).replace(" subcommands ", " commands    ")
            )
            if made[-1].startswith("usage"):
                made[-1] = _without_types(made[-1])
            at += 1
            continue
        words, start, following = _sentence(item, lines[at + 1 :])
        made += _wrapped(item, words, start)
        at += 1 + following
    return "\n".join(made)


def _sentence(item: re.Match[str], after: list[str]) -> tuple[str, int, int]:
    """The sentence of an item, the column where it starts, and the lines after it that it takes."""
    start = item.start(4) if item[4] else 0
    parts = [item[4]] if item[4] else []
    taken = 0
    for line in after:
        more = _MORE.fullmatch(line)
        if more is None or more[2] == "│" or (more.start(2) != start if start else _is_item(line)):
            break
        start = more.start(2)
        parts.append(more[2])
        taken += 1
    return " ".join(parts), start, taken


def _is_item(line: str) -> bool:
    return _ITEM.fullmatch(line) is not None or len(line) - len(line.lstrip("│ ")) < 4


def _wrapped(item: re.Match[str], words: str, start: int) -> list[str]:
    """The lines of an item, as wide as before, its sentence from that column on."""
    width = len(item[0])
    edge = "│" if item[5].endswith("│") else ""
    head = item[1] + _without_types(item[2])
    begin = "│" if edge else ""
    said = _NO_DEFAULT.sub("", words)
    room = max(width - start - len(edge), 20)
    wrapped = textwrap.wrap(said, room, break_long_words=False, break_on_hyphens=False)
    lines = [begin.ljust(start) + line for line in wrapped]
    if lines and len(head) + 2 <= start:
        lines[0] = head.ljust(start) + wrapped[0]
    else:
        lines.insert(0, head)
    return [line.ljust(width - len(edge)) + edge for line in lines]


def _without_types(values: str) -> str:
    """`--out {None}|PATH` becomes `--out PATH`, and {auto,yes,no} becomes auto|yes|no."""
    made = values.replace("{None}|", "").replace("{None,", "{")
    made = _SEVERAL.sub(r"\1 ...", made)
    return _BRACED.sub(lambda found: found[1].replace(",", "|"), made)


def with_tidy_help(parse: Callable[[], Any]) -> Any:
    """Runs a parser; what it prints before it ends the program, its help, is tidied."""
    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    # Narrower, names of values are broken; wider, boxes stand side by side.
    os.environ["COLUMNS"] = str(min(max(shutil.get_terminal_size().columns, 80), 100))
    try:
        with contextlib.redirect_stdout(said):
            return parse()
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
        sys.stdout.write(tidy(said.getvalue()))
