"""Comparing ways on a part of the file: it costs, for its size, what the whole costs."""

import dataclasses

import numpy as np
import pytest

from foregather import _core
from foregather.plan import thinning
from foregather.plan.choice import choose
from foregather.plan.cost import ASSUMED_DISK, _run_reads
from foregather.plan.planner import MAX_REQUEST, file_geometry
from foregather.plan.thinning import thinned

ROWS, ROW_BYTES = 240_000, 512  # 117 MiB


def skewed(steps=10, size=4000, seed=0, ordered=False):
    """Batches in which some rows come far more often; those lie at the front if `ordered`."""
    rng = np.random.default_rng(seed)
    order = np.arange(ROWS) if ordered else rng.permutation(ROWS)
    ranks = (ROWS * rng.random((steps, 2 * size)) ** 3).astype(np.int64)
    return [order[np.unique(row)[:: max(1, len(np.unique(row)) // size)]].astype(np.uint32)
            for row in ranks]  # fmt: skip


def test_every_few_stretches_are_taken_whole():
    geometry, bulks = file_geometry(ROWS, ROW_BYTES), [skewed(), skewed(seed=1)]
    total = sum(len(batch) for bulk in bulks for batch in bulk)
    found = thinned(bulks, geometry, total // 3)
    assert found.every == 3 and found.slots(100) == 33
    left = 0
    for bulk, kept in zip(bulks, found.bulks, strict=True):
        for batch, part in zip(bulk, kept, strict=True):
            expected = [
                row
                for row in batch.tolist()
                if (4096 + row * ROW_BYTES) // (2 * MAX_REQUEST) % 3 == 1
            ]
            assert part.tolist() == expected and part.dtype == np.uint32
            left += len(expected)
    assert found.factor == total / left == pytest.approx(3, rel=0.2)


def test_small_traces_and_small_files_are_taken_whole():
    geometry, bulks = file_geometry(ROWS, ROW_BYTES), [skewed()]
    total = sum(map(len, bulks[0]))
    assert thinned(bulks, geometry, total).every == 1
    assert thinned(bulks, geometry, 1).every == 7  # sixteen stretches at least
    few = file_geometry(3000, ROW_BYTES)
    assert thinned([[np.arange(3000, dtype=np.uint32)]], few, 1).every == 1
    outside = [[np.arange(100, dtype=np.uint32)]]  # all in the first stretch, which is not taken
    whole = thinned(outside, geometry, 10)
    assert whole.every == 1 and whole.factor == 1.0 and whole.bulks[0][0] is outside[0][0]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("iops", [2e3, 1e5])
def test_a_part_is_compared_as_the_whole_would_be(monkeypatch, ordered, iops):
    rates = tuple(dataclasses.replace(r, iops=min(r.iops, iops)) for r in ASSUMED_DISK.rates)
    disk = dataclasses.replace(ASSUMED_DISK, rates=rates)
    bulks = [skewed(seed=k, ordered=ordered) for k in range(2)]
    geometry = file_geometry(ROWS, ROW_BYTES)
    whole = choose(bulks, geometry, ROWS // 10, disk)
    total = whole.rows
    monkeypatch.setattr(thinning, "ENOUGH", total // 3)
    part = choose(bulks, geometry, ROWS // 10, disk)
    assert (whole.every, part.every, part.rows) == (1, 3, total)
    assert "rows in 1/3 of the file, made" in part.explain()
    assert "of the file" not in whole.explain()

    swept = _core.make_repack(
        _core.Planner(geometry, ROWS // 10, riders=False).plan(bulks[0]), 0, MAX_REQUEST
    )
    assert _run_reads(swept.run_ptr, ROW_BYTES, 1) == len(swept.scratch.request_length)

    def costs(choice):
        return {(w.caching, w.block_bytes, w.merge_gap): w for w in choice.alternatives}

    before, after = costs(whole), costs(part)
    for way in before.keys() & after.keys():
        for name in ("decides", "bytes"):
            found, expected = getattr(after[way], name), getattr(before[way], name)
            assert found == pytest.approx(expected, rel=0.2), (way, name)
    taken = before[part.best.caching, part.best.block_bytes, part.best.merge_gap]
    assert taken.decides <= 1.1 * whole.best.decides
    assert choose(bulks, geometry, ROWS // 10, disk).alternatives == part.alternatives
