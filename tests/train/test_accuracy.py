"""Sampled training reaches full-batch accuracy on a real graph; loose, for few seeds and steps.

`benchmarks/accuracy.py` measures it properly. A sampler that gives wrong edges, or weights that do
not keep the sums, loses tens of points here.
"""

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import GCNConv, SAGEConv

from foregather import BatchContents, Graph, Loader
from foregather.sampling import Full, Ladies, Neighbor

SEEDS, STEPS = 3, 40


@pytest.fixture(scope="module")
def cora(data_folder_of_module):
    with np.load(data_folder_of_module / "cora.npz", allow_pickle=False) as z:
        x = np.zeros(z["x_shape"], np.float32)
        rows = np.repeat(np.arange(len(x)), np.diff(z["x_indptr"]))
        x[rows, z["x_indices"]] = 1
        x /= np.maximum(x.sum(1, keepdims=True), 1)
        splits = {name: z[f"{name}_idx"] for name in ("train", "val", "test")}
        return Graph.from_edge_index(
            z["edge_index"], len(x), x=x, y=z["y"].astype("i8"), splits=splits, self_loops=True
        )


@pytest.fixture(scope="module")
def data_folder_of_module(request):
    return request.getfixturevalue("data_folder")


class Net(torch.nn.Module):
    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.gcn = kind == "GCN"
        sizes = [(width, 16), (16, 7)]
        make = (lambda a, b: GCNConv(a, b, normalize=False)) if self.gcn else SAGEConv
        self.convs = torch.nn.ModuleList(make(a, b) for a, b in sizes)

    def forward(self, batch):
        x = batch.x
        for number, conv in enumerate(self.convs):
            if number:
                x = functional.dropout(x.relu(), 0.5, self.training)
            if batch.layers is not None:
                layer = batch.layers[number]
                x = conv(x, layer.edge_index, layer.weight)[: layer.size[1]]
            else:
                x = conv(x, batch.edge_index, *([batch.edge_weight] if self.gcn else []))
        return x[: batch.batch_size]


def accuracy(graph: Graph, kind: str, sampler) -> float:
    """The mean of some trainings."""
    return float(np.mean([accuracy_of(graph, kind, sampler, seed) for seed in range(SEEDS)]))


def accuracy_of(graph: Graph, kind: str, sampler, seed: int) -> float:
    torch.manual_seed(seed)
    options = {"contents": BatchContents(norm="gcn" if kind == "GCN" else None, pyg=False)}
    model = Net(kind, graph.features.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    loader = Loader(graph, None, "train", 140, sampler=sampler, shuffle=True, seed=seed, **options)
    for _ in range(STEPS):
        for batch in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(batch), batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    (batch,) = Loader(graph, None, "test", 1000, sampler=Full(2), **options)
    with torch.no_grad():
        return float((model(batch).argmax(1) == batch.y[:1000]).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SAGE", "GCN"])
def test_sampled_training_reaches_full_batch(cora, kind):
    whole = accuracy(cora, kind, Full(2))
    assert whole > 0.74
    assert accuracy(cora, kind, Neighbor([10, 10])) > whole - 0.04
    if kind == "GCN":
        assert accuracy(cora, kind, Ladies([512, 512])) > whole - 0.04
