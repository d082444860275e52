"""The reference sampler is what it says: small cases by hand, and its statistics."""

from collections import Counter
from itertools import combinations

import numpy as np

from foregather import Graph
from tests.sampling.reference import ReferenceNeighbor, bounded, choose, derive, mix64


def test_mixer_is_the_published_one():
    # first outputs of SplitMix64 with state 0: mix64(golden * n)
    assert mix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert derive(0, 1) == 0x6E789E6AA1B965F4


def test_bounded_stays_in_range_and_rejects():
    for limit in (1, 2, 3, 7, 2**31 + 1, 2**32 - 1):
        assert all(0 <= bounded(5, counter, limit) < limit for counter in range(200))


def test_floyd_takes_every_subset_equally_often():
    counts = Counter(tuple(choose(key, 5, 3, False)) for key in map(mix64, range(10_000)))
    assert set(counts) == set(combinations(range(5), 3))
    assert max(abs(count - 1000) for count in counts.values()) < 5 * 1000**0.5


def test_whole_rows_and_replacement():
    assert choose(1, 4, 4, False) == choose(1, 4, -1, True) == [0, 1, 2, 3]
    assert choose(1, 0, 3, True) == choose(1, 4, 0, False) == []
    assert len(choose(1, 2, 9, True)) == 9


def test_a_path_by_hand():
    # 3 -> 2 -> 1 -> 0, everything taken
    graph = Graph.from_edge_index(np.array([[1, 2, 3], [0, 1, 2]]), 4)
    once, again = (
        ReferenceNeighbor((-1, -1), expand=expand).sample_bulk(graph, [[0, 1, 0]], seed=0)[0]
        for expand in ("once", "per-layer")
    )
    assert once.node.tolist() == again.node.tolist() == [0, 1, 2, 3]
    assert once.num_nodes == again.num_nodes == (2, 3, 4)
    assert once.seed_position.tolist() == [0, 1, 0]
    assert (once.row.tolist(), once.col.tolist(), once.num_edges) == ([1, 2, 3], [0, 1, 2], (2, 1))
    assert (again.row.tolist(), again.col.tolist()) == ([1, 2, 1, 2, 3], [0, 1, 0, 1, 2])
    assert again.num_edges == (2, 3)
