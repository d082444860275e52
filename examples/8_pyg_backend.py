"""PyG's own NodeLoader over a graph folder: one line is swapped, and the plan reads ahead.

    python examples/8_pyg_backend.py

trains PyG's GraphSAGE twice with `torch_geometric.loader.NodeLoader`: over a folder whose features
are read from disk according to a plan, within a budget, and over the same folder held in memory.
Both see the same batches, so the losses are equal. Prints the losses and what was read.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.interop.pyg import OnDisk

NODES, CLASSES, EPOCHS = 50_000, 20, 2


def train(graph: Graph, **where: Any) -> tuple[list[float], OnDisk]:
    """Trains for some epochs; returns the loss of each and the backend."""
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 64, num_layers=2, out_channels=CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    # was: loader = NeighborLoader(data, [10, 5], data.train_mask, batch_size=512, shuffle=True)
    backend = OnDisk(graph, [10, 5], "train", batch_size=512, shuffle=True, **where)
    loader = NodeLoader(**backend.arguments)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    return losses, backend


def main(folder: str | None = None) -> dict[str, list[float]]:
    """Trains from disk and from memory; returns the losses of both."""
    place = Path(folder or tempfile.mkdtemp()) / "graph"
    synthesize(str(place), NODES, degree=16, features=128, classes=CLASSES, overwrite=True)
    graph = Graph.open(place)
    made = {}
    for name, where in {
        "disk": {"memory": "120MB", "storage": "features"},
        "memory": {"memory": None},
    }.items():
        losses, backend = train(graph, **where)
        store = backend.feature_store
        print(f"{name:>6}  losses {losses}")
        print(f"        rows from the plan {store.planned_rows:,}, others {store.other_rows:,}")
        if name == "disk":
            print(backend.loader.explain())
        backend.close()
        made[name] = losses
    return made


if __name__ == "__main__":
    main()
