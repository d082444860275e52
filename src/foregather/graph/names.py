"""names: what node types, relations, feature arrays and lists of links may be called.

Names never become file names (folders number them), so blanks, slashes, dots, two names that differ
by case and names of any script are fine. Only what cannot be shown or stored is refused.
"""

from difflib import get_close_matches
from typing import Any

from foregather.errors import InputError

__all__ = ["check_name", "nearest"]

_MOST = 4096  # characters; the longest IRIs have about 2000


def check_name(name: Any, what: str) -> str:
    """Returns a name that can be stored and shown.

    Args:
        name: the name.
        what: what it names, for the message: "node type".

    Raises:
        InputError: not a string, empty, too long, or with characters that cannot be shown.
    """
    if not isinstance(name, str):
        raise InputError(f"the {what} {name!r:.80} is a {type(name).__name__}, expected a string")
    if not name:
        raise InputError(f"a {what} has an empty name; give it one")
    if len(name) > _MOST:
        raise InputError(
            f"the {what} {name[:40]!r}... has {len(name)} characters, more than {_MOST}; shorten it"
        )
    if not name.isprintable():  # line ends, control characters, halves of surrogate pairs
        raise InputError(f"the {what} {name!r:.80} holds a character that is not printable")
    return str(name)


def nearest(asked: str, known: list[str]) -> str:
    """What a message says of the names there are: the nearest one, or the first few."""
    if not known:
        return "the graph has none"
    near = get_close_matches(asked, known, 1, 0.5)
    if near:
        return f"the nearest is {near[0]!r:.200}"
    more = ", ..." if len(known) > 8 else ""
    return f"the graph has: {', '.join(known[:8])}{more}"
