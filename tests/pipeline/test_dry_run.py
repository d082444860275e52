"""Layers that node chunks cannot compute are refused before training; the others are exact."""

import copy

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.utils import degree

from foregather.errors import InputError
from foregather.nn import Conv, GraphLayer
from foregather.pipeline import FullGraph
from tests.pipeline.cases import CLASSES, WIDTH, copy_of, double, sgd, small_graph, weights_of

GRAPH = small_graph()
WEIGHTED = small_graph(edge_weight=np.linspace(0.5, 2, 260, dtype=np.float32))


class TwoHops(pyg.MessagePassing):
    """Two propagations in one module."""

    def __init__(self, width):
        super().__init__("mean")
        self.lin = torch.nn.Linear(width, CLASSES)

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=self.propagate(edge_index, x=x)))


class HiddenHop(TwoHops):
    """The second hop begins with weight 0 twice over: no value and no gradient shows it yet."""

    def __init__(self, width):
        super().__init__(width)
        self.gates = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x, edge_index):
        near = self.propagate(edge_index, x=x)
        return self.lin(near + self.gates.prod() * self.propagate(edge_index, x=near))


class SourceDegrees(TwoHops):
    """Divides each message by the out-degree of its source."""

    def forward(self, x, edge_index):
        out = degree(edge_index[0], x.shape[0], x.dtype).clamp(min=1)
        return self.lin(self.propagate(edge_index, x=x / out[:, None]))


class Counted(torch.autograd.Function):
    """Rows as they are; gradients times the number of rows."""

    @staticmethod
    def forward(ctx, x):
        ctx.count = x.shape[0]
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.count


class WrongGradient(TwoHops):
    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=Counted.apply(x)))


class Degrees(GraphLayer):
    """A layer of the user's own that counts edges of sources."""

    def update(self, x, near, **skips):
        edges, _ = near.edges()
        return near.rows[: near.count] * degree(edges[0], near.rows.shape[0])[: near.count, None]


REFUSED = {
    "SGConv": lambda: pyg.SGConv(WIDTH, CLASSES, K=2),
    "SGConv-1": lambda: pyg.SGConv(WIDTH, CLASSES, K=1),
    "SSGConv": lambda: pyg.SSGConv(WIDTH, CLASSES, alpha=0.1, K=2),
    "APPNP": lambda: pyg.APPNP(K=3, alpha=0.1),
    "TAGConv": lambda: pyg.TAGConv(WIDTH, CLASSES, K=2),
    "ChebConv": lambda: pyg.ChebConv(WIDTH, CLASSES, K=3),
    "ARMAConv": lambda: pyg.ARMAConv(WIDTH, CLASSES, num_layers=2),
    "MixHopConv": lambda: pyg.MixHopConv(WIDTH, CLASSES, powers=[0, 1, 2]),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(WIDTH, num_layers=2),
    "LGConv": lambda: pyg.LGConv(),
    "EGConv": lambda: pyg.EGConv(WIDTH, 8, aggregators=["symnorm"]),
    "TwoHops": lambda: TwoHops(WIDTH),
    "HiddenHop": lambda: HiddenHop(WIDTH),
    "SourceDegrees": lambda: SourceDegrees(WIDTH),
    "WrongGradient": lambda: WrongGradient(WIDTH),
}

EXACT = {
    "APPNP": lambda a, b: pyg.APPNP(K=1, alpha=0.1),  # one hop is within reach
    "GATv2Conv": pyg.GATv2Conv,
    "TransformerConv": pyg.TransformerConv,
    "GINConv": lambda a, b: pyg.GINConv(torch.nn.Linear(a, b)),
    "GraphConv": pyg.GraphConv,
    "EdgeConv": lambda a, b: pyg.EdgeConv(torch.nn.Linear(2 * a, b)),
    "LEConv": pyg.LEConv,
    "ClusterGCNConv": pyg.ClusterGCNConv,
}


def train(graph, modules, epochs=2):
    """Full-graph training as PyG does it; the scores after it."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([graph.indices.astype(np.int64), target]))
    weight = graph.edge_weight
    weight = None if weight is None else torch.from_numpy(weight).double()

    def run():
        x = torch.from_numpy(graph.features.data).double()
        for module in modules:
            if not hasattr(module, "propagate"):
                x = module(x)
            elif weight is None or not Conv(module)._weighted:
                x = module(x, edges)
            else:
                x = module(x, edges, edge_weight=weight)
        return x

    nodes = torch.from_numpy(graph.split("train"))
    labels = torch.from_numpy(graph.labels).long()[nodes]
    optimizer = torch.optim.SGD([p for m in modules for p in m.parameters()], 0.1)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(run()[nodes], labels).backward()
        optimizer.step()
    for module in modules:
        module.eval()
    return run().detach()


def model(make):
    with double():
        torch.manual_seed(0)
        return [torch.nn.Linear(WIDTH, 8), make(8, 8), torch.nn.ReLU(), make(8, 8)]


@pytest.mark.parametrize("graph", [GRAPH, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_reaches_further_is_refused_by_name(name, graph):
    what = "gradient" if name == "WrongGradient" else "value"
    reason = rf"layer 1 \({name.split('-')[0]}\) gives different rows by node chunks .* the {what} "
    with pytest.raises(InputError, match=reason):
        FullGraph(graph, [torch.nn.Linear(WIDTH, WIDTH), REFUSED[name]()], 2, partition="natural")


@pytest.mark.parametrize("name", ["SGConv", "APPNP", "TAGConv", "ChebConv", "EGConv", "HiddenHop"])
def test_one_chunk_holds_all_they_reach(name):
    with double():
        torch.manual_seed(0)
        ours = [REFUSED[name](), torch.nn.LazyLinear(CLASSES)]
        ours[1](torch.zeros(1, {"APPNP": WIDTH, "EGConv": 8}.get(name, CLASSES)))
    theirs = copy_of(ours)
    run = FullGraph(WEIGHTED, ours, 1, optimizer=sgd(0.1))
    run.fit(2)
    scores = train(WEIGHTED, theirs)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-12, rtol=0)
    assert torch.allclose(run.infer(), scores, atol=1e-12, rtol=0)


@pytest.mark.parametrize("graph", [GRAPH, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", EXACT)
def test_what_is_accepted_is_exact(name, graph):
    ours = model(EXACT[name])
    theirs = copy_of(ours)
    run = FullGraph(graph, ours, 3, partition="random", optimizer=sgd(0.1))
    run.fit(2)
    scores = train(graph, theirs)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-12, rtol=0)
    assert torch.allclose(run.infer(), scores, atol=1e-12, rtol=0)


def test_a_layer_of_ones_own_that_counts_edges_of_sources_is_refused():
    with pytest.raises(InputError, match=r"layer 0 \(Degrees\) mixes nodes"):
        FullGraph(GRAPH, [Degrees(), torch.nn.Linear(WIDTH, CLASSES)], 3, partition="natural")


def test_layers_keep_their_state_and_gradients():
    torch.manual_seed(0)
    layers = model(EXACT["GATv2Conv"])
    before = copy.deepcopy([layer.state_dict() for layer in layers])
    layers[1].eval()
    random = torch.get_rng_state()
    FullGraph(GRAPH, layers, 3, partition="natural")
    assert torch.equal(torch.get_rng_state(), random)
    assert not layers[1].training and layers[3].training
    assert all(p.grad is None for layer in layers for p in layer.parameters())
    for layer, state in zip(layers, before, strict=True):
        for name, value in layer.state_dict().items():
            assert torch.equal(value, state[name])


def test_a_layer_that_runs_in_its_own_precision_only_is_judged_in_it():
    class Single(TwoHops):
        def forward(self, x, edge_index):
            return self.lin(self.propagate(edge_index, x=x.float()))

    FullGraph(GRAPH, [Single(WIDTH)], 3, partition="natural")

    class SingleTwice(TwoHops):
        def forward(self, x, edge_index):
            return super().forward(x.float(), edge_index)

    with pytest.raises(InputError, match=r"layer 0 \(SingleTwice\) gives different rows"):
        FullGraph(GRAPH, [SingleTwice(WIDTH)], 3, partition="natural")


def test_a_layer_that_cannot_be_copied_is_judged_as_it_is():
    conv = pyg.SGConv(WIDTH, CLASSES, K=2)
    conv.kept = conv.lin.weight * 2  # not a leaf: deepcopy refuses it
    with pytest.raises(InputError, match=r"layer 0 \(SGConv\) gives different rows"):
        FullGraph(GRAPH, [conv], 3, partition="natural")
    assert conv.lin.weight.grad is None


def norm_layers():
    with double():
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(8)
        return [torch.nn.Linear(WIDTH, 8), pyg.SAGEConv(8, 8), norm, pyg.SAGEConv(8, CLASSES)]


def test_batch_norm_is_refused_where_exact_is_promised():
    with pytest.raises(InputError, match="layer 2 has BatchNorm1d.*not exact; use LayerNorm, or"):
        FullGraph(GRAPH, norm_layers(), 2, partition="natural")


def test_batch_norm_warns_elsewhere():
    with pytest.warns(UserWarning, match="layer 2 has BatchNorm1d.*use LayerNorm"):
        FullGraph(GRAPH, norm_layers(), 2, "fast", partition="natural")


def test_batch_norm_is_exact_in_one_chunk():
    ours = norm_layers()
    theirs = copy_of(ours)
    run = FullGraph(GRAPH, ours, 1, optimizer=sgd(0.1))
    run.fit(2)
    scores = train(GRAPH, theirs)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-12, rtol=0)
    assert torch.allclose(run.infer(), scores, atol=1e-12, rtol=0)
