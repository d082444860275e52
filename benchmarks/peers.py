"""peers: how fast is foregather compared with PyG with pyg-lib, torch-sparse, DGL and GraphBolt?

All systems of a cell do the same work in turns, in one run: same graph, input nodes, fan-outs and
batch size; the nodes and edges each of them sampled stand beside its time, so that equal work can
be seen. Peers run with their best settings: every variant has its row, and a bar counts against the
best of them. Times and ratios are medians (least to most) over rounds, ratios paired by round: how
many times as long as ours the other takes, so below 1 ours loses. Bars are what the project asks of
itself. `docs/performance.md` says what bounds each figure.

Peers are found, not installed; what is missing is named and left out:

    FOREGATHER_PYG_LIB     a library with pyg-lib's sampler, where the package pyg_lib is not there
    FOREGATHER_DGL_PYTHON  the interpreter of an environment with DGL 2.1
    FOREGATHER_DATA        the folder of the real graphs

    python benchmarks/peers.py [--quick] [--only sampling epoch] [--rounds 5] [--folder DIR]

A whole run takes hours. `--keep DIR` puts the rows of every graph of a section into a file of its
own as soon as they are measured, with the load average before them; the report has all that are
kept there, also those of earlier runs, so sections can be measured one by one.

`--freed kept` lets all systems of this process keep memory that they free, as `foregather train`
does and as a user of PyG can have it by the environment or another allocator; without it glibc
gives large tensors back to the system after each step. What it does to an allocator cannot be
undone in a process, so the two are two runs, and a bar counts in both.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from beside.epochs import measure_disk, measure_epoch
from beside.found import Peers, find_peers
from beside.graphs import Case, make_case, real_case
from beside.loading import measure_first, measure_loader, measure_one_seed, measure_tiny
from beside.memory import measure_memory
from beside.models import SETTINGS, Setting, can_accelerate
from beside.rounds import HEAD, Row
from beside.sampling import measure_sampling, measure_weighted
from common.report import Report
from common.skip import need_disk

from foregather import keep_freed_memory

SECTIONS = (
    "sampling",
    "weighted",
    "loader",
    "first",
    "tiny",
    "one-seed",
    "memory",
    "epoch",
    "disk",
)
LEAST_ROUNDS = 5  # fewer make no report


class Cases:
    """The graphs, each made when it is first asked for and kept for the run."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        self.made: dict[str, Case] = {}

    def get(self, name: str) -> Case | None:
        """One by its name; None where its file is not there."""
        if name not in self.made:
            if name in ("cora", "ogbn_arxiv"):
                if not self.is_there(name):
                    return None
                self.made[name] = real_case(name, self.folder)
            elif self.quick:
                self.made[name] = make_case("5k nodes, 50k edges", self.folder, 5_000, 50_000)
            elif name == "10M":
                shape = (10_000_000, 160_000_000, False)
                self.made[name] = make_case("10M nodes, 160M edges", self.folder, *shape)
            else:
                shape = (1_000_000, 20_000_000, True)
                self.made[name] = make_case("1M nodes, 20M edges", self.folder, *shape)
        return self.made[name]

    def is_there(self, name: str) -> bool:
        """Whether the data folder has it."""
        data = os.environ.get("FOREGATHER_DATA")
        there = bool(data) and (Path(str(data)) / f"{name}.npz").exists()
        if not there:
            say(f"skipped {name}: set FOREGATHER_DATA to the folder that has {name}.npz")
        return there

    def drop(self, name: str) -> None:
        """Frees one in memory and on disk."""
        self.made.pop(name, None)


Work = Callable[[Case, Peers, int], list[Row]]


def plan(section: str, quick: bool) -> list[tuple[str, str, Work]]:
    """The graphs of a section, what is done with each, and by which name its rows are kept."""
    many = 2 if quick else 16  # batches
    if section in ("epoch", "disk"):
        return plan_models(section, quick)
    works: dict[str, tuple[tuple[str, ...], Work]] = {
        "sampling": (
            ("1M",) if quick else ("1M", "10M"),
            lambda c, p, r: measure_sampling(c, p, r, many),
        ),
        "weighted": (("1M",), lambda c, p, r: measure_weighted(c, p, r, many)),
        "loader": (("1M",), lambda c, p, r: measure_loader(c, p, r, many)),
        "first": (("1M",), measure_first),
        "tiny": (("cora",), measure_tiny),
        "one-seed": (("1M",), lambda c, p, r: measure_one_seed(c, p, r, 16 * many)),
        "memory": (("1M",), lambda c, p, r: measure_memory(c, p, r, many)),
    }
    names, work = works[section]
    return [(name, f"{section}_{name}", work) for name in names]


def plan_models(section: str, quick: bool) -> list[tuple[str, str, Work]]:
    """One entry for each graph and model."""
    measure = {"epoch": measure_epoch, "disk": measure_disk}[section]
    found = []
    for name in ("1M",) if quick else ("1M", "ogbn_arxiv"):
        for number, one in enumerate(SETTINGS):
            setting = replace(one, hidden=32, seeds=64, batches=2) if quick else one

            def work(c: Case, p: Peers, r: int, setting: Setting = setting) -> list[Row]:
                return measure(c, p, r, [setting])

            found.append((name, f"{section}_{name}_{number}_{one.kind}{one.hidden}", work))
    return found


def say(text: str) -> None:
    print(text, flush=True)


class Kept:
    """Rows by section and graph, each in a file where a folder is given.

    Args:
        folder: of the files.
        marked: what is said of every case of this run.
    """

    def __init__(self, folder: Path | None, marked: str = "") -> None:
        self.folder, self.marked = folder, marked
        self.rows: dict[str, tuple[str, list[Row]]] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob("*.json")):
                self.rows[path.stem] = tuple(json.loads(path.read_text()))

    def put(self, key: str, load: str, rows: list[Row]) -> None:
        """Those of an earlier run are replaced."""
        self.rows[key] = (load, rows)
        if self.folder is not None:
            (self.folder / f"{key}.json").write_text(json.dumps([load, rows]))

    def all(self) -> list[Row]:
        """In the order of the sections."""
        keys = sorted(self.rows, key=lambda key: (SECTIONS.index(key.split("_", 1)[0]), key))
        return [row for key in keys for row in self.rows[key][1]]

    def loads(self) -> str:
        """What ran on the machine before each."""
        return "; ".join(f"{key.replace('_', ' on ', 1)} {self.rows[key][0]}" for key in self.rows)


def measure(
    chosen: list[str], cases: Cases, peers: Peers, rounds: int, quick: bool, graphs: list[str],
    kept: Kept,
) -> None:  # fmt: skip
    """All rows; each was printed when it was known."""
    for section in chosen:
        for name, key, work in plan(section, quick):
            if graphs and not any(key.startswith(f"{section}_{one}") for one in graphs):
                continue
            case = cases.get(name)
            if case is None:
                continue
            load = f"{os.getloadavg()[0]:.2f}"
            try:
                rows = work(case, peers, rounds)
            except RuntimeError as error:  # the others are measured all the same
                say(f"failed: {section} on {case.name}: {error}")
                rows = [[section, case.name, "failed", "", str(error).split("\n")[0], "", "", ""]]
            if kept.marked:
                rows = [[row[0], f"{row[1]}, {kept.marked}", *row[2:]] for row in rows]
                key = f"{key}_{kept.marked.replace(' ', '_')}"
            kept.put(key, load, rows)
            if name == "10M":  # too large to be kept beside the others
                cases.drop(name)
            for process in peers.dgl.values():
                process.drop()


def main() -> int:
    """Finds the peers, measures what was asked for, writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small graphs, two rounds, no report")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument(
        "--graphs", nargs="+", default=[], help="only these: 1M 10M cora ogbn_arxiv"
    )
    parser.add_argument("--folder", type=Path, help="where graphs may be written (5 GB)")
    parser.add_argument("--keep", type=Path, help="where rows are kept from run to run")
    parser.add_argument("--freed", choices=("given-back", "kept"), default="given-back")
    given = parser.parse_args()
    rounds = 2 if given.quick else given.rounds
    if rounds < LEAST_ROUNDS and not given.quick:
        parser.error(f"a report needs at least {LEAST_ROUNDS} rounds; --quick takes two")
    report = Report("peers", __doc__)
    peers = find_peers(wants_dgl=given.only != ["disk"])
    for sentence in peers.missing:
        say(f"left out: {sentence}")
    marked = ""
    if given.freed == "kept" and keep_freed_memory():
        marked = "memory kept"
    kept = Kept(given.keep, marked)
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="peers-") as name:
        try:
            if not given.quick:
                need_disk(name, 5 << 30)
            cases = Cases(Path(name), given.quick)
            measure(given.only, cases, peers, rounds, given.quick, given.graphs, kept)
        finally:
            peers.close()
    rows = kept.all()
    failed = any(row[2] == "failed" for row in rows)
    if given.quick:
        say("Bars are for the sizes of a whole run, not for these.")
        return int(failed)
    report.line(f"Peers: {peers.versions()}. {rounds} rounds after one that warms up.")
    report.line(f"Load average of the minute before each: {kept.loads()}.")
    for sentence in peers.missing:
        report.line(f"Left out: {sentence}.")
    if not can_accelerate():
        report.line("This version has no `foregather.nn.accelerate`: ours has the trimmed model.")
    report.table(HEAD, rows)
    report.write()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
