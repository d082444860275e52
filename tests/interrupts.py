"""An interrupt at every line of a loop's machinery in turn, each followed by a new loop.

`python -m tests.interrupts [--every N] [--opcodes]` counts the lines that the main thread executes
in a loop (in `foregather.train`, `foregather.gather` and `threading`), from `iter` to the end of
what the loop leaves behind. Then it raises KeyboardInterrupt at line 1, 2, 3, ... in turn. After
each, a new loop over the same Loader must yield every batch of its epoch, equal to the gather from
memory, and no producer may be left. Prints a table; exits with 1 where anything was wrong.
"""

import argparse
import dis
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import foregather.gather
import foregather.loader
from foregather import Graph, Loader
from tests.loader.loops import (
    BATCHES,
    STORAGES,
    expected,
    is_right,
    loader_of,
    orphans,
    small_folder,
)

PLACES = (
    str(Path(foregather.loader.__file__).parent),
    str(Path(foregather.gather.__file__).parent),
    threading.__file__,
)


class Interrupter:
    """A trace function that counts steps and raises at one of them.

    Args:
        at: the step, from 1; 0 for none.
        opcodes: steps are instructions instead of lines.
    """

    def __init__(self, at: int, opcodes: bool = False) -> None:
        self.at, self.steps, self.where = at, 0, ""
        self._opcodes = opcodes

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupter | None":
        if not frame.f_code.co_filename.startswith(PLACES):
            return None
        frame.f_trace_opcodes = self._opcodes
        if event == ("opcode" if self._opcodes else "line") and not _leaves_with(frame):
            self.steps += 1
            if self.steps == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self

    def run(self, work: Callable[[], None]) -> bool:
        """Does the work with the trace on; whether it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


def _leaves_with(frame: FrameType) -> bool:
    """Whether a `with` of the standard library gives its lock back next.

    A signal is never looked at there, or no lock of Python would be safe; a trace function is
    called there all the same. Our own code is not excused: it holds no lock.
    """
    if frame.f_code.co_filename != threading.__file__:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    none = frame.f_code.co_consts.index(None) if None in frame.f_code.co_consts else -1
    load = (dis.opmap["LOAD_CONST"], none)
    return all((code[at + 2 * i], code[at + 2 * i + 1]) == load for i in range(3))


@dataclass
class Report:
    """What came of all interrupts in one way of looping."""

    storage: str
    way: str
    steps: int = 0
    interrupts: int = 0
    loops: int = 0
    batches: int = 0
    wrong: int = 0
    orphans: int = 0

    def line(self) -> str:
        """The row of the table."""
        return (
            f"{self.storage:9} {self.way:6} {self.steps:6} {self.interrupts:10} {self.loops:6} "
            f"{self.batches:8} {self.wrong:6} {self.orphans:8}"
        )


def all_of(loader: Loader) -> None:
    """A loop to its end."""
    for _ in loader:
        pass


def some_of(loader: Loader) -> None:
    """A loop that is left early."""
    for batch in loader:
        if batch.number == 2:
            break


def inside(loader: Loader) -> None:
    """A loop in the middle of another."""
    for batch in loader:
        if batch.number == 1:
            some_of(loader)
        if batch.number == 2:
            break


WAYS: dict[str, Callable[[Loader], None]] = {"all": all_of, "break": some_of, "nested": inside}


def enumerate_interrupts(
    graph: Graph, storage: str, way: str, every: int = 1, opcodes: bool = False
) -> Report:
    """Interrupts one way of looping at every step, or at every n-th."""
    report, work = Report(storage, way), WAYS[way]
    loader = loader_of(graph, storage)
    all_of(loader)  # what is done once is done
    counted = Interrupter(0, opcodes)
    loader.set_epoch(0)
    counted.run(lambda: work(loader))
    report.steps = counted.steps
    for at in range(1, counted.steps + 1, every):
        loader.set_epoch(0)
        hook = sys.unraisablehook
        sys.unraisablehook = lambda _: None  # an interrupt in a destructor is printed, not raised
        try:
            interrupter = Interrupter(at, opcodes)
            interrupter.run(lambda: work(loader))
        finally:
            sys.unraisablehook = hook
        report.interrupts += interrupter.where != ""
        compare(graph, loader, report, interrupter.where)
    return report


def compare(graph: Graph, loader: Loader, report: Report, where: str) -> None:
    """A new loop, batch by batch, and what is left of threads."""
    loader.set_epoch(1)
    report.loops += 1
    count = 0
    for number, batch in enumerate(loader):
        count += 1
        report.batches += 1
        if not is_right(graph, batch, 1, number):
            report.wrong += 1
            print(f"wrong: batch {number} after an interrupt at {where}", file=sys.stderr)
    if count != BATCHES:
        report.wrong += 1
        print(f"wrong: {count} batches after an interrupt at {where}", file=sys.stderr)
    left = len(orphans(5.0))
    if left > report.orphans:
        report.orphans = left
        print(f"orphan: a thread is left by an interrupt at {where}", file=sys.stderr)


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only every n-th line")
    parser.add_argument("--opcodes", action="store_true", help="at every instruction instead")
    parser.add_argument("--storages", nargs="*", default=list(STORAGES))
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        graph = small_folder(Path(folder) / "g")
        expected(graph, 1)
        print("storage   way     steps interrupts  loops  batches  wrong  orphans")
        for storage in options.storages:
            for way in options.ways:
                report = enumerate_interrupts(graph, storage, way, options.every, options.opcodes)
                print(report.line(), flush=True)
                bad += report.wrong + report.orphans
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
