"""help: the parser's help text without what only says that nothing was given.

The parser adds a default to every flag, and None to the values of one that may be left out. That
says nothing that the flag's sentence does not say, so it is removed; lines keep their width.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["tidy", "with_tidy_help"]

_NOTHING = r"(?:None|False|''|\(\)|)"
_WHOLE = re.compile(rf"\(default: ?{_NOTHING}\)")
_CUT = re.compile(rf"\(default:(\s*│?\n│?\s*){_NOTHING}\)")  # at the end of a line
_GAP = re.compile(r"  | *│$")
_GONE = "\0"  # stands for a column that was removed


def tidy(text: str) -> str:
    """Removes defaults that are nothing from a help text; boxes stay boxes."""

    def without(found: re.Match[str]) -> str:
        between = found[1] if found.re is _CUT else ""
        before = len("(default:") if between else 0
        after = len(found[0]) - before - len(between)
        return _GONE * before + between + _GONE * after

    lines = _WHOLE.sub(without, _CUT.sub(without, text)).split("\n")
    lines = [_without_none(line) for line in lines]
    kept = [line for line in lines if _GONE not in line or line.strip(f"│ {_GONE}")]
    return "\n".join(kept).replace(_GONE, " ")


def _without_none(line: str) -> str:
    """`--out {None}|PATH  Where` becomes `--out PATH  Where`, in the same columns."""
    made = line.replace("{None}|", "").replace("{None,", "{")
    lost = len(line) - len(made)
    gap = _GAP.search(made, made.find("--") + 1)
    if not lost or gap is None or made.startswith("usage"):
        return made
    return made[: gap.start()] + " " * lost + made[gap.start() :]


def with_tidy_help(parse: Callable[[], Any]) -> Any:
    """Runs a parser; what it prints before it ends the program, its help, is tidied."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return parse()
    finally:
        sys.stdout.write(tidy(said.getvalue()))
