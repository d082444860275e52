"""Parts hold every edge once, in order, and never cost more than there is room for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import BudgetError
from foregather.train.exact.deal import Cost, deal, largest_row


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 200), st.integers(3, 60), st.integers(0, 10**6))
def test_every_edge_once_and_within_the_room(nodes, edges, room, seed):
    rng = np.random.default_rng(seed)
    pairs = np.minimum(rng.integers(0, nodes, (2, edges)), rng.integers(0, nodes, (2, edges)))
    graph = Graph.from_edge_index(pairs, nodes)
    cost, next_edge, next_target = Cost(1.0, 0.5, 0.25), 0, 0
    for shape in deal(graph, cost, room):
        assert shape.first == next_target and shape.edges[0] == next_edge
        start, end = shape.edges
        assert (shape.nodes[shape.source] == graph.indices[start:end]).all()
        assert len(np.unique(shape.nodes)) == len(shape.nodes)
        assert (
            shape.nodes[: shape.count] == np.arange(shape.first, shape.first + shape.count)
        ).all()
        assert cost.of(len(shape.nodes), end - start, shape.count) <= room
        if not shape.piece:
            assert end == graph.indptr[shape.first + shape.count] and shape.last
        next_edge = end
        if shape.last:
            next_target += shape.count
            assert next_edge == graph.indptr[next_target]
    assert (next_edge, next_target) == (edges, nodes)


def test_rows_that_may_not_be_cut_are_refused():
    graph = Graph.from_edge_index(np.array([[0, 1, 2, 3], [1, 1, 1, 1]]), 4)
    assert largest_row(graph) == 4
    assert len(list(deal(graph, Cost(1, 1, 1), 10.0, cut=False))) > 1
    with pytest.raises(BudgetError, match="4 edges"):
        list(deal(graph, Cost(1, 1, 1), 9.0, cut=False))
