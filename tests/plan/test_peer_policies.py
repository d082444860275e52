"""Policies of other systems: counts equal those of slow ones, row by row."""

import itertools
import math

import numpy as np
import pytest

from foregather.errors import InputError
from foregather.plan.baselines.peers import (
    degree_score,
    held_lists,
    pack_and_replay,
    partition_buffer,
)
from foregather.plan.planner import file_geometry
from tests.plan.traces import random_trace


def most_hits(batches: list[list[int]], num_rows: int, slots: int) -> int:
    """Hits of the best rows that never leave, by trying every choice."""
    chosen = itertools.combinations(range(num_rows), min(slots, num_rows))
    return max(sum(row in held for batch in batches for row in batch) for held in chosen)


def test_packing_holds_the_best_rows_and_reads_the_rest_batch_by_batch():
    rng = np.random.default_rng(1)
    for _ in range(60):
        num_rows, slots = int(rng.integers(1, 9)), int(rng.integers(0, 5))
        row_bytes = int(rng.choice([100, 512, 5000]))
        trace = random_trace(rng, num_rows, 3)
        batches = [batch.tolist() for bulk in trace for batch in bulk]
        made = pack_and_replay(trace, file_geometry(num_rows, row_bytes), slots)
        assert made.rows == sum(map(len, batches))
        assert made.hits == most_hits(batches, num_rows, slots)
        counts = {row: sum(row in batch for batch in batches) for row in range(num_rows)}
        held = sorted(counts, key=lambda row: (-counts[row], row))[:slots]
        runs = [sum(row not in held for row in batch) * row_bytes for batch in batches]
        assert made.bytes == sum(math.ceil(run / 4096) * 4096 for run in runs) == made.written
        assert made.requests == sum(run > 0 for run in runs)


def test_packing_is_shared_by_epochs():
    trace = [[np.array([0, 1], np.uint32), np.array([2], np.uint32)]]
    made = pack_and_replay(trace, file_geometry(8, 4096), 1)
    assert (made.hits, made.bytes, made.requests) == (1, 2 * 4096, 2)
    assert made.scanned == 9 * 4096 and made.hot_bytes == 4096
    assert made.moved(1) == (2 + 9 + 2 + 1) * 4096
    assert made.moved(12) == (2 + 1) * 4096
    everything = pack_and_replay(trace, file_geometry(8, 4096), 8)
    assert everything.bytes == everything.scanned == everything.requests == 0


def test_a_buffer_reads_each_partition_once_and_keeps_the_best_state_of_a_batch():
    rng = np.random.default_rng(2)
    for case in range(60):
        num_rows = int(rng.integers(1, 50))
        partitions = int(rng.integers(1, num_rows + 1))
        size = math.ceil(num_rows / partitions)
        slots = int(rng.integers(size, num_rows + size))
        trace = random_trace(rng, num_rows, 3)
        made = partition_buffer(trace, file_geometry(num_rows, 512), slots, partitions, case)
        used = math.ceil(num_rows / size)
        order = np.random.default_rng(case).permutation(used).tolist()
        held = slots // size
        states = [set(order[k : k + held]) for k in range(0, used, held)]
        assert made.states == len(states) and made.requests == used
        assert made.bytes == num_rows * 512
        batches = [batch.tolist() for bulk in trace for batch in bulk]
        kept = [max(sum(row // size in s for row in batch) for s in states) for batch in batches]
        assert made.kept == sum(kept)


def test_a_buffer_of_everything_leaves_nothing_out():
    trace = random_trace(np.random.default_rng(3), 40, 2)
    made = partition_buffer(trace, file_geometry(40, 512), 40, 8)
    assert made.kept == made.rows and made.states == 1


def test_too_little_memory_for_a_partition_says_how_many_are_needed():
    with pytest.raises(InputError, match="at least 10 partitions"):
        partition_buffer([], file_geometry(100, 512), 10, 5)


def test_lists_are_held_by_score_while_they_fit():
    rng = np.random.default_rng(4)
    for _ in range(60):
        nodes = int(rng.integers(1, 30))
        named, degree = rng.integers(0, 9, nodes), rng.integers(0, 9, nodes)
        memory = int(rng.integers(0, 900))
        held = held_lists(degree_score(named, degree), degree, memory)
        order = sorted(range(nodes), key=lambda v: -((named[v] + 1e-8) / (degree[v] + 1e-8)))
        expected, left = set(), memory
        for node in order:
            left -= 8 * (int(degree[node]) + 1)
            if left < 0:
                break
            expected.add(node)
        assert set(np.flatnonzero(held).tolist()) == expected
