"""Helpers of the sampling tests: random graphs, and the draws of the core again in plain Python."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from foregather import Graph
from foregather.sampling import Rows, Sampler
from foregather.sampling.bulk import Sample
from foregather.sampling.matrix import multiply

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FIELDS = ("node", "num_nodes", "row", "col", "num_edges", "edge", "weight", "seed_position")


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def derive(key: int, word: int) -> int:
    return mix64((key + GOLDEN * (word + 1)) & MASK)


def layer_key(seed: int, epoch: int, batch: int, layer: int) -> int:
    return derive(derive(derive(derive(mix64(seed), 1), epoch), batch), layer)


def exponential(bits: int) -> float:
    return -math.log(((bits >> 12) + 0.5) * 2.0**-52)


def random_graph(
    nodes: int,
    edges: int,
    seed: int,
    weighted: bool = False,
    wide: bool = False,
    isolated: int = 0,
) -> Graph:
    """A graph with parallel edges, self-loops and `isolated` last nodes without any edge."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, max(nodes - isolated, 1), (2, edges))
    weight = rng.random(edges).astype(np.float32) if weighted else None
    graph = Graph.from_edge_index(index, nodes, edge_weight=weight)
    if not wide:
        return graph
    indices = graph.indices.astype(np.int64)
    return Graph(nodes, edges, graph.indptr, indices, edge_weight=graph.edge_weight)


def skewed_graph(seed: int, nodes: int, edges: int, skew: float = 2, wide: bool = False) -> Graph:
    """A graph whose first nodes have most of the edges, at both ends."""
    rng = np.random.default_rng(seed)
    pairs = (nodes * rng.random((2, edges)) ** skew).astype(np.int64)
    graph = Graph.from_edge_index(pairs, nodes)
    if not wide:
        return graph
    return Graph(nodes, graph.num_edges, graph.indptr, graph.indices.astype(np.int64))


graphs = st.builds(
    random_graph,
    nodes=st.integers(2, 40),
    edges=st.integers(0, 150),
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
    wide=st.booleans(),
    isolated=st.integers(0, 1),
)


def drawn_graph(data: st.DataObject, most_nodes: int, most_edges: int) -> Graph:
    """A skewed graph of any size up to these, its ids of 32 or 64 bits."""
    nodes = data.draw(st.integers(1, most_nodes))
    seed, edges = data.draw(st.integers(0, 10**6)), data.draw(st.integers(0, most_edges))
    return skewed_graph(seed, nodes, edges, wide=data.draw(st.booleans()))


def rows_of(
    graph: Graph, batches: Sequence[Any], seed: int = 5, layer: int = 0, threads: int = 0
) -> Rows:
    """P for the given frontiers, one a batch."""
    nodes = [np.asarray(ids, graph.indices.dtype) for ids in batches]
    keys = np.array([layer_key(seed, 0, b, layer) for b in range(len(nodes))], np.uint64)
    return multiply(graph, nodes, [0] * len(nodes), keys, layer, threads)


def same_sample(a: Sample, b: Sample) -> bool:
    """Whether two samples have the same bits."""
    plain = all(
        getattr(a, name) == getattr(b, name)
        for name in ("num_nodes", "num_edges", "batch", "expand")
    )
    return plain and all(
        (x is None and y is None)
        or (x is not None and y is not None and x.dtype == y.dtype and np.array_equal(x, y))
        for x, y in (
            (getattr(a, name), getattr(b, name))
            for name in ("node", "row", "col", "edge", "weight", "seed_position")
        )
    )


def assert_same(first: Sequence[Sample], second: Sequence[Sample]) -> None:
    """Two lists of samples are equal; the message names the array that differs."""
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert (one.batch, one.expand) == (other.batch, other.expand)


def assert_free_of_threads_and_bulks(rule: Sampler, graph: Graph, seeds: Sequence[Any]) -> None:
    """The same samples on any number of threads, and however batches are put together."""
    want = list(rule.sample_bulk(graph, seeds, seed=3, epoch=2, threads=1))
    for threads in (1, 2, 8):
        for k in (1, 3, 8):
            got: list[Sample] = []
            for start in range(0, len(seeds), k):
                keys = {"seed": 3, "epoch": 2, "first_batch": start, "threads": threads}
                got += list(rule.sample_bulk(graph, seeds[start : start + k], **keys))
            assert_same(got, want)


def check_sample(graph: Graph, sample: Sample, seeds: Any) -> None:
    """The rules of `Sample` that hold for every sampler."""
    given = np.asarray(seeds, np.int64)
    node = sample.node.astype(np.int64)
    assert len(np.unique(node)) == len(node) == sample.num_nodes[-1]
    position = np.arange(len(given)) if sample.seed_position is None else sample.seed_position
    assert np.array_equal(node[position], given)
    assert sample.num_seeds == len(set(given.tolist()))
    assert list(sample.num_nodes) == sorted(sample.num_nodes)
    assert sum(sample.num_edges) == len(sample.row) == len(sample.col) == len(sample.edge)
    target = np.searchsorted(graph.indptr, sample.edge, side="right") - 1
    assert np.array_equal(node[sample.row], graph.indices[sample.edge])
    assert np.array_equal(node[sample.col], target)
    for layer, (begin, end) in enumerate(layer_spans(sample)):
        col, row = sample.col[begin:end].astype(np.int64), sample.row[begin:end]
        assert (np.diff(col) >= 0).all()
        assert (col < sample.num_nodes[layer]).all()
        assert (row < sample.num_nodes[layer + 1]).all()
        met = np.unique(row[row >= sample.num_nodes[layer]])
        assert len(met) == sample.num_nodes[layer + 1] - sample.num_nodes[layer]
    for name in ("node", "row", "col", "edge"):
        assert not getattr(sample, name).flags.writeable


def layer_spans(sample: Sample) -> list[tuple[int, int]]:
    ends = np.cumsum(sample.num_edges).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))
