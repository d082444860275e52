"""infer: computes exact scores of all nodes by chunks, layer by layer, in bounded memory.

Rows of all nodes are kept only between two aggregations (and for skip tensors); everything else has
the size of a chunk. Nothing is sampled and nothing is stale.
"""

import torch
from torch import Tensor

from foregather.errors import NumericError
from foregather.pipeline.passes.layerwise import LayerPass
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.passes.tensor_parallel import TensorPass
from foregather.pipeline.planning.schedule import How, Schedule

__all__ = ["infer"]


def infer(stage: Stage) -> Tensor | None:
    """Returns scores [N, classes] by node id on the last stage; None on the others.

    Raises:
        NumericError: rows became NaN or infinite.
    """
    held = [*range(stage.program.first, stage.program.last), *stage.program.again]
    training = [(stage.layers[n], stage.layers[n].training) for n in held]
    for layer, _ in training:
        layer.eval()
    try:
        with torch.no_grad():
            run: LayerPass | TensorPass
            if stage.whole is not None:
                run = TensorPass(stage, _forward(stage, "columns"), None)
            else:
                run = LayerPass(stage, _forward(stage, "layerwise"), None)
            outcome = run.forward()
    finally:
        for layer, mode in training:
            layer.train(mode)
    if outcome.fault is not None:
        raise NumericError(
            f"rows of chunk {outcome.fault} are NaN or infinite in stage {stage.program.stage}; "
            "check the features of that chunk and the weights"
        )
    if run.scores is None:
        return None
    rows = _of_all_ways(stage, run.scores)
    scores = torch.empty_like(rows)
    scores[torch.from_numpy(stage.chunks.order).to(scores.device)] = rows
    return scores


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
