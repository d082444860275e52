"""Fuzzing of every file reader: damaged files are refused in a sentence, or are read; nothing else.

    python tests/fuzz.py --executions 1000000 --shards 2 --report

Each execution takes a good file, damages it (bytes flipped, cut, doubled, replaced by odd numbers
and words) and gives it to its reader. Success and ForegatherError are fine. Any other exception is
printed with the number that repeats it (--reader NAME --first NUMBER); a crash ends the process.
"""

import argparse
import gzip
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

from foregather import Graph
from foregather.errors import ForegatherError
from foregather.graph.convert.text import TextSource
from foregather.graph.convert.zipped import ZipArrays
from foregather.graph.meta import read_meta
from foregather.graph.npy import read_header
from foregather.observe.report import charts_of, read_run, write_report
from foregather.observe.trace import Trace
from foregather.train.checkpoint import read_checkpoint, write_checkpoint
from foregather.train.settings import Settings, read_settings, write_settings

WORDS = (
    b"-1", b"0", b"1e308", b"NaN", b"null", b"{}", b"[]", b"../", b"\x00", b"\xff" * 8, b'"',
    b"18446744073709551616", b"9223372036854775807", b"True", b"(", b"|O", b"<f4", b"/etc/passwd",
)  # fmt: skip


def damage(good: bytes, rng: random.Random) -> bytes:
    """A file that is one to four changes away from a good one."""
    data = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.choice(WORDS)
        elif kind == 3:
            del data[at : at + rng.randint(1, 16)]
        elif kind == 4:
            word = rng.choice(WORDS)
            data[at : at + len(word)] = word
        else:
            data[at:at] = data[at : at + rng.randint(1, 64)]
    return bytes(data)


class Case:
    """A reader, the good file it is fed with damaged copies of, and where that lies."""

    def __init__(self, path: Path, read: Callable[[], object], weight: int) -> None:
        self.path, self.read, self.weight = path, read, weight
        self.good = path.read_bytes()

    def execute(self, number: int, name: str) -> None:
        """One damaged file."""
        self.path.write_bytes(damage(self.good, random.Random(f"{name} {number}")))
        try:
            self.read()
        except ForegatherError:
            pass
        finally:
            self.path.write_bytes(self.good)


def read_text(path: Path) -> None:
    for chunk in TextSource(path).edges(64):
        assert chunk is not None


def read_zip(path: Path) -> None:
    with ZipArrays(path) as archive:
        for name in archive.names():
            for part in archive.chunks(name, 16):
                assert part is not None


def read_graph(folder: Path) -> None:
    Graph.open(folder).verify()


def read_run_folder(folder: Path) -> None:
    facts = read_run(folder)
    charts_of(facts)
    write_report(folder, facts)


def cases(folder: Path) -> dict[str, Case]:
    """Every reader with a small good file."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 20, (2, 60))
    made = Graph.from_edge_index(pairs, 20, x=rng.random((20, 3), np.float32), y=np.arange(20) % 3)
    graph = made.save(folder / "graph")
    (folder / "edges.csv").write_text("source,target\n" + "1,2\n3,4\n" * 6)
    (folder / "edges.txt.gz").write_bytes(gzip.compress(b"# c\n1 2\n3 4\n" * 9))
    np.savez(folder / "arrays.npz", a=pairs, b=np.ones(5, np.float32))
    np.savez_compressed(folder / "packed.npz", a=pairs)
    (folder / "config.toml").write_text(write_settings(Settings(graph="g")))
    state = {"model": {"w": torch.ones(4, 3)}, "list": [1, (2.5, None)], "map": {1: "a"}}
    checkpoint = write_checkpoint(folder, 1, 2, state)
    header = folder / "header.npy"
    header.write_bytes((graph / "features.npy").read_bytes()[:4096].replace(b" " * 16, b""))
    run = folder / "run"
    run.mkdir()
    (run / "config.toml").write_text("")
    names = ("epoch", "loss", "train", "seconds", "waited", "bytes", "rows", "hits", "peak_memory")
    record = {name: 1.5 for name in names} | {"stages": {"wait": 1}, "valid": 1, "blocks": 2}
    (run / "metrics.jsonl").write_text(json.dumps(record | {"block_bound": 2}) + "\n")
    (run / "summary.json").write_text('{"test": 0.5, "valid": 0.5, "best_epoch": 1}')
    (run / "curve.json").write_text('[{"memory": 1, "blocks": 2, "bound": -1}]')
    with Trace() as trace:
        trace.add("wait", 0.0, 1.0)
    trace.write(run / "trace.json")
    return {
        "npy header": Case(
            header, lambda: read_header(io.BytesIO(header.read_bytes()), "header.npy"), 40
        ),
        "meta.json": Case(graph / "meta.json", lambda: read_meta(graph), 15),
        "graph folder, meta": Case(graph / "meta.json", lambda: read_graph(graph), 5),
        "graph folder, indices": Case(graph / "indices.npy", lambda: read_graph(graph), 2),
        "graph folder, features": Case(graph / "features.npy", lambda: read_graph(graph), 2),
        "edge list": Case(folder / "edges.csv", lambda: read_text(folder / "edges.csv"), 15),
        "edge list, gzip": Case(
            folder / "edges.txt.gz", lambda: read_text(folder / "edges.txt.gz"), 5
        ),
        "npz": Case(folder / "arrays.npz", lambda: read_zip(folder / "arrays.npz"), 5),
        "npz, compressed": Case(folder / "packed.npz", lambda: read_zip(folder / "packed.npz"), 5),
        "config.toml": Case(
            folder / "config.toml", lambda: read_settings(folder / "config.toml"), 2
        ),
        "checkpoint": Case(checkpoint, lambda: read_checkpoint(checkpoint), 4),
        **{
            f"run folder, {name}": Case(run / name, lambda: read_run_folder(run), 1)
            for name in ("metrics.jsonl", "summary.json", "curve.json", "trace.json")
        },
    }


def fuzz(executions: int, reader: str | None = None, first: int = 0) -> dict[str, tuple[int, list]]:
    """Executions and failures (number, error) by reader."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    found = {}
    with tempfile.TemporaryDirectory(dir=place) as folder:
        known = cases(Path(folder))
        total = sum(case.weight for case in known.values())
        for name, case in known.items():
            if reader not in (None, name):
                continue
            count, failures = -(-executions * case.weight // total), []
            for number in range(first, first + count):
                try:
                    case.execute(number, name)
                except Exception as error:  # what must not happen
                    failures.append((number, repr(error)))
                    if len(failures) >= 20:
                        count = number - first + 1
                        break
            found[name] = (count, failures)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--reader")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    share = -(-options.executions // options.shards)
    firsts = [options.first + k * share for k in range(options.shards)]
    with ProcessPoolExecutor(options.shards) as pool:
        parts = list(
            pool.map(fuzz, [share] * options.shards, [options.reader] * options.shards, firsts)
        )
    found = {
        name: (
            sum(part[name][0] for part in parts),
            [bad for part in parts for bad in part[name][1]],
        )
        for name in parts[0]
    }
    for name, (count, failures) in found.items():
        print(f"{name:24} {count:>9,} executions, {len(failures)} failures", flush=True)
        for number, error in failures[:5]:
            print(f"    {number}: {error}")
    if options.report:
        sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
        from common.report import Report

        report = Report("fuzz", __doc__)
        total = sum(count for count, _ in found.values())
        report.line(f"{total:,} executions in {time.perf_counter() - started:.0f} s.")
        rows = [[name, f"{count:,}", len(bad)] for name, (count, bad) in found.items()]
        report.table(["reader", "executions", "failures"], rows)
        report.write()
    return any(failures for _, failures in found.values())


if __name__ == "__main__":
    sys.exit(main())
