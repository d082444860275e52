"""Results: each figure of the papers' page in a file of its own, so that it can be drawn again.

Its facts are kept, and the figure as it was drawn then; the page draws it anew from the facts with
the code of today, and where these do not fit each other, shows the old one and says so. A run notes
which figures it has finished, and one that was cut goes on after them.
"""

import dataclasses
import datetime
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from foregather.files import write_safely

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .facts import Facts, Outdated
from .figures import Draw, Figure, Series
from .report import machine_line

__all__ = [
    "FOLDER",
    "PAPERS",
    "Published",
    "Result",
    "Unfinished",
    "draw_anew",
    "figures_of",
    "load",
    "published",
    "save",
]

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("FOREGATHER_RESULTS") or ROOT / "results")
PAPERS = ("mbs", "gnnpipe", "ginex")


@dataclasses.dataclass(frozen=True)
class Published:
    """A number of a paper; the fields are those of `published.toml`."""

    id: str
    paper: str
    version: str
    item: str
    value: float
    unit: str
    hardware: str
    source: str


@dataclasses.dataclass(frozen=True)
class Result:
    """A figure as it was measured.

    Attributes:
        figure: what came out.
        quick: at the small size.
        date: when, as ISO.
        machine: what it was measured on, in a sentence.
        seconds: how long it took.
        facts: what it is drawn from; see `Facts`.
        outdated: it was drawn by code that is no more; empty if the code of today drew it.
    """

    figure: Figure
    quick: bool
    date: str
    machine: str
    seconds: float
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    outdated: str = ""

    @property
    def load(self) -> float | None:
        """The load average of the last minute, before it was measured."""
        found = re.search(r"load average before the run ([0-9.]+)", self.machine)
        return float(found[1]) if found else None


def published(path: Path = ROOT / "published.toml") -> dict[str, Published]:
    """Records by id.

    Raises:
        ValueError: an id is there twice, or a record lacks a field.
    """
    found: dict[str, Published] = {}
    for record in tomllib.loads(path.read_text(encoding="utf-8"))["record"]:
        try:
            made = Published(**record)
        except TypeError as error:
            raise ValueError(f"{path.name}: record {record.get('id')!r}: {error}") from error
        if made.id in found:
            raise ValueError(f"{path.name} has two records {made.id!r}; give each its own id")
        found[made.id] = made
    return found


def figures_of(paper: str) -> dict[str, Draw]:
    """The functions that draw a paper's figures, by name; none if its package is not there."""
    try:
        module = importlib.import_module(f"paper_{paper}")
    except ModuleNotFoundError as error:
        if error.name != f"paper_{paper}":
            raise
        print(f"{paper}: benchmarks/paper_{paper} is not there; its figures stay as they are")
        return {}
    return {draw.__name__: draw for draw in module.FIGURES}


def draw_anew(found: list[Result]) -> list[Result]:
    """The figures as the code of today draws them from their facts."""
    known = {paper: figures_of(paper) for paper in {one.figure.paper for one in found}}
    made = []
    for one in found:
        draw = known[one.figure.paper].get(one.figure.key)
        try:
            if draw is None:
                raise Outdated("no figure has this name any more")
            made.append(dataclasses.replace(one, figure=draw(Facts(one.facts), one.quick)))
        except Outdated as error:
            made.append(dataclasses.replace(one, outdated=str(error)))
    return made


def save(
    figure: Figure,
    quick: bool,
    seconds: float,
    facts: dict[str, Any] | None = None,
    machine: str = "",
) -> Path:
    """Keeps a figure and its facts, in place of an earlier one."""
    date, machine = datetime.date.today().isoformat(), machine or machine_line()
    kept = dataclasses.asdict(Result(figure, quick, date, machine, round(seconds, 1)))
    kept.pop("outdated")
    kept["facts"] = facts or {}
    path = FOLDER / figure.paper / f"{figure.key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_safely(path, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def load(folder: Path = FOLDER) -> list[Result]:
    """All figures that were kept, in the order of papers, then of keys."""
    paths = [path for paper in PAPERS for path in sorted((folder / paper).glob("*.json"))]
    return [_result(json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def _result(kept: dict[str, Any]) -> Result:
    given = dict(kept.pop("figure"))
    series = [
        Series(
            one["label"],
            one["x"],
            one["y"],
            None if one["spread"] is None else [(low, high) for low, high in one["spread"]],
        )
        for one in given.pop("series")
    ]
    return Result(Figure(**given, series=series), **kept)


class Unfinished:
    """Which figures a run has finished; the note goes when all are.

    Args:
        quick: the size of the run; a note of another size is not continued.
        keep: go on with a note that is there.
    """

    def __init__(self, quick: bool, keep: bool) -> None:
        self.path, self.quick = FOLDER / ".unfinished.json", quick
        self.done: list[str] = []
        if keep and self.path.exists():
            noted = json.loads(self.path.read_text(encoding="utf-8"))
            if noted["quick"] == quick:
                self.done = noted["done"]

    def note(self, name: str) -> None:
        """A figure is finished."""
        self.done.append(name)
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_safely(self.path, json.dumps({"quick": self.quick, "done": self.done}).encode())

    def end(self) -> None:
        """All are."""
        self.path.unlink(missing_ok=True)
