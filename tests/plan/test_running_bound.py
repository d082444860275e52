"""The bound over several bulks: what any policy must read, not what ours would have had to."""

import numpy as np
import pytest

from foregather import _core
from foregather.plan.baselines.compare import trace_bound
from foregather.plan.planner import Planner, PlanSummary, summarize
from tests.plan.simulate import NONE, fewest_blocks, fewest_reads, geometry
from tests.plan.traces import random_bulk, random_trace
from tests.some import some


def as_rows(bulk):
    return [np.array(batch, np.uint32) for batch in bulk]


def random_bulks(rng, rows, count):
    """Bulks of which some are empty, as the look-ahead never sees across them."""
    made = []
    for _ in range(count):
        steps = int(rng.integers(0, 4))
        made.append([b.tolist() for b in random_bulk(rng, rows, steps, 4)] if steps else [[]])
    return made


def flat(bulks):
    return [batch for bulk in bulks for batch in bulk]


def test_a_row_that_we_did_not_keep_is_not_charged_to_others():
    """Without a look-ahead row 2 is not kept over the empty bulk; another policy could do so."""
    bulks = [[[0, 1, 2]], [[]], [[2]]]
    planner, total = Planner(geometry(3), 1), PlanSummary(*[0] * 13)
    for bulk in bulks:
        total += summarize(planner.plan(as_rows(bulk)))
    assert total.block_bound == fewest_reads(flat(bulks), 1, frozenset()) == 3
    assert total.blocks >= 3 and "at least 3 blocks" in total.explain()
    assert total.row_bound == -1  # rows are bounded bulk by bulk only


def test_the_sum_over_bulks_is_the_optimum_of_rows_at_every_bulk():
    rng = np.random.default_rng(19)
    for _ in some(range(2000)):
        rows, slots = int(rng.integers(1, 7)), int(rng.integers(0, 4))
        bulks = random_bulks(rng, rows, int(rng.integers(1, 5)))
        planner, bound, read = _core.Planner(geometry(rows), slots), 0, 0
        for k, bulk in enumerate(bulks):
            plan = planner.plan(as_rows(bulk))
            bound, read = bound + plan.block_bound, read + plan.counts()["blocks"]
            best = fewest_reads(flat(bulks[: k + 1]), slots, frozenset())
            assert bound == best <= read, (bulks, slots)


def test_the_sum_over_bulks_is_below_the_optimum_of_blocks():
    rng = np.random.default_rng(20)
    for _ in some(range(500)):
        rows, slots = int(rng.integers(2, 7)), int(rng.integers(0, 4))
        bulks = random_bulks(rng, rows, 3)
        planner = _core.Planner(geometry(rows, 2048, 4096), slots)
        bound = sum(planner.plan(as_rows(bulk)).block_bound for bulk in bulks)
        assert bound <= fewest_blocks(flat(bulks), slots, 2, rows), (bulks, slots)


def test_a_bound_that_is_begun_anew_starts_with_the_cache():
    rng = np.random.default_rng(21)
    for _ in some(range(500)):
        rows, slots = int(rng.integers(1, 7)), int(rng.integers(0, 4))
        planner = Planner(geometry(rows), slots)
        planner.plan(as_rows(random_bulks(rng, rows, 1)[0]))
        before = frozenset(int(row) for row in planner._core.cached() if row != NONE)
        planner.begin_bound()
        later = random_bulks(rng, rows, 3)
        bound = sum(planner.plan(as_rows(bulk)).block_bound for bulk in later)
        assert bound == fewest_reads(flat(later), slots, before)


@pytest.mark.parametrize("slots", [0, 3, 40])
def test_it_equals_the_bound_of_the_whole_trace(slots):
    """Two ways to the same number: from the past, bulk after bulk, and from the future, at once."""
    rng = np.random.default_rng(slots)
    for _ in some(range(30)):
        g = geometry(200, 512, 4096)
        trace = random_trace(rng, 200, 5)
        planner = _core.Planner(g, slots)
        assert (
            sum(planner.plan(bulk).block_bound for bulk in trace) == trace_bound(trace, g, slots)[1]
        )


def test_more_steps_than_it_remembers_only_lower_it():
    """A cache that never fills: all 6,000 gaps stay open, of which it stores 4,096 at most."""
    steps = [[k % 50, 50 + k] for k in range(6000)]
    planner = _core.Planner(geometry(6050), 60)
    bound = sum(planner.plan(as_rows(steps[k : k + 500])).block_bound for k in range(0, 6000, 500))
    assert bound == 6050  # row k % 50 is kept from its first use on
