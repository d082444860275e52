"""alone: what the exact epochs of one rank hold and run again, as the run itself will choose.

The costs of segments are measured once, on a sample. For each number of chunks the same code as in
the run then chooses what is kept, run again and written to a file, so bytes are those that the run
announces: for a budget of the whole process, or for recomputation in segments or from a file.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.nn import list_kernels as kernels
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import Chunks
from foregather.pipeline.partition.cut import Cut
from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.loss import default_loss
from foregather.pipeline.passes.segments import stage_program
from foregather.pipeline.passes.stage import FeatureTable, Stage, Targets
from foregather.pipeline.planning.stage_candidate import StageCandidate
from foregather.pipeline.planning.workload import Recompute, Setting, Workload
from foregather.pipeline.split.layers import SplitLayer
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.budget import Choice, choose, run_again, scratch_folder
from foregather.pipeline.whole.costs import Measured, measure

__all__ = ["Alone"]


class Alone:
    """The exact epochs of one rank, by number of chunks.

    Args:
        graph: with features.
        work: the same with its layers as numbers.
        runtime: `memory` is the budget of the whole process, if there is one; `scratch` is where a
            file may be made.

    Raises:
        InputError: a budget, and rows that the core's kernels do not sum.
    """

    def __init__(self, graph: Graph, work: Workload, runtime: Runtime) -> None:
        self._graph, self._work, self._runtime = graph, work, runtime
        weight = next((p for one in work.layers for p in one.parameters()), torch.empty(0))
        self._dtype, self._device = weight.dtype, weight.device
        summed = self._device.type == "cpu" and self._dtype in kernels.NUMBERS
        self._able = summed and graph.labels is not None
        self._found: Measured | None = None
        self._lists = 0
        if runtime.memory is not None and not self._able:
            raise InputError(
                f"memory is {runtime.memory!r} on {self._device.type}, expected a CPU and a graph "
                "with labels; leave it out"
            )

    def settings(self, usual: Sequence[Setting]) -> list[Setting]:
        """What is considered: for a budget, only numbers of chunks; else more ways to recompute."""
        plain = [one for one in usual if one.recompute == "none" and self._is_cut(one)]
        if self._runtime.memory is not None:
            return plain
        more: list[Recompute] = []
        if self._able:
            more = ["segments"]
            if self._runtime.scratch is not None and self._has_folder():
                more.append("disk")
        return [*usual, *(replace(one, recompute=kind) for one in plain for kind in more)]

    def _is_cut(self, setting: Setting) -> bool:
        """Whether layers are split as they are measured: a model in one chunk is one layer."""
        return setting.chunks > 1 or not isinstance(self._work.layers[0], SplitLayer)

    def _has_folder(self) -> bool:
        """Whether a file may be made, and would save memory."""
        try:
            scratch_folder(self._runtime)
        except InputError:
            return False
        return True

    def held(self, candidate: StageCandidate, cut: Cut, limit: int | None) -> StageCandidate:
        """A candidate with the bytes and the seconds of what the run would choose."""
        setting, budget = candidate.setting, self._runtime.memory is not None
        if not budget and setting.recompute not in ("segments", "disk"):
            return candidate
        asked = self._runtime if budget else replace(self._runtime, recompute=setting.recompute)
        stage = self._stage(setting, cut.chunks, asked)
        if self._found is None:
            self._found = measure(stage)
        try:
            choice = self._choice(stage)
        except BudgetError as error:
            return replace(candidate, memory=error.least or 0, refused="over the budget")
        spilled = any(one.spilled for one in choice.stretches)
        if budget and spilled and not self._has_folder():
            memory = choice.most + choice.had
            return replace(candidate, memory=memory, refused="its file would be held in memory")
        if budget and spilled:
            setting = replace(setting, recompute="disk")
        elif budget and len(choice.stretches) > 1:
            setting = replace(setting, recompute="segments")
        again = self._seconds(stage, choice, cut)
        memory = choice.most + (choice.had if budget else self._lists)
        return replace(
            candidate,
            setting=setting,
            again=again,
            seconds=candidate.seconds + again,
            busiest=candidate.busiest + again,
            memory=memory,
            refused="over the memory limit" if limit is not None and memory > limit else "",
        )

    @staticmethod
    def without_files(found: Sequence[StageCandidate]) -> list[StageCandidate]:
        """Refuses files where something fits in memory: the time of the disk is not modelled."""
        if all(one.refused or one.setting.recompute == "disk" for one in found):
            return list(found)
        why = "only where nothing fits in memory"
        return [
            replace(one, refused=one.refused or why) if one.setting.recompute == "disk" else one
            for one in found
        ]

    def _choice(self, stage: Stage) -> Choice:
        """What the run would choose; lists of edges are there for a budget, as they are then."""
        place = stage.topology
        adjacency = Adjacency(place.graph, place.chunks, place.dtype)
        assert self._found is not None
        if not self._lists:
            for norm in self._found.norms:
                adjacency.lists(norm)
            self._lists = adjacency.bytes
        choice, _ = choose(stage, adjacency, self._found)
        return choice

    def _stage(self, setting: Setting, chunks: Chunks, runtime: Runtime) -> Stage:
        """The only stage, but for its training nodes."""
        work, graph = self._work, self._graph
        assert graph.features is not None
        assert graph.labels is not None
        place = ChunkTopology(graph, chunks, self._dtype, self._device)
        labels = torch.from_numpy(graph.labels[:1].copy())
        return Stage(
            work.layers,
            (stage_program(work.layers, setting.cuts, 0, work.again),),
            place,
            Reach(place, 0, 1),
            FeatureTable(graph.features, chunks, self._dtype, self._device),
            Targets([], [], 1, default_loss(labels)),
            work.widths,
            Link(0, 1, runtime.timeout, None),
            runtime,
            0,
        )

    def _seconds(self, stage: Stage, choice: Choice, cut: Cut) -> float:
        """Seconds for which segments are run again."""
        program = stage.program
        segments = program.segments[int(program.reads_features) :]
        layers = [
            op.layer
            for number in run_again(choice.stretches)
            for op in segments[number]
            if op.kind != "message"
        ]
        costs = self._work.costs
        parts = list(zip(cut.nodes, cut.edges, cut.others, strict=True))
        return sum(
            costs[layer].seconds(nodes, edges, False, others)
            for layer in layers
            for nodes, edges, others in parts
        )
