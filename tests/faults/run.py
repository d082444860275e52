"""run: every command with a fault in every one of its input and output calls, in turn.

    python tests/faults/run.py --report

A command is run once to count its calls, then again for call 1, 2, 3, ... with that call failing:
by EIO once, by EIO from then on (the disk is gone), by ENOSPC from then on (the disk is full), by
EINTR, by a short count, and by SIGKILL in its place. After each run: the exit code is true, what
was there before is still there, what was made is whole or absent, and the command repeated without
a fault (or the run resumed) gives the same bytes as an undisturbed one and leaves nothing beside.
Faults that leave the same bytes behind are repeated from once.
"""

import argparse
import hashlib
import json
import os
import platform
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # where it is run as a script

from tests.faults.cases import CASES, snapshot, write_source
from tests.processes import ROOT, python_path

KINDS = {"EIO": 1, "gone": 2, "ENOSPC": 3, "EINTR": 4, "short": 5, "kill": 6}
HARMLESS = ("EINTR", "short")  # the call is to be made again, and nobody notices
MOST_FAILURES = 40
NOTE = "not of the command"
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of small folders are made


def build_shim(folder: Path) -> Path:
    """Compiles the shim."""
    made = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


class Seat:
    """One of the processes whose forks run the commands, and the folder it works in."""

    def __init__(self, folder: Path, line: socket.socket) -> None:
        self.folder, self._line = folder, line
        self.work = 0  # see Case
        self._answers = line.makefile("r", encoding="utf-8")
        folder.mkdir()

    def run(self, argv: list[str], root: Path, kind: int = 0, number: int = 0) -> dict[str, Any]:
        """Runs a command in a fork, with a fault where one is asked for."""
        request = {"argv": argv, "root": str(root), "kind": kind, "number": number}
        request |= {"log": str(self.folder / "log"), "work": self.work}
        self._line.sendall((json.dumps(request) + "\n").encode())
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError("the server of commands has ended")
        return dict(json.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        self._answers.close()
        self._line.close()


class Server:
    """The process that imports everything once and forks the seats."""

    def __init__(self, folder: Path, seats: int = 1) -> None:
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        own = {"PYTHONPATH": python_path()}
        own |= {"FOREGATHER_CACHE": str(folder / "cache"), "PYTHONWARNINGS": "ignore"}
        pairs = [socket.socketpair() for _ in range(seats)]
        theirs = [there.fileno() for _, there in pairs]
        # Names are cut at blanks in LD_PRELOAD, so it is found from the working directory.
        own |= {"LD_PRELOAD": f"./{build_shim(folder).name}"}
        own |= {"FAULTS_SEATS": " ".join(map(str, theirs))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            env={**os.environ, **alone, **own},
            cwd=folder,
            pass_fds=theirs,
        )
        for _, there in pairs:
            there.close()
        self.seats = [Seat(folder / f"seat{n}", here) for n, (here, _) in enumerate(pairs)]

    def close(self) -> None:
        """Ends the processes."""
        for seat in self.seats:
            seat.close()
        self._process.wait()


@dataclass
class Count:
    """What came of one command with one kind of fault."""

    calls: int = 0
    every: int = 1
    runs: int = 0
    repeats: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Trial:
    """One command: its inputs, its undisturbed result, and runs with faults."""

    def __init__(self, name: str, server: Seat) -> None:
        self.name, self.case, self.server = name, CASES[name], server
        server.work = self.case.work
        self.template = server.folder / "template"
        self.work = server.folder / "work"
        shutil.rmtree(self.template, ignore_errors=True)
        (self.template / "in").mkdir(parents=True)
        (self.template / "out/other").mkdir(parents=True)
        (self.template / "out/other/thesis.txt").write_text(NOTE)
        write_source(self.template / "in")
        for argv in self.case.before:
            self._succeed(argv, self.template)
        self.inputs = snapshot(self.template / "in")
        self.before = self._made(self.template)
        self._begin()
        self._succeed(self.case.argv, self.work)
        self.reference = self.case.compared(self.work / "out" / self.case.made)
        self.files = self._made(self.work)
        self.names = sorted(os.listdir(self.work / "out"))
        self.repeats = 0
        self._repeated: dict[bytes, str | None] = {}  # by what was left: what was wrong with it

    def _succeed(self, argv: list[str], root: Path) -> None:
        done = self.server.run(argv, root)
        if done["code"] != 0:
            raise RuntimeError(f"{' '.join(argv)} ends with {done['code']}: {done['said']}")

    def _begin(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.template, self.work, symlinks=True)

    def _made(self, root: Path) -> dict[str, Any] | bytes | None:
        path = root / "out" / self.case.made
        if not self.case.made or not path.exists():
            return None
        return snapshot(path) if path.is_dir() else path.read_bytes()

    def count(self, kind: str) -> int:
        """Calls that can fail in that way."""
        self._begin()
        return int(self.server.run(self.case.argv, self.work, KINDS[kind], 0)["count"])

    def attempt(self, kind: str, number: int) -> tuple[str, str | None, bool]:
        """One run with a fault, and its repeat.

        Returns:
            How it ended, what was wrong (None for nothing), and whether the fault came at all.
        """
        self._begin()
        done = self.server.run(self.case.argv, self.work, KINDS[kind], number)
        ended = f"{kind} at call {number} ({done['call']}): exit code {done['code']}"
        wrong = self._look(kind, done)
        lacks = self._lacks(done) and self.case.resumed is None
        if wrong is None and (done["code"] != 0 or lacks):
            left = hashlib.sha256(repr(snapshot(self.work / "out")).encode()).digest()
            if left not in self._repeated:
                self._repeated[left] = self._repeat()
            wrong = self._repeated[left]
        if wrong is not None:
            wrong = f"{ended}: {wrong}"
        outcome = {0: "done all the same", 2: "one sentence", -9: "killed"}
        return outcome.get(done["code"], "other"), wrong, bool(done["fired"])

    def _look(self, kind: str, done: dict[str, Any]) -> str | None:
        """What the fault itself left."""
        code, said = done["code"], done["said"].strip()
        if code not in ((-9,) if kind == "kill" and done["fired"] else (0, 2)):
            return f"said {_short(said)}"
        if "Traceback" in said or "Exception ignored" in said:
            return f"said {_short(said)}"
        if code == 2 and "foregather: " not in said:
            return f"no sentence: {said!r}"
        if kind in HARMLESS and code != 0:
            return f"not tried again: {said[-300:]!r}"
        if snapshot(self.work / "in") != self.inputs:
            return "the inputs were changed"
        if (self.work / "out/other/thesis.txt").read_text() != NOTE:
            return "a file of the user's was changed"
        if code == 0:
            return self._compare(lesser=self._lacks(done))
        return None if self.case.resumed else self._whole()

    def _lacks(self, done: dict[str, Any]) -> bool:
        """Whether the command said that something is missing in what it made."""
        return self.case.lacking is not None and self.case.lacking in done["said"]

    def _whole(self) -> str | None:
        """Whether what was made is as before, complete, or absent."""
        found = self._made(self.work)
        if found in (None, self.before, self.files) and (found is not None or self.before is None):
            return None
        if not self.case.piecemeal or found is None:
            return "what was made is neither the old nor the new one"
        assert isinstance(found, dict) and isinstance(self.files, dict)
        assert isinstance(self.before, dict)
        for name, data in found.items():
            if data not in (self.before.get(name), self.files.get(name)) and (
                name in self.before or name in self.files
            ):
                return f"{name} is neither the old nor the new one"
        lost = self.before.keys() - found.keys()
        return f"{sorted(lost)[0]} is gone" if lost else None

    def _compare(self, lesser: bool = False) -> str | None:
        """Whether the result is that of an undisturbed run, or what a lesser one has of it."""
        if lesser and self.case.resumed is None:
            return None
        made = self.work / "out" / self.case.made
        try:
            found = self.case.compared(made)
        except (OSError, ValueError) as error:
            return f"exit code 0, but {error}"
        same = found[:-1] == self.reference[:-1] if lesser else found == self.reference
        return None if same else "exit code 0, but another result"

    def _repeat(self) -> str | None:
        """The same again without a fault."""
        argv = self.case.argv
        if (self.work / "out" / self.case.made).exists() and self.case.made:
            if self.case.resumed is not None:
                argv = self.case.resumed
            elif self.before is None:  # complete, as was looked at; it is not made twice
                argv = []
        if argv:
            self.repeats += 1
            done = self.server.run(argv, self.work)
            if done["code"] != 0:
                return f"the repeat ends with {done['code']}: {done['said'][-600:]!r}"
        if (wrong := self._compare()) is not None:
            return f"repeated: {wrong}"
        left = sorted(os.listdir(self.work / "out"))
        if argv and left != self.names:
            return f"repeated: {left} in the folder, expected {self.names}"
        return None


def _short(said: str) -> str:
    """The last lines of code in a traceback, and the error."""
    lines = [line.strip() for line in said.splitlines() if not set(line) <= set(" ^~")]
    return repr(" | ".join(lines[-5:])[-500:])


def run_case(trial: Trial, kind: str, every: int = 1, first: int = 1) -> Count:
    """Runs a command with a fault at every `every`-th call, until one comes no more."""
    count = Count(calls=trial.count(kind), every=every)
    number, before = first, trial.repeats
    while len(count.failures) < MOST_FAILURES:
        outcome, wrong, fired = trial.attempt(kind, number)
        if not fired and number > count.calls:
            break
        count.runs += 1
        count.outcomes[outcome if fired else "call not made"] += 1
        if wrong is not None:
            count.failures.append(wrong)
        number += every
    count.repeats = trial.repeats - before
    return count


def write_table(counts: dict[tuple[str, str], Count], seconds: float) -> str:
    """The report as text."""
    runs = sum(count.runs for count in counts.values())
    repeats = sum(count.repeats for count in counts.values())
    failures = sum(len(count.failures) for count in counts.values())
    columns = ("done all the same", "one sentence", "killed")
    lines = [
        "| command | fault | calls | runs | "
        + " | ".join(columns)
        + " | repeated from | failures |",
        "|---|---|--:|--:|" + "--:|" * (len(columns) + 2),
    ]
    for (name, kind), count in counts.items():
        cells = " | ".join(f"{count.outcomes[column]:,}" for column in columns)
        lines.append(
            f"| `{name}` | {kind} | {count.calls:,} | {count.runs:,} | {cells} | "
            f"{count.repeats:,} | {len(count.failures)} |"
        )
    lines.append("")
    lines.append(
        f"{runs:,} runs with a fault, {repeats:,} repeats from what they left, {failures} "
        f"failures; {seconds:,.0f} s."
    )
    return "\n".join(lines)


def write_report(counts: dict[tuple[str, str], Count], seconds: float) -> Path:
    """Writes a dated report beside the benchmarks'."""
    date = time.strftime("%Y-%m-%d")
    path = ROOT / "benchmarks/reports" / f"faults_{date}.md"
    about = (__doc__ or "").split("\n\n", 2)[2].strip()
    rare = sorted(
        {f"`{name}` at every {c.every}th" for (name, _), c in counts.items() if c.every > 1}
    )
    said = "Every call" + (f", but {', '.join(rare)}" if rare else "")
    machine = f"Python {platform.python_version()}, Linux {platform.release()}"
    path.write_text(
        f"# Faults at every call, {date}\n\n{about}\n\n"
        f"Made by `python tests/faults/run.py --report`. {said}. {machine}.\n\n"
        f"{write_table(counts, seconds)}\n",
        encoding="utf-8",
    )
    return path


def read_kept(paths: list[Path]) -> tuple[dict[tuple[str, str], Count], float]:
    """What several processes found, each with commands of its own."""
    counts, seconds = {}, 0.0
    for path in paths:
        kept = json.loads(path.read_text())
        seconds += kept["seconds"]
        for name, kind, count in kept["counts"]:
            counts[name, kind] = Count(**{**count, "outcomes": Counter(count["outcomes"])})
    order = [(name, kind) for name in CASES for kind in KINDS]
    return {pair: counts[pair] for pair in order if pair in counts}, seconds


def run_all(folder: Path, given: argparse.Namespace) -> dict[tuple[str, str], Count]:
    """All commands with all kinds, a pair at a time on each seat; said and kept as they end."""
    server = Server(folder, given.jobs)
    free: queue.SimpleQueue[Seat] = queue.SimpleQueue()
    for seat in server.seats:
        free.put(seat)
    counts: dict[tuple[str, str], Count] = {}
    started = time.monotonic()

    def work(pair: tuple[str, str]) -> None:
        seat = free.get()
        try:
            count = run_case(Trial(pair[0], seat), pair[1], given.every, given.first)
        finally:
            free.put(seat)
        counts[pair] = count
        lines = [f"{' '.join(pair)}: {count.runs} of {count.calls} {dict(count.outcomes)}"]
        print("\n  ".join([*lines, *count.failures]), flush=True)
        if given.keep:
            rows = [[*key, vars(count)] for key, count in counts.items()]
            kept = {"seconds": time.monotonic() - started, "counts": rows}
            given.keep.write_text(json.dumps(kept))

    pairs = [(name, kind) for name in given.case for kind in given.kind]
    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(work, pairs))
    server.close()
    return {pair: counts[pair] for pair in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--case", choices=list(CASES), nargs="*", default=list(CASES))
    parser.add_argument("--kind", choices=list(KINDS), nargs="*", default=list(KINDS))
    parser.add_argument("--every", type=int, default=1, help="only every so many-th call")
    parser.add_argument("--first", type=int, default=1, help="the first call that fails")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/faults_*")
    parser.add_argument("--folder", default=PLACE, help="where folders are made and removed")
    parser.add_argument("--keep", type=Path, help="a JSON file for what came out")
    parser.add_argument("--from", dest="kept", type=Path, nargs="*", help="report these instead")
    given = parser.parse_args()
    if given.kept:
        print(write_report(*read_kept(given.kept)).read_text(encoding="utf-8"))
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        counts = run_all(Path(folder), given)
    seconds = time.monotonic() - started
    print(write_table(counts, seconds))
    if given.report:
        print(f"wrote {write_report(counts, seconds).relative_to(ROOT)}")
    return 1 if any(count.failures for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
