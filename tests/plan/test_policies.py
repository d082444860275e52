"""Policies: all feasible, none below the bounds, none better than Belady by rows."""

import numpy as np
import pytest

from foregather import _core
from foregather.errors import InputError
from foregather.plan.baselines.compare import compare, trace_bound
from foregather.plan.baselines.policies import POLICIES, Setting, find_policy, run_policy
from foregather.plan.cost import PlanCost
from foregather.plan.planner import file_geometry
from tests.plan.simulate import Cache, geometry
from tests.plan.traces import random_bulk, random_geometry, random_trace


@pytest.mark.parametrize("name", POLICIES)
def test_every_plan_of_every_policy_is_feasible(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    for case in range(80):
        g = random_geometry(rng)
        slots = int(rng.choice([0, 1, 7, 60, 500]))
        trace = random_trace(rng, g.num_rows, 4)
        setting = Setting(g, slots, share_pages=case % 2 == 0, bounds=True)
        cache, read, bound = Cache(slots), 0, 0
        for plan, bulk in zip(run_policy(name, trace, setting), trace, strict=True):
            # only `ours` and `page` promise disjoint requests, and only where rows do not straddle
            whole = 4096 % g.row_bytes == 0 and g.payload % 4096 == 0
            counted = cache.run(plan, bulk, disjoint=name in ("ours", "page") and whole)
            assert plan.counts()["bytes"] == counted["bytes"]
            read, bound = read + plan.counts()["blocks"], bound + plan.block_bound
            assert read >= bound


@pytest.mark.parametrize("name", POLICIES)
def test_none_reads_fewer_rows_than_belady(name):
    rng = np.random.default_rng(11)
    for _ in range(40):
        num_rows, slots = int(rng.integers(1, 80)), int(rng.integers(0, 40))
        g = geometry(num_rows)  # one row a block: nothing comes for free
        trace = random_trace(rng, num_rows, 3)
        best, _ = trace_bound(trace, g, slots)
        reads = sum(
            int(plan.request_length.sum()) // 4096
            for plan in run_policy(name, trace, Setting(g, slots))
        )
        assert reads >= best
        whole = [[batch for bulk in trace for batch in bulk]]
        ours = next(run_policy("ours", whole, Setting(g, slots)))
        assert ours.counts()["misses"] == best <= reads


class Slow:
    """The online policies once more, on Python lists, one row after the other."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size, self.queue, self.used, self.hand = name, size, [], {}, None

    def step(self, batch: list[int]) -> int:
        misses = [row for row in batch if row not in self.queue]
        for row in batch:
            if row not in misses:
                self.used[row] = True
                if self.name == "lru":
                    self.queue.remove(row)
                    self.queue.append(row)
        for row in misses if self.size else []:
            if len(self.queue) == self.size:
                self.evict()
            self.queue.append(row)  # oldest first
            self.used[row] = False
        return len(misses)

    def evict(self) -> None:
        if self.name == "lru":
            self.queue.pop(0)
            return
        at = 0 if self.hand is None else self.queue.index(self.hand)
        while self.used[self.queue[at]]:
            self.used[self.queue[at]] = False
            at = (at + 1) % len(self.queue)
        self.hand = self.queue[at + 1] if at + 1 < len(self.queue) else None
        self.queue.pop(at)


@pytest.mark.parametrize("name", ["lru", "sieve"])
def test_online_policies_equal_slow_ones(name):
    rng = np.random.default_rng(12)
    for _ in range(60):
        num_rows, slots = int(rng.integers(1, 60)), int(rng.integers(0, 20))
        bulk = random_bulk(rng, num_rows, 12, 15)
        slow = Slow(name, slots)
        expected = [slow.step(batch.tolist()) for batch in bulk]
        plan = next(run_policy(name, [bulk], Setting(geometry(num_rows), slots)))
        hits = np.diff(plan.hit_ptr)
        assert [len(b) - h for b, h in zip(bulk, hits.tolist(), strict=True)] == expected


def test_page_is_belady_on_blocks():
    rng = np.random.default_rng(13)
    for _ in range(100):
        g = file_geometry(160, 512, 4096)  # 20 blocks of 8 rows
        places = int(rng.integers(0, 12))
        bulk = random_bulk(rng, 160, 10, 20)
        bulk = [rng.permutation(160)[: len(batch)].astype(np.uint32) for batch in bulk]
        blocks = [np.unique(batch // 8).astype(np.uint32) for batch in bulk]
        best, _ = trace_bound([blocks], geometry(20), places)
        plan = next(run_policy("page", [bulk], Setting(g, 8 * places)))
        assert plan.counts()["blocks"] == best


def test_ginex_starts_cold_and_pays_for_its_fill():
    g = file_geometry(100, 512)
    bulk = [np.array([1, 2], np.uint32), np.array([3, 4], np.uint32), np.array([1], np.uint32)]
    setting = Setting(g, 3)
    for plan in run_policy("ginex", [bulk, bulk], setting):
        # 1, 2, 3 fill the cache before batch 0; then 4 is a miss; one page a row
        assert plan.counts()["requests"] == 4
        assert np.diff(plan.request_ptr).tolist() == [3, 1, 0]
        assert plan.request_length.tolist() == [4096] * 4


def test_ginex_reads_two_pages_where_a_row_straddles():
    g = file_geometry(100, 3000)
    bulk = [np.array([0, 1, 2], np.uint32)]
    plan = next(run_policy("ginex", [bulk], Setting(g, 0)))
    assert plan.request_length.tolist() == [4096, 8192, 8192]


def test_static_keeps_what_it_was_given():
    g = geometry(10)
    batches = [np.array([0, 5], np.uint32), np.array([1, 2, 7], np.uint32)]
    setting = Setting(g, 2, hot=np.array([5, 7, 1], np.uint32))
    plan = next(run_policy("static", [batches], setting))
    assert plan.counts()["hits"] == 1 and plan.counts()["requests"] == 4
    counted = next(run_policy("static", [batches], Setting(g, 3)))
    assert counted.counts()["misses"] == 3  # all rows are used once: 0, 1 and 2 are kept


def test_names_and_arguments():
    with pytest.raises(InputError, match="expected one of static, lru"):
        find_policy("fifo")
    with pytest.raises(InputError, match="expected static"):
        _core.OnlinePlanner(geometry(4), 1, "fifo", np.empty(0, np.uint32))
    with pytest.raises(InputError, match="expected at least one for each"):
        _core.OnlinePlanner(geometry(4), 1, "static", np.array([1, 2], np.uint32))
    with pytest.raises(InputError, match="twice"):
        _core.PagePlanner(geometry(4), 1).plan([np.array([1, 1], np.uint32)])


def test_compare_hands_every_plan_to_the_executor():
    rng = np.random.default_rng(3)
    trace = [random_bulk(rng, 100, 4, 20) for _ in range(2)]
    seen = []

    def execute(plan, bulk):
        seen.append(plan)
        return PlanCost(len(plan.request_offset), 1, 0.5)

    setting = Setting(file_geometry(100, 512), 0)
    found = compare(trace, setting, [10, 50], ["lru", "ours"], execute=execute)
    assert [(one.policy, one.memory) for one in found] == [
        ("lru", 5120),
        ("ours", 5120),
        ("lru", 25600),
        ("ours", 25600),
    ]
    assert len(seen) == 8
    assert all(one.measured and one.measured.seconds == 1.0 for one in found)
    assert all(one.measured and one.measured.requests == one.cost.requests for one in found)
