"""chosen_plan: chunks, stages and ways of a full-graph run: as asked for, planned, or as begun.

The planner measures, so it may choose otherwise the next time. What it chose is kept with the run,
with a digest of how the nodes are cut, and a resumed run takes it from there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from foregather.errors import FormatError, InputError
from foregather.graph.graph import Graph
from foregather.pipeline import Chunks, Meter, Runtime, Techniques, planned
from foregather.pipeline.options import USUAL_EVERY
from foregather.train.settings import Settings

__all__ = ["ChosenPlan", "choose_plan", "plan_of"]

_MOST = 1 << 31  # chunks or ways that nobody has
_CHOICES = {
    "mode": ("exact", "bounded", "fast"),
    "split": ("nodes", "columns"),
    "recompute": ("none", "dense", "all", "segments", "disk"),
}


@dataclass(frozen=True)
class ChosenPlan:
    """What results or memory depend on, in addition to the settings.

    Attributes:
        chunks: K.
        mode: how exact an epoch is.
        ways: ranks that share a stage.
        split: what is divided among ways.
        recompute: what is recomputed in the backward pass.
        cuts: the first layer of each further stage; None shares aggregations out evenly.
        cut: digest of which nodes are in which chunk; empty: not known yet.
        boundary_rate: share of boundary rows that ways exchange.
        initial_again: whether stages run the first layers again in place of getting their rows.
    """

    chunks: int
    mode: Any
    ways: int
    split: Any
    recompute: Any
    cuts: Sequence[int] | None = None
    cut: str = ""
    boundary_rate: float = 1.0
    initial_again: bool = False

    def facts(self) -> dict[str, Any]:
        """For the run's environment."""
        return asdict(self)

    def options(self, settings: Settings) -> dict[str, Any]:
        """Keyword arguments for `FullGraph`, with those of the settings."""
        wanted = settings.full_graph
        runtime = replace(
            _runtime(settings),
            recompute=self.recompute,
            ways=self.ways,
            split=self.split,
            cuts=self.cuts,
            boundary_rate=self.boundary_rate,
            initial_again=self.initial_again,
        )
        common = {"chunks": self.chunks, "mode": self.mode, "runtime": runtime}
        if self.mode == "exact":
            return common
        every = wanted.measure
        if every < 0:
            every = USUAL_EVERY[self.mode]
        return common | {
            "techniques": Techniques(
                wanted.reshuffle, wanted.refresh, wanted.factor, wanted.first_sweep
            ),
            "meter": Meter(every, wanted.error, wanted.cosine),
        }

    def with_cut(self, chunks: Chunks) -> "ChosenPlan":
        """The same with the digest of how the nodes are cut.

        Raises:
            InputError: the run was begun with other chunks.
        """
        found = hashlib.sha256(np.ascontiguousarray(chunks.order).tobytes())
        found.update(np.ascontiguousarray(chunks.bounds).tobytes())
        digest = found.hexdigest()[:16]
        if self.cut not in ("", digest):
            raise InputError(
                "the nodes are cut into other chunks here than where the run was begun (is METIS "
                "there in one place only, or of another version?); resume it there, or start a "
                "new run"
            )
        return replace(self, cut=digest)


def choose_plan(
    graph: Graph,
    layers: Sequence[nn.Module],
    settings: Settings,
    begun: Mapping[str, Any] | None,
) -> tuple[ChosenPlan, str, Any]:
    """The plan of a run, the planner's explanation, and how nodes are cut; all ranks call this.

    Args:
        graph: the graph.
        layers: as for `FullGraph`.
        settings: of the run.
        begun: what a run that goes on was begun with; None for a new one.

    Raises:
        FormatError: what it was begun with holds no plan.
        ForegatherError: what the planner raises.
    """
    wanted = settings.full_graph
    if begun is not None:
        return plan_of(begun), "", wanted.partition
    if wanted.chunks:
        given = (wanted.chunks, wanted.mode, wanted.ways, wanted.split, wanted.recompute)
        kept = ChosenPlan(
            *given, boundary_rate=wanted.boundary_rate, initial_again=wanted.initial_again
        )
        return kept, "", wanted.partition
    options, text = planned(
        graph,
        layers,
        mode=wanted.mode,
        draw=Path(wanted.timeline) if wanted.timeline else None,
        memory=None if wanted.memory == "none" else wanted.memory,
        seed=settings.train.seed,
        partition=wanted.partition,
        runtime=_runtime(settings),
    )
    runtime = options["runtime"]
    chosen = ChosenPlan(
        options["chunks"],
        options["mode"],
        runtime.ways,
        runtime.split,
        runtime.recompute,
        runtime.cuts,
        boundary_rate=runtime.boundary_rate,
        initial_again=runtime.initial_again,
    )
    return chosen, text, options["partition"]


def _runtime(settings: Settings) -> Runtime:
    wanted = settings.full_graph
    return Runtime(
        recompute=wanted.recompute,
        boundary=None if wanted.boundary == "none" else wanted.boundary,
        boundary_rate=wanted.boundary_rate,
        initial_again=wanted.initial_again,
        timeout=settings.grid.timeout,
        memory=None if settings.memory.budget == "none" else settings.memory.budget,
        scratch=settings.run if settings.run and Path(settings.run).is_dir() else None,
    )


def plan_of(facts: Mapping[str, Any]) -> ChosenPlan:
    """What environment.json says of the plan; it may be a stranger's."""
    try:
        plan = ChosenPlan(**facts["plan"])
        counts = [plan.chunks, plan.ways, *(plan.cuts or ())]
        whole = all(type(count) is int and 0 < count < _MOST for count in counts)
        known = all(getattr(plan, name) in choices for name, choices in _CHOICES.items())
        share = type(plan.boundary_rate) in (int, float) and 0 < plan.boundary_rate <= 1
        kinds = isinstance(plan.cut, str) and isinstance(plan.initial_again, bool)
        if not (whole and known and share and kinds):
            raise ValueError("a field has no possible value")
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"environment.json holds no plan of a full-graph run ({error}); restore it, or train "
            "again"
        ) from error
    return plan
