"""Costs, choices, curves and repacking: arithmetic checked against plain sums."""

import dataclasses

import numpy as np
import pytest

from foregather import _core
from foregather.errors import InputError
from foregather.plan.choice import BLOCK_SIZES, ReadCandidate, _best, choose
from foregather.plan.cost import ASSUMED_DISK, best_depth, plan_cost, repack_cost
from foregather.plan.curve import miss_curve
from foregather.plan.planner import file_geometry, plan_bulk
from tests.plan.simulate import NONE
from tests.plan.traces import random_bulk, random_geometry, random_trace
from tests.some import some


def bulk_of(num_rows=3000, steps=20, size=150, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.choice(num_rows, size, replace=False).astype(np.uint32) for _ in range(steps)]


def test_cost_is_the_sum_over_requests():
    plan = plan_bulk(bulk_of(), file_geometry(3000, 512, 8192), 300, merge_gap=16384)
    lengths = plan.request_length.tolist()
    assert len(set(lengths)) > 2
    cost = plan_cost([plan], ASSUMED_DISK)
    assert cost.requests == len(lengths) and cost.bytes == sum(lengths)
    assert cost.seconds == pytest.approx(sum(ASSUMED_DISK.seconds(1, n) for n in lengths))


def test_depth_is_the_measured_one():
    assert best_depth(4096, ASSUMED_DISK) == 64
    assert best_depth(256 << 10, ASSUMED_DISK) == 16
    assert best_depth(512 << 10, ASSUMED_DISK) in (8, 16)


def test_choice_is_the_cheapest_of_all_that_were_tried():
    choice = choose([bulk_of(), bulk_of(seed=1)], file_geometry(3000, 512), 300)
    seconds = [way.predicted.seconds for way in choice.alternatives]
    assert seconds == sorted(seconds) and choice.best is choice.alternatives[0]
    rows = {way.block_bytes for way in choice.alternatives if way.caching == "row"}
    assert rows == set(BLOCK_SIZES)
    assert {way.caching for way in choice.alternatives} == {"row", "page", "repack"}
    text = choice.explain()
    assert "default figures" in text and "<- chosen" in text


@pytest.mark.parametrize("iops", [2e3, 2e5])
def test_other_ways_are_tried_with_the_best_block(iops):
    rates = tuple(dataclasses.replace(r, iops=min(r.iops, iops)) for r in ASSUMED_DISK.rates)
    disk = dataclasses.replace(ASSUMED_DISK, rates=rates)
    choice = choose([bulk_of()], file_geometry(3000, 512), 300, disk)
    tried = {}
    for way in choice.alternatives:  # cheapest first
        tried.setdefault((way.caching, way.merge_gap > 0), []).append(way.block_bytes)
    best = tried["row", False][0]
    assert sorted(tried["row", False]) == list(BLOCK_SIZES)
    assert set(tried["page", False]) == {4096, best}
    assert set(tried.get(("row", True), {4096, best})) == {4096, best}


def test_bulks_are_priced_with_the_next_in_sight():
    """As they are carried out: the prediction is the sum of plans that see one bulk ahead."""
    bulks, geometry = [bulk_of(seed=k) for k in range(3)], file_geometry(3000, 512)
    choice = choose(bulks, geometry, 300)
    for way in some(way for way in choice.alternatives if way.caching == "row"):
        own = file_geometry(3000, 512, way.block_bytes)
        planner = _core.Planner(own, 300, way.merge_gap, max(1 << 20, way.block_bytes))
        plans = [
            planner.plan(bulk, ahead) for bulk, ahead in zip(bulks, [*bulks[1:], []], strict=True)
        ]
        assert way.predicted == plan_cost(plans, ASSUMED_DISK)


def test_choice_follows_the_disk():
    slow = dataclasses.replace(
        ASSUMED_DISK,
        rates=tuple(dataclasses.replace(r, iops=min(r.iops, 2e3)) for r in ASSUMED_DISK.rates),
    )
    quick = dataclasses.replace(
        ASSUMED_DISK,
        rates=tuple(dataclasses.replace(r, iops=1e9 / r.block_bytes) for r in ASSUMED_DISK.rates),
    )
    bulks, g = [bulk_of()], file_geometry(3000, 512)
    few_requests = choose(bulks, g, 300, slow, repack=False)
    few_bytes = choose(bulks, g, 300, quick, repack=False)
    assert few_requests.best.block_bytes > few_bytes.best.block_bytes == 4096
    assert not few_requests.assumed and "default figures" not in few_requests.explain()
    with pytest.raises(InputError, match="at least one sampled bulk"):
        choose([], g, 300)


def test_repack_is_chosen_where_the_disk_streams_and_seeks_badly():
    disk = dataclasses.replace(
        ASSUMED_DISK,
        rates=tuple(dataclasses.replace(r, iops=100.0) for r in ASSUMED_DISK.rates),
    )
    bulk = bulk_of(40_000, 60, 3000)
    choice = choose([bulk], file_geometry(40_000, 512), 2000, disk)
    assert choice.best.caching == "repack"
    assert choose([bulk], file_geometry(40_000, 512), 2000, disk, repack=False).best.caching != (
        "repack"
    )


def test_miss_curve_falls_with_memory():
    rng = np.random.default_rng(4)
    bulks = [random_bulk(rng, 500, 10, 100) for _ in range(2)]
    points = miss_curve(bulks, file_geometry(500, 4096), [0, 50, 100, 200, 500])
    misses = [point.summary.misses for point in points]
    assert misses == sorted(misses, reverse=True) and misses[0] > misses[-1]
    assert points[0].summary.hits == 0 and points[0].memory == 0
    distinct = len(np.unique(np.concatenate([b for bulk in bulks for b in bulk])))
    assert misses[-1] == distinct


def test_repacking_that_wins_by_little_is_not_chosen():
    def ways(repack, row):
        made = [
            ReadCandidate(caching, 4096, 0, 8, requests=1, bytes=4096, seconds=seconds)
            for caching, seconds in (("repack", repack), ("row", row), ("page", row + 1))
        ]
        return sorted(made, key=lambda way: way.predicted.seconds)

    assert _best(ways(1.0, 1.49)).caching == "row"
    assert _best(ways(1.0, 1.5)).caching == "repack"
    assert _best(ways(1.0, 0.9)).caching == "row"


def test_repack_must_win_clearly():
    """Where it is first by little, the next way is used; `using` can still ask for it."""
    bulk, geometry = bulk_of(40_000, 60, 3000), file_geometry(40_000, 512)
    for iops in (100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0):
        rates = tuple(dataclasses.replace(r, iops=iops) for r in ASSUMED_DISK.rates)
        choice = choose([bulk], geometry, 2000, dataclasses.replace(ASSUMED_DISK, rates=rates))
        repack = choice.using("repack").best.predicted.seconds
        other = min(w.predicted.seconds for w in choice.alternatives if w.caching != "repack")
        assert (choice.best.caching == "repack") == (other >= 1.5 * repack)
    fewer = choose([bulk], geometry, 2000, repack_slots=10)
    assert fewer.using("repack").best.predicted.bytes > choice.using("repack").best.predicted.bytes
    with pytest.raises(InputError, match="repack was not among the alternatives"):
        choose([bulk], geometry, 2000, repack=False).using("repack")


def test_repacked_bulks_deliver_the_batches():
    """Executes the sweep and the plan over the scratch file with Python lists."""
    rng = np.random.default_rng(6)
    for _ in range(120):
        g = random_geometry(rng)
        slots = int(rng.choice([0, 1, 9, 60]))
        longest = 8 * g.block_bytes
        planner = _core.Planner(g, slots, max_request=longest, riders=False)
        held = [NONE] * slots
        for bulk in random_trace(rng, g.num_rows, 3):
            repack = _core.make_repack(planner.plan(bulk), 8192, longest)
            scratch = sweep(repack)
            plan = repack.scratch
            _core.Plan(**{name: getattr(plan, name) for name in PLAN_ARRAYS})
            run_scratch(plan, scratch, bulk, held)
            assert held[: len(planner.cached())] == planner.cached().tolist()


PLAN_ARRAYS = [
    "geometry",
    "num_slots",
    "num_rows",
    "hit_ptr",
    "hit_slot",
    "hit_position",
    "request_ptr",
    "request_offset",
    "request_length",
    "copy_ptr",
    "copy_row",
    "copy_position",
    "copy_slot",
]


def sweep(repack):
    """The scratch file as a list of rows; asserts what the executor may rely on."""
    scratch = [None] * repack.scratch.geometry.num_rows
    written = repack.run_ptr[:-1].copy()
    before = -1
    for r, (lo, length) in enumerate(
        zip(repack.request_offset.tolist(), repack.request_length.tolist(), strict=True)
    ):
        assert lo > before and lo % 4096 == length % 4096 == 0
        assert lo + length <= repack.source.file_bytes
        before = lo
        for m in range(repack.move_ptr[r], repack.move_ptr[r + 1]):
            row, index = int(repack.move_row[m]), int(repack.move_index[m])
            start = repack.source.payload + row * repack.source.row_bytes
            assert lo <= start and start + repack.source.row_bytes <= lo + length
            run = int(np.searchsorted(repack.run_ptr, index, side="right")) - 1
            assert written[run] == index, "a run is written append-only"
            written[run] += 1
            scratch[index] = row
    assert None not in scratch
    return scratch


def run_scratch(plan, scratch, bulk, held):
    for t, batch in enumerate(bulk):
        output = [NONE] * len(batch)
        for h in range(plan.hit_ptr[t], plan.hit_ptr[t + 1]):
            output[plan.hit_position[h]] = held[plan.hit_slot[h]]
        for r in range(plan.request_ptr[t], plan.request_ptr[t + 1]):
            for c in range(plan.copy_ptr[r], plan.copy_ptr[r + 1]):
                row = scratch[plan.copy_row[c]]
                output[plan.copy_position[c]] = row
                if plan.copy_slot[c] != NONE:
                    held[plan.copy_slot[c]] = row
        assert output == batch.tolist()


def test_repack_counts_all_it_moves():
    g = file_geometry(3000, 512)
    rows = _core.Planner(g, 100, riders=False).plan(bulk_of())
    repack = _core.make_repack(rows, 65536, 1 << 20)
    cost = repack_cost(repack, ASSUMED_DISK)
    written = repack.scratch.geometry.file_bytes
    assert written == -(-rows.counts()["misses"] * 512 // 4096) * 4096
    moved = int(repack.request_length.sum()) + int(repack.scratch.request_length.sum())
    assert cost.bytes == moved + written
    assert cost.seconds >= written / 1e9 + moved / 2.6e9 - 1e-9
    with pytest.raises(InputError, match="free riders"):
        _core.make_repack(plan_bulk(bulk_of(), g, 500), 0, 1 << 20)
