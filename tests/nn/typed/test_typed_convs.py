"""Convolutions of PyG in typed models: accelerated, each in the expected way, and equal."""

import warnings

import pytest
import torch
from torch import nn

from foregather.errors import AccelerateWarning
from foregather.nn import accelerate
from tests.nn.accelerate_cases import assert_near
from tests.nn.typed.typed_cases import (
    BOUGHT,
    BUYS,
    LIKES,
    OF,
    RELATIONS,
    TYPES,
    WIDTHS,
    Layers,
    assert_same,
    given_rows,
    shop,
    started,
    typed_batches,
    ways,
)

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def batch():
    return typed_batches(shop(), [4, 3])[0]


def no_loops(kind, **options):
    return lambda name, width: kind((-1, -1), width, add_self_loops=False, **options)


BY_KERNELS = {
    "SAGE": lambda name, width: pyg.SAGEConv((-1, -1), width),
    "SAGE, sum": lambda name, width: pyg.SAGEConv((-1, -1), width, aggr="sum"),
    "SAGE, no root": lambda name, width: pyg.SAGEConv((-1, -1), width, root_weight=False),
    "SAGE, unit": lambda name, width: pyg.SAGEConv((-1, -1), width, normalize=True),
    "Graph": lambda name, width: pyg.GraphConv((-1, -1), width),
    "Graph, mean": lambda name, width: pyg.GraphConv((-1, -1), width, aggr="mean"),
    "GAT": no_loops(pyg.GATConv, heads=2, concat=False),
    "GAT, residual": no_loops(pyg.GATConv, heads=3, concat=False, residual=True),
    "GATv2": no_loops(pyg.GATv2Conv, heads=2, concat=False),
    "Transformer": lambda name, width: pyg.TransformerConv((-1, -1), width, heads=2, concat=False),
}


@pytest.mark.parametrize("kind", BY_KERNELS)
@pytest.mark.parametrize("training", [True, False])
def test_by_kernels(kind, training, batch):
    model = started(Layers(BY_KERNELS[kind]), batch).train(training)
    assert ways(assert_same(model, batch)) == {"kernel"}


BY_PAIRS = {
    "maxima": lambda name, width: pyg.SAGEConv((-1, -1), width, aggr="max"),
    "variances": lambda name, width: pyg.SAGEConv((-1, -1), width, aggr="var"),
    "ResGated": lambda name, width: pyg.ResGatedGraphConv((-1, -1), width),
    "General": lambda name, width: pyg.GeneralConv((-1, -1), width),
}


@pytest.mark.parametrize("kind", BY_PAIRS)
def test_by_their_own_code(kind, batch):
    model = started(Layers(BY_PAIRS[kind]), batch)
    fast = assert_same(model, batch)
    assert "kernel" in ways(fast) or ways(fast) <= {"pair", "square"}
    assert "pair" in ways(fast)


def within(kind, **options):
    """A convolution without pairs for the one relation within a type, SAGE for the others."""

    def make(name, width):
        if name[0] != name[2]:
            return pyg.SAGEConv((-1, -1), width)
        return kind(-1, width, **options)

    return make


@pytest.mark.parametrize(
    "make",
    [
        within(pyg.GCNConv),
        within(pyg.GCNConv, normalize=False),
        within(pyg.GCNConv, add_self_loops=False),
        within(pyg.GATConv, heads=2, concat=False),
        within(pyg.GATv2Conv, heads=2, concat=False),
    ],
)
def test_convolutions_within_a_type(make, batch):
    model = started(Layers(make), batch)
    assert ways(assert_same(model, batch)) == {"kernel"}


def test_gin(batch):
    def make(name, width):
        return pyg.GINConv(nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 5)))

    class Gin(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], 5) for name in TYPES})
            self.layers = Layers(make)

        def forward(self, x_dict, edge_index_dict):
            x_dict = {name: self.inputs[name](x) for name, x in x_dict.items()}
            return self.layers(x_dict, edge_index_dict)

    assert ways(assert_same(started(Gin(), batch), batch)) == {"kernel"}


class Loops(nn.Module):
    """Calls attention with self-loops between two types, which HeteroConv would refuse."""

    def __init__(self):
        super().__init__()
        self.one = pyg.GATConv((-1, -1), 6, add_self_loops=True)
        self.two = pyg.SAGEConv((-1, -1), 3)

    def forward(self, x_dict, edge_index_dict):
        item = self.one((x_dict["user"], x_dict["item"]), edge_index_dict[BUYS])
        return self.two((item, x_dict["user"]), edge_index_dict[BOUGHT])


def test_self_loops_between_two_types_are_left_alone(batch):
    """PyG adds as many as the smaller type has rows, which fewer rows would change."""
    fast = assert_same(started(Loops(), batch), batch, plain=True)
    assert "one (GATConv) adds self-loops between nodes of two types" in fast.plain


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "cat"])
def test_groupings_of_relations(aggr, batch):
    def make(name, width):
        return pyg.SAGEConv((-1, -1), width)

    assert_same(started(Layers(make, aggr=aggr), batch), batch)


@pytest.mark.parametrize("kind", ["GraphConv", "GATConv"])
def test_values_of_edges(kind, batch):
    edge_weight = {BUYS: batch[BUYS].edge_weight, BOUGHT: torch.rand(batch[BOUGHT].num_edges) + 0.1}
    edge_attr = {BOUGHT: batch[BOUGHT].edge_attr}
    edge_weight[BOUGHT] = edge_weight[BOUGHT].double()

    def make(name, width):
        if kind == "GraphConv":
            return pyg.GraphConv((-1, -1), width)
        dim = 2 if name == BOUGHT else None
        return pyg.GATConv((-1, -1), width, add_self_loops=False, edge_dim=dim)

    more = (
        {"edge_weight_dict": edge_weight} if kind == "GraphConv" else {"edge_attr_dict": edge_attr}
    )
    model = started(Layers(make), batch, **more)
    fast = assert_same(model, batch, **more)
    assert ways(fast) == ({"kernel"} if kind == "GraphConv" else {"kernel", "pair"})


class Hgt(nn.Module):
    """Two layers of HGTConv, for types that keep their rows where no edge leads to them."""

    def __init__(self, relations, heads=2, width=8):
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], width) for name in TYPES})
        self.convs = nn.ModuleList(
            pyg.HGTConv(width, width if i == 0 else 6, (TYPES, relations), heads) for i in range(2)
        )

    def forward(self, x_dict, edge_index_dict):
        x_dict = {name: self.inputs[name](x).relu() for name, x in x_dict.items()}
        for conv in self.convs:
            x_dict = x_dict | conv(x_dict, edge_index_dict)
        return x_dict["user"]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("training", [True, False])
def test_hgt(heads, training, batch):
    model = started(Hgt(batch.edge_types, heads), batch).train(training)
    fast = assert_same(model, batch)
    assert ways(fast) == {"kernel"}
    rows = given_rows(fast, batch)
    counts = {name: batch[name].num_sampled_nodes for name in TYPES}
    assert sorted(rows["convs.0"]) == sorted(sum(counts[name][:2]) for name in ("user", "item"))
    assert sorted(rows["convs.1"]) == [0, batch["user"].batch_size]


def test_hgt_with_relations_in_another_order_than_its_own(batch):
    """PyG's HGTConv takes them for sorted, and mixes up their weights: so must we, or be plain."""
    model, seeds = started(Hgt(RELATIONS), batch), batch["user"].batch_size
    mixed = {name: batch.edge_index_dict[name] for name in (OF, LIKES, BOUGHT, BUYS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        out = accelerate(model)(batch.x_dict, mixed)
    assert_near(out[:seeds], model(batch.x_dict, mixed)[:seeds])


def test_rows_that_each_convolution_gives(batch):
    model = started(Layers(lambda name, width: pyg.SAGEConv((-1, -1), width)), batch)
    fast = accelerate(model)
    given = given_rows(fast, batch)
    nodes = {name: batch[name].num_sampled_nodes for name in TYPES}
    for name in RELATIONS:
        first = given[f"convs.0.convs.<{'___'.join(name)}>"]
        assert first == [sum(nodes[name[2]][:2])]
    assert given[f"convs.1.convs.<{'___'.join(LIKES)}>"] == [nodes["user"][0]]
    assert given[f"convs.1.convs.<{'___'.join(BUYS)}>"] == [0]
