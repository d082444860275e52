"""PyG convolutions as layers equal their own full-graph run in exact mode."""

import numpy as np
import pytest
import torch
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GENConv,
    GINEConv,
    MessagePassing,
    NNConv,
    PDNConv,
    SAGEConv,
)

from foregather.errors import InputError
from foregather.nn import Conv, Dense
from foregather.pipeline import FullGraph, Runtime
from tests.pipeline.cases import CLASSES, WIDTH, copy_of, double, sgd, small_graph, weights_of

GRAPH = small_graph()


def edges(graph):
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    pairs = np.stack([graph.indices.astype(np.int64), target])
    return torch.from_numpy(pairs), torch.from_numpy(graph.edge_features.data).double()


def plain(conv):
    return [conv(WIDTH, 8), torch.nn.ReLU(), conv(8, 8), torch.nn.ReLU(), conv(8, CLASSES)]


def gen(a, b):
    return GENConv(a, b, norm="layer", edge_dim=2, learn_t=True)


class Plus(MessagePassing):
    """A user's own: `edge_attr` has a default, and no attribute tells of it."""

    def __init__(self, width_in, width_out):
        super().__init__(aggr="add")
        self.node = torch.nn.Linear(width_in, width_out)
        self.edge = torch.nn.Linear(2, width_out)

    def forward(self, x, edge_index, edge_attr=None):
        return self.propagate(edge_index, x=self.node(x), edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return x_j if edge_attr is None else x_j + self.edge(edge_attr)


class Loose(Plus):
    """Does not show what it takes."""

    def forward(self, x, edge_index, **more):
        return super().forward(x, edge_index, **more)


MODELS = {
    "GCNConv": lambda: plain(GCNConv),
    "GCNConv-no-loops": lambda: plain(lambda a, b: GCNConv(a, b, add_self_loops=False)),
    "GCNConv-raw": lambda: plain(lambda a, b: GCNConv(a, b, normalize=False)),
    "SAGEConv": lambda: plain(SAGEConv),
    "GATConv": lambda: plain(lambda a, b: GATConv(a, b, heads=2, concat=False, edge_dim=2)),
    "GENConv": lambda: plain(gen),
    "GENConv-of-that-width": lambda: [gen(WIDTH, 2), torch.nn.ReLU(), gen(2, CLASSES)],
    "GINEConv": lambda: plain(lambda a, b: GINEConv(torch.nn.Linear(a, b), edge_dim=2)),
    "NNConv": lambda: plain(lambda a, b: NNConv(a, b, torch.nn.Linear(2, a * b))),
    "own": lambda: plain(Plus),
    "own-told": lambda: [Conv(Loose(WIDTH, CLASSES), edge_attr=True)],
    "GCN2Conv": lambda: [
        Dense(torch.nn.Linear(WIDTH, 8), gives="initial"),
        *(GCN2Conv(8, alpha=0.1, theta=0.5, layer=i) for i in (1, 2, 3)),
        torch.nn.Linear(8, CLASSES),
    ],
}


def full_graph_run(modules, x, edge_index, attr):
    """The modules as PyG would call them, on all nodes and edges."""
    first = None
    for module in modules:
        if isinstance(module, GCN2Conv):
            x = module(x, first, edge_index)
        elif isinstance(module, Conv):
            x = module.conv(x, edge_index, edge_attr=attr)
        elif isinstance(module, GATConv | GENConv | GINEConv | NNConv | Plus):
            x = module(x, edge_index, attr)
        elif hasattr(module, "propagate"):
            x = module(x, edge_index)
        elif isinstance(module, Dense):
            x = first = module.module(x)
        else:
            x = module(x)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["none", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_equals_its_own_full_graph_run(name, recompute):
    with double():
        torch.manual_seed(0)
        ours = MODELS[name]()
    theirs = copy_of(ours)
    runtime = Runtime(recompute=recompute)
    run = FullGraph(GRAPH, ours, 4, partition="random", optimizer=sgd(0.1), runtime=runtime)
    losses = [report.loss for report in run.fit(3)]
    x = torch.from_numpy(GRAPH.features.data).double()
    labels, train = torch.from_numpy(GRAPH.labels), torch.from_numpy(GRAPH.split("train"))
    optimizer = torch.optim.SGD([p for m in theirs for p in m.parameters()], 0.1)
    for loss in losses:
        optimizer.zero_grad()
        scores = full_graph_run(theirs, x, *edges(GRAPH))
        true = torch.nn.functional.cross_entropy(scores[train], labels[train].long())
        true.backward()
        optimizer.step()
        assert abs(loss - float(true.detach())) < 1e-12
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)
    with torch.no_grad():
        scores = full_graph_run([m.eval() for m in theirs], x, *edges(GRAPH))
    assert torch.allclose(run.infer(), scores, atol=1e-10, rtol=0)


@pytest.mark.parametrize("option", ["cached", "improved"])
def test_options_that_cannot_be_kept_are_refused(option):
    with pytest.raises(InputError, match=option):
        Conv(GCNConv(3, 3, **{option: True}))


def test_edge_features_are_left_out_only_on_request():
    """Of the graph's two columns of edges, these take none."""
    conv = GENConv(WIDTH, CLASSES, norm="layer")
    with pytest.raises(InputError, match=r"layer 0 \(GENConv\) fails .* edge features of width 2"):
        FullGraph(GRAPH, [conv], 2, partition="natural")
    rows = torch.from_numpy(GRAPH.features.data).float()
    for layer in (Conv(conv, edge_attr=False), GATv2Conv(WIDTH, CLASSES)):
        whole = layer.conv if isinstance(layer, Conv) else layer
        run = FullGraph(GRAPH, [layer], 2, partition="natural")
        with torch.no_grad():
            scores = whole.eval()(rows, edges(GRAPH)[0])
        assert torch.allclose(run.infer(), scores, atol=1e-5)


def test_a_convolution_that_does_not_show_what_it_takes_is_refused():
    with pytest.raises(InputError, match="forward of Loose takes any keyword, .*edge_attr=True"):
        FullGraph(GRAPH, [Loose(WIDTH, CLASSES)], 2, partition="natural")
    with pytest.raises(InputError, match="edge_attr is True, but forward of SAGEConv takes no"):
        Conv(SAGEConv(WIDTH, CLASSES), edge_attr=True)


def test_weights_made_from_edge_features_are_not_normalised_by_parts():
    make = [PDNConv(WIDTH, CLASSES, edge_dim=2, hidden_channels=4)]
    with pytest.raises(InputError, match=r"layer 0 \(PDNConv\) gives different rows by node"):
        FullGraph(GRAPH, make, 2, partition="natural")
    run = FullGraph(GRAPH, make, 1)
    pairs, attr = edges(GRAPH)
    rows = torch.from_numpy(GRAPH.features.data).float()
    with torch.no_grad():
        scores = make[0].eval()(rows, pairs, attr.float())
    assert torch.allclose(run.infer(), scores, atol=1e-5)
