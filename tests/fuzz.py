"""Fuzzing of every file reader: damaged files are refused in a sentence, or are read; nothing else.

    python tests/fuzz.py --executions 1000000 --keep fuzz.json --report

Each execution takes a good file, damages it (bytes flipped, cut, doubled, replaced by odd numbers
and words; where the format has a checksum also under it) and gives it to its reader. Success and
ForegatherError are fine. Everything else is a failure, kept with the number that repeats it
(--reader NAME --first NUMBER): another exception, a crash, a reader that takes a minute of
processor time or a quarter of an hour, and memory or files beyond 3 GB and 256 MB, which no file
here is worth. Readers run in children, some thousand executions each; what is done is kept, so a
run that was stopped goes on.
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where it is run as a script

from tests.fuzzing.fuzz_cases import make_cases  # once, not in every child

BLOCK = 4000  # executions of a child
MOST_FAILURES = 20  # of a reader, kept
BUSY, SILENT = 60.0, 900.0  # seconds of an execution: of the processor, of the clock
MEMORY, FILE = 3 << 30, 256 << 20
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass
class Count:
    """What one reader was given so far."""

    executions: int = 0
    refused: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)


def run_block(name: str, first: int, last: int, at: Any, send: Connection) -> None:
    """In a child: executions first to last - 1 of a reader; `at` says which one is running."""
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    refused, failures = 0, []
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        case = make_cases(Path(folder))[name]
        for number in range(first, last):
            at.value = number
            try:
                refused += case.execute(number, name)
            except Exception as error:  # what must not happen
                failures.append((number, repr(error)[:300]))
                if len(failures) >= MOST_FAILURES:
                    break
    send.send((number + 1 - first, refused, failures))


def child(name: str, first: int, last: int) -> tuple[int, int, list[tuple[int, str]]]:
    """Runs a block; a crash or a hang is a failure of the execution that was running."""
    context = multiprocessing.get_context("fork")
    at = context.Value("q", first)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=run_block, args=(name, first, last, at, send))
    process.start()
    send.close()
    seen, since, busy = -1, time.monotonic(), 0.0
    try:
        while not receive.poll(1.0):
            if at.value != seen:
                seen, since, busy = at.value, time.monotonic(), processor_seconds(process.pid)
                continue
            used = processor_seconds(process.pid) - busy
            if used > BUSY or time.monotonic() - since > SILENT:
                process.kill()
                process.join()
                why = f"{used:.0f} s of the processor and no end"
                return at.value + 1 - first, 0, [(at.value, why)]
        answer: tuple[int, int, list[tuple[int, str]]] = receive.recv()
        return answer
    except EOFError:  # it ended without a word
        process.join()
        return at.value + 1 - first, 0, [(at.value, f"the process ended with {process.exitcode}")]
    finally:
        receive.close()
        process.join()


def processor_seconds(process: int | None) -> float:
    """What a process has used so far; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(
    executions: int, reader: str | None = None, first: int = 0, keep: Path | None = None
) -> dict[str, Count]:
    """What each reader was given, up to its share of all executions (a reader alone: all)."""
    shares = {name: weight for name, weight in weights().items() if reader in (None, name)}
    total = sum(shares.values())
    done = {name: Count() for name in shares}
    if keep is not None and keep.exists():
        kept = json.loads(keep.read_text())
        done |= {name: Count(**kept[name]) for name in shares if name in kept}
    for name, weight in shares.items():
        wanted, count = -(-executions * weight // total), done[name]
        while count.executions < wanted and len(count.failures) < MOST_FAILURES:
            start = first + count.executions
            stop = min(start + BLOCK, first + wanted)
            ran, refused, failures = child(name, start, stop)
            count.executions += ran
            count.refused += refused
            count.failures += [(number, why) for number, why in failures]
            if keep is not None:
                text = json.dumps({name: asdict(value) for name, value in done.items()})
                keep.with_suffix(".partial").write_text(text)
                keep.with_suffix(".partial").replace(keep)
    return done


def weights() -> dict[str, int]:
    """The readers and their shares; asked of a child, for threads do not survive a fork."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_weights)


def _weights() -> dict[str, int]:
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        return {name: case.weight for name, case in make_cases(Path(folder)).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--reader")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="what is done, to go on later")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    found = fuzz(options.executions, options.reader, options.first, options.keep)
    for name, count in found.items():
        print(f"{name:50} {count.executions:>9,}, {len(count.failures)} failures", flush=True)
        for number, error in count.failures[:5]:
            print(f"    {number}: {error}")
    if options.report:
        write_report(found, time.perf_counter() - started)
    return any(count.failures for count in found.values())


def write_report(found: dict[str, Count], seconds: float) -> None:
    """The dated report."""
    from benchmarks.common.report import Report

    report = Report("fuzz", __doc__)
    total = sum(count.executions for count in found.values())
    bad = sum(len(count.failures) for count in found.values())
    report.line(
        f"{total:,} executions on {len(found)} readers, {bad} failures; the last part took "
        f"{seconds:.0f} s. *Refused* are executions that ended in a ForegatherError; the others "
        "read what the damage had left readable."
    )
    rows = [
        [name, f"{count.executions:,}", f"{count.refused:,}", len(count.failures)]
        for name, count in found.items()
    ]
    report.table(["reader", "executions", "refused", "failures"], rows)
    for name, count in found.items():
        for number, error in count.failures:
            report.line(f"- {name}, {number}: `{error}`")
    report.write()


if __name__ == "__main__":
    sys.exit(main())
