"""Train models as they are on the whole graph, in chunks: PyG's GAT, and one of your own.

    python examples/7_any_model.py

makes a synthetic graph, and trains an unmodified GAT of PyG and a model with jumping knowledge,
each on one chunk and on eight. Chunks never change what is learned: the losses are equal to the
last shown digit. Prints them and the test accuracies (about 0.8, where chance is 0.1), in under a
minute on two cores.
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, SAGEConv

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.pipeline import FullGraph

NODES, CLASSES, EPOCHS, WIDTH = 5_000, 10, 30, 32


class Jumping(nn.Module):
    """Three hops; the scores are read from all of them. Nothing here knows of chunks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, WIDTH)
        self.convs = nn.ModuleList(SAGEConv(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.last = nn.Linear(4 * WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Scores of all nodes."""
        rows = [self.norm(self.first(x)).relu()]
        for conv in self.convs:
            rows.append(rows[-1] + conv(rows[-1], edge_index).relu())
        return self.last(torch.cat(rows, 1))


def train(graph: Graph, name: str, chunks: int) -> tuple[float, float]:
    """The last loss, and the test accuracy."""
    torch.manual_seed(0)
    width = graph.features.width
    model = GAT(width, WIDTH, 3, CLASSES, heads=4, jk="cat") if name == "GAT" else Jumping(width)
    run = FullGraph(graph, model, chunks)
    reports = run.fit(EPOCHS)
    # `model` itself was trained: save its state_dict, or call it
    return reports[-1].loss, run.evaluate("test")


def main() -> dict[str, float]:
    """Runs everything; returns the accuracy of each model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph"
        synthesize(path, NODES, degree=10, features=32, classes=CLASSES, seed=0)
        graph, found = Graph.open(path), {}
        for name in ("GAT", "Jumping"):
            losses = []
            for chunks in (1, 8):
                loss, found[name] = train(graph, name, chunks)
                losses.append(loss)
                print(f"{name}, {chunks} chunks: loss {loss:.4f}, test accuracy {found[name]:.3f}")
            assert abs(losses[0] - losses[1]) < 1e-3 * losses[0]
    return found


if __name__ == "__main__":
    main()
