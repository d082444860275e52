"""Train GraphSAGE and LADIES over any number of ranks, to the same accuracy.

    FOREGATHER_DATA=folder torchrun --standalone --nproc-per-node 4 examples/3_multi_rank.py

trains on ogbn-arxiv with stand-in features (without FOREGATHER_DATA on a synthetic graph); a rank
holds a block of the neighbour lists and of the feature rows. A step takes 1024 seeds whatever the
number of ranks. It prints for 1, 2 and 4 ranks, up to 0.01:

    SAGE    test accuracy 0.662
    LADIES  test accuracy 0.655

With a file name as argument and `torchrun --max-restarts 3` it keeps a checkpoint, resumes after a
rank was lost, and ends with the weights of an undisturbed run.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from foregather import BatchContents, Features, Graph, Loader
from foregather.dist import Grid
from foregather.graph.synthetic import synthetic_arrays
from foregather.nn import SAGE
from foregather.sampling import Ladies, Neighbor, Sampler

STEP, WIDTH, EPOCHS, NODES = 1024, 64, 5, 20_000
RULES = {"SAGE": Neighbor([10, 5], expand="per-layer"), "LADIES": Ladies([2048, 4096])}


def make_graph() -> Graph:
    """Makes the same graph on every rank; from `Graph.open`, a rank would read only its block."""
    if folder := os.environ.get("FOREGATHER_DATA"):
        known = np.load(Path(folder, "ogbn_arxiv.npz"))
        rows = np.load(Path(folder, "ogbn_arxiv_surrogate_x.npz"))["x"].astype(np.float32)
        splits = {name: known[f"{name}_idx"] for name in ("train", "test")}
        rest = {"x": 10 * rows, "y": known["y"], "splits": splits, "undirected": True}
        return Graph.from_edge_index(known["edge_index"], **rest)
    made = synthetic_arrays(NODES, degree=16, features=128, classes=40, seed=0)
    rest = {"features": Features(made.features), "labels": made.labels, "splits": made.splits}
    return Graph(NODES, len(made.indices), made.indptr, made.indices, **rest)


class Model(SAGE):
    """GraphSAGE on the layers of a batch, with the sampler's edge weights if it has any."""

    def forward(self, batch):
        x = batch.x
        for number, layer in enumerate(self.layers):
            if number:
                x = functional.dropout(x.relu(), self.dropout, self.training)
            edges, _, size, weight = batch.layers[number]
            if weight is None:  # the mean over the sampled edges
                weight = 1 / torch.bincount(edges[1], minlength=size[1])[edges[1]]
            messages = layer.neighbour(x)[edges[0]] * weight.unsqueeze(1)
            x = layer.own(x[: size[1]]).index_add(0, edges[1], messages)
        return x


def train(rule: Sampler, graph: Graph, grid: Grid, checkpoint: Path | None) -> torch.nn.Module:
    """Trains with gradients averaged over ranks by DDP."""
    options = {
        "shuffle": True,
        "contents": BatchContents(labels="seeds", pyg=False),
        "threads": 1,
        "grid": grid,
    }
    loader = Loader(graph, None, "train", STEP // grid.size, sampler=rule, **options)
    torch.manual_seed(0)
    model = Model([graph.features.width, WIDTH, int(graph.labels.max()) + 1])
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    kept = {"model": model, "optimizer": optimizer, "loader": loader}
    if checkpoint is not None and checkpoint.exists():
        for name, state in torch.load(checkpoint, weights_only=True).items():
            kept[name].load_state_dict(state)
    while loader.epoch < EPOCHS:
        for batch in loader:
            torch.manual_seed(batch.number + (loader.epoch << 32))  # so that dropout resumes too
            # share: in the last step a rank may have fewer seeds, or only padding
            loss = functional.cross_entropy(parallel(batch), batch.y) * batch.share
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if checkpoint is not None and grid.rank == 0:
            part = checkpoint.with_suffix(".part")
            torch.save({name: one.state_dict() for name, one in kept.items()}, part)
            part.replace(checkpoint)  # whole or not at all
    return model


@torch.no_grad()
def evaluate(model: torch.nn.Module, graph: Graph) -> float:
    """Returns the exact accuracy, computed with every edge of the graph."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([graph.indices.astype(np.int64), target]))
    scores = SAGE.forward(model.eval(), torch.from_numpy(graph.features.data), edges)
    right = scores.argmax(1) == torch.from_numpy(graph.labels).long()
    return float(right[torch.from_numpy(graph.split("test"))].float().mean())


def main() -> None:
    """Trains both on the ranks of this run."""
    graph = make_graph()
    with Grid(timeout=120) as grid:
        for name, rule in RULES.items():
            own = Path(f"{sys.argv[1]}.{name}") if sys.argv[1:] else None
            model = train(rule, graph, grid, own)
            if grid.rank == 0:
                print(f"{name:7} test accuracy {evaluate(model, graph):.3f}", flush=True)


if __name__ == "__main__":
    main()
