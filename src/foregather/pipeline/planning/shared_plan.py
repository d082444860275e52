"""shared_plan: a plan that all ranks share: the first rank makes it, the others get it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn

from foregather.errors import ForegatherError
from foregather.graph.graph import Graph
from foregather.pipeline.planning.measured_line import measure_costs, measure_line
from foregather.pipeline.planning.planner import StagePlan, make_plan

__all__ = ["planned"]


def planned(
    graph: Graph, layers: Sequence[nn.Module], draw: Path | None = None, **options: Any
) -> tuple[dict[str, Any], str]:
    """Returns the arguments for `FullGraph` that `make_plan` chose, and the explanation.

    All ranks measure costs together, and the first two the line between them; the first rank plans,
    and all ranks get its plan.

    Args:
        graph: the graph.
        layers: as for `FullGraph`.
        draw: where the stage x chunk timeline is drawn.
        **options: of `make_plan`, except ranks and line.

    Raises:
        ForegatherError: on all ranks: what `make_plan` raised, or one of them while profiling.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        plan = make_plan(graph, layers, 1, **options)
        return _told(plan, draw)
    line = measure_line()
    if options.get("costs") is None:
        options["costs"] = measure_costs(graph, layers)
    found: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            plan = make_plan(graph, layers, dist.get_world_size(), line=line, **options)
            found = [_told(plan, draw)]
        except ForegatherError as error:
            found = [error]
    dist.broadcast_object_list(found, 0)
    if isinstance(found[0], ForegatherError):
        raise found[0]
    chosen: tuple[dict[str, Any], str] = found[0]
    return chosen


def _told(plan: StagePlan, draw: Path | None) -> tuple[dict[str, Any], str]:
    if draw is not None:
        plan.draw(draw)
    return plan.options(), plan.explain()
