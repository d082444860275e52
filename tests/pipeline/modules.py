"""Models as users write them, for the tests of full-graph training of any module."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foregather import Graph
from foregather.pipeline.split.graph_values import graph_inputs
from foregather.pipeline.split.sample import feature_rows
from tests.pipeline.cases import CLASSES, WIDTH

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class Jumping(nn.Module):
    """Attention layers with residuals; all of them are read by the last layer."""

    def __init__(self, drop: float = 0.0) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        self.first = nn.Linear(WIDTH, 6)
        self.convs = nn.ModuleList(GATConv(6, 3, heads=2) for _ in range(3))
        self.mix = nn.Parameter(torch.zeros(4))
        self.last = nn.Linear(6, CLASSES)
        self.drop = drop

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = [self.first(x).relu_()]
        for conv in self.convs:
            x = F.dropout(rows[-1], self.drop, self.training)
            rows.append(rows[-1] + F.elu(conv(x, edge_index)))
        share = torch.softmax(self.mix, 0)
        mixed: Tensor = sum(a * b for a, b in zip(share, rows, strict=True))
        out: Tensor = self.last(mixed)
        return out


class Tied(nn.Module):
    """One convolution, called three times, by a degree that the model counts itself."""

    def __init__(self) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.conv = SAGEConv(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        from torch_geometric.utils import degree

        count = degree(edge_index[0], x.size(0), x.dtype).view(-1, 1)
        for _ in range(3):
            x = torch.tanh(self.conv(x / (1 + count), edge_index))
        out: Tensor = self.last(x)
        return out


class EdgeNet(nn.Module):
    """Edge features through weights, reused in two hops; a weight that it does not use."""

    def __init__(self) -> None:
        from torch_geometric.nn import GINEConv

        super().__init__()
        self.edges = nn.Linear(2, WIDTH)
        self.convs = nn.ModuleList(GINEConv(nn.Linear(WIDTH, WIDTH)) for _ in range(2))
        self.last = nn.Linear(WIDTH, CLASSES)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        e = self.edges(edge_attr)
        for conv in self.convs:
            x = conv(x, edge_index, e).relu()
        out: Tensor = self.last(x)
        return out


def _pyg(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torch_geometric.nn as pyg

        model: nn.Module = getattr(pyg, name)(WIDTH, 6, 3, CLASSES, **options)
        return model

    return make


def _conv(name: str, *args: Any, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torch_geometric.nn as pyg

        model: nn.Module = getattr(pyg, name)(*args, **options)
        return model

    return make


def _appnp() -> nn.Module:
    import torch_geometric.nn as pyg

    steps = [(nn.Linear(WIDTH, CLASSES), "x -> x"), (pyg.APPNP(3, 0.1), "x, edge_index -> x")]
    model: nn.Module = pyg.Sequential("x, edge_index", steps)
    return model


class Light(nn.Module):
    """LightGCN's rule: convolutions without weights, and the mean of all their results."""

    def __init__(self) -> None:
        from torch_geometric.nn import LGConv

        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 5), nn.Linear(5, CLASSES)
        self.convs = nn.ModuleList(LGConv() for _ in range(3))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        rows = [self.first(x)]
        for conv in self.convs:
            rows.append(conv(rows[-1], edge_index, edge_weight))
        out: Tensor = self.last(torch.stack(rows).mean(0))
        return out


def _deep() -> nn.Module:
    import torch_geometric.nn as pyg

    def block() -> nn.Module:
        conv = pyg.GENConv(6, 6, norm="layer")
        return pyg.DeepGCNLayer(conv, nn.LayerNorm(6), nn.ReLU(), "res+")  # type: ignore[no-any-return]

    steps = [(nn.Linear(WIDTH, 6), "x -> x"), *((block(), "x, edge_index -> x") for _ in range(3))]
    steps.append((nn.Linear(6, CLASSES), "x -> x"))
    model: nn.Module = pyg.Sequential("x, edge_index", steps)
    return model


def nn_first() -> nn.Module:
    """BatchNorm of the features themselves, with a running mean over all epochs."""
    import torch_geometric.nn as pyg

    norm = nn.BatchNorm1d(WIDTH, momentum=None)
    steps = [(norm, "x -> x"), (pyg.GENConv(WIDTH, CLASSES), "x, edge_index -> x")]
    model: nn.Module = pyg.Sequential("x, edge_index", steps)
    return model


_PNA = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
MODULES: dict[str, Callable[[], nn.Module]] = {
    "GCN": _pyg("GCN"),
    "GraphSAGE": _pyg("GraphSAGE", jk="lstm"),
    "GAT": _pyg("GAT", heads=2, jk="max"),
    "GATv2": _pyg("GAT", heads=2, v2=True, edge_dim=2),
    "GIN": _pyg("GIN", jk="cat"),
    "PNA": _pyg("PNA", deg=torch.tensor([1, 4, 5, 3, 2]), **_PNA),
    "EdgeCNN": _pyg("EdgeCNN"),
    "layer norm": _pyg("GCN", norm="layer", norm_kwargs={"mode": "node"}),
    "batch norm": _pyg("GIN", norm="batch", jk="cat"),
    "batch norm before": lambda: nn_first(),
    "Sequential, DeepGCNLayer": _deep,
    "jumping": Jumping,
    "tied": Tied,
    "edges": EdgeNet,
}
HOPS: dict[str, Callable[[], nn.Module]] = {
    "SGConv": _conv("SGConv", WIDTH, CLASSES, K=3),
    "APPNP": _appnp,
    "LGConv": Light,
    "TAGConv": _conv("TAGConv", WIDTH, CLASSES),
    "ChebConv": _conv("ChebConv", WIDTH, CLASSES, K=3),
    "MixHopConv": _conv("MixHopConv", WIDTH, CLASSES),
    "GatedGraphConv": _conv("GatedGraphConv", WIDTH, 3),
    "ARMAConv": _conv("ARMAConv", WIDTH, CLASSES, num_stacks=2, num_layers=2),
    "SSGConv": _conv("SSGConv", WIDTH, CLASSES, 0.1, K=2),
    "TransformerConv": _conv("TransformerConv", WIDTH, CLASSES, 2, False, True, edge_dim=2),
    "EGConv": _conv("EGConv", WIDTH, 6, ["symnorm", "sum"], num_heads=2),
    "ClusterGCNConv": _conv("ClusterGCNConv", WIDTH, CLASSES),
    "AGNNConv": _conv("AGNNConv"),
    "LEConv": _conv("LEConv", WIDTH, CLASSES),
    "NNConv": _conv("NNConv", WIDTH, CLASSES, nn.Linear(2, WIDTH * CLASSES)),
}


def adam(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """As FullGraph has it."""
    return torch.optim.Adam(weights, 0.01)


def sgd(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """For weights in front of a BatchNorm: Adam makes steps of the rounding of their zeros."""
    return torch.optim.SGD(weights, 0.05)


def train_whole(model: nn.Module, graph: Graph, steps: int, make: Make = adam) -> list[float]:
    """PyG's way: the whole graph at once; the loss of every step."""
    weight = next(model.parameters())
    x, inputs = feature_rows(graph, weight), graph_inputs(model, graph, weight.dtype, weight.device)
    assert graph.labels is not None
    labels = torch.from_numpy(graph.labels).long()
    train = torch.from_numpy(graph.split("train"))
    optimizer, losses = make(model.parameters()), []
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, **inputs)[train], labels[train])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def furthest(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of two models' weights and buffers."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs if a.is_floating_point() and a.numel())
