"""Each convolution with its options: by kernels where a rule covers it, else by its own code."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from foregather import Graph
from foregather.nn import SAGEConv as OwnSAGEConv
from foregather.nn import accelerate
from tests.nn.accelerate_cases import (
    WIDTH,
    assert_near,
    assert_same,
    batches,
    one_batch,
    outcome,
    ways,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


class Two(nn.Module):
    """A convolution, then another of the same kind, or a plain one."""

    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x, edge_index, **more):
        x = self.first(x, edge_index, **more).tanh()
        return self.last(x, edge_index, **more)


def mlp(width_in, width_out):
    return nn.Sequential(nn.Linear(width_in, 8), nn.ReLU(), nn.Linear(8, width_out))


COVERED = {
    "sage mean": lambda a, b: pyg.SAGEConv(a, b),
    "sage sum": lambda a, b: pyg.SAGEConv(a, b, aggr="sum"),
    "sage add": lambda a, b: pyg.SAGEConv(a, b, aggr="add"),
    "sage normalize": lambda a, b: pyg.SAGEConv(a, b, normalize=True),
    "sage project": lambda a, b: pyg.SAGEConv(a, b, project=True),
    "sage no root": lambda a, b: pyg.SAGEConv(a, b, root_weight=False, bias=False),
    "own sage": lambda a, b: OwnSAGEConv(a, b),
    "graph add": lambda a, b: pyg.GraphConv(a, b),
    "graph mean": lambda a, b: pyg.GraphConv(a, b, aggr="mean"),
    "gin": lambda a, b: pyg.GINConv(mlp(a, b), train_eps=True),
    "gin eps": lambda a, b: pyg.GINConv(mlp(a, b), eps=0.5, aggr="mean"),
    "gcn": lambda a, b: pyg.GCNConv(a, b),
    "gcn improved": lambda a, b: pyg.GCNConv(a, b, improved=True),
    "gcn no loops": lambda a, b: pyg.GCNConv(a, b, add_self_loops=False, bias=False),
    "gcn no normalize": lambda a, b: pyg.GCNConv(a, b, normalize=False),
    "gat": lambda a, b: pyg.GATConv(a, b),
    "gat heads": lambda a, b: pyg.GATConv(a, b // 2, heads=2),
    "gat mean": lambda a, b: pyg.GATConv(a, b, heads=3, concat=False, residual=True),
    "gat no loops": lambda a, b: pyg.GATConv(a, b, add_self_loops=False, bias=False),
    "gat slope": lambda a, b: pyg.GATConv(a, b, negative_slope=-0.5),
    "gat2": lambda a, b: pyg.GATv2Conv(a, b, heads=2, concat=False),
    "gat2 shared": lambda a, b: pyg.GATv2Conv(a, b, share_weights=True, residual=True),
    "gat2 no loops": lambda a, b: pyg.GATv2Conv(a, b // 2, heads=2, add_self_loops=False),
    "transformer": lambda a, b: pyg.TransformerConv(a, b // 2, heads=2),
    "transformer mean": lambda a, b: pyg.TransformerConv(a, b, heads=3, concat=False, beta=True),
    "transformer no root": lambda a, b: pyg.TransformerConv(a, b, root_weight=False, bias=False),
}
OWN_CODE = {
    "graph max": lambda a, b: pyg.GraphConv(a, b, aggr="max"),
    "sage max": lambda a, b: pyg.SAGEConv(a, b, aggr="max"),
    "sage several": lambda a, b: pyg.SAGEConv(a, b, aggr=["mean", "max"]),
    "sage lstm": lambda a, b: pyg.SAGEConv(a, b, aggr="lstm"),
    "gine": lambda a, b: pyg.GINConv(mlp(a, b), aggr="std"),
    "cluster": lambda a, b: pyg.LEConv(a, b),
    "gated": lambda a, b: pyg.ResGatedGraphConv(a, b),
    "general": lambda a, b: pyg.GeneralConv(a, b),
    "edge": lambda a, b: pyg.EdgeConv(mlp(2 * a, b)),
    "feast": lambda a, b: pyg.FeaStConv(a, b, heads=2),
    "two lins": lambda a, b: pyg.GATConv((a, a), b),
}


def build(kind, make):
    torch.manual_seed(1)
    return Two(make(WIDTH, 8), make(8, 4)).double()


@pytest.fixture(scope="module")
def batch():
    return one_batch([4, 3])


@pytest.mark.parametrize("kind", COVERED)
def test_kernels(kind, batch):
    fast = assert_same(build(kind, COVERED[kind]), batch)
    assert ways(fast) == {"kernel"}


@pytest.mark.parametrize("kind", OWN_CODE)
def test_own_code(kind, batch):
    fast = assert_same(build(kind, OWN_CODE[kind]), batch)
    assert ways(fast) <= {"pair", "square"}


@pytest.mark.parametrize("kind", ["graph add", "graph mean", "gcn", "gcn improved", "gcn no loops"])
def test_weights_of_edges(kind, batch):
    fast = assert_same(build(kind, COVERED[kind]), batch, edge_weight=batch.edge_weight)
    assert ways(fast) == {"kernel"}
    fast = assert_same(build("max", OWN_CODE["graph max"]), batch, edge_weight=batch.edge_weight)
    assert ways(fast) == {"pair"}


def test_our_norm_as_weights():
    normed = one_batch([4, 3], contents={"norm": "gcn"})
    model = build("gcn", COVERED["gcn no normalize"])
    fast = assert_same(model, normed, edge_weight=normed.edge_weight)
    assert ways(fast) == {"kernel"}


def test_subclasses_keep_their_own_messages(batch):
    class Louder(pyg.SAGEConv):
        def message(self, x_j):
            return 3 * x_j

    fast = assert_same(build("louder", lambda a, b: Louder(a, b)), batch)
    assert ways(fast) == {"pair"}


def test_a_replaced_forward_is_used(batch):
    model = build("sage", COVERED["sage mean"])
    own = model.first.forward
    model.first.forward = lambda x, edge_index: 2 * own(x, edge_index)
    fast = accelerate(model)
    got = fast(batch.x, batch.edge_index)
    assert fast._verdicts
    assert_near(got[: batch.batch_size], model(batch.x, batch.edge_index)[: batch.batch_size])
    assert not torch.equal(model.first(batch.x, batch.edge_index), own(batch.x, batch.edge_index))


@pytest.mark.parametrize("change", ["flow", "message hook", "hook"])
def test_what_no_rule_covers(change, batch):
    def make(a, b):
        conv = pyg.SAGEConv(
            a, b, flow="target_to_source" if change == "flow" else "source_to_target"
        )
        if change == "message hook":
            conv.register_message_forward_hook(lambda module, args, out: out * 2)
        elif change == "hook":
            conv.lin_l.register_forward_hook(lambda module, args, out: out + 1)
        return conv

    model = build("other", make)
    if change == "flow":
        fast = assert_same(model, batch, plain=True)
    else:
        fast = assert_same(model, batch)
        assert ways(fast) <= {"pair", "square"}


def test_pairs_of_rows(batch):
    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = pyg.SAGEConv((WIDTH, WIDTH), 8), pyg.GATConv((8, 8), 4)

        def forward(self, x, edge_index):
            x = self.one((x, x), edge_index).relu()
            return self.two((x, x), edge_index)

    assert_same(Pairs().double(), batch)


def test_maps_go_where_they_cost_less(batch):
    """From few columns to many after the sums, and before them the other way round."""
    wide = Two(pyg.GCNConv(WIDTH, 300), pyg.GCNConv(300, 2)).double()
    assert ways(assert_same(wide, batch)) == {"kernel"}


EXAMPLES = ["sage mean", "sage sum", "gcn", "gin", "gat heads", "gat2", "transformer", "graph mean"]


@settings(max_examples=40)
@given(
    st.data(),
    st.integers(2, 25),
    st.lists(st.sampled_from([1, 2, 3, -1]), min_size=1, max_size=3),
    st.sampled_from(EXAMPLES),
    st.booleans(),
)
def test_small_random_graphs(data, nodes, fanout, kind, disjoint):
    """Isolated and repeated seeds, self-loops, parallel edges, hops without new nodes."""
    count = data.draw(st.integers(0, 60))
    pairs = data.draw(
        st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), min_size=count, max_size=count)
    )
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    rng = np.random.default_rng(0)
    graph = Graph.from_edge_index(
        np.ascontiguousarray(edges), nodes, x=rng.normal(size=(nodes, WIDTH)).astype(np.float32)
    )
    seeds = data.draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=6))
    model = build(kind, COVERED[kind])
    fast = accelerate(model)
    options = {"disjoint": True} if disjoint else {}
    for batch in some(batches(graph, fanout, np.array(seeds), 4, **options)):
        have = batch.num_sampled_nodes[0]
        got, grads = outcome(fast, have, batch.x, batch.edge_index)
        expected, wanted = outcome(model, have, batch.x, batch.edge_index)
        assert_near(got, expected)
        for name, grad in some(wanted.items()):
            assert_near(grads[name], grad, name, 1e-9)
    reason = fast.plain
    assert reason is None or "one node" in reason
