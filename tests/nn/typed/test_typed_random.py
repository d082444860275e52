"""Random schemas, fan-outs and models: accelerated or plain, the numbers are the plain model's."""

import copy
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import AccelerateWarning
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.nn import accelerate
from tests.nn.accelerate_cases import assert_near
from tests.nn.typed.typed_cases import Layers, outcome, typed_batches

pyg = pytest.importorskip("torch_geometric.nn")

KINDS = {
    "SAGEConv": lambda width: pyg.SAGEConv((-1, -1), width),
    "GraphConv": lambda width: pyg.GraphConv((-1, -1), width, aggr="mean"),
    "GATConv": lambda width: pyg.GATConv((-1, -1), width, add_self_loops=False),
    "SAGEConv, max": lambda width: pyg.SAGEConv((-1, -1), width, aggr="max"),
}


@st.composite
def schemas(draw):
    """Types with few or no nodes, relations with few or no edges between any of them."""
    counts = draw(st.lists(st.sampled_from([0, 1, 2, 9, 40]), min_size=1, max_size=4))
    counts[0] = max(counts[0], 5)
    types = [f"t{place}" for place in range(len(counts))]
    places = st.tuples(*[st.integers(0, len(types) - 1)] * 2, st.integers(0, 1))
    chosen = draw(st.lists(places, min_size=1, max_size=5, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    tables = {
        name: NodeTable.of(number, {"x": rng.random((number, 3 + place), np.float32)})
        for place, (name, number) in enumerate(zip(types, counts, strict=True))
    }
    edges = {}
    for source, target, again in chosen:
        most = 3 * counts[target] if counts[source] and counts[target] else 0
        number = int(rng.integers(0, most + 1)) if most else 0
        pairs = [rng.integers(0, max(counts[end], 1), number) for end in (source, target)]
        name = (types[source], f"r{again}", types[target])
        edges[name] = Relation.of(np.stack(pairs), counts[source], counts[target])
    return HeteroGraph(tables, edges)


@settings(max_examples=25, deadline=None)
@given(
    schemas(),
    st.sampled_from(sorted(KINDS)),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.integers(1, 3),
    st.booleans(),
)
def test_random_typed_models(graph, kind, fanout, depth, disjoint):
    compare(graph, kind, fanout, depth, disjoint)


def test_relations_without_edges_are_told_apart():
    tables = {
        f"t{place}": NodeTable.of(number, {"x": np.ones((number, 3 + place), np.float32)})
        for place, number in enumerate((5, 0, 0))
    }
    none = np.empty((2, 0), np.int64)
    edges = {
        (source, "r0", target): Relation.of(
            none, tables[source].num_nodes, tables[target].num_nodes
        )
        for source, target in (("t1", "t0"), ("t1", "t1"), ("t2", "t1"))
    }
    for depth in (1, 2):
        compare(HeteroGraph(tables, edges), "GATConv", [0], depth, False)


def compare(graph, kind, fanout, depth, disjoint):
    found = typed_batches(graph, fanout, "t0", 4, disjoint=disjoint)[:3]
    torch.manual_seed(0)
    model = Layers(lambda _, width: KINDS[kind](width), depth, graph.edge_types, read="t0").double()
    for one in found:  # parameters of relations that are reached later get their sizes
        model(one.x_dict, one.edge_index_dict)
    fast = accelerate(copy.deepcopy(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccelerateWarning)
        for one in found:
            try:
                expected, wanted = outcome(model, one, "t0")
            except RuntimeError as error:  # the seeds' rows do not depend on any parameter
                assert "does not require grad" in str(error)
                continue
            outcome(fast, one, "t0")
            got, grads = outcome(fast, one, "t0")
            assert_near(got, expected)
            assert grads.keys() == wanted.keys()
            for name, grad in wanted.items():
                assert_near(grads[name], grad, name, 1e-9)
    assert fast.plain is None
