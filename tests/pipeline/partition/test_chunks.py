"""Chunks, the edges of a chunk, and the order of chunks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import InputError
from foregather.pipeline import make_chunks
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.planning.chunk_order import chunk_order
from foregather.pipeline.planning.schedule import draw_key
from tests.pipeline.cases import small_graph
from tests.pipeline.oracle import matrix


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 3), st.data())
def test_chunks_are_a_renumbering(nodes, edges, seed, data):
    graph = small_graph(nodes + 3, edges, seed)
    count = data.draw(st.integers(1, nodes + 3))
    for method in ("random", "natural"):
        chunks = make_chunks(graph, count, method, seed)
        assert len(chunks) == count and chunks.bounds[-1] == graph.num_nodes
        assert all(chunks.size(c) >= 1 for c in range(count))
        assert sorted(chunks.order) == list(range(graph.num_nodes))
        assert (chunks.number[chunks.order] == np.arange(graph.num_nodes)).all()
        for c in range(count):
            assert (np.diff(chunks.order[chunks.span(c)]) > 0).all()  # the order inside is kept
            assert (chunks.chunk_of(np.arange(graph.num_nodes))[chunks.span(c)] == c).all()


def test_natural_chunks_balance_edges():
    degrees = np.r_[np.full(20, 30), np.full(180, 1)]
    target = np.repeat(np.arange(200), degrees)
    graph = Graph.from_edge_index(np.stack([target * 0, target]), 200)
    chunks = make_chunks(graph, 4, "natural")
    weight = 1 + degrees[chunks.order]
    loads = np.add.reduceat(weight, chunks.bounds[:-1])
    assert loads.max() <= weight.sum() / 4 + weight.max()
    assert chunks.size(0) < 10 < chunks.size(3)


def test_metis_cuts_less_and_balances_edges():
    pytest.importorskip("pymetis")
    rng = np.random.default_rng(0)
    part = rng.permutation(400) % 4
    pairs = rng.integers(0, 400, (2, 40000))
    pairs = pairs[:, (part[pairs[0]] == part[pairs[1]]) | (rng.random(40000) < 0.02)]
    graph = Graph.from_edge_index(pairs, 400)
    chunks = make_chunks(graph, 4, "metis")
    crossing = sum(part[u] != part[v] for u, v in pairs.T) / pairs.shape[1]
    assert chunks.method == "metis"
    assert chunks.cut(graph) == pytest.approx(crossing, abs=0.02)
    assert make_chunks(graph, 4, "random").cut(graph) > 0.7
    loads = np.add.reduceat(1 + graph.in_degree()[chunks.order], chunks.bounds[:-1])
    assert loads.max() < 1.1 * loads.mean()
    assert (make_chunks(graph, 4, "metis").order == chunks.order).all()
    many = make_chunks(small_graph(20, 10), 20, "metis")  # METIS leaves parts empty here
    assert all(many.size(c) == 1 for c in range(20))


def test_metis_by_volume_never_sends_more_rows():
    pytest.importorskip("pymetis")
    fewer = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        block = rng.integers(0, 12, 10000) * 166
        one = block + (166 * rng.random(10000) ** 2.5).astype(int)
        near = block + (166 * rng.random(10000)).astype(int)
        far = (1992 * rng.random(10000) ** 2.5).astype(int)
        pairs = np.stack([one, np.where(rng.random(10000) < 0.15, far, near)])
        graph = Graph.from_edge_index(pairs, 1992, undirected=True)
        rows = {}
        for method in ("metis", "metis-volume"):
            chunks = make_chunks(graph, 6, method, 0, 6)
            assert chunks.method == method
            rows[method] = int(measure_cut(graph, chunks, 6).crossing.sum())
            loads = np.add.reduceat(1 + graph.in_degree()[chunks.order], chunks.bounds[:-1])
            assert loads.max() < 1.1 * loads.mean()  # balanced by edges, both of them
        assert rows["metis-volume"] <= rows["metis"]
        fewer += rows["metis-volume"] < rows["metis"]
        assert (make_chunks(graph, 6, "metis-volume", 0, 6).order == chunks.order).all()
    assert fewer


@pytest.mark.parametrize(
    ("count", "partition", "message"),
    [
        (0, "natural", "chunks is 0"),
        (64, "natural", "from 1 to the 63 nodes"),
        (2.5, "natural", "whole number"),
        (2, "best", "partition is 'best'"),
        (2, [0] * 63, "leaves chunk 1 of 2 empty"),
        (2, [0, 1], "shape \\[2\\]"),
        (2, [0, 2] + [1] * 61, "expected chunks 0 to 1"),
    ],
)
def test_bad_chunks_are_refused(count, partition, message):
    with pytest.raises(InputError, match=message):
        make_chunks(small_graph(63), count, partition)


@pytest.mark.parametrize("norm", ["mean", "sum", "gcn"])
def test_matrices_of_chunks_are_rows_of_the_whole(norm):
    graph = small_graph()
    chunks = make_chunks(graph, 7, "random")
    place = ChunkTopology(graph, chunks, torch.float64, torch.device("cpu"))
    whole = matrix(graph, norm)[chunks.order][:, chunks.order]
    for c, local in enumerate(place.locals):
        span = chunks.span(c)
        columns = np.r_[np.arange(span.start, span.stop), local.others.numpy()]
        found = torch.zeros(local.count, graph.num_nodes, dtype=torch.float64)
        found[:, columns] = place.matrix(c, norm).forward.to_dense()
        assert torch.allclose(found, whole[span], atol=1e-14, rtol=0)
        transposed = place.matrix(c, norm).backward.to_dense()
        assert torch.equal(transposed.T, place.matrix(c, norm).forward.to_dense())


def test_edge_weights_count_in_sum_and_gcn():
    pairs = np.array([[0, 1, 2, 2], [1, 2, 0, 2]])
    weight = np.array([2.0, 3.0, 4.0, 5.0], np.float32)
    graph = Graph.from_edge_index(pairs, 3, edge_weight=weight)
    place = ChunkTopology(
        graph, make_chunks(graph, 1, "natural"), torch.float64, torch.device("cpu")
    )
    dense = np.zeros((3, 3))
    dense[pairs[1], pairs[0]] = weight
    assert np.allclose(place.matrix(0, "sum").forward.to_dense(), dense)
    dense[[0, 1], [0, 1]] = 1  # node 2 has its own self-loop
    scale = dense.sum(1) ** -0.5
    assert np.allclose(place.matrix(0, "gcn").forward.to_dense(), scale[:, None] * dense * scale)
    with pytest.raises(InputError, match="norm is 'max'"):
        place.matrix(0, "max")


@given(st.integers(1, 9), st.integers(0, 2**63), st.integers(0, 99))
def test_the_order_is_a_function_of_seed_and_epoch(chunks, seed, epoch):
    order = chunk_order(chunks, seed, epoch)
    assert sorted(order) == list(range(chunks)) and order == chunk_order(chunks, seed, epoch)
    assert chunk_order(chunks, seed, epoch, reshuffle=False) == chunk_order(chunks, seed, 0)


def test_keys_differ():
    keys = {
        draw_key(s, e, n, c) for s in range(5) for e in range(9) for n in range(9) for c in (0, 1)
    }
    assert len(keys) == 5 * 9 * 9 * 2 and all(0 <= key < 1 << 63 for key in keys)


def slow_key(*words):
    """SplitMix64's finaliser over the words, one after the other, in whole numbers of Python."""
    key, most = 0, 2**64
    for word in words:
        key = ((key ^ word % most) + 0x9E3779B97F4A7C15) % most
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % most
        key = (key ^ key >> 27) * 0x94D049BB133111EB % most
        key ^= key >> 31
    return key >> 1


def test_keys_are_those_of_whole_numbers():
    words = [0, 1, 2, 2**63, 2**64 - 1, -1, 12345678901234567890]
    for names in [(), *((a, b, 3, a) for a in words for b in words)]:
        assert draw_key(*names) == slow_key(*names)
