"""sampling/subgraphs/cluster: unions of parts against their definition, and every part once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import InputError
from foregather.sampling import Cluster


def small(seed=0, nodes=40):
    draw = np.random.default_rng(seed)
    return Graph.from_edge_index(draw.integers(nodes, size=(2, 200)), nodes, dedup=True)


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 3), st.integers(0, 1 << 60))
def test_an_epoch_has_every_part_once(parts, size, epoch, seed):
    graph = small()
    part = np.random.default_rng(parts).permutation(np.arange(40) % parts)
    sampler = Cluster(part, size)
    assert sampler.rounds == -(-parts // size)
    empty = [np.zeros(0, np.int64)] * sampler.rounds
    bulk = sampler.sample_bulk(graph, empty, seed=seed, epoch=epoch)
    found = [sample.node.astype(np.int64) for sample in bulk]
    assert sorted(np.concatenate(found).tolist()) == list(range(40))
    target = np.repeat(np.arange(40), np.diff(graph.indptr))
    for sample, nodes in zip(bulk, found, strict=True):
        chosen = set(part[nodes].tolist())
        assert nodes.tolist() == [n for n in range(40) if part[n] in chosen]
        assert sample.num_seeds == len(nodes) and len(chosen) <= size
        inside = np.isin(target, nodes) & np.isin(graph.indices, nodes)
        assert sorted(sample.edge.tolist()) == np.flatnonzero(inside).tolist()
        assert (nodes[sample.row] == graph.indices[sample.edge]).all()
        assert (nodes[sample.col] == target[sample.edge]).all()


def test_bulks_and_threads_change_nothing():
    sampler, graph = Cluster(np.arange(40) % 8, 3), small()
    empty = np.zeros(0, np.int64)
    whole = sampler.sample_bulk(graph, [empty] * 3, seed=5, epoch=2, threads=2)
    for number in range(3):
        (one,) = sampler.sample_bulk(graph, [empty], seed=5, epoch=2, first_batch=number, threads=1)
        for name in ("node", "row", "col", "edge"):
            assert np.array_equal(getattr(one, name), getattr(whole[number], name))
    other = sampler.sample_bulk(graph, [empty] * 3, seed=5, epoch=3)
    assert any(
        len(a.node) != len(b.node) or (a.node != b.node).any()
        for a, b in zip(whole, other, strict=True)
    )


@pytest.mark.parametrize(
    ("part", "size", "words"),
    [
        (np.array([0, 2]), 1, "part has gaps"),
        (np.array([0, -1]), 1, "part has gaps"),
        (np.array([0.5]), 1, "float64"),
        (np.zeros((2, 2), int), 1, "expected the part of each node"),
        (np.zeros(0, int), 1, "expected the part of each node"),
        (np.array([0]), 0, "size is 0"),
    ],
)
def test_bad_parts(part, size, words):
    with pytest.raises(InputError, match=words):
        Cluster(part, size)


def test_another_graph_is_refused():
    with pytest.raises(InputError, match="part has 3 entries, but the graph has 40 nodes"):
        Cluster(np.zeros(3, int)).sample_bulk(small(), [np.zeros(0, np.int64)], seed=0)
