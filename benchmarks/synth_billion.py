"""Does `foregather synth` make a graph of the size of ogbn-papers100M within 4 GB of memory?

111M nodes, 1.6B edges, 128 float16 features: 36.8 GB of files. The command runs once, in a cgroup
of 4 GB where that is allowed; then the graph is opened, verified and removed. Needs 45 GB of disk
and some minutes, so it runs only with --yes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common.cgroup import Cgroup
from common.report import Report
from common.skip import need_disk, skip

from foregather import Graph
from foregather.observe.progress import peak_memory
from foregather.units import format_bytes

NEED = 45_000_000_000
LIMIT = 4_000_000_000


def make(dst: Path) -> dict:
    command = [sys.executable, "-m", "foregather", "synth", str(dst), "--json"]
    command += ["--nodes", "111M", "--edges", "1.6B", "--dtype", "float16"]
    with Cgroup(LIMIT) as cgroup:
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=cgroup.join)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout) | {"cgroup": cgroup.read("memory.max_usage_in_bytes")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yes", action="store_true", help="really do it")
    parser.add_argument("--folder", default=None, help="where to put the graph")
    args = parser.parse_args()
    if not args.yes:
        skip("this writes a graph of a billion edges; say --yes to do it")
    need_disk(args.folder or tempfile.gettempdir(), NEED)
    report = Report("synth_billion", __doc__)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="fg-bench-") as folder:
        dst = Path(folder) / "g"
        facts = make(dst)
        before, started = peak_memory(), time.perf_counter()
        graph = Graph.open(dst)
        opened, memory = time.perf_counter() - started, peak_memory() - before
        started = time.perf_counter()
        checked = graph.verify().checksummed_bytes
        verified = time.perf_counter() - started
        del graph
    peak = facts["cgroup"]
    rows = [
        ["nodes, edges", f"{facts['nodes']:,}, {facts['edges']:,}"],
        ["bytes written", format_bytes(facts["bytes"])],
        ["seconds", f"{facts['seconds']:.0f} ({facts['bytes_per_second'] / 1e6:.0f} MB/s)"],
        ["peak resident memory", format_bytes(facts["peak_memory"])],
        ["peak of the cgroup of 4 GB, page cache included", format_bytes(peak) if peak else "-"],
        ["opening it", f"{opened * 1e3:.0f} ms, {format_bytes(memory)}"],
        ["verifying it", f"{verified:.0f} s, {format_bytes(checked)}"],
    ]
    report.table(["", "measured"], rows)
    report.write()


if __name__ == "__main__":
    main()
