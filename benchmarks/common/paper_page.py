"""The page of the papers' figures: Markdown and plots, made of what is kept, always the same."""

import re
from pathlib import Path

from foregather.files import write_safely

from . import results
from .paper_charts import plot
from .results import PAPERS, Published, Result

__all__ = ["page", "plots", "write_page"]

TITLES = {
    "mbs": "Matrix-based bulk sampling",
    "gnnpipe": "GNNPipe",
    "ginex": "Ginex",
}
PAGES = {"mbs": "bulk_sampling.md", "gnnpipe": "gnnpipe.md", "ginex": "ginex.md"}
INTRO = """\
# The papers' figures, run here

Each figure of the three papers that a machine without a GPU can give a shape to, scaled to it and
run by one command, beside what was published. **No number of ours compares with a published one**:
hardware, graphs and sizes differ, so each stands with its setting, and what can be compared is the
shape: what grows with what, which way is ahead, and by about how much. Where a shape does not hold,
the figure says why. What needs GPUs says so.

`make paper` measures all of it again (`make paper QUICK=1` the small form), and so does
`python -m foregather.bench paper --paper mbs --quick` in a checkout. {took} Published numbers are
in `benchmarks/published.toml` with their sources, ours in `benchmarks/results`. This file is
written by `benchmarks/paper.py`; do not edit it.
"""

OUTDATED = "the words and numbers below are of an earlier form of the script; run it again"


def page(found: list[Result], numbers: dict[str, Published]) -> str:
    """The page as text."""
    parts = [INTRO.format(took=_took(found)), _overview(found)]
    for paper in PAPERS:
        own = [one for one in found if one.figure.paper == paper]
        said = f"What the paper says and what we do: [{PAGES[paper]}]({PAGES[paper]})."
        none = "" if own else " No figure of it is kept yet."
        parts.append(f"## {TITLES[paper]}\n\n{said}{none}\n")
        parts += [_section(one, numbers) for one in own]
    parts.append(_machines(found))
    return "\n".join(parts)


def _took(found: list[Result]) -> str:
    """What the figures below took to measure, by size."""
    told = []
    for quick, name in ((True, "small"), (False, "whole")):
        own = [one.seconds for one in found if one.quick is quick]
        if own:
            told.append(f"{len(own)} figures of the {name} size took {sum(own) / 60:.1f} minutes")
    return f"The runs behind this page: {', '.join(told)}." if told else ""


def _seconds(found: list[Result]) -> str:
    """What each figure took; 0 where another measured for it."""
    lines = ["| figure | seconds of measuring |", "|---|---|"]
    for one in found:
        lines.append(f"| {one.figure.paper}/{one.figure.key} | {one.seconds:.0f} |")
    return "\n".join(lines)


def _machines(found: list[Result]) -> str:
    """What ours was measured on, and the load of the runs of each paper."""
    machines = dict.fromkeys(one.machine.partition("; load average")[0] for one in found)
    loads = [_loads(paper, found) for paper in PAPERS]
    took = sum(one.seconds for one in found)
    return (
        "## Where ours was measured\n\n"
        + "\n\n".join(
            [
                *machines,
                *filter(None, loads),
                f"{len(found)} figures, {took / 60:.1f} minutes of measuring in all.",
                _seconds(found),
            ]
        )
        + "\n"
    )


def _loads(paper: str, found: list[Result]) -> str:
    """The load averages before the runs of a paper's figures, in a line."""
    own = [one for one in found if one.figure.paper == paper and one.seconds > 0]
    loads = [one.load for one in own if one.load is not None]
    if not loads:
        return ""
    cores = {int(n) for one in own for n in re.findall(r"(\d+) cores", one.machine)}
    told = f"{TITLES[paper]}: load average {min(loads):.0f} to {max(loads):.0f} before the runs"
    busy = max(loads) > max(cores, default=1)
    return told + (": other programs ran." if busy else ": nothing else of weight ran.")


def _overview(found: list[Result]) -> str:
    lines = ["| paper | figure | shape holds? |", "|---|---|---|"]
    for one in found:
        figure = one.figure
        link = f"[{_cell(figure.title)}](#{_anchor(figure.title)})"
        old = " (outdated)" if one.outdated else ""
        lines.append(f"| {TITLES[figure.paper]} | {link} | {figure.holds}{old} |")
    return "\n".join(lines) + "\n"


def _name(one: Result) -> str:
    return f"{one.figure.paper}-{one.figure.key}".replace("_", "-")


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


def _value(number: Published) -> str:
    return f"{number.value:g}{'' if number.unit == 'x' else ' '}{number.unit}"


def _section(one: Result, numbers: dict[str, Published]) -> str:
    figure = one.figure
    lines = [f"### {figure.title}\n"]
    if plot(figure):
        lines.append(f"![{figure.title}](figures/{_name(one)}.svg)\n")
    cited = [numbers[key] for key in figure.published]
    lines += ["| | |", "|---|---|"]
    lines.append(f"| published | {_cell(_published(cited))} |")
    lines.append(f"| measured on | {_cell(_hardware(cited))} |")
    if one.outdated:
        lines.append(f"| **outdated** | {OUTDATED} ({_cell(one.outdated)}) |")
    lines.append(f"| ours here | {_cell(figure.explanation)} |")
    size = "small size" if one.quick else "whole size"
    lines.append(f"| setting here | {_cell(figure.setting)} ({size}, {one.date}) |")
    lines.append(f"| shape holds? | **{figure.holds}** |\n")
    if figure.rows:
        lines.append("| " + " | ".join(map(_cell, figure.columns)) + " |")
        lines.append("|" + "---|" * len(figure.columns))
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in figure.rows]
        lines.append("")
    lines.append(f"`{figure.command}`\n")
    return "\n".join(lines)


def _published(cited: list[Published]) -> str:
    if not cited:
        return "a figure of the paper whose numbers were not readable to us"
    logs = [one for one in cited if one.version == "logs"]
    if len(logs) > 4:
        told = f"{len(logs)} numbers in the table below ({logs[0].source})"
        rest = [one for one in cited if one not in logs]
        return f"{_published(rest)}; {told}" if rest else told
    return "; ".join(f"{_value(one)}: {one.item} ({one.source})" for one in cited)


def _hardware(cited: list[Published]) -> str:
    return "; ".join(dict.fromkeys(one.hardware for one in cited)) or "GPUs"


def plots(found: list[Result]) -> dict[str, str]:
    """The plots by file name."""
    drawn = {f"{_name(one)}.svg": plot(one.figure) for one in found}
    return {name: text for name, text in drawn.items() if text}


def write_page(path: Path) -> None:
    """Writes the page and its plots, and takes away plots of figures that are no more."""
    found = results.draw_anew(results.load())
    write_safely(path, page(found, results.published()).encode())
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    made = plots(found)
    for name, text in made.items():
        write_safely(folder / name, text.encode())
    for old in folder.glob("*.svg"):
        if old.name not in made:
            old.unlink()
    late = sum(bool(one.outdated) for one in found)
    print(f"{path.name} has {len(found)} figures and {len(made)} plots; {late} are outdated")
