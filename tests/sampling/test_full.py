"""Full: every edge of the neighbourhood, nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, InputError
from foregather.sampling import Full
from tests.helpers_sampling import check_sample, graphs, random_graph, same_sample


@settings(max_examples=40)
@given(graphs, st.integers(1, 3), st.sampled_from(["once", "per-layer"]), st.integers(0, 99))
def test_all_edges_of_the_neighbourhood(graph, layers, expand, seed):
    seeds = np.random.default_rng(seed).integers(0, graph.num_nodes, 4)
    sample = Full(layers, expand).sample_bulk(graph, [seeds], seed=seed)[0]
    check_sample(graph, sample, seeds)
    known, done, expected = list(dict.fromkeys(seeds.tolist())), 0, []
    for _ in range(layers):
        frontier = known[done:] if expand == "once" else list(known)
        done = len(known)
        for v in frontier:
            span = range(graph.indptr[v], graph.indptr[v + 1])
            expected += span
            known += dict.fromkeys(u for u in graph.indices[span].tolist() if u not in known)
    assert sample.edge.tolist() == expected
    assert sample.node.tolist() == known
    assert sample.weight is None


def test_threads_and_bulks_do_not_change_samples():
    graph = random_graph(100, 500, 4)
    seeds = [np.arange(4 * b, 4 * b + 8) for b in range(8)]
    whole = Full(2).sample_bulk(graph, seeds, seed=1, threads=1)
    assert all(map(same_sample, whole, Full(2).sample_bulk(graph, seeds, seed=9, threads=8)))
    part = Full(2).sample_bulk(graph, seeds[3:6], seed=1, first_batch=3)
    assert all(map(same_sample, list(whole)[3:6], part))


def test_corner_cases():
    one = Graph.from_edge_index(np.empty((2, 0), np.int64), 1)
    sample = Full(2).sample_bulk(one, [np.array([0, 0]), np.array([], np.int64)], seed=0)[0]
    assert sample.num_nodes == (1, 1, 1)
    assert sample.seed_position.tolist() == [0, 0]
    with pytest.raises(InputError, match="num_layers is 0, expected at least 1"):
        Full(0)
    with pytest.raises(InputError, match="expand is 'twice'"):
        Full(1, "twice")
