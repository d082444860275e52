"""slow_draws: negatives as they are defined, one by one."""

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from foregather.errors import InputError

__all__ = ["draw_negatives"]

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
NEGATIVES = 5  # Purpose


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def derive(key: int, word: int) -> int:
    return mix64((key + GOLDEN * (word + 1)) & MASK)


def bounded_wide(bits: int, limit: int) -> int:
    """Uniform in [0, limit), by multiplication and rejection."""
    product = bits * limit
    while (product & MASK) < (2**64 - limit) % limit:
        bits = mix64((bits + GOLDEN) & MASK)
        product = bits * limit
    return product >> 64


def draw_negatives(tables: Any, given: Any, cuts: Any, keys: Any) -> Any:
    """Sources and destinations of the negatives of all batches."""
    src, dst, known = tables
    rows, ends, times = given
    (seed, epoch, _), (ptr, parts) = keys, cuts
    epoch_key = derive(derive(mix64(seed & MASK), NEGATIVES), epoch)
    sources, targets = [], []
    for b in range(len(ptr) - 1):
        first, count = int(ptr[b]), int(ptr[b + 1] - ptr[b])
        for q in range(int(parts[b + 1] - parts[b])):
            at, j = first + q % count, q // count
            row, time = int(rows[at]), None if times is None else int(times[at])
            key = derive(epoch_key, row)
            if ends is not None:
                u = int(ends[at])
            else:
                u = _node(src, _first(src, time), None, derive(key, 2 * j), row, time)
            near = None
            if known is not None:
                begin, end = int(known.indptr[u]), int(known.indptr[u + 1])
                ranks = known.rank[begin:end].tolist()
                upto = (
                    list(range(end - begin))
                    if known.upto is None
                    else known.upto[begin:end].tolist()
                )
                near = ranks, upto
            v = _node(dst, _first(dst, time), near, derive(key, 2 * j + 1), row, time)
            sources.append(u)
            targets.append(v)
    return np.array(sources, np.int64), np.array(targets, np.int64)


def _first(side: Any, time: int | None) -> int:
    """How many ranks are early enough."""
    if side.time is None:
        return int(side.count)
    return bisect_right(side.time.tolist(), time)


def _node(side: Any, ranks: int, near: Any, bits: int, row: int, time: int | None) -> int:
    upto = range(side.count + 1) if side.upto is None else side.upto.tolist()
    units = upto[ranks]
    known, before = near if near is not None else ([], [])
    within = bisect_left(known, ranks)
    if within:
        last = known[within - 1]
        units -= before[within - 1] + upto[last + 1] - upto[last]
    if units <= 0:
        raise InputError(f"the positive of row {row} has no negative")
    drawn = bounded_wide(bits, units)
    passed = 0
    while passed < within and upto[known[passed]] - before[passed] <= drawn:
        passed += 1
    if passed:
        last = known[passed - 1]
        drawn += before[passed - 1] + upto[last + 1] - upto[last]
    rank = bisect_right(upto, drawn) - 1
    return rank if side.order is None else int(side.order[rank])
