"""A model whose code asks what graph it is on: no branch is frozen to that of a small graph."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import degree, is_undirected

from foregather import Graph
from foregather.errors import InputError
from foregather.pipeline import FullGraph


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Undirected, larger than what models are recorded on, with one large feature."""
    random = np.random.default_rng(0)
    one = random.integers(0, 200, (2, 600))
    x = random.random((200, 5)).astype(np.float32)
    x[7, 2] = 50
    y, every = random.integers(0, 3, 200), np.arange(200)
    both = np.unique(np.concatenate([one, one[::-1]], axis=1), axis=1)
    made = Graph.from_edge_index(both, 200, x=x, y=y, splits={"train": every})
    return made


class Two(nn.Module):
    def __init__(self, kind: type[nn.Module] = SAGEConv) -> None:
        super().__init__()
        self.one, self.two = kind(5, 8), kind(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x, edge_index).relu(), edge_index)
        return out


class BySize(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out if x.size(0) < 100 else out * 2


class ByEdges(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out + 1 if edge_index.size(1) > 500 else out


class ByDirection(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out if is_undirected(edge_index) else out * 0.1


class ByDegree(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        most = float(degree(edge_index[1], x.size(0)).max())
        return out * 3 if most < 5 else out


class ByFeature(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if x.max() > 40:
            x = x / 2
        return super().forward(x, edge_index)


class ByHidden(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.one(x, edge_index)
        if hidden.max() > 3:
            hidden = hidden.relu()
        out: Tensor = self.two(hidden, edge_index)
        return out


@pytest.mark.parametrize("kind", [BySize, ByEdges, ByDirection, ByFeature, ByHidden])
def test_a_branch_that_another_graph_takes_is_refused(graph: Graph, kind: Any) -> None:
    with pytest.raises(InputError, match="other things on this graph|over all nodes|from rows"):
        FullGraph(graph, kind(), 4)
    FullGraph(graph, kind(), 1).train_epoch()  # at once, it is what it is


@pytest.mark.parametrize("kind", [Two, ByDegree])
def test_the_same_way_is_taken_as_it_is(graph: Graph, kind: Any) -> None:
    torch.manual_seed(0)
    model = kind()
    whole = kind()
    whole.load_state_dict(model.state_dict())
    losses = [FullGraph(graph, one, k).train_epoch().loss for one, k in ((model, 4), (whole, 1))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_models_stay_in_their_mode_and_untouched(graph: Graph) -> None:
    model = Two(GCNConv)
    model.two.eval()
    FullGraph(graph, model, 4)
    assert model.training and not model.two.training
    assert "propagate" not in model.one.__dict__ and not model.one._forward_hooks


@pytest.mark.parametrize("chunks", [1, 4])
def test_weights_that_are_frozen_later_stay(graph: Graph, chunks: int) -> None:
    model = Two()
    run = FullGraph(graph, model, chunks)
    run.fit(2)
    model.one.requires_grad_(False)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    run.fit(2)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]) == name.startswith("one."), name
