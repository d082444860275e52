"""stage_candidate: a way to train in stages, with what an epoch of it would cost, and its table."""

from dataclasses import dataclass

from foregather.pipeline.planning.workload import Setting
from foregather.plan.candidate import Candidate, Column
from foregather.units import format_bytes

__all__ = ["COLUMNS", "StageCandidate", "skips_word"]


@dataclass(frozen=True)
class StageCandidate(Candidate):
    """One setting with what an epoch would cost.

    Bytes are those sent by all ranks; memory is that of the fullest rank, without the graph.

    Attributes:
        setting: what would be run.
        bubble: share of the ranks' time in which nothing is computed.
        stale: share of the edges read from history.
        busiest: seconds for which the busiest rank computes.
        again: of the seconds, those in which segments are run again, which no line changes.
    """

    setting: Setting
    bubble: float
    stale: float
    busiest: float
    again: float = 0.0


def skips_word(candidate: StageCandidate) -> str:
    """How later stages get skip tensors: sent on, or made again from the features."""
    return "again" if candidate.setting.again else "sent"


COLUMNS: tuple[Column[StageCandidate], ...] = (
    Column("scheme", "<9", lambda c: c.setting.scheme),
    Column("mode", "<6", lambda c: c.setting.mode),
    Column("S", ">3", lambda c: str(c.setting.stages)),
    Column("G", ">3", lambda c: str(c.setting.ways)),
    Column("K", ">4", lambda c: str(c.setting.chunks)),
    Column("recompute", ">9", lambda c: c.setting.recompute),
    Column("skips", ">5", lambda c: skips_word(c)),
    Column("bytes", ">10", lambda c: format_bytes(c.bytes)),
    Column("seconds", ">10", lambda c: f"{c.seconds:.4g}"),
    Column("bubble", ">7", lambda c: f"{c.bubble:.0%}"),
    Column("memory", ">10", lambda c: format_bytes(c.memory)),
    Column("stale", ">6", lambda c: f"{c.stale:.1%}"),
)
