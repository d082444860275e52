"""A PyG model trained through the Loader learns what the graph tells: it beats an MLP."""

import numpy as np
import torch
from torch_geometric.nn import SAGEConv

from foregather import Graph
from foregather.loader.loader import Loader
from foregather.nn.sage import MLP
from tests.sampling.reference import ReferenceNeighbor


def communities(nodes: int = 400, classes: int = 3) -> Graph:
    """Edges mostly inside a class; features that tell the class only faintly."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, nodes)
    target = rng.integers(0, nodes, 24 * nodes)
    source = rng.integers(0, nodes, 24 * nodes)
    keep = (y[source] == y[target]) | (rng.random(24 * nodes) < 0.05)
    x = rng.normal(size=(nodes, 8)).astype(np.float32)
    x[:, :classes] += np.eye(classes, dtype=np.float32)[y]
    order = rng.permutation(nodes)
    return Graph.from_edge_index(
        np.stack([source[keep], target[keep]]),
        nodes,
        x=x,
        y=y,
        splits={"train": order[:200], "test": order[200:]},
    )


class Sage(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(8, 16), SAGEConv(16, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def accuracy(model: torch.nn.Module, graph: Graph, fanouts: tuple[int, ...]) -> float:
    sampler = ReferenceNeighbor(fanouts)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    loader = Loader(graph, None, "train", 40, sampler=sampler, shuffle=True)
    for _ in range(6):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    right = 0
    with torch.no_grad():
        for batch in Loader(graph, None, "test", 100, sampler=sampler):
            out = model.eval()(batch.x, batch.edge_index)[: batch.batch_size]
            right += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
    return right / len(graph.split("test"))


def test_sage_beats_mlp():
    graph = communities()
    torch.manual_seed(0)
    with_graph = accuracy(Sage(), graph, (5, 3))
    without = accuracy(MLP([8, 16, 3], 0.0), graph, (0,))
    assert with_graph > 0.8 and with_graph > without + 0.15 and without > 0.4, (with_graph, without)
