"""infer: computes exact scores of all nodes by chunks, layer by layer, in bounded memory.

Rows of all nodes are kept only between two aggregations (and for skip tensors); everything else has
the size of a chunk. Nothing is sampled and nothing is stale.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from foregather.errors import InputError, NumericError
from foregather.graph.graph import Graph
from foregather.pipeline.dry_run import probe
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import make_chunks
from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.passes.layerwise import LayerPass
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.loss import default_loss
from foregather.pipeline.passes.segments import as_layers, stage_program
from foregather.pipeline.passes.stage import FeatureTable, Stage, Targets
from foregather.pipeline.passes.tensor_parallel import TensorPass
from foregather.pipeline.planning.schedule import How, Schedule
from foregather.pipeline.split.changes import buffers_kept
from foregather.pipeline.split.split import layers_of

__all__ = ["check_finite", "evaluating", "infer", "infer_scores"]


def infer(stage: Stage) -> Tensor | None:
    """Returns scores [N, classes] by node id on the last stage; None on the others.

    Raises:
        NumericError: rows became NaN or infinite.
    """
    with evaluating(stage):
        run: LayerPass | TensorPass
        if stage.whole is not None:
            run = TensorPass(stage, _forward(stage, "columns"), None)
        else:
            run = LayerPass(stage, _forward(stage, "layerwise"), None)
        outcome = run.forward()
    check_finite(outcome.fault, stage)
    if run.scores is None:
        return None
    rows = _of_all_ways(stage, run.scores)
    scores = torch.empty_like(rows)
    scores[torch.from_numpy(stage.chunks.order).to(scores.device)] = rows
    return scores


@contextmanager
def evaluating(stage: Stage) -> Iterator[None]:
    """Layers are in evaluation inside, and they and their buffers are afterwards as they were."""
    held = [*range(stage.program.first, stage.program.last), *stage.program.again]
    training = [(stage.layers[n], stage.layers[n].training) for n in held]
    for layer, _ in training:
        layer.eval()
    try:
        with torch.no_grad(), buffers_kept([layer for layer, _ in training]):
            yield
    finally:
        for layer, mode in training:
            layer.train(mode)


def check_finite(fault: int | None, stage: Stage) -> None:
    """Raises if rows of a chunk are not finite.

    Raises:
        NumericError: they are not.
    """
    if fault is not None:
        raise NumericError(
            f"rows of chunk {fault} are NaN or infinite in stage {stage.program.stage}; "
            "check the features of that chunk and the weights"
        )


def _forward(stage: Stage, how: How) -> Schedule:
    """Returns the schedule of all chunks forward, in the order of their numbers."""
    order = tuple(range(stage.chunks.ticks))
    return Schedule(how, stage.programs, stage.link.ways, len(stage.chunks), order, gradients=False)


def _of_all_ways(stage: Stage, own: Tensor) -> Tensor:
    """Collects the scores of all ways, by new number."""
    if stage.reach.ways == 1:
        return own
    everyone = own.new_zeros(stage.topology.graph.num_nodes, own.shape[1])
    everyone[stage.reach.first : stage.reach.first + stage.reach.own] = own
    return stage.link.around(everyone, torch.add, "state", stage.link.way_chain)


def infer_scores(
    graph: Graph,
    model: nn.Module | Sequence[nn.Module],
    chunks: int,
    prepare: Callable[[Sequence[nn.Module]], None] | None = None,
) -> Tensor:
    """Returns exact scores [N, classes] by node id on one device; labels are not needed.

    Args:
        graph: with features.
        model: a model or layers, as for `FullGraph`.
        chunks: K.
        prepare: called with the layers before they are run, for example to load weights.

    Raises:
        InputError: the model does not fit the graph, or cannot run in chunks.
        NumericError: rows became NaN or infinite.
    """
    if graph.features is None or not graph.num_nodes:
        raise InputError("the graph has no features or no nodes, so there is nothing to infer")
    layers = as_layers(layers_of(model, graph, chunks))
    if prepare is not None:
        prepare(layers)
    weight = next((p for layer in layers for p in layer.parameters()), torch.empty(0))
    cut = make_chunks(graph, chunks, "natural")
    place = ChunkTopology(graph, cut, weight.dtype, weight.device)
    stage = Stage(
        layers,
        (stage_program(layers, [0, len(layers)], 0, False),),
        place,
        Reach(place, 0, 1),
        FeatureTable(graph.features, cut, place.dtype, place.device),
        Targets([], [], 0, default_loss(torch.zeros(1, dtype=torch.int64))),
        probe(layers, graph, chunks),
        Link(0, 1, 1.0, None),
        Runtime(),
        0,
    )
    scores = infer(stage)
    assert scores is not None
    return scores
