"""planner: picks scheme, stages, ways, chunks and the split of layers, under a memory limit.

Every candidate is simulated from profiled layers, the measured cut and the line between ranks; the
fastest one that fits and obeys the mode is chosen, and of those that are as fast within what the
model can tell apart, the least stale. A pure function of its arguments, except for the profile,
which measures this machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.loader.memory.division import refusal
from foregather.pipeline.options import Mode, Runtime
from foregather.pipeline.partition.chunks import Method, make_chunks
from foregather.pipeline.partition.cut import Cut, measure_cut
from foregather.pipeline.passes.segments import shared_statistics
from foregather.pipeline.passes.tensor_parallel import only_sums
from foregather.pipeline.planning.alone import Alone
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import Timeline, draw_timeline, simulate
from foregather.pipeline.planning.stage_candidate import COLUMNS, StageCandidate, skips_word
from foregather.pipeline.planning.workload import (
    Setting,
    Workload,
    memory_of,
    split_layers,
    workload_of,
)
from foregather.pipeline.whole.budget import scratch_folder
from foregather.plan.candidate import heading, ranked, row
from foregather.plan.line import Line
from foregather.units import format_bytes, format_number, parse_size

__all__ = ["StageCandidate", "StagePlan", "make_plan"]

_TICKS = (1, 2, 4)  # chunks one after the other, in multiples of the stages
_SINGLE = (1, 2, 4, 8, 16, 32, 64)  # chunks of one rank
_FACTORS = tuple(4.0**step for step in (1, 2, 3, 4, 5, 6))  # how far to look for a flip
_AS_FAST = 1.03  # times the fewest seconds: no simulation is more exact than that


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A choice, and everything that was considered.

    Attributes:
        candidates: all of them, the fastest first.
        chosen: the one to run.
        line: between ranks.
        limit: memory limit per rank, or None.
        work: what is trained, as numbers.
        cuts: the measured cut of each (chunks, ways).
        runtime: what the caller asked for.
        mode: what the caller asked for.
    """

    candidates: tuple[StageCandidate, ...]
    chosen: StageCandidate
    line: Line
    limit: int | None
    work: Workload
    cuts: dict[tuple[int, int], Cut]
    runtime: Runtime
    mode: Mode

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `FullGraph`: chunks, mode, partition and runtime."""
        setting = self.chosen.setting
        chunks = self.cuts[setting.chunks, setting.ways].chunks
        return {
            "chunks": setting.chunks,
            "mode": self.mode if setting.mode == "fast" else "exact",
            "partition": chunks.chunk_of(chunks.number),
            "runtime": replace(
                self.runtime,
                cuts=list(setting.cuts[1:-1]),
                ways=setting.ways,
                split=setting.split,
                recompute="none" if self.runtime.memory is not None else setting.recompute,
                boundary_rate=setting.rate,
                initial_again=self.runtime.initial_again or setting.again,
                abreast=None,
            ),
        }

    def timeline(self, candidate: StageCandidate | None = None) -> Timeline:
        """Simulates an epoch of a candidate; None means the chosen one."""
        return _simulated(self.work, (candidate or self.chosen).setting, self.cuts, self.line)

    def draw(self, path: Path | str, candidate: StageCandidate | None = None) -> None:
        """Draws the stage x chunk timeline to a file; needs matplotlib."""
        setting = (candidate or self.chosen).setting
        title = f"{setting.scheme}: {_shape(setting)}, modelled"
        draw_timeline(self.timeline(candidate), path, title)

    def explain(self) -> str:
        """Explains the candidates, the choice with its schedule, and what would flip it."""
        lines = [
            f"line between ranks: {self.line.rate / 1e9:.3g} GB/s, "
            f"{self.line.latency * 1e6:.3g} us, {self.line.work * 1e9:.3g} ns of work per byte and "
            f"{self.line.call * 1e6:.3g} us per exchange, "
            f"{format_bytes(int(self.line.burst))} at once after a pause; "
            "memory per rank: " + ("no limit" if self.limit is None else format_bytes(self.limit)),
            heading(COLUMNS),
            *(f"{row(COLUMNS, one)}  {one.refused}" for one in self.candidates),
        ]
        setting = self.chosen.setting
        lines.append(
            f"chosen: {setting.scheme}, {_shape(setting)}, "
            f"{format_number(setting.chunks, 'chunk')}, layers cut at {list(setting.cuts[1:-1])}, "
            f"recompute {setting.recompute}, skip tensors {skips_word(self.chosen)}; seconds are "
            "modelled"
        )
        lines.append(self.decided())
        lines.append(setting.schedule(self.work).show())
        return "\n".join([*lines, *self.flips()])

    def decided(self) -> str:
        """Says why the chosen one: it is the fastest, or the least stale of those as fast."""
        chosen, fastest = self.chosen, ranked(self._allowed())[0]
        if chosen is fastest:
            return f"decided by seconds: nothing that fits is faster than {chosen.seconds:.4g} s"
        return (
            f"decided by staleness: {chosen.stale:.1%} at {chosen.seconds:.4g} s, while the "
            f"fastest ({_name(fastest)}) reads {fastest.stale:.1%} from history at "
            f"{fastest.seconds:.4g} s, which is within {_AS_FAST - 1:.0%}"
        )

    def flips(self) -> list[str]:
        """Says what would change the choice: another line, or less memory."""
        found = []
        for word, factors in (("slower", [1 / f for f in _FACTORS]), ("faster", _FACTORS)):
            for factor in factors:
                line = replace(self.line, rate=self.line.rate * factor)
                other = self._best(line)
                if other.setting != self.chosen.setting and _name(other) != _name(self.chosen):
                    found.append(f"at {line.rate / 1e9:.3g} GB/s ({word}): {_name(other)}")
                    break
            else:
                found.append(f"a line {_FACTORS[-1]:.0f} times {word} does not change the choice")
        smaller = [c for c in self._allowed() if c.memory < self.chosen.memory]
        if smaller:
            following = ranked(smaller)[0]
            found.append(
                f"below {format_bytes(self.chosen.memory)} per rank: {_name(following)}, "
                f"{following.seconds:.4g} s"
            )
        else:
            found.append(f"nothing fits in less than {format_bytes(self.chosen.memory)} per rank")
        return found

    def _allowed(self) -> list[StageCandidate]:
        return [c for c in self.candidates if not c.refused]

    def _best(self, line: Line) -> StageCandidate:
        """Returns the choice for another line; candidates that cannot win are not simulated."""

        def bound(c: StageCandidate) -> float:
            ranks = c.setting.stages * c.setting.ways
            return max(c.busiest, (c.bytes / ranks - line.burst) / line.rate)

        found: list[StageCandidate] = []
        fewest = float("inf")
        for candidate in sorted(self._allowed(), key=bound):
            if bound(candidate) > fewest * _AS_FAST:
                break
            seconds = _simulated(self.work, candidate.setting, self.cuts, line).seconds
            seconds += candidate.again
            found.append(replace(candidate, seconds=seconds))
            fewest = min(fewest, seconds)
        return _choice(found) or self.chosen


def _choice(candidates: Sequence[StageCandidate]) -> StageCandidate | None:
    """Returns the least stale of those that are as fast as the fastest, within a few percent.

    Of equally stale ones it is the fastest, and of equals the one with the fewest chunks.
    """
    allowed = sorted(
        (one for one in candidates if not one.refused), key=lambda one: one.setting.chunks
    )
    fewest = min((one.seconds for one in allowed), default=0.0)
    level = [one for one in allowed if one.seconds <= fewest * _AS_FAST]
    return min(level, key=lambda one: (one.stale, one.seconds), default=None)


def _name(candidate: StageCandidate) -> str:
    s = candidate.setting
    return f"{s.scheme} with {_shape(s)} and {format_number(s.chunks, 'chunk')}"


def _shape(setting: Setting) -> str:
    return f"{format_number(setting.stages, 'stage')} x {format_number(setting.ways, 'way')}"


def make_plan(
    graph: Graph,
    layers: nn.Module | Sequence[nn.Module],
    ranks: int = 1,
    mode: Mode = "exact",
    *,
    memory: str | int | None = None,
    line: Line | None = None,
    partition: Method = "auto",
    seed: int = 0,
    runtime: Runtime | None = None,
    stale: float = 1.0,
    costs: Sequence[LayerCost] | None = None,
    progress: Callable[[str], None] | None = None,
) -> StagePlan:
    """Compares the settings that can train these layers on P ranks, and chooses one.

    Args:
        graph: with features.
        layers: as for `FullGraph`.
        ranks: P.
        mode: "exact" allows no stale edge; otherwise pipelines and hybrids run in this mode.
        memory: limit per rank, without the graph itself: "8GB", bytes, or None.
        line: between ranks, see `measure_line`; None assumes 10 Gb/s and 50 us.
        partition: how nodes are cut.
        seed: random seed of the cut.
        runtime: `memory` is a budget of the whole process, for one rank, in place of the limit:
            the number of chunks is then chosen, and the run keeps what fits; with `scratch`, files
            are considered without a budget too. `boundary` is kept, and `initial_again` if it is
            set (otherwise both ways to get a skip tensor to later stages are considered); a
            `boundary_rate` below 1 is considered in mode "fast", with the bytes of an average
            epoch; the rest is chosen.
        stale: the largest share of stale edges that is accepted.
        costs: of the layers, if they are known; None profiles them here.
        progress: called with what is being considered.

    Raises:
        InputError: no ranks, or layers that do not fit together.
        InputError: a budget together with a limit or with several ranks.
        BudgetError: nothing fits the memory; the message says how much would.
    """
    if ranks < 1:
        raise InputError(f"ranks is {ranks}, expected 1 or more")
    runtime, line = runtime or Runtime(), line or Line()
    limit = None if memory is None else parse_size(memory)
    if runtime.memory is not None:
        limit = _budget(runtime, memory, ranks)
    work = workload_of(graph, layers, runtime, costs)
    alone = Alone(graph, work, runtime) if ranks == 1 else None
    cuts: dict[tuple[int, int], Cut] = {}
    found = []
    settings = _settings(work, ranks, mode, runtime.boundary_rate)
    for setting in settings if alone is None else alone.settings(settings):
        if setting.chunks > graph.num_nodes:
            continue
        key = (setting.chunks, setting.ways)
        if key not in cuts:
            if progress is not None:
                progress(f"{format_number(key[0], 'chunk')} in {format_number(key[1], 'way')}")
            chunks = make_chunks(graph, setting.chunks, partition, seed, setting.ways)
            cuts[key] = measure_cut(graph, chunks, setting.ways)
        found.append(_candidate(work, setting, cuts, line, limit, stale))
        if alone is not None:
            found[-1] = alone.held(found[-1], cuts[key], limit)
    if alone is not None:
        found = alone.without_files(found)
    chosen = _choice(found)
    if chosen is None:
        raise _nothing_fits(found, ranks, runtime, limit, stale)
    found.sort(key=lambda c: c.setting.chunks)  # equals in the order of preference
    return StagePlan(ranked(found), chosen, line, limit, work, cuts, runtime, mode)


def _nothing_fits(
    found: Sequence[StageCandidate],
    ranks: int,
    runtime: Runtime,
    limit: int | None,
    stale: float,
) -> BudgetError:
    """The error that names the least memory of any setting."""
    least = min((c.memory for c in found), default=0)
    if runtime.memory is not None:
        if least <= (limit or 0):  # it would fit, with a file
            scratch_folder(runtime)
        return refusal(
            f"memory is {format_bytes(limit or 0)}, expected at least {format_bytes(least)} for "
            "the process, the graph, the weights and one chunk of one layer; give more memory",
            least,
        )
    return refusal(
        f"no scheme for {format_number(ranks, 'rank')} fits {format_bytes(limit or 0)} per "
        f"rank with at most {stale:.0%} stale edges; the least memory of any is "
        f"{format_bytes(least)}",
        least,
    )


def _budget(runtime: Runtime, limit: str | int | None, ranks: int) -> int:
    """The budget of the whole process, where there is nothing else to limit.

    Raises:
        InputError: a limit as well, or several ranks.
    """
    if limit is not None:
        raise InputError(
            f"memory is {limit!r} and runtime.memory is {runtime.memory!r}; give one of them: the "
            "second counts the whole process, the first what a run adds to the graph"
        )
    if ranks > 1:
        raise InputError(
            f"runtime.memory is {runtime.memory!r} with {ranks} ranks, whose bytes are modelled "
            "and not promised, expected one rank; limit the plan with memory= instead"
        )
    return parse_size(runtime.memory or 0)


def _settings(work: Workload, ranks: int, mode: Mode, rate: float = 1.0) -> list[Setting]:
    """Returns all settings that are considered."""
    count = len(work.layers)
    made: list[Setting] = []
    if ranks == 1:
        made += [Setting("nodes", "exact", 1, 1, chunks, (0, count)) for chunks in _SINGLE]
    else:
        made.append(Setting("nodes", "exact", 1, ranks, ranks, (0, count)))
        if only_sums(work.layers, work.widths):
            made.append(Setting("columns", "exact", 1, ranks, ranks, (0, count)))
            if mode == "fast" and rate < 1:
                made.append(Setting("nodes", "fast", 1, ranks, ranks, (0, count), rate=rate))
    kinds: tuple[Literal["exact", "fast"], ...]
    kinds = ("exact",) if mode == "exact" else ("fast", "exact")
    for stages in range(2, min(ranks, count) + 1):
        if ranks % stages == 0:
            cuts, ways = split_layers(work, stages), ranks // stages
            if shared_statistics(work.layers, cuts) is not None:  # refused
                continue
            for kind in kinds:
                made += [
                    Setting("nodes", kind, stages, ways, ways * stages * ticks, cuts)
                    for ticks in _TICKS
                ]
    again = [
        replace(s, recompute="all")
        for s in made
        if s.split == "nodes" and s.scheme not in ("graph", "sampled")
    ]
    made += again
    return [*made, *(other for s in made if (other := _without_skips(work, s)) is not None)]


def _without_skips(work: Workload, setting: Setting) -> Setting | None:
    """Returns the same with skip tensors made again on each stage, if fewer columns then cross."""
    other = replace(setting, again=True)
    crossing = [
        sum(len(one.program(work, stage).skips_in) for stage in range(setting.stages))
        for one in (setting, other)
    ]
    return other if crossing[1] < crossing[0] else None


def _candidate(
    work: Workload,
    setting: Setting,
    cuts: dict[tuple[int, int], Cut],
    line: Line,
    limit: int | None,
    most: float,
) -> StageCandidate:
    cut = cuts[setting.chunks, setting.ways]
    timeline = _simulated(work, setting, cuts, line)
    memory = memory_of(work, setting, cut)
    stale = cut.stale if setting.mode == "fast" else 0.0
    refused = ""
    if limit is not None and memory > limit:
        refused = "over the memory limit"
    elif stale > most:
        refused = "too stale"
    return StageCandidate(
        setting,
        timeline.bubble,
        stale,
        max(timeline.busy),
        seconds=timeline.seconds,
        bytes=timeline.bytes,
        memory=memory,
        refused=refused,
    )


def _simulated(
    work: Workload, setting: Setting, cuts: dict[tuple[int, int], Cut], line: Line
) -> Timeline:
    cut = cuts[setting.chunks, setting.ways]
    if setting.rate < 1:
        cut = replace(cut, crossing=np.rint(setting.rate * cut.crossing).astype(np.int64))
    return simulate(rank_programs(work, setting, cut), line)
