"""How fast does `foregather convert` read an edge list of names?

Writes a csv of E edges between N names (skewed: a few names are in many edges) and the same edges
as integers, and converts both in processes of their own within `--memory`, in turn, and reports
median and spread of the seconds, the ratio of names to integers, and the peak of memory.
`--other NAME=PYTHON` adds a second installation, for example the release before; every
installation must make the same folder, byte for byte, which is checked by digest.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.report import Report

from foregather.units import format_bytes, parse_count


def make_tables(folder: Path, nodes: int, edges: int) -> dict[str, Path]:
    """Writes names.csv and integers.csv, a part at a time."""
    paths = {kind: folder / f"{kind}.csv" for kind in ("names", "integers")}
    with open(paths["names"], "w") as names, open(paths["integers"], "w") as integers:
        for start in range(0, edges, 500_000):
            rng = np.random.default_rng(start)
            count = min(500_000, edges - start)
            source = rng.integers(0, nodes, count).tolist()
            target = (nodes * rng.random(count) ** 3).astype(np.int64).tolist()
            pairs = list(zip(source, target, strict=True))
            names.writelines(f"user_{s:x},user_{t:x}\n" for s, t in pairs)
            integers.writelines(f"{s},{t}\n" for s, t in pairs)
    return paths


def used() -> float:
    """Processor seconds of all processes that were started and have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def convert(python: str, src: Path, dst: Path, memory: str) -> tuple[float, float, dict]:
    """Seconds and processor seconds of the whole process, and what it says about the graph."""
    command = [python, "-m", "foregather", "convert", str(src), str(dst), "--json"]
    started, before = time.perf_counter(), used()
    done = subprocess.run(
        [*command, "--memory", memory, "--header", "no"], capture_output=True, text=True
    )
    seconds, processor = time.perf_counter() - started, used() - before
    if done.returncode:
        sys.exit(f"convert failed ({done.returncode}): {done.stderr}")
    facts = json.loads(done.stdout)
    facts["digest"] = json.loads((dst / "meta.json").read_text())["digest"]
    shutil.rmtree(dst)
    return seconds, processor, facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", default="5M")
    parser.add_argument("--nodes", default="1M")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--other", action="append", default=[], help="NAME=PYTHON")
    parser.add_argument("--folder", default=None, help="where to put the files")
    args = parser.parse_args()
    pythons = {"this": sys.executable} | dict(one.split("=", 1) for one in args.other)
    seconds: dict[tuple[str, str], list[float]] = {}
    processor: dict[tuple[str, str], list[float]] = {}
    facts: dict[tuple[str, str], dict] = {}
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="fg-bench-") as folder:
        tables = make_tables(Path(folder), parse_count(args.nodes), parse_count(args.edges))
        for _ in range(args.runs):
            for kind, path in tables.items():
                for name, python in pythons.items():
                    took, spent, said = convert(python, path, Path(folder) / "g", args.memory)
                    seconds.setdefault((kind, name), []).append(took)
                    processor.setdefault((kind, name), []).append(spent)
                    facts[kind, name] = said
    for kind in tables:
        if len({facts[kind, name]["digest"] for name in pythons}) > 1:
            sys.exit(f"the installations made different graphs of {kind}")
    report = Report("convert_names", __doc__)
    report.line(
        f"{args.edges} edges between {args.nodes} names, `--memory {args.memory}`, whole "
        f"processes, {args.runs} runs in turn; median (smallest to largest). On a machine that "
        "others use, processor seconds say more than seconds."
    )
    rows = []
    for (kind, name), took in seconds.items():
        middle = statistics.median(took)
        rows.append(
            [
                kind,
                name,
                f"{middle:.2f} ({min(took):.2f} to {max(took):.2f})",
                f"{statistics.median(processor[kind, name]):.2f}",
                f"{middle / statistics.median(seconds['integers', name]):.2f}",
                format_bytes(facts[kind, name]["peak_memory"]),
                f"{facts[kind, name]['num_nodes']:,}",
            ]
        )
    head = ["ids", "installation", "seconds", "processor seconds", "ratio to integers"]
    report.table([*head, "peak resident", "nodes"], rows)
    report.write()


if __name__ == "__main__":
    main()
