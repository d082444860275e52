"""Does the disk executor sustain what the bare reader reaches? Random blocks, copies included.

Both read the same blocks in the same order, directly, with the same depth. The bare reader leaves
the bytes where they arrive. The executor carries out a plan: batches of 16 MB, every row of every
block copied to the output, every fourth also to a slot of the cache, batch after batch into one
buffer. The bar is 80 %. Systems take turns; the test file is removed at the end.

    python benchmarks/disk_gather.py [folder] [--quick]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.report import Report, median_spread
from common.skip import need_disk

from foregather import _core
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.graph.on_disk.npy import file_bytes, pack_header
from foregather.observe.buffer import aligned_buffer
from foregather.units import format_bytes

WIDTH = 128
ROW = 4 * WIDTH
QUICK = "--quick" in sys.argv  # a small file, one round
ROWS = 200_000 if QUICK else 4_000_000  # 2 GB
PAGE = 4096
STEP = 16 << 20  # bytes of a batch
STAGING = 16 << 20
SLOTS = 30_000
WARM = 4  # steps before the clock starts: they touch the slots
BLOCKS = (4 << 10, 16 << 10, 32 << 10, 64 << 10)
DEPTH = 64
ROUNDS = 1 if QUICK else 5
BYTES = {"io_uring": 1 << 30, "pread": 1 << 29}  # a run
if QUICK:
    BYTES = dict.fromkeys(BYTES, 1 << 27)


def write(path):
    random = np.random.SFC64(7)
    with open(path, "wb") as file:
        file.write(pack_header(np.dtype(np.float32), (ROWS, WIDTH)))
        left = file_bytes(ROWS * ROW) - PAGE
        while left > 0:
            piece = random.random_raw(1 << 19).tobytes()[:left]
            file.write(piece)
            left -= len(piece)
        file.flush()
        os.fsync(file.fileno())


def make_plan(file, block, total, seed):
    """Steps of random blocks, each block once a step, and the offsets one after the other."""
    random = np.random.default_rng(seed)
    count, steps = STEP // block, max(2 * WARM, total // STEP)
    inside = block // ROW
    blocks = ROWS * ROW // block
    offsets, rows = [], []
    for _ in range(steps):
        chosen = np.sort(random.choice(blocks - 1, count, replace=False) + 1)
        offsets.append(chosen * block)
        rows.append((chosen[:, None] * (block // ROW) - PAGE // ROW + np.arange(inside)).ravel())
    requests = count * steps
    position = np.tile(np.arange(count * inside), steps)
    slot = np.full(position.size, 0xFFFFFFFF, np.uint32)
    slot[::4] = np.arange(slot[::4].size) % SLOTS
    offset = np.concatenate(offsets)
    length = np.full(requests, block, np.int64)
    plan = _core.Plan(
        geometry=file.geometry(block),
        num_slots=SLOTS,
        num_rows=np.full(steps, count * inside, np.int64),
        hits=(np.zeros(steps + 1, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32)),
        requests=(np.arange(steps + 1, dtype=np.int64) * count, offset, length),
        copies=(
            np.arange(requests + 1, dtype=np.int64) * inside,
            np.concatenate(rows).astype(np.uint32),
            position.astype(np.uint32),
            slot,
        ),
    )
    return plan, offset, length


def bare(path, backend, offset, length, block):
    reader = _core.BlockReader(str(path), backend, DEPTH)
    buffer = aligned_buffer(STAGING)
    buffer[::PAGE] = 0
    reader.attach(buffer)
    place = np.arange(offset.size, dtype=np.int64) % (STAGING // block) * block
    start = time.perf_counter()
    reader.read(offset, length, place, buffer)
    return offset.size / (time.perf_counter() - start), None


def executor(file, backend, plan, out):
    with DiskFeatures(file, SLOTS, staging=STAGING, backend=backend, depth=DEPTH) as disk:
        disk.append(plan)
        for _ in range(WARM):
            disk.step_into(out)
        start = time.perf_counter()
        done = disk.counters()["requests"]
        for _ in range(len(plan) - WARM):
            disk.step_into(out)
        seconds = time.perf_counter() - start
        counted = disk.counters()
    return (counted["requests"] - done) / seconds, counted


def main():
    """Measures bare reads and the executor by turns, for every backend and size of block."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="where the file is")
    parser.add_argument("--quick", action="store_true", help="a small file, one round")
    folder = parser.parse_args().folder
    need_disk(folder, 3 * ROWS * ROW)
    report = Report("disk_gather", __doc__)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".foregather-bench-") as place:
        path = Path(place) / "features.npy"
        write(path)
        file = FeatureFile(path, path.name, ROWS, WIDTH, np.dtype(np.float32))
        allowed = _core.probe_reader(str(path))["backends"]
        out = np.zeros((STEP // ROW, WIDTH), np.float32)
        table = []
        for backend in (name for name in BYTES if allowed[name] is None):
            for block in BLOCKS:
                total = min(BYTES[backend], 100_000 * block)
                rates = {"bare": [], "executor": []}
                copying = []
                for turn in range(ROUNDS):
                    plan, offset, length = make_plan(file, block, total, turn)
                    for name in ("bare", "executor") if turn % 2 else ("executor", "bare"):
                        if name == "bare":
                            rate, _ = bare(path, backend, offset, length, block)
                        else:
                            rate, counted = executor(file, backend, plan, out)
                            copying.append(counted["copying"] / counted["seconds"])
                        rates[name].append(rate)
                ratio = [a / b for a, b in zip(rates["executor"], rates["bare"], strict=True)]
                table.append(
                    (
                        backend,
                        f"{block >> 10} KiB",
                        median_spread(rates["bare"]),
                        median_spread(rates["executor"]),
                        f"{statistics.median(rates['executor']) * block / 1e6:,.0f}",
                        f"{statistics.median(copying):.2f}",
                        median_spread(ratio),
                    )
                )
                print(table[-1], file=sys.stderr)
    report.line(
        f"A file of {format_bytes(ROWS * ROW)}, rows of {ROW} bytes, depth {DEPTH}, staging "
        f"{format_bytes(STAGING)}, {SLOTS:,} slots; {ROUNDS} runs, median (least to most). "
        "`copying` is the share of the executor's time in which rows were copied. Its first "
        f"{WARM} batches touch the memory and are not timed; reads made before the clock starts "
        "are not counted."
    )
    report.table(
        ("backend", "block", "bare, reads/s", "executor, reads/s", "MB/s", "copying", "ratio"),
        table,
    )
    report.write()


if __name__ == "__main__":
    main()
