"""Saint: draws equal a slow reference, follow their probabilities, and weights remove the bias.

Seeds are fixed, so the statistical tests give the same answer every time.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foregather import _core
from foregather.errors import InputError
from foregather.graph import Graph
from foregather.sampling import Saint, induced_subgraphs
from tests.helpers_sampling import assert_same, skewed_graph
from tests.sampling.reference import (
    ROOTS,
    batch_key,
    bounded,
    choose,
    derive,
    draw_edge_ends,
    draw_nodes,
    edge_weights,
    epoch_key,
    node_weights,
)
from tests.sampling.subgraphs.test_walk import assert_subgraph

LEAST = 1e-4  # p-value
KINDS = ("node", "edge", "walk")
NOTHING = np.empty(0, np.int64)


def simple_graph(nodes=14, edges=45, seed=0):
    """A directed graph without parallel edges and self-loops; its last node is isolated."""
    rng = np.random.default_rng(seed)
    every = [(u, v) for u in range(nodes - 1) for v in range(nodes - 1) if u != v]
    chosen = rng.choice(len(every), edges, replace=False)
    return Graph.from_edge_index(np.array([every[i] for i in chosen]).T, nodes)


def targets(graph):
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))


def root_sets(graph, count, size):
    rng = np.random.default_rng(3)
    return [rng.permutation(graph.num_nodes)[:size] for _ in range(count)]


@settings(max_examples=40)
@given(data=st.data())
def test_draws_equal_the_reference(data):
    nodes = data.draw(st.integers(1, 30))
    edges, wide = data.draw(st.integers(1, 150)), data.draw(st.booleans())
    graph = skewed_graph(data.draw(st.integers(0, 10**6)), nodes, edges, wide=wide)
    size, seed = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 2**64 - 1))
    for kind, reference in (("node", draw_nodes), ("edge", draw_edge_ends)):
        rule = Saint(kind, size, normalise=False)
        bulk = rule.sample_bulk(graph, [NOTHING, NOTHING], seed=seed, epoch=4, first_batch=9)
        for number, sample in enumerate(bulk):
            drawn = reference(graph, size, batch_key(seed, 4, 9 + number))
            assert_subgraph(graph, sample, list(dict.fromkeys(drawn)))
            assert sample.num_seeds == len(sample.node) and sample.seed_position is None
            assert sample.weight is None


def test_single_draws_follow_their_weights():
    graph, trials = simple_graph(), 20_000
    bulk = Saint("node", 1, normalise=False).sample_bulk(graph, [NOTHING] * trials, seed=1)
    observed = np.bincount([int(s.node[0]) for s in bulk], minlength=graph.num_nodes)
    weights = np.array(node_weights(graph))
    assert weights.min() > 0  # isolated nodes too
    assert stats.chisquare(observed, trials * weights / weights.sum()).pvalue > LEAST
    bulk = Saint("edge", 1, normalise=False).sample_bulk(graph, [NOTHING] * trials, seed=1)
    code = [int(s.node[0]) * graph.num_nodes + int(s.node[1]) for s in bulk]
    edges = graph.indices.astype(np.int64) * graph.num_nodes + targets(graph)
    observed = np.bincount(code, minlength=graph.num_nodes**2)[edges]
    weights = np.array(edge_weights(graph))
    assert observed.sum() == trials
    assert stats.chisquare(observed, trials * weights / weights.sum()).pvalue > LEAST


def test_column_norms_are_those_of_the_matrix():
    graph = simple_graph()
    matrix = np.eye(graph.num_nodes)
    matrix[targets(graph), graph.indices] += 1
    matrix /= matrix.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(node_weights(graph), (matrix**2).sum(axis=0))


def inclusion(graph, kind, size):
    """Exact probabilities that a subgraph holds each node, and each edge."""
    n, u, v = graph.num_nodes, graph.indices.astype(np.int64), targets(graph)
    if kind == "node":
        alone = np.array(node_weights(graph)) / sum(node_weights(graph))
        either = alone[u] + alone[v]
    else:
        p = np.array(edge_weights(graph)) / sum(edge_weights(graph))
        alone = np.bincount(u, p, n) + np.bincount(v, p, n)
        table = np.zeros((n, n))
        np.add.at(table, (u, v), p)
        either = alone[u] + alone[v] - table[u, v] - table[v, u]
    missing = (1 - alone) ** size
    return 1 - missing, 1 - missing[u] - missing[v] + (1 - either) ** size


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_counts_agree_with_exact_probabilities(kind):
    graph = simple_graph()
    rule = Saint(kind, 4, coverage=5000)
    counts = rule._count(graph, 5, 0)
    held_node, held_edge = inclusion(graph, kind, 4)
    trials = counts.subgraphs
    bound = stats.norm.isf(LEAST / (graph.num_nodes + graph.num_edges))
    for seen, p in ((counts.node, held_node), (counts.edge, held_edge)):
        deviation = np.sqrt(trials * p * (1 - p)) + 1e-9
        assert np.all(np.abs(seen - trials * p) < bound * deviation)
    expected = 1 / (graph.num_nodes * held_node[:-1])
    np.testing.assert_allclose(rule.loss_weight(graph, seed=5)[:-1], expected, rtol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_exact_over_the_presampled_subgraphs(kind):
    graph = simple_graph()
    rule = Saint(kind, 4, coverage=60)
    (any_sample,) = rule.sample_bulk(graph, [np.arange(4)], seed=2)
    assert any_sample.weight.dtype == np.float32 and not any_sample.weight.flags.writeable
    counts = rule._count(graph, 2, 0)
    value = np.random.default_rng(0).random(graph.num_nodes)
    total, held, loss = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes), 0.0
    lambdas = rule.loss_weight(graph, seed=2)
    for sample in itertools.islice(rule._presample(graph, 2, 0), counts.subgraphs):
        node, source, target = sample.node, sample.node[sample.row], sample.node[sample.col]
        weight = counts.node[target] / counts.edge[sample.edge]
        np.add.at(total, target, weight * value[source])
        held[node] += 1
        loss += (lambdas[node] * value[node]).sum()
    seen = counts.edge > 0
    want = np.bincount(targets(graph)[seen], value[graph.indices[seen]], graph.num_nodes)
    np.testing.assert_array_equal(held, counts.node)
    np.testing.assert_allclose(total / np.maximum(held, 1), want)
    reached = value[counts.node > 0].sum() / graph.num_nodes
    np.testing.assert_allclose(loss / counts.subgraphs, reached, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_aggregation_and_loss_are_unbiased(kind):
    graph, trials = simple_graph(), 8000
    rule = Saint(kind, 5, coverage=4000)
    bulk = rule.sample_bulk(graph, root_sets(graph, trials, 5), seed=7, epoch=1)
    presampled = rule._count(graph, 7, 0).subgraphs
    n, value = graph.num_nodes, np.random.default_rng(1).random(graph.num_nodes)
    count, first, second = np.zeros(n), np.zeros(n), np.zeros(n)
    plain, lambdas, losses = np.zeros(n), rule.loss_weight(graph, seed=7), []
    for sample in bulk:
        size = len(sample.node)
        messages = value[sample.node[sample.row]]
        total = np.bincount(sample.col, sample.weight * messages, size)
        count[sample.node] += 1
        first[sample.node] += total
        second[sample.node] += total**2
        plain[sample.node] += np.bincount(sample.col, messages, size)
        losses.append((lambdas[sample.node] * value[sample.node]).sum())
    want = np.bincount(targets(graph), value[graph.indices], n)
    met = (count > 0) & (np.diff(graph.indptr) > 0)
    assert met.sum() >= n - 2
    mean = first[met] / count[met]
    variance = second[met] / count[met] - mean**2
    # Weights are estimates too: their error has the same variance over the presampled subgraphs.
    deviation = np.sqrt(variance / count[met] * (1 + trials / presampled))
    bound = stats.norm.isf(LEAST / n)
    assert np.all(np.abs(mean - want[met]) < bound * deviation)
    # The test can fail: without weights the same sums are far below.
    assert np.all((want[met] - plain[met] / count[met]) > 3 * bound * deviation)
    reached = value[count > 0].sum() / n
    error = np.std(losses) * np.sqrt(1 / trials + 1 / presampled)
    assert abs(np.mean(losses) - reached) < bound * error


@pytest.mark.parametrize("kind", KINDS)
def test_threads_bulk_size_and_history_change_nothing(kind):
    graph = skewed_graph(1, 200, 3000)
    seeds = root_sets(graph, 6, 10)
    want = list(Saint(kind, 10, coverage=20).sample_bulk(graph, seeds, seed=3, threads=1))
    weights = Saint(kind, 10, coverage=20).loss_weight(graph, seed=3, threads=1)
    for threads, k in itertools.product((1, 2, 8), (1, 4, 6)):
        rule, got = Saint(kind, 10, coverage=20), []
        rule.sample_bulk(graph, seeds, seed=99, epoch=5)  # another run with the same sampler
        for start in range(0, 6, k):
            keys = {"seed": 3, "first_batch": start, "threads": threads}
            got += list(rule.sample_bulk(graph, seeds[start : start + k], **keys))
        assert_same(got, want)
        np.testing.assert_array_equal(rule.loss_weight(graph, seed=3, threads=threads), weights)


def test_walks_begin_at_the_seeds():
    graph = skewed_graph(5, 60, 400)
    seeds = np.array([7, 3, 7, 50])
    (sample,) = Saint("walk", 4, length=3, coverage=2).sample_bulk(graph, [seeds], seed=1)
    assert sample.node[:3].tolist() == [7, 3, 50] and sample.num_seeds == 3
    assert sample.seed_position.tolist() == [0, 1, 0, 2]
    (whole,) = induced_subgraphs(graph, [sample.node])
    np.testing.assert_array_equal(sample.edge, whole.edge)
    assert len(sample.weight) == len(sample.edge) and np.all(sample.weight > 0)


def test_presampled_roots_are_uniform_sets():
    out = np.empty(5 * 4000, np.int64)
    _core.draw_roots(20, 5, 8, 100, out)
    key = epoch_key(8, ROOTS, 0)
    for row in (0, 1, 3999):
        want = choose(derive(key, 100 + row), 20, 5, replace=False)
        assert out[row * 5 : row * 5 + 5].tolist() == want
    assert stats.chisquare(np.bincount(out, minlength=20)).pvalue > LEAST


def test_large_numbers_are_drawn_again_where_some_would_be_favoured():
    population, size = 3_000_000_001, 40  # three of ten draws are made again
    out = np.empty(5 * size, np.int64)
    _core.draw_roots(population, size, 8, 7, out)
    for row in range(5):
        key, taken = derive(epoch_key(8, ROOTS, 0), 7 + row), set()
        for slot, last in enumerate(range(population - size, population)):
            drawn = bounded(key, slot, last + 1)
            taken.add(last if drawn in taken else drawn)
        assert out[row * size : (row + 1) * size].tolist() == sorted(taken)


def test_roots_come_from_the_split():
    graph = simple_graph()
    alone = Graph(
        14, graph.num_edges, graph.indptr, graph.indices, splits={"train": np.array([13])}
    )
    rule = Saint("walk", 5, split="train")  # fewer nodes than the size
    counts = rule._count(alone, 0, 0)
    assert counts.node.tolist() == [0] * 13 + [counts.subgraphs] and not counts.edge.any()
    with pytest.raises(InputError, match=r"split is 'valid', but the graph has \['train'\]"):
        Saint("walk", 5, split="valid").loss_weight(alone, seed=0)


def test_small_cases():
    one = Graph.from_edge_index(np.empty((2, 0), np.int64), 1)
    for kind in ("node", "walk"):
        rule = Saint(kind, 3)
        bulk = rule.sample_bulk(one, [np.array([0]), np.array([0, 0])], seed=0)
        assert all(s.node.tolist() == [0] and s.num_edges == (0,) for s in bulk)
        assert rule.loss_weight(one, seed=0).tolist() == [1.0]
    assert len(Saint("node", 3).sample_bulk(one, [], seed=0)) == 0
    (empty,) = Saint("walk", 3).sample_bulk(one, [NOTHING], seed=0)
    assert empty.num_nodes == (0, 0) and len(empty.weight) == 0
    with pytest.raises(InputError, match="the graph has no edges"):
        Saint("edge", 3).sample_bulk(one, [NOTHING], seed=0)
    with pytest.raises(InputError, match="seed 0 is node 1"):
        Saint("walk", 3).sample_bulk(one, [np.array([1])], seed=0)
    nobody = Graph.from_edge_index(np.empty((2, 0), np.int64), 0)
    for kind in ("node", "walk"):
        with pytest.raises(InputError, match="there (is nothing|are no nodes)"):
            Saint(kind, 3).loss_weight(nobody, seed=0)


def test_isolated_nodes():
    graph = simple_graph()
    held = Saint("edge", 6, coverage=300)._count(graph, 0, 0).node
    assert held[13] == 0 and held[:13].all()
    assert Saint("node", 6, coverage=300)._count(graph, 0, 0).node.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "tree", "size": 3}, "kind is 'tree'"),
        ({"kind": "node", "size": 0}, "size is 0"),
        ({"kind": "node", "size": 2.0}, r"size is 2\.0"),
        ({"kind": "walk", "size": 3, "length": 0}, "length is 0"),
        ({"kind": "walk", "size": 3, "coverage": -1}, "coverage is -1"),
        ({"kind": "node", "size": 3, "split": "train"}, "kind 'node' has no roots"),
    ],
)
def test_bad_rules(options, message):
    with pytest.raises(InputError, match=message):
        Saint(**options)
