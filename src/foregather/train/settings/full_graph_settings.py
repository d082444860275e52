"""full_graph_settings: how a run trains on the full graph; the section [full_graph] of a config."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from foregather.errors import InputError
from foregather.units import parse_size

if TYPE_CHECKING:
    from foregather.train.settings.settings import Settings

__all__ = ["FullGraphSettings", "check_full_graph"]

_MOST = (1 << 31) - 1  # chunks, ways or epochs that nobody has


@dataclass(frozen=True)
class FullGraphSettings:
    """Training on all nodes and edges in every epoch (train.method = "full-graph")."""

    mode: Literal["exact", "bounded", "fast"] = "exact"
    """How exact an epoch is."""
    chunks: int = 0
    """Node chunks; 0 lets the planner choose chunks, stages and ways."""
    ways: int = 1
    """Ranks that share a stage, where chunks are given."""
    split: Literal["nodes", "columns"] = "nodes"
    """What is divided among ways, if chunks are given."""
    partition: Literal["auto", "metis", "metis-volume", "random", "natural"] = "auto"
    """How nodes are cut into chunks; auto: METIS if it is installed; metis-volume: fewest rows
    between ways, not fewest edges."""
    memory: str = "none"
    """Limit per rank for the planner, without the graph: 8GB."""
    recompute: Literal["none", "dense", "all", "segments", "disk"] = "none"
    """What is recomputed in the backward pass, if chunks are given."""
    boundary: Literal["none", "bfloat16"] = "none"
    """bfloat16: send half the bytes between stages, with rounding."""
    boundary_rate: float = 1.0
    """Share of boundary rows that graph-parallel ways exchange in an epoch, drawn by epoch and node
    and weighted up (fast, as many chunks as ways); 1: all."""
    initial_again: bool = False
    """Run the first layer of GCNII again on each stage in place of sending its rows."""
    reshuffle: bool = True
    """A new order of chunks each epoch (bounded, fast); --full-graph.no-reshuffle keeps one."""
    refresh: int = 1
    """Epochs after which history is renewed (bounded, fast)."""
    factor: float = 1.0
    """Weight of fresh gradients from other chunks (bounded, fast)."""
    first_sweep: bool = True
    """Fill history by a sweep before the first epoch (bounded, fast);
    --full-graph.no-first-sweep begins with zeros."""
    measure: int = -1
    """Epochs between measurements of staleness; 0: never; -1: 10 in bounded, 25 in fast."""
    error: float = 0.3
    """The largest error of history that bounded accepts."""
    cosine: float = 0.9
    """The smallest cosine of the gradient to the exact one that bounded accepts."""
    validate: int = 1
    """Epochs between validations, by every edge; 0: none, and the last weights are delivered."""
    start: str = ""
    """A file of train-full --save to begin with, of any number of ranks."""
    timeline: str = ""
    """Draw the planner's stage x chunk timeline to this file, where it chooses."""


def check_full_graph(settings: "Settings") -> None:
    """Refuses values that no full-graph run can have.

    Raises:
        InputError: the message has the key, what was given and what is expected.
    """
    wanted = settings.full_graph
    counts = {"chunks": 0, "ways": 1, "refresh": 1, "measure": -1, "validate": 0}
    for name, least in counts.items():
        value = getattr(wanted, name)
        if not least <= value <= _MOST:
            raise InputError(f"full_graph.{name} is {value}, expected {least} to {_MOST}")
    if not 0 <= wanted.factor < float("inf"):
        raise InputError(f"full_graph.factor is {wanted.factor}, expected 0 or more")
    if not 0 < wanted.boundary_rate <= 1:
        raise InputError(
            f"full_graph.boundary_rate is {wanted.boundary_rate}, expected a share above 0 and at "
            "most 1"
        )
    if wanted.memory != "none":
        parse_size(wanted.memory)
    if settings.train.method != "full-graph":
        return
    if settings.train.patience and not wanted.validate:
        raise InputError(
            f"train.patience is {settings.train.patience}, but full_graph.validate is 0, so no "
            "epoch is better than another; set full_graph.validate to 1 or more"
        )
    if wanted.boundary_rate < 1 and wanted.mode != "fast":
        raise InputError(
            f"full_graph.boundary_rate is {wanted.boundary_rate} with full_graph.mode "
            f"{wanted.mode!r}, which leaves no row out; set the mode to fast, or the rate to 1"
        )
    held = "but full-graph training holds the graph in memory"
    _check_budget(settings)
    if settings.memory.storage not in ("auto", "memory"):
        raise InputError(
            f"memory.storage is {settings.memory.storage!r}, {held}; leave it out, or train on "
            "sampled batches"
        )
    if settings.grid.weights != "replicated":
        raise InputError(
            "grid.weights is 'sharded', but stages of full-graph training have their own layers; "
            "leave it out"
        )


def _check_budget(settings: "Settings") -> None:
    """Refuses a budget that exact epochs of one rank cannot keep."""
    wanted, budget = settings.full_graph, settings.memory.budget
    if budget == "none":
        return
    if budget == "auto":
        raise InputError("memory.budget is 'auto' in full-graph training, expected bytes: 4GB")
    if wanted.mode != "exact":
        raise InputError(
            f"memory.budget is {budget!r} with full_graph.mode {wanted.mode!r}, expected mode "
            "'exact'; set it, or limit the planner with full_graph.memory"
        )
    if not wanted.chunks and wanted.memory != "none":
        raise InputError(
            f"memory.budget is {budget!r} and full_graph.memory {wanted.memory!r}; give one of "
            "them: a budget counts the whole process, the other what a run adds to the graph"
        )
    if wanted.recompute != "none":
        raise InputError(
            f"memory.budget is {budget!r} and full_graph.recompute {wanted.recompute!r}; give one "
            "of them: a budget decides what is recomputed"
        )
