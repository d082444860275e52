"""synth_rate: does making a synthetic graph keep up with the disk, and in how much memory?

Each repeat writes files of the graph's sizes with plain writes and fsync, then runs the synth
command in a process of its own, on the same disk. Writes a dated report; removes all other files.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.report import FOLDER, machine_line, median_spread
from common.skip import need_disk

from foregather.graph.on_disk.npy import file_bytes
from foregather.graph.recipe import Recipe
from foregather.units import format_bytes, format_count, parse_count

BUFFER = 16 << 20
CHILD = """
import json, sys
from pathlib import Path
from foregather.cli.graphs.synth import Synth
dst, options = Path(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps(Synth(dst, **options).run()))
"""


def write_plain(folder, sizes):
    """Seconds to write and sync files of these sizes."""
    buffer = memoryview(np.random.default_rng(0).bytes(BUFFER))
    started = time.perf_counter()
    for k, size in enumerate(sizes):
        with open(folder / f"plain{k}", "wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            while size:
                size -= file.write(buffer[: min(size, BUFFER)])
            os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    for k in range(len(sizes)):
        (folder / f"plain{k}").unlink()
    return seconds


def run_synth(folder, options):
    """Facts of one synth command in a child, with the child's peak memory and processor time."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "graph"), json.dumps(options)],
        stdout=subprocess.PIPE,
    )
    output = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    shutil.rmtree(folder / "graph", ignore_errors=True)
    if child.returncode:
        raise SystemExit(f"synth failed with code {child.returncode}")
    facts = json.loads(output)
    facts["peak_memory"] = max(facts["peak_memory"], usage.ru_maxrss * 1024)
    facts["processor_seconds"] = usage.ru_utime + usage.ru_stime
    return facts


def one_core(recipe):
    """Processor time of one thread, without writing: ns an edge, ns a feature value."""
    core = recipe.core()
    nodes = min(recipe.nodes, 500_000)
    offsets = np.zeros(nodes + 1, np.int64)
    core.degrees(0, offsets[1:], 1)
    np.cumsum(offsets, out=offsets)
    rows = np.ones(offsets[-1], recipe.id_dtype)  # ones, so that no page is touched in the loop
    rates = {}
    started = time.thread_time()
    core.rows(0, offsets, rows, 1)
    rates["edge"] = (time.thread_time() - started) / max(1, rows.size) * 1e9
    for dtype, stored in (("float32", np.float32), ("float16", np.uint16), ("int8", np.int8)):
        values = np.ones(min(nodes, 50_000) * recipe.features, stored)
        started = time.thread_time()
        core.features(0, values, 1)
        rates[f"{dtype} value"] = (time.thread_time() - started) / max(1, values.size) * 1e9
    return rates


def report(recipe, sizes, host, plain, runs, rates):
    total = sum(sizes)
    disk = [total / s / 1e6 for s in plain]
    made = [run["bytes"] / run["seconds"] / 1e6 for run in runs]
    ratio = [run["seconds"] / s for run, s in zip(runs, plain, strict=True)]
    seconds = [run["seconds"] for run in runs]
    busy = [run["processor_seconds"] for run in runs]
    peak = max(run["peak_memory"] for run in runs)
    return "\n".join(
        [
            f"# synth_rate, {datetime.date.today().isoformat()}",
            "",
            "Does `foregather synth` keep up with the disk, and in how much memory?",
            "",
            f"Graph: {format_count(recipe.nodes)} nodes, {format_count(runs[0]['edges'])} edges, "
            f"{recipe.features} {recipe.dtype} features, {recipe.ids} ids: {format_bytes(total)}. "
            f"{len(runs)} repeats; in each, plain writes of files of the same sizes "
            "(16 MiB a write, fsync a file), then the command in its own process "
            "(which checksums and syncs what it writes). Median (least to most).",
            "",
            *host,
            "",
            "| | plain write | synth |",
            "|---|---|---|",
            f"| seconds | {median_spread(plain)} | {median_spread(seconds)} |",
            f"| MB/s | {median_spread(disk)} | {median_spread(made)} |",
            f"| time relative to plain write of the same repeat | 1 | {median_spread(ratio)} |",
            f"| processor seconds | | {median_spread(busy)} |",
            f"| peak memory | | {format_bytes(peak)} |",
            "",
            "One thread, no writing (processor time, one measurement):",
            "",
            "| | ns |",
            "|---|---|",
            *(f"| {what} | {value:.2f} |" for what, value in rates.items()),
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="10M")
    parser.add_argument("--degree", type=float, default=16)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--ids", default="shuffled")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", default=None, help="where to write; a temporary one by default")
    parser.add_argument("--report", default=str(FOLDER))
    flags = parser.parse_args()
    options = {
        "nodes": flags.nodes,
        "degree": flags.degree,
        "features": flags.features,
        "dtype": flags.dtype,
        "ids": flags.ids,
    }
    recipe = Recipe(**{**options, "nodes": parse_count(flags.nodes)})
    sizes = [
        file_bytes(8 * (recipe.nodes + 1)),
        file_bytes(recipe.id_dtype.itemsize * recipe.num_edges),
        file_bytes(np.dtype(recipe.dtype).itemsize * recipe.features * recipe.nodes),
        file_bytes(2 * recipe.nodes),
        file_bytes(8 * recipe.nodes),  # the three splits
    ]
    host = [machine_line()]
    with tempfile.TemporaryDirectory(prefix="synth_rate_", dir=flags.folder) as name:
        folder = Path(name)
        need_disk(folder, 13 * sum(sizes) // 10)
        rates = one_core(recipe)
        plain, runs = [], []
        for _ in range(flags.repeats):
            plain.append(write_plain(folder, sizes))
            runs.append(run_synth(folder, options))
            print(f"plain {plain[-1]:.1f} s, synth {runs[-1]['seconds']:.1f} s", file=sys.stderr)
    text = report(recipe, sizes, host, plain, runs, rates)
    target = Path(flags.report)
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"synth_rate_{datetime.date.today().isoformat()}.md"
    path.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
