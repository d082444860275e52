"""plant: plants each bug of the list in a copy of the project and runs tests that should notice.

    python tests/mutants/plant.py --report    # all of them, and benchmarks/reports/mutants_DATE.md
    python tests/mutants/plant.py --only alias --only "keys:"

The project itself is never changed. A mutant is killed by a failing test (or by tests that no
longer end), and survives where all pass. Mutants that are shown to change nothing are not planted.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutants.core import CORE
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.python import PYTHON

ALL = [*CORE, *PYTHON]
_LIMIT = 900  # seconds that the tests of one mutant may take: beyond, they hang

# The package is installed so that its name leads to the project; here it must lead to the copy.
_SITE = """
import os, sys
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, os.environ["FOREGATHER_PLANTED"])
"""


class Copy:
    """A copy of the project in which bugs are planted.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stale = False  # the core was built with a bug that is gone
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(_SITE)
        self._configure()
        self.build()

    def _configure(self) -> None:
        self._ninja = shutil.which("ninja", path=str(Path(sys.executable).parent)) or "ninja"
        where = subprocess.run(
            [sys.executable, "-m", "nanobind", "--cmake_dir"],
            capture_output=True,
            text=True,
            check=True,
        )
        self._run(
            [
                *(sys.executable, "-m", "cmake", "-S", ".", "-B", "build/planted", "-G", "Ninja"),
                *("-DSKBUILD=2", "-DSKBUILD_SABI_VERSION=3.10", "-DCMAKE_BUILD_TYPE=Release"),
                f"-DCMAKE_MAKE_PROGRAM={self._ninja}",
                f"-DPython_EXECUTABLE={sys.executable}",
                f"-Dnanobind_DIR={where.stdout.strip()}",
            ]
        )

    def _run(self, command: list[str]) -> None:
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")

    def build(self) -> None:
        """Builds the core and puts it where the copy's package looks."""
        self._run([self._ninja, "-C", "build/planted", "_core"])
        built = next((self.folder / "build/planted").glob("_core*.so"))
        shutil.copy(built, self.folder / "src/foregather" / built.name)

    def test(self, tests: Iterable[str]) -> tuple[str, str]:
        """How it ended ("passed", "failed", "hung"), and the first failure."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "site"),
            "FOREGATHER_PLANTED": str(self.folder / "src"),
            "CI": "true",  # the same hypothesis examples every time
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            ended = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return "hung", ""
        lines = [s for s in ended.stdout.splitlines() if s.startswith(("FAILED", "ERROR"))]
        first = lines[0].split(" - ")[0].split(" ", 1)[1] if lines else ended.stdout[-400:]
        return ("passed" if ended.returncode == 0 else "failed"), first

    def plant(self, mutant: Mutant) -> tuple[str, str]:
        """Plants one bug, runs its tests, and takes it out again."""
        path = self.folder / mutant.file
        before = path.read_text()
        path.write_text(mutant.planted(before))
        try:
            if mutant.compiled or self._stale:
                self.build()
            self._stale = mutant.compiled
            return self.test(mutant.tests)
        finally:
            path.write_text(before)


def report(rows: list[tuple[Mutant, str, str]], seconds: float) -> None:
    """Writes the dated report."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from common.report import Report

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


def main() -> int:
    """Plants all, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="names that contain this")
    parser.add_argument("--report", action="store_true", help="write the dated report")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    given = parser.parse_args()
    chosen = [
        m
        for m in ALL
        if not m.same and (not given.only or any(part in m.name for part in given.only))
    ]
    if given.list:
        print("\n".join(m.name for m in chosen))
        return 0
    begin, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Copy(Path(folder))
        sane = copy.test(sorted({test for m in chosen for test in m.tests}))
        if sane[0] != "passed":
            print(f"without any bug the tests do not pass: {sane}")
            return 2
        for number, mutant in enumerate(chosen, 1):
            outcome, first = copy.plant(mutant)
            outcome = {"passed": "survived", "failed": "killed"}.get(outcome, outcome)
            rows.append((mutant, outcome, first))
            print(f"{number}/{len(chosen)} {outcome:9} {mutant.name}: {first}", flush=True)
    survivors = [m.name for m, outcome, _ in rows if outcome == "survived"]
    print(f"{len(rows)} planted, {len(rows) - len(survivors)} killed, {len(survivors)} survived")
    if given.report:
        report(rows, time.monotonic() - begin)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
