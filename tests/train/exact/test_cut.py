"""Rows that are cut into pieces give what PyG computes at once, in float64; or are never cut."""

import numpy as np
import pytest
import torch

from foregather import Graph
from foregather.errors import InputError
from foregather.graph.features import Features
from foregather.nn import SAGE
from foregather.train.exact.deal import Cost, deal
from foregather.train.exact.gather import gathered
from foregather.train.exact.probe import probe
from foregather.train.exact.room import Room
from foregather.train.exact.steps import layer_steps, whole_degree
from foregather.train.exact.sweep import Edges, sweep

nn = pytest.importorskip("torch_geometric.nn")
W = 6


def hub_graph(weights: bool) -> Graph:
    """A hub with parallel edges and self-loops, other self-loops, isolated nodes."""
    rng = np.random.default_rng(1)
    pairs = np.concatenate(
        [
            rng.integers(0, 50, (2, 150)),
            np.stack([rng.integers(0, 50, 60), np.full(60, 7)]),
            np.array([[7, 7, 3, 3, 9], [7, 7, 3, 3, 9]]),
        ],
        axis=1,
    )
    weight = (rng.random(pairs.shape[1]) + 0.1).astype(np.float32)
    x = rng.normal(size=(60, W))
    return Graph.from_edge_index(pairs, 60, x=x, edge_weight=weight if weights else None)


def model_of(conv: torch.nn.Module) -> torch.nn.Module:
    """A model of PyG with one layer."""
    model = nn.GraphSAGE(W, W, 1)
    model.convs = torch.nn.ModuleList([conv])
    model.supports_edge_weight = "edge_weight" in conv.forward.__code__.co_varnames
    return model.double().eval()


def whole(conv, graph: Graph) -> torch.Tensor:
    """The oracle: PyG, all nodes and edges at once."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    given = {}
    if graph.edge_weight is not None and "edge_weight" in conv.forward.__code__.co_varnames:
        given = {"edge_weight": torch.from_numpy(np.array(graph.edge_weight)).double()}
    with torch.no_grad():
        return conv(torch.from_numpy(np.array(graph.features.data)), edges, **given)


def in_parts(model, graph: Graph, nodes: float, **options) -> torch.Tensor:
    step = layer_steps(model)[0]
    degree = None if step.norm is None else whole_degree(graph, step.norm)
    shapes = deal(graph, Cost(1.0, 1e-9, 0.0), nodes, **options)
    rows = Features(np.array(graph.features.data))
    parts = gathered(rows, shapes, Room(nodes), 1, {"bytes": 0})
    with torch.no_grad():
        return torch.cat(list(sweep(step, parts, Edges.of(graph, None), degree, torch.float64)))


CUT = {
    "mean": lambda: nn.SAGEConv(W, W),
    "sum": lambda: nn.SAGEConv(W, W, aggr="sum"),
    "max": lambda: nn.SAGEConv(W, W, aggr="max", project=True),
    "min": lambda: nn.SAGEConv(W, W, aggr="min", normalize=True),
    "softmax": lambda: nn.SAGEConv(W, W, aggr="softmax"),
    "gcn": lambda: nn.GCNConv(W, W),
    "gcn without loops": lambda: nn.GCNConv(W, W, add_self_loops=False),
    "graph": lambda: nn.GraphConv(W, W),
    "gin": lambda: nn.GINConv(torch.nn.Linear(W, W)),
    "gen": lambda: nn.GENConv(W, W, learn_t=True),
    "gat": lambda: nn.GATConv(W, 3, heads=2),
    "gat without loops": lambda: nn.GATConv(W, W, heads=2, concat=False, add_self_loops=False),
    "gatv2": lambda: nn.GATv2Conv(W, 3, heads=2),
    "transformer": lambda: nn.TransformerConv(W, 3, heads=2, beta=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_pieces_equal_pyg_at_once(name):
    torch.manual_seed(0)
    conv = CUT[name]()
    model = model_of(conv)
    weighted = "edge_weight" in conv.forward.__code__.co_varnames
    for graph in [hub_graph(False), hub_graph(True)][: 2 if weighted else 1]:
        assert_pieces_equal(conv, model, graph)
    assert probe(model, graph)[0].cut


def assert_pieces_equal(conv, model, graph):
    expected = whole(conv, graph)
    before = dict(conv.__dict__)
    for nodes in (2.0, 5.0, 20.0):
        torch.testing.assert_close(in_parts(model, graph, nodes), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(whole(conv, graph), expected, rtol=0, atol=0)
    assert conv.__dict__.keys() == before.keys(), "nothing is left in the convolution"


def test_our_own_layer_equals_itself_at_once():
    torch.manual_seed(0)
    graph, model = hub_graph(False), SAGE([W, 4]).double().eval()
    expected = whole(model, graph)
    for nodes in (2.0, 9.0):
        torch.testing.assert_close(in_parts(model, graph, nodes), expected, rtol=1e-10, atol=1e-10)
    assert probe(model, graph)[0].cut


class Spread(nn.SAGEConv):
    """Looks at its messages in a way that no rule knows."""

    def aggregate(self, inputs, index, ptr=None, dim_size=None):
        order = torch.arange(len(index), dtype=inputs.dtype).unsqueeze(1)
        return inputs.new_zeros(dim_size, W).index_add_(0, index, inputs / (1 + order))


@pytest.mark.parametrize(
    "conv",
    [
        lambda: nn.SAGEConv(W, W, aggr="powermean"),
        lambda: nn.PNAConv(W, W, ["mean", "std"], ["amplification"], torch.ones(9).long()),
        lambda: nn.MFConv(W, W),
    ],
)
def test_other_reductions_are_never_cut(conv):
    torch.manual_seed(0)
    conv, graph = conv(), hub_graph(False)
    model = model_of(conv)
    assert not probe(model, graph)[0].cut
    made = in_parts(model, graph, 1e9, targets=11)
    torch.testing.assert_close(made, whole(conv, graph), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "conv",
    [
        lambda: nn.SGConv(W, W, K=2),
        lambda: nn.TAGConv(W, W),
        lambda: nn.SAGEConv(W, W, aggr="lstm"),  # pads to the largest degree of a batch
        Spread,
    ],
)
def test_what_is_wrong_in_parts_is_refused(conv):
    torch.manual_seed(0)
    conv = Spread(W, W) if conv is Spread else conv()
    with pytest.raises(InputError, match="than for all at once"):
        probe(model_of(conv), hub_graph(False))


def test_normalisation_over_all_nodes_is_refused():
    model = nn.GraphSAGE(W, W, 2, norm="pair_norm").eval()
    with pytest.raises(InputError, match="mixes rows of all nodes"):
        probe(model, hub_graph(False))
