"""pipeline: full-graph training in stages: chunks, schedule, engine, planner."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foregather.pipeline.full_graph import EpochReport, FullGraph
    from foregather.pipeline.infer import infer_scores
    from foregather.pipeline.options import Meter, Runtime, Techniques
    from foregather.pipeline.partition.chunks import Chunks, make_chunks
    from foregather.pipeline.planning.measured_line import measure_line
    from foregather.pipeline.planning.planner import StagePlan, make_plan
    from foregather.pipeline.planning.shared_plan import planned
    from foregather.pipeline.staleness import Reading
    from foregather.pipeline.state import load_state, save_state
    from foregather.plan.line import Line

__all__ = [
    "FullGraph",
    "Techniques",
    "Meter",
    "Runtime",
    "EpochReport",
    "Reading",
    "Chunks",
    "make_chunks",
    "make_plan",
    "planned",
    "StagePlan",
    "Line",
    "measure_line",
    "save_state",
    "load_state",
    "infer_scores",
]

_HOME = {
    "FullGraph": "full_graph",
    "EpochReport": "full_graph",
    "Techniques": "options",
    "Meter": "options",
    "Runtime": "options",
    "Reading": "staleness",
    "Chunks": "partition.chunks",
    "make_chunks": "partition.chunks",
    "make_plan": "planning.planner",
    "StagePlan": "planning.planner",
    "Line": "planning.simulate",
    "measure_line": "planning.measured_line",
    "planned": "planning.shared_plan",
    "save_state": "state",
    "load_state": "state",
    "infer_scores": "infer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foregather.pipeline' has no attribute {name!r}")
    return getattr(import_module(f"foregather.pipeline.{_HOME[name]}"), name)
