"""PyG's models on graphs with edge weights and edge features at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.graph.features import Features
from foregather.train.metrics import forward
from foregather.train.settings import ModelSettings
from tests.train.runs import settings_of, small_folder, train

nn = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    graph = Graph.open(small_folder(tmp_path_factory))
    draw = np.random.default_rng(0)
    weight = draw.random(graph.num_edges, np.float32) + 0.5
    edges = Features(draw.random((graph.num_edges, 3), np.float32))
    place = tmp_path_factory.mktemp("both") / "g"
    return replace(graph, edge_weight=weight, edge_features=edges).save(place)


class BothConv(nn.MessagePassing):
    """Messages scaled by the weight, with the sum of the edge's features added."""

    def __init__(self, width, out):
        super().__init__("add")
        self.line = torch.nn.Linear(width, out)

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        return self.propagate(edge_index, x=self.line(x), weight=edge_weight, attr=edge_attr)

    def message(self, x_j, weight, attr):
        return x_j * weight[:, None] + attr.sum(1, keepdim=True)


class Both(nn.models.basic_gnn.BasicGNN):
    """A model of a user that uses both."""

    supports_edge_weight = supports_edge_attr = True

    def init_conv(self, in_channels, out_channels, **options):
        return BothConv(in_channels, out_channels)


@pytest.mark.parametrize("kind", ["GAT", "PNA", "GCN", "Both"])
def test_scores_are_those_of_the_model_itself(folder, kind):
    options = {"edge_dim": 3} if kind in ("GAT", "PNA") else {}
    if kind == "GCN":  # else it normalises by degrees inside the batch, which trimming changes
        options = {"normalize": False}
    if kind == "PNA":
        options |= {"aggregators": ["mean"], "scalers": ["identity"], "deg": torch.ones(9)}
    made = Both if kind == "Both" else getattr(nn, kind)
    torch.manual_seed(0)
    model = made(16, 8, 2, 5, **options).eval()
    (batch, *_) = Loader(Graph.open(folder), [4, 3], "train", 50, contents=BatchContents(pyg=False))
    named = {"edge_weight": batch.edge_weight, "edge_attr": batch.edge_attr}
    with torch.no_grad():
        whole = model(batch.x, batch.edge_index, **named)[:50]
        assert torch.allclose(forward(model, batch), whole, atol=1e-5)


@pytest.mark.parametrize("kind", ["torch_geometric.nn:GAT", f"{__name__}:Both"])
def test_a_run_trains_them(folder, tmp_path, kind):
    options = {"edge_dim": 3} if "GAT" in kind else {}
    model = ModelSettings(kind, hidden=8, options=options)
    facts = train(settings_of(folder, tmp_path / "r", model=model))
    assert facts["epochs"] == 3 and 0 < facts["test"] < 1
