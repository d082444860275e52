"""plant: plants each bug of the list in a copy of the project and runs tests that should notice.

    python tests/mutants/plant.py --report    # all of them, and benchmarks/reports/mutants_DATE.md
    python tests/mutants/plant.py --only alias --only "keys:"

The project itself is never changed. A mutant is killed by a failing test (or by tests that no
longer end), and survives where all pass. Mutants that are shown to change nothing are not planted.
"""

import argparse
import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutants.bringing import BRINGING
from tests.mutants.core import CORE
from tests.mutants.links import LINKS
from tests.mutants.mutant import Mutant
from tests.mutants.python import PYTHON
from tests.mutants.tables import TABLES
from tests.project_copy import ProjectCopy

ALL = [*CORE, *PYTHON, *BRINGING, *TABLES, *LINKS]


class Garden(ProjectCopy):
    """A copy in which bugs are planted."""

    _stale = False  # the core was built with a bug that is gone

    def plant(self, mutant: Mutant) -> tuple[str, str]:
        """Plants one bug, runs its tests, and takes it out again."""
        path = self.folder / mutant.file
        before = path.read_text()
        path.write_text(mutant.planted(before))
        try:
            if mutant.compiled or self._stale:
                self.build()
            self._stale = mutant.compiled
            return self.test(["-x", *mutant.tests])
        finally:
            path.write_text(before)


def report(rows: list[tuple[Mutant, str, str]], seconds: float) -> None:
    """Writes the dated report."""
    from benchmarks.common.report import Report

    survived = sum(outcome == "survived" for _, outcome, _ in rows)
    found = Report("mutants", __doc__)
    found.line(
        f"{len(rows)} bugs were planted in {seconds / 60:.0f} minutes: {len(rows) - survived} were "
        f"noticed, {survived} were not."
    )
    found.table(
        ["bug", "file", "outcome", "noticed first by"],
        [[m.name, f"`{m.file}`", outcome, f"`{first}`"] for m, outcome, first in rows],
    )
    for mutant in ALL:
        if mutant.same:
            found.line(f"Not planted: {mutant.name} (`{mutant.file}`): {mutant.same}")
    found.write()


def plant_all(chosen: list[Mutant], copies: list[Garden]) -> list[tuple[Mutant, str, str]]:
    """Plants each bug in the next copy that is free; (bug, outcome, first test) in their order."""
    free: queue.SimpleQueue[Garden] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> tuple[Mutant, str, str]:
        copy = free.get()
        try:
            outcome, first = copy.plant(mutant)
        finally:
            free.put(copy)
        outcome = {"passed": "survived", "failed": "killed"}.get(outcome, outcome)
        print(f"{outcome:9} {mutant.name}: {first}", flush=True)
        return mutant, outcome, first

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, chosen))


def make_copies(folder: Path, count: int, chosen: list[Mutant]) -> list[Garden]:
    """Copies to plant in; their core is built only if a bug is planted in it."""
    from foregather import _core

    own = {"FOREGATHER_PLANTED": "1"}  # see tests/conftest.py
    core = None if any(m.compiled for m in chosen) else Path(_core.__file__)
    return [Garden(folder / str(n), environment=own, core=core) for n in range(count)]


def main() -> int:
    """Plants all, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="names that contain this")
    parser.add_argument("--report", action="store_true", help="write the dated report")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a bug")
    parser.add_argument("--jobs", type=int, default=1, help="copies to plant in at a time")
    parser.add_argument("--part", default="1/1", help="k/n: every n-th, from the k-th on")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    given = parser.parse_args()
    chosen = [
        m
        for m in ALL
        if not m.same and (not given.only or any(part in m.name for part in given.only))
    ]
    part, parts = map(int, given.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    if given.list:
        print("\n".join(m.name for m in chosen))
        return 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copies = make_copies(Path(folder), given.jobs, chosen)
        if not given.trust:
            sane = copies[0].test(sorted({test for m in chosen for test in m.tests}), limit=3600)
            if sane[0] != "passed":
                print(f"without any bug the tests do not pass: {sane}")
                return 2
        rows = plant_all(chosen, copies)
    survivors = [m.name for m, outcome, _ in rows if outcome == "survived"]
    print(f"{len(rows)} planted, {len(rows) - len(survivors)} killed, {len(survivors)} survived")
    if given.report:
        report(rows, time.monotonic() - begin)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
