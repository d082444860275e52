"""candidate: a way that could be taken, with what it is predicted to cost, and the rule to choose.

Ways of reading rows (`plan/choice`), of storing a graph (`loader/memory/ways`), of placing a
topology over ranks (`cli/plan_ranks`) and of training in stages (`pipeline/planning/planner`) are
all candidates: they say what they are in fields of their own, and are ranked, chosen and shown by
the functions here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Candidate", "Column", "cheapest", "heading", "rank_words", "ranked", "row"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What one way is predicted to cost.

    Attributes:
        seconds: what is compared.
        bytes: read or sent.
        requests: reads or messages, where they are counted.
        memory: bytes it needs, where they are counted.
        refused: why it cannot be chosen; empty where it can.
    """

    seconds: float = 0.0
    bytes: int = 0
    requests: int = 0
    memory: int = 0
    refused: str = ""


Way = TypeVar("Way", bound=Candidate)


def ranked(candidates: Iterable[Way]) -> tuple[Way, ...]:
    """Those that can be chosen first, the fewest seconds first; equal ones keep their order."""
    return tuple(sorted(candidates, key=lambda one: (bool(one.refused), one.seconds)))


def cheapest(candidates: Iterable[Way]) -> Way | None:
    """The one with the fewest seconds of those that can be chosen, or None where none can.

    Args:
        candidates: in the order in which equal ones are preferred.
    """
    allowed = [one for one in candidates if not one.refused]
    return min(allowed, key=lambda one: one.seconds, default=None)


def rank_words(
    candidates: Sequence[Candidate], first: Candidate | None, refused: str
) -> Iterator[str]:
    """A word for each: "choice" for `first`, then "runner-up" and so on; `refused` for those."""
    others = iter(("runner-up", "third", "fourth"))
    for one in candidates:
        yield "choice" if one is first else refused if one.refused else next(others)


# ---- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column(Generic[Way]):
    """A column of a table of candidates.

    Attributes:
        head: its heading.
        form: alignment and width, as in a format specification.
        text: what it says of a candidate.
        foretold: it is part of what is predicted; the row of a candidate of which nothing was
            predicted, since it was refused, has the reason there.
    """

    head: str
    form: str
    text: Callable[[Way], str]
    foretold: bool = False


def heading(columns: Sequence[Column[Way]]) -> str:
    """The first line of a table."""
    return " ".join(f"{column.head:{column.form}}" for column in columns)


def row(columns: Sequence[Column[Way]], candidate: Way) -> str:
    """The line of one candidate."""
    shown = [one for one in columns if not (candidate.refused and one.foretold)]
    cells = [f"{column.text(candidate):{column.form}}" for column in shown]
    return " ".join([*cells, candidate.refused] if len(shown) < len(columns) else cells)
