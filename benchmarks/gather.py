"""Is gathering rows from memory as fast as torch.index_select?

Random rows of a matrix far larger than the caches go into a buffer that both have used before, in
interleaved runs whose order changes from round to round. torch gets int64 ids, which it needs; ours
gets uint32, as samples have them, and checks every id, as torch does. A ratio is the median over
rounds of ours / torch: below 1 we are faster. torch's OpenMP threads go on spinning for a while
after a call and would take a core from whoever is measured next, so each measurement begins with a
pause of 30 ms; then three calls follow each other, and their mean counts. The int8 and float16 rows
compare with what one would write in torch for the same result.

    python benchmarks/gather.py [--matrix 1GiB] [--rounds 15] [--date 2026-11-15]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from common.report import Report, median_spread

from foregather import _core
from foregather.units import format_bytes, parse_size

PAUSE, CALLS = 0.03, 3
CASES = [  # columns, rows gathered
    (16, 400_000),
    (64, 200_000),
    (100, 200_000),
    (128, 150_000),
    (256, 80_000),
    (768, 30_000),
    (128, 10_000),
]


def measure(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds a call by contender; the order is drawn anew each round, after one to warm up."""
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name in rng.permutation(list(contenders)).tolist():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(CALLS):
                contenders[name]()
            if turn:
                times[name].append((time.perf_counter() - start) / CALLS)
    return times


def row_of(times: dict[str, list[float]]) -> list[str]:
    ratio = [mine / theirs for mine, theirs in zip(times["ours"], times["torch"], strict=True)]
    cells = [median_spread([1000 * t for t in times[name]]) for name in ("torch", "ours")]
    return [*cells, f"**{statistics.median(ratio):.2f}**"]


def compare(dtype: str, width: int, count: int, size: int, threads: int, rounds: int) -> list[str]:
    """One row of the table: milliseconds of both and the ratio."""
    torch.set_num_threads(threads)
    rows = size // (width * np.dtype(dtype).itemsize)
    rng = np.random.default_rng(0)
    wide = rng.integers(0, rows, count)
    narrow, ids = wide.astype(np.uint32), torch.from_numpy(wide)
    data = np.ones((rows, width), dtype)
    matrix = torch.from_numpy(data)
    out = torch.zeros((count, width))
    into, scale = out.numpy(), None
    if dtype == "float32":

        def theirs() -> object:
            return torch.index_select(matrix, 0, ids, out=out)

    elif dtype == "float16":

        def theirs() -> object:
            return out.copy_(torch.index_select(matrix, 0, ids))

    else:
        scale = np.ones(width, np.float32)
        factor = torch.from_numpy(scale)

        def theirs() -> object:
            return torch.mul(torch.index_select(matrix, 0, ids), factor, out=out)

    times = measure(
        {"torch": theirs, "ours": lambda: _core.gather_rows(data, narrow, into, scale, threads)},
        rounds,
    )
    return [dtype, str(width), f"{count:,}", str(threads), *row_of(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matrix", default="1GiB")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--date", default=None)
    options = parser.parse_args()
    size = parse_size(options.matrix)
    report = Report("gather", __doc__, options.date)
    report.line(
        f"Matrix of {format_bytes(size)}, {options.rounds} rounds; milliseconds as median (range). "
        "Other work ran on this machine at the same time: the ratios are paired, the times are "
        "not to be compared with other reports."
    )
    cases = [("float32", width, count) for width, count in CASES]
    cases += [("float16", 128, 150_000), ("int8", 128, 150_000)]
    rows = [compare(*case, size, threads, options.rounds) for case in cases for threads in (1, 2)]
    report.table(["stored", "columns", "rows", "threads", "torch, ms", "ours, ms", "ratio"], rows)
    report.write()


if __name__ == "__main__":
    main()
