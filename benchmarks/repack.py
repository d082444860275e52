"""When is it cheaper to repack a bulk than to read its rows at random, and does the model know?

A feature file of 1 GB (26 MB with --quick), rows of 512 bytes, a cache of 5 % of them, bulks of 64
batches of random rows. The best way without repacking is the one that `choose` finds with this
disk's calibration (or the assumed one). Both ways run the same two bulks after each other, from an
empty cache, all reads direct. Seconds are those of sweeping and stepping, without planning;
predicted ones are those of the cost model for the same plans. A bulk is swept and then read; a
Loader sweeps the next one meanwhile. Ways take turns; the file is removed at the end.

    python benchmarks/repack.py [folder] [--quick]
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common.report import Report, median_spread
from common.skip import need_disk

from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures
from foregather.graph.on_disk.npy import file_bytes, pack_header
from foregather.observe.calibration import load_calibration
from foregather.plan.choice import choose
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.planner import Planner
from foregather.plan.repack import RepackPlanner
from foregather.units import format_bytes, format_number

WIDTH, ROWS, QUICK_ROWS = 128, 2_000_000, 50_000
CACHED = 20  # one row of this number
BATCHES, BULKS = 64, 2
SHARES = (0.05, 0.2, 0.6, 2.0)  # rows asked for by a bulk / rows of the file
ROUNDS = 3


def write(path, count):
    part = np.random.default_rng(7).random((count // 50, WIDTH), np.float32).tobytes()
    with open(path, "wb") as file:
        file.write(pack_header(np.dtype(np.float32), (count, WIDTH)))
        for _ in range(50):
            file.write(part)
        file.write(bytes(file_bytes(count * WIDTH * 4) - 4096 - count * WIDTH * 4))
        file.flush()
        os.fsync(file.fileno())
    return FeatureFile(path, path.name, count, WIDTH, np.dtype(np.float32))


def make_bulks(share, count):
    random = np.random.default_rng(int(share * 100))
    size = int(share * count / BATCHES)
    return [
        [np.unique(random.integers(0, count, size)).astype(np.uint32) for _ in range(BATCHES)]
        for _ in range(BULKS)
    ]


def plans_of(file, bulks, way):
    slots = file.num_rows // CACHED
    if way.caching == "repack":
        planner = RepackPlanner(file.geometry(), slots, merge_gap=way.merge_gap)
    else:
        geometry = file.geometry(way.block_bytes)
        pages = way.caching == "page"
        planner = Planner(geometry, slots, merge_gap=way.merge_gap, pages=pages, bounds=False)
    later = [*bulks[1:], []]
    return planner, [planner.plan(bulk, ahead) for bulk, ahead in zip(bulks, later, strict=True)]


def run(file, plans, way, out):
    repack = way.caching == "repack"
    options = {"depth": way.depth} | ({"write_bytes": 32 << 20} if repack else {})
    kind = RepackFeatures if repack else DiskFeatures
    with kind(file, file.num_rows // CACHED, **options) as disk:
        start = time.perf_counter()
        for plan in plans:
            disk.append(plan)
            for rows in (plan.rows if repack else plan).num_rows.tolist():
                disk.step_into(out[:rows])
        return time.perf_counter() - start


def measure(file, share, disk, out, rounds):
    bulks = make_bulks(share, file.num_rows)
    choice = choose(bulks, file.geometry(), file.num_rows // CACHED, disk)
    other = next(way for way in choice.alternatives if way.caching != "repack")
    ways = {"at random": other, "repack": choice.using("repack").best}
    planned = {name: plans_of(file, bulks, way) for name, way in ways.items()}
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(run(file, planned[name][1], way, out))
    rows = []
    for name, way in ways.items():
        planner, plans = planned[name]
        costs = [planner.announce(plan, disk or ASSUMED_DISK)[1] for plan in plans]
        cost = sum(costs[1:], costs[0])
        label = f"{way.caching} {way.block_bytes >> 10} KiB" if name == "at random" else "repack"
        rows.append(
            [f"{share:.0%}", label, f"{cost.requests:,}", format_bytes(cost.bytes),
             f"{cost.seconds:.2f}", median_spread(seconds[name])]
        )  # fmt: skip
    ratio = statistics.median(seconds["at random"]) / statistics.median(seconds["repack"])
    rows[1].append(f"{ratio:.2f}")
    rows[1].append("repack" if choice.best.caching == "repack" else "at random")
    rows[0] += ["", ""]
    print(*rows, sep="\n", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=".", help="where the file is made")
    parser.add_argument("--quick", action="store_true", help="a small file, one round")
    given = parser.parse_args()
    count, rounds = (QUICK_ROWS, 1) if given.quick else (ROWS, ROUNDS)
    # the file, and two bulks of the largest share that are repacked at a time
    need_disk(given.folder, int((1 + BULKS * max(SHARES)) * count * WIDTH * 4))
    folder = Path(tempfile.mkdtemp(prefix="repack-", dir=given.folder))
    try:
        file = write(folder / "features.npy", count)
        disk = load_calibration(folder)
        out = np.empty((int(max(SHARES) * count / BATCHES) + 1, WIDTH), np.float32)
        rows = [row for share in SHARES for row in measure(file, share, disk, out, rounds)]
    finally:
        shutil.rmtree(folder)
    report = Report("repack", __doc__)
    known = "assumed figures of the disk" if disk is None else f"calibration of {disk.date}"
    report.line(f"{format_number(rounds, 'run')}, median (least to most); {known}.")
    report.table(
        ["rows of a bulk", "way", "requests", "bytes", "predicted s", "measured s",
         "random / repack", "chosen"],
        rows,
    )  # fmt: skip
    report.write()


if __name__ == "__main__":
    main()
