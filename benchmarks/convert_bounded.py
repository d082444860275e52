"""Does `foregather convert` keep its memory promise on a graph larger than the budget?

Makes an edge list of E edges (binary .npy, int64, shuffled, skewed), converts it inside a cgroup
whose limit is a little above `--memory`, and reports the peak of the process and of the cgroup,
and the seconds. Without the right to make a cgroup (v1, root) it says so and
reports the peak resident size alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.cgroup import Cgroup
from common.report import Report

from foregather.units import format_bytes, parse_count, parse_size


def make_edges(path: Path, nodes: int, edges: int) -> None:
    """Writes [2, E] int64: sources uniform, targets skewed, in random order."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(2, edges))
    step = 10_000_000
    for start in range(0, edges, step):
        rng = np.random.default_rng(start)
        count = min(step, edges - start)
        out[0, start : start + count] = rng.integers(0, nodes, count)
        out[1, start : start + count] = (nodes * rng.random(count) ** 3).astype(np.int64)
    out.flush()


def convert(cgroup: Cgroup, src: Path, dst: Path, memory: str, flags: list[str]) -> dict:
    command = [sys.executable, "-m", "foregather", "convert", str(src), str(dst), "--json"]
    command += ["--memory", memory, *flags]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=cgroup.join)
    if done.returncode:
        sys.exit(f"convert failed ({done.returncode}): {done.stderr}")
    facts = json.loads(done.stdout)
    facts["wall"] = time.perf_counter() - started
    facts["cgroup_peak"] = cgroup.read("memory.max_usage_in_bytes")
    facts["cgroup_failcnt"] = cgroup.read("memory.failcnt")
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", default="100M")
    parser.add_argument("--nodes", default="10M")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--limit", default="1.25GB", help="limit of the cgroup")
    parser.add_argument("--folder", default=None, help="where to put the files")
    args = parser.parse_args()
    report = Report("convert_bounded", __doc__)
    rows = []
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="fg-bench-") as folder:
        src = Path(folder) / "edges.npy"
        make_edges(src, parse_count(args.nodes), parse_count(args.edges))
        for flags in ([], ["--undirected"]):
            os.posix_fadvise(os.open(src, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
            with Cgroup(parse_size(args.limit)) as cgroup:
                facts = convert(
                    cgroup, src, Path(folder) / "g", args.memory, [*flags, "--overwrite"]
                )
            peak = facts["cgroup_peak"]
            rows.append(
                [
                    " ".join(flags) or "as is",
                    f"{facts['num_edges']:,}",
                    f"{facts['wall']:.1f}",
                    format_bytes(facts["peak_memory"]),
                    "not allowed here" if peak is None else format_bytes(peak),
                    f"{facts['num_edges'] / facts['wall'] / 1e6:.1f}",
                ]
            )
    report.line(
        f"{args.edges} edges over {args.nodes} nodes as int64 .npy "
        f"({format_bytes(16 * parse_count(args.edges))}), `--memory {args.memory}`, cgroup limit "
        f"{args.limit} (page cache counts towards the cgroup's peak)."
    )
    head = ["options", "edges written", "seconds", "peak resident", "peak of cgroup", "M edges/s"]
    report.table(head, rows)
    report.write()


if __name__ == "__main__":
    main()
