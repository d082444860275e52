"""exact: scores of nodes of a typed graph with every edge, in memory.

Three ways. Models by name, without times: layer by layer, each a sweep over the targets of each
type with all their in-neighbours. Models of the user, without times: one call with the whole graph.
With times or trees: the tree of each row with every neighbour that it may see, since trees see
different graphs. None of them samples, so each equals the model on the whole graph (of the row's
moment), up to rounding.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import NumericError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.hetero.hetero_batch import HeteroAssembler
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.loader.hetero.input_rows import Dealt
from foregather.nn.accelerated import Accelerated
from foregather.nn.hetero.model import TypedModel
from foregather.observe.progress import Progress
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.train.hetero.call import call_model, seed_scores
from foregather.train.hetero.layers import by_layers
from foregather.train.hetero.make import exact_sampler
from foregather.train.hetero.task import TypedTask
from foregather.train.settings import Settings

__all__ = [
    "MOST_EDGES",
    "choose_way",
    "exact_scores",
    "predict_edges",
    "sampled_scores",
    "whole_batch",
]

Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float32]

#: Edges of all trees together up to which the final scores of a run are exact.
MOST_EDGES = 100_000_000
_PART_EDGES = 1 << 20  # edges that are computed together
_TRIED = 32  # rows whose trees are looked at to predict the others


def choose_way(model: nn.Module, settings: Settings) -> str:
    """How exact scores are computed: "layers", "whole" or "trees"."""
    if settings.typed.time != "none":
        return "trees"
    if isinstance(model, TypedModel):
        return "layers"
    return "trees" if settings.typed.disjoint else "whole"


@torch.no_grad()
def exact_scores(
    model: nn.Module,
    graph: HeteroGraph,
    task: TypedTask,
    settings: Settings,
    hops: int,
    nodes: Ids | None = None,
    most: int | None = None,
) -> Rows:
    """Scores of nodes of the target type, one row each.

    Args:
        model: called in evaluation mode.
        graph: the graph.
        task: the target type, and the times of seeds.
        settings: of the run.
        hops: layers of the model.
        nodes: which nodes; None for all.
        most: targets that are computed together, at most; None: as many as is sensible.

    Raises:
        NumericError: scores that are NaN or infinite.
    """
    wanted = np.arange(task.table.num_nodes) if nodes is None else nodes
    training, way = model.training, choose_way(model, settings)
    model.eval()
    try:
        if way == "trees":
            return _by_trees(model, graph, task, settings, hops, wanted)
        if isinstance(model, TypedModel):
            made = by_layers(model, graph, settings.train.threads, most)
        else:
            whole = whole_batch(graph, task, settings, hops).to(_device(model))
            made = call_model(model, whole, task.target)
        return _checked(made)[wanted]
    finally:
        model.train(training)


@torch.no_grad()
def sampled_scores(
    model: nn.Module,
    loader: HeteroLoader,
    target: str,
    bar: Progress | None = None,
    fast: Accelerated | None = None,
) -> Rows:
    """Scores of the input rows of a loader, in order.

    Args:
        model: called in evaluation mode.
        loader: not shuffled; its epoch 0 is taken, so equal weights have equal scores.
        target: the node type.
        bar: advanced after each batch.
        fast: the model, accelerated, which is called instead.
    """
    training = model.training
    model.eval()
    loader.set_epoch(0)
    parts = []
    try:
        for batch in loader:
            parts.append(_checked(seed_scores(model, batch, target, fast)))
            if bar is not None:
                bar.advance(1)
    finally:
        model.train(training)
    return np.concatenate(parts)


def _checked(scores: Tensor) -> Rows:
    if not bool(torch.isfinite(scores).all()):
        raise NumericError(
            f"scores of {len(scores)} evaluated nodes hold NaN or infinity; try a smaller learning "
            "rate, and check the features"
        )
    rows: Rows = scores.detach().float().cpu().numpy()
    return rows


def _device(model: nn.Module) -> torch.device:
    """Where the model is; the host for one without weights."""
    weight = next(iter(model.parameters()), None)
    return torch.device("cpu") if weight is None else weight.device


# ---- trees -------------------------------------------------------------------------------------


def _by_trees(
    model: nn.Module, graph: HeteroGraph, task: TypedTask, settings: Settings, hops: int, nodes: Ids
) -> Rows:
    each = max(1, predict_edges(graph, task, settings, hops, nodes) // max(1, len(nodes)))
    size = int(min(settings.train.batch_size, max(1, _PART_EDGES // each)))
    device = _device(model)
    loader = HeteroLoader(
        graph,
        None,
        (task.target, nodes),
        size,
        input_time=task.at(nodes),
        sampler=exact_sampler(settings, hops),
        threads=settings.train.threads,
        device=None if device.type == "cpu" else device,
        bulk=1,
        prefetch=1,
    )
    with Progress("exact scores", len(loader), "batches") as bar:
        return sampled_scores(model, loader, task.target, bar)


def predict_edges(
    graph: HeteroGraph, task: TypedTask, settings: Settings, hops: int, nodes: Ids
) -> int:
    """Edges of the exact trees of these rows together, predicted from some of them."""
    tried = nodes[np.linspace(0, len(nodes) - 1, min(_TRIED, len(nodes))).astype(np.int64)]
    sampler, found, seen = exact_sampler(settings, hops), 0, 0
    for place, node in enumerate(tried):
        one = np.array([node])
        times = task.at(one)
        sample = sampler.sample_bulk(
            graph,
            {task.target: [one]},
            seed=0,
            threads=settings.train.threads,
            rows={task.target: [np.array([place])]} if sampler.disjoint else None,
            times=None if times is None else {task.target: [times]},
        )[0]
        found += sum(len(edges.row) for edges in sample.edges.values())
        seen += 1
        if found > MOST_EDGES:  # enough is known
            break
    return found * len(nodes) // max(1, seen)


# ---- the whole graph in one call -----------------------------------------------------------------


def whole_batch(graph: HeteroGraph, task: TypedTask, settings: Settings, hops: int) -> Any:
    """The graph as one batch, in which everything is found in the first layer."""
    nodes = {
        name: NodeSample(np.arange(table.num_nodes), (table.num_nodes,) * (hops + 1), None, None)
        for name, table in graph.nodes.items()
    }
    every = np.arange(task.table.num_nodes)
    edges = {}
    for name in graph.edge_types:
        walked = graph.relation(name, None, settings.train.threads)
        targets = np.repeat(np.arange(walked.num_targets), np.diff(walked.indptr))
        counts = (walked.num_edges, *(0,) * (hops - 1))
        edges[name] = EdgeSample(
            walked.indices.astype(np.uint32),
            targets.astype(np.uint32),
            np.arange(walked.num_edges),
            counts,
        )
    made = HeteroAssembler.of(graph, None, threads=settings.train.threads)
    return made.batch(HeteroSample(nodes, edges, 0), task.target, Dealt(every, every, None))
