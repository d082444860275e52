"""Costs, choices, curves and repacking: arithmetic checked against plain sums."""

import dataclasses
import itertools

import numpy as np
import pytest

from foregather import _core
from foregather.errors import InputError
from foregather.plan.baselines.policies import Setting, run_policy
from foregather.plan.choice import BLOCK_SIZES, choose
from foregather.plan.cost import ASSUMED_DISK, best_depth, plan_cost, repack_cost, run_writes
from foregather.plan.curve import miss_curve
from foregather.plan.planner import file_geometry, plan_bulk
from tests.gather.slow_planner import plan_of
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


def test_small_requests_are_as_many_in_flight_as_large_ones():
    """Where a size was measured best with few, among larger ones with many, noise measured it."""
    depths = (16, 64, 16, 64, 32)
    rates = [
        dataclasses.replace(rate, depth=depth)
        for rate, depth in zip(ASSUMED_DISK.rates, depths, strict=True)
    ]
    disk = dataclasses.replace(ASSUMED_DISK, rates=tuple(rates))
    assert [best_depth(rate.block_bytes, disk) for rate in rates] == [64, 64, 64, 64, 32]


def test_copying_counts_what_is_read_returned_and_kept():
    """Against a walk over the plan's arrays."""
    disk = dataclasses.replace(ASSUMED_DISK, copying=1.0)
    for block in (4096, 16384):
        plan = plan_bulk(bulk_of(), file_geometry(3000, 512, block), 300)
        touched = sum(plan.request_length.tolist()) + 512 * len(plan.hit_slot)
        for position, slot in zip(plan.copy_position, plan.copy_slot, strict=True):
            touched += 512 * (int(position != NONE) + int(slot != NONE))
        assert plan_cost([plan], disk).copying == touched


def test_bytes_that_nobody_asked_for_decide_where_a_core_copies_slowly():
    """The disk is the same; only what a core copies in a second differs."""
    bulks, geometry = [bulk_of(), bulk_of(seed=1)], file_geometry(3000, 512)
    quick = choose(bulks, geometry, 300, dataclasses.replace(ASSUMED_DISK, copying=1e15))
    slow = choose(bulks, geometry, 300, dataclasses.replace(ASSUMED_DISK, copying=1e8))
    assert slow.best.bytes < quick.best.bytes and slow.best.disk > quick.best.disk
    for choice in (quick, slow):
        for way in choice.alternatives:
            assert way.seconds == way.disk + way.copying
        assert choice.best.decides == min(way.decides for way in choice.alternatives)
    again = choose(bulks, geometry, 300, dataclasses.replace(ASSUMED_DISK, copying=1e8))
    assert again.alternatives == slow.alternatives


@pytest.mark.parametrize("row_bytes", [3072, 4096, 6144])
def test_wide_rows_are_never_read_at_more_cost_than_by_belady_row_by_row(row_bytes):
    """On disks of any kind, what is chosen costs at most a cold superbatch with a read a row."""
    rng = np.random.default_rng(row_bytes)
    taken = set()
    for slots in (0, 30, 200, 1000):
        bulks = [bulk_of(size=int(rng.integers(20, 120)), seed=slots + k) for k in range(3)]
        geometry = file_geometry(3000, row_bytes)
        plans = list(run_policy("ginex", bulks, Setting(geometry, slots, share_pages=False)))
        for iops, bandwidth, copying in itertools.product((2e3, 1e5), (1e8, 3e9), (1e9, 2e10)):
            rates = tuple(
                dataclasses.replace(rate, iops=min(iops, bandwidth / rate.block_bytes))
                for rate in ASSUMED_DISK.rates
            )
            disk = dataclasses.replace(ASSUMED_DISK, rates=rates, copying=copying)
            theirs = plan_cost(plans, disk)
            best = choose(bulks, geometry, slots, disk).best
            assert best.seconds <= theirs.seconds + theirs.copying
            taken.add((best.caching, best.block_bytes))
    assert ("row", 4096) in taken and len(taken) > 1


def test_choice_is_the_cheapest_of_all_that_were_tried():
    choice = choose([bulk_of(), bulk_of(seed=1)], file_geometry(3000, 512), 300)
    decides = [way.decides for way in choice.alternatives]
    assert decides == sorted(decides) and choice.best is choice.alternatives[0]
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


def test_repack_must_win_clearly():
    """Where it is first by little, the next way is used, and stands first in the table too."""
    bulk, geometry = bulk_of(40_000, 60, 3000), file_geometry(40_000, 512)
    chosen = set()
    for iops in (100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0):
        rates = tuple(dataclasses.replace(r, iops=iops) for r in ASSUMED_DISK.rates)
        choice = choose([bulk], geometry, 2000, dataclasses.replace(ASSUMED_DISK, rates=rates))
        repack = choice.using("repack").best.seconds
        other = min(w.seconds for w in choice.alternatives if w.caching != "repack")
        assert (choice.best.caching == "repack") == (other > 1.5 * repack)
        assert choice.explain().splitlines()[1].endswith("<- chosen")
        chosen.add(choice.best.caching == "repack")
    assert chosen == {True, False}
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
            plan_of({name: getattr(plan, name) for name in PLAN_ARRAYS})
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
    short = repack_cost(repack, ASSUMED_DISK, 20 * 3 * 4096)
    more = short.requests - cost.requests
    assert more > 0 and short.bytes == cost.bytes
    assert short.seconds - cost.seconds == pytest.approx(more * ASSUMED_DISK.latency)
    with pytest.raises(InputError, match="free riders"):
        _core.make_repack(plan_bulk(bulk_of(), g, 500), 0, 1 << 20)


def test_writes_of_a_sweep_are_those_of_its_buffers():
    """Against a buffer for each run that is filled page by page."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        runs, row = int(rng.integers(1, 40)), int(rng.choice([100, 512, 4096, 5000]))
        ends = np.cumsum([0, *rng.integers(0, 3000, runs).tolist()]) * row
        memory = int(rng.choice([0, 200_000, 8 << 20]))
        assert run_writes(ends, memory) == walked_writes(ends.tolist(), memory)


def walked_writes(ends, memory):
    count, writes, shared = len(ends) - 1, 0, set()
    piece = min(max((memory // count - 4096) // 4096, 2), 256)
    for t, (begin, end) in enumerate(itertools.pairwise(ends)):
        shared |= {at // 4096 for at in (begin, end) if at % 4096}
        held, limit = 0, max(1, piece * (t + 1) // count)
        for _ in range(-(-begin // 4096), end // 4096):
            held += 1
            if held == limit:
                writes, held, limit = writes + 1, 0, piece
        writes += held > 0
    return writes + sum(page - 1 not in shared for page in shared)
