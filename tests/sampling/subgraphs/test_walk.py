"""Walks equal a slow reference bit for bit; induced subgraphs equal slices of SciPy matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foregather import _core
from foregather.errors import InputError
from foregather.graph import Graph
from foregather.sampling import RandomWalk, induced_subgraphs, random_walks
from tests.helpers_sampling import assert_same, drawn_graph, skewed_graph
from tests.sampling.reference import batch_key, induce_one, walk_one

LEAST = 1e-4  # p-value; seeds are fixed


def assert_subgraph(graph, sample, nodes):
    """The sample is the subgraph of these nodes, in this order."""
    edges = induce_one(graph, nodes)
    assert sample.node.dtype == graph.indices.dtype
    np.testing.assert_array_equal(sample.node, nodes)
    assert sample.num_edges == (len(edges),) and sample.num_nodes[-1] == len(nodes)
    got = zip(sample.row.tolist(), sample.col.tolist(), sample.edge.tolist(), strict=True)
    assert list(got) == edges


@given(data=st.data())
def test_equals_the_reference(data):
    graph = drawn_graph(data, 50, 400)
    nodes = graph.num_nodes
    length, walks = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    ids = st.lists(st.integers(0, nodes - 1), max_size=10)
    seeds = [np.array(s, np.int64) for s in data.draw(st.lists(ids, min_size=1, max_size=4))]
    seed, epoch = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.integers(0, 99))
    first = data.draw(st.integers(0, 10**6))
    keys = {"seed": seed, "epoch": epoch, "first_batch": first}
    paths = random_walks(graph, seeds, length, **keys, threads=2)
    bulk = RandomWalk(length, walks).sample_bulk(graph, seeds, **keys, threads=2)
    for number, starts in enumerate(seeds):
        key = batch_key(seed, epoch, first + number)
        want = walk_one(graph, starts.tolist(), length, key)
        assert paths[number].tolist() == want and paths[number].dtype == graph.indices.dtype
        visited = walk_one(graph, np.repeat(starts, walks).tolist(), length, key)
        order = dict.fromkeys([*starts.tolist(), *(v for path in visited for v in path)])
        sample = bulk[number]
        assert_subgraph(graph, sample, list(order))
        assert sample.num_seeds == len(set(starts.tolist())) and sample.batch == first + number
        place = sample.seed_position
        assert (place is None) == (sample.num_seeds == len(starts))
        place = np.arange(len(starts)) if place is None else place
        np.testing.assert_array_equal(sample.node[place], starts)


@pytest.mark.parametrize("wide", [False, True])
def test_induced_subgraphs_equal_scipy_slices(wide):
    graph = skewed_graph(4, 300, 6000, wide=wide)
    values = np.arange(1, graph.num_edges + 1)  # names each edge
    pairs = np.stack(
        [graph.indices.astype(np.int64), np.repeat(np.arange(300), np.diff(graph.indptr))]
    )
    _, single = np.unique(pairs, axis=1, return_index=True)
    full = sp.coo_array((values[single], tuple(pairs[:, single])), (300, 300)).tocsr()
    rng = np.random.default_rng(0)
    sets = [rng.permutation(300)[:n] for n in (0, 1, 7, 120, 300)]
    for sample, nodes in zip(induced_subgraphs(graph, sets), sets, strict=True):
        assert sample.num_nodes == (len(nodes), len(nodes))
        keep = np.isin(sample.edge, single)  # SciPy holds one of several parallel edges
        got = sp.coo_array(
            (sample.edge[keep] + 1, (sample.row[keep], sample.col[keep])), (len(nodes),) * 2
        )
        want = full[nodes][:, nodes]
        assert (got.tocsr() != want).nnz == 0 and got.nnz == want.nnz
        assert (np.diff(sample.col.astype(np.int64)) >= 0).all()


def test_parallel_edges_and_self_loops_are_kept():
    indptr, indices = np.array([0, 3, 4]), np.array([0, 1, 1, 0], np.uint32)
    graph = Graph(2, 4, indptr, indices)
    (sample,) = induced_subgraphs(graph, [np.array([1, 0, 1])])
    assert sample.node.tolist() == [1, 0] and sample.seed_position.tolist() == [0, 1, 0]
    assert sample.edge.tolist() == [3, 0, 1, 2]
    assert sample.row.tolist() == [1, 1, 0, 0] and sample.col.tolist() == [0, 1, 1, 1]


def test_threads_and_bulk_size_change_nothing():
    graph = skewed_graph(1, 500, 6000)
    seeds = [np.random.default_rng(b).integers(0, 500, 30) for b in range(8)]
    rule = RandomWalk(4, 2)
    want = list(rule.sample_bulk(graph, seeds, seed=3, epoch=2, threads=1))
    paths = random_walks(graph, seeds, 4, seed=3, epoch=2, threads=1)
    for threads in (1, 2, 8):
        for k in (1, 3, 8):
            got, walked = [], []
            for start in range(0, 8, k):
                part = seeds[start : start + k]
                keys = {"seed": 3, "epoch": 2, "first_batch": start, "threads": threads}
                got += list(rule.sample_bulk(graph, part, **keys))
                walked += random_walks(graph, part, 4, **keys)
            assert_same(got, want)
            for one, other in zip(walked, paths, strict=True):
                np.testing.assert_array_equal(one, other)


def test_steps_are_uniform_and_independent():
    # A complete graph with self-loops: every step is a fair die of seven sides.
    pairs = np.stack(np.meshgrid(np.arange(7), np.arange(7))).reshape(2, -1)
    graph = Graph.from_edge_index(pairs, 7)
    starts = [np.full(100, 3)] * 200  # walkers that all start at the same node
    table = np.concatenate(random_walks(graph, starts, 4, seed=11))
    for step in range(1, 5):
        assert stats.chisquare(np.bincount(table[:, step], minlength=7)).pvalue > LEAST
    joint = {
        "steps": (table[:, 1], table[:, 2]),
        "walkers": (table[:-1, 1], table[1:, 1]),
        "batches": (table[:-100, 1], table[100:, 1]),
    }
    for name, (first, second) in joint.items():
        counts = np.zeros((7, 7), np.int64)
        np.add.at(counts, (first, second), 1)
        assert stats.chisquare(counts.ravel()).pvalue > LEAST, name


def test_walks_converge_to_the_stationary_distribution():
    # Undirected and connected: a long walk is at v with a probability in proportion to deg(v).
    rng = np.random.default_rng(8)
    ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12])
    chords = np.stack([np.zeros(3, np.int64), np.array([2, 5, 7])])
    half = np.concatenate([ring, chords], axis=1)
    graph = Graph.from_edge_index(np.concatenate([half, half[::-1]], axis=1), 12)
    (table,) = random_walks(graph, [rng.integers(0, 12, 8000)], 80, seed=2)
    degree = np.diff(graph.indptr)
    seen = np.bincount(table[:, -1], minlength=12)
    assert stats.chisquare(seen, 8000 * degree / degree.sum()).pvalue > LEAST


def test_nodes_without_in_neighbours_keep_their_walks():
    graph = Graph.from_edge_index(np.array([[0], [1]]), 3)  # 0 -> 1, and 2 alone
    (path,) = random_walks(graph, [np.array([1, 0, 2])], 3, seed=0)
    assert path.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [2, 2, 2, 2]]
    (sample,) = RandomWalk(3).sample_bulk(graph, [np.array([2, 1])], seed=0)
    assert sample.node.tolist() == [2, 1, 0] and sample.num_nodes == (2, 3)
    assert sample.row.tolist() == [2] and sample.col.tolist() == [1]


def test_small_cases():
    one = Graph.from_edge_index(np.empty((2, 0), np.int64), 1)
    bulk = RandomWalk(5).sample_bulk(one, [np.array([0, 0]), np.array([], np.int64)], seed=1)
    assert bulk[0].node.tolist() == [0] and bulk[0].seed_position.tolist() == [0, 0]
    assert bulk[1].num_nodes == (0, 0) and bulk[1].num_edges == (0,)
    assert len(RandomWalk(5).sample_bulk(one, [], seed=1)) == 0
    assert random_walks(one, [], 3, seed=1) == []
    assert random_walks(one, [np.array([0])], 0, seed=1)[0].tolist() == [[0]]


def test_results_outlive_the_next_bulk():
    graph = skewed_graph(2, 200, 3000)
    rule, seeds = RandomWalk(3), [np.arange(20)] * 4
    first = rule.sample_bulk(graph, seeds, seed=0)
    copies = [np.copy(sample.edge) for sample in first]
    for epoch in range(5):
        rule.sample_bulk(graph, seeds, seed=0, epoch=epoch)
    for sample, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(sample.edge, copy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0"),
        ({"length": 2.5}, "length is 2.5"),
        ({"length": True}, "length is True"),
        ({"length": 3, "walks": 0}, "walks is 0"),
    ],
)
def test_bad_rules(options, message):
    with pytest.raises(InputError, match=message):
        RandomWalk(**options)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [([10], "0 is node 10, but the graph has 10"), ([0, -1], "1 is node -1"), ([0.5], "node ids")],
)
def test_bad_seeds(seeds, message):
    graph = skewed_graph(0, 10, 30)
    for call in (
        lambda ids: RandomWalk(2).sample_bulk(graph, [ids], seed=0),
        lambda ids: random_walks(graph, [ids], 2, seed=0),
        lambda ids: induced_subgraphs(graph, [ids]),
    ):
        with pytest.raises(InputError, match=message):
            call(np.array(seeds))
    with pytest.raises(InputError, match="length is -1"):
        random_walks(graph, [np.array([0])], -1, seed=0)


def test_the_core_refuses_arrays_that_do_not_fit():
    indptr, indices = np.array([0, 2]), np.zeros(2, np.uint32)
    starts, path = np.zeros(1, np.int64), np.empty(3, np.uint32)
    with pytest.raises(InputError, match="ptr does not cut"):
        _core.random_walk(indptr, indices, starts, np.array([0, 2]), 2, 0, 0, 0, path)
    with pytest.raises(InputError, match="path does not hold"):
        _core.random_walk(indptr, indices, starts, np.array([0, 1]), 3, 0, 0, 0, path)
    with pytest.raises(InputError, match="does not describe"):
        _core.subgraph_kernel(np.array([0, 3]), indices, 1)
    with pytest.raises(InputError, match="out of range"):
        _core.subgraph_kernel(indptr, indices, 4)
