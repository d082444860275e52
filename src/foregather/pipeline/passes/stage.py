"""stage: consecutive layers of a model, run on one chunk at a time; rows come in and go out.

What a chunk computes depends on its rows, its in-neighbours' messages, the weights and the key of
its random numbers, and on nothing else: not on the stage it runs in, nor on what is recomputed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from foregather.graph.features import Features
from foregather.nn.layer import GraphLayer, Near
from foregather.pipeline.dry_run import Widths
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import Chunks
from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.passes.aggregation import ChunkNear, Exchange, run_dense
from foregather.pipeline.passes.boundary_sample import BoundarySample
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.loss import Loss
from foregather.pipeline.passes.moments import Moments
from foregather.pipeline.passes.segments import Op, StageProgram
from foregather.pipeline.planning.schedule import draw_key

__all__ = ["FeatureTable", "NearOf", "Stage", "Targets", "Values"]

#: from (layer, chunks, their messages) to what each of these chunks sees in the layer
NearOf = Callable[[int, Sequence[int], Sequence[Tensor]], Sequence[Near]]


@dataclass(slots=True)
class Values:
    """What a chunk carries between ops: rows, messages (None: the rows), skip tensors."""

    x: Tensor
    message: Tensor | None = None
    skips: dict[str, Tensor] = field(default_factory=dict)

    def leaves(self) -> "Values":
        """Returns the same values, detached from what made them, ready to collect gradients."""
        return Values(
            self.x.detach().requires_grad_(),
            None if self.message is None else self.message.detach().requires_grad_(),
            {name: rows.detach().requires_grad_() for name, rows in self.skips.items()},
        )


class FeatureTable:
    """Feature rows by new number, in the dtype of the model; never stale."""

    def __init__(
        self, features: Features, chunks: Chunks, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._features, self._chunks = features, chunks
        self._dtype, self._device = dtype, device

    def chunk(self, chunk: int) -> Tensor:
        """Rows of a chunk."""
        return self._read(self._chunks.order[self._chunks.span(chunk)])

    def span(self, numbers: slice) -> Tensor:
        """Rows of a range of new numbers."""
        return self._read(self._chunks.order[numbers])

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows by new number."""
        return self._read(self._chunks.order[numbers.cpu().numpy()])

    def _read(self, ids: object) -> Tensor:
        return torch.from_numpy(self._features[ids]).to(self._device, self._dtype)


@dataclass(frozen=True, slots=True)
class Targets:
    """What the last stage needs for the loss.

    Attributes:
        rows: rows of each chunk that are training nodes.
        labels: their labels, chunk by chunk.
        total: training nodes of all chunks.
        loss: sums over rows.
    """

    rows: Sequence[Tensor]
    labels: Sequence[Tensor]
    total: int
    loss: Loss

    def of(self, chunk: int, scores: Tensor) -> Tensor:
        """This chunk's part of the mean loss; it always depends on the scores.

        Otherwise other ways would wait for gradients of a chunk without training nodes.
        """
        loss = self.loss(scores[self.rows[chunk]], self.labels[chunk]) / self.total
        if scores.requires_grad and not loss.requires_grad:
            return loss + 0 * scores.sum()
        return loss


@dataclass(slots=True)
class Stage:
    """One stage: its layers, its edges, its neighbours.

    Attributes:
        layers: all layers of the model; only those of the program are used.
        programs: what each stage does.
        topology: edges of all chunks.
        reach: the rows this way holds.
        features: feature rows.
        targets: for the loss.
        widths: columns of everything.
        link: to the neighbouring stages.
        runtime: recomputation and boundaries.
        seed: of random numbers.
        whole: all edges as one chunk, if columns are divided among ways.
    """

    layers: Sequence[GraphLayer]
    programs: tuple[StageProgram, ...]
    topology: ChunkTopology
    reach: Reach
    features: FeatureTable
    targets: Targets
    widths: Widths
    link: Link
    runtime: Runtime
    seed: int
    whole: ChunkTopology | None = None

    @property
    def program(self) -> StageProgram:
        """What this stage does."""
        return self.programs[self.link.stage]

    @property
    def last(self) -> bool:
        """Whether this stage ends in the loss."""
        return self.program.last == len(self.layers)

    @property
    def chunks(self) -> Chunks:
        """How the nodes are cut."""
        return self.topology.chunks

    def reads_features(self, layer: int) -> bool:
        """Whether a layer aggregates the graph's own features."""
        return layer == 0 and self.program.reads_features

    def boundary_sample(self, epoch: int) -> BoundarySample | None:
        """Returns which rows ways exchange in an epoch; None: all."""
        rate = self.runtime.boundary_rate
        return None if rate == 1 else BoundarySample.of(self.reach, rate, self.seed, epoch)

    # ---- some chunks -----------------------------------------------------------------------

    def run(
        self,
        ops: Sequence[Op],
        values: Sequence[Values],
        chunks: Sequence[int],
        nears: NearOf,
        epoch: int | None,
    ) -> list[Values]:
        """Runs ops on chunks that pass together; `epoch` None draws no random numbers."""
        now = [replace(one, skips=dict(one.skips)) for one in values]
        for op in ops:
            found: Sequence[Near | None] = [None] * len(now)
            if op.kind == "update" and self.layers[op.layer].aggregates:
                own = [one.x if one.message is None else one.message for one in now]
                found = nears(op.layer, chunks, own)
            for one, chunk, near in zip(now, chunks, found, strict=True):
                self._step(op, one, chunk, near, epoch)
        return now

    def near(self, chunk: int, own: Tensor, exchange: Exchange) -> ChunkNear:
        """Returns what a chunk sees."""
        return ChunkNear(self.topology, chunk, own, exchange, self.runtime.recompute == "dense")

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Runs a dense part, which is recomputed in the backward pass if requested."""
        return run_dense(part, values, self.runtime.recompute == "dense")

    def moments(self) -> Moments:
        """Returns what finds mean and variance of the rows of one aggregation over all ways."""
        return Moments(self.link, self.reach.own, self.topology.graph.num_nodes)

    def feature_nears(self, chunks: Sequence[int], owns: Sequence[Tensor]) -> list[Near]:
        """Returns what chunks see of the graph's features, which are never stale."""
        return [
            self.near(
                chunk,
                own,
                Exchange(None, self.topology.locals[chunk].others, table=self.features.rows),
            )
            for chunk, own in zip(chunks, owns, strict=True)
        ]

    def _step(self, op: Op, now: Values, chunk: int, near: Near | None, epoch: int | None) -> None:
        layer = self.layers[op.layer]
        if op.kind == "again":
            self._again(op.layer, now, chunk, epoch)
            return
        self._draw(op.layer, op.kind == "message", chunk, epoch)
        if op.kind == "message":
            now.message = layer.message(now.x)
            return
        if near is None and layer.placed:
            near = self.near(chunk, now.x, Exchange(None, self.topology.locals[chunk].others))
        now.x, given = layer.run(now.x, near, now.skips)
        now.message = None
        now.skips |= given

    def _again(self, last: int, now: Values, chunk: int, epoch: int | None) -> None:
        x, skips = self.features.chunk(chunk), dict[str, Tensor]()
        for number in range(last + 1):
            layer = self.layers[number]
            self._draw(number, False, chunk, epoch)
            near = None
            if layer.placed:
                near = self.near(chunk, x, Exchange(None, self.topology.locals[chunk].others))
            x, given = layer.run(x, near, skips)
            skips |= given
        now.skips |= {name: skips[name] for name in self.layers[last].given}

    def _draw(self, layer: int, message: bool, chunk: int, epoch: int | None) -> None:
        if epoch is None:
            return
        key = draw_key(self.seed, epoch, 2 * layer + message, chunk)
        torch.default_generator.manual_seed(key)  # torch.manual_seed is far slower
        if self.topology.device.type == "cuda":
            torch.cuda.manual_seed(key)

    # ---- rows in and out -------------------------------------------------------------------

    def inlet(self, order: Sequence[int]) -> Callable[[int], Values]:
        """Returns a function that takes what the previous stage sent for a chunk, in order."""
        names = self.program.skips_in
        widths = self._widths(self.program.first, names)
        take = self._receiver(order, self.link.stage - 1, "forward", sum(widths))

        def arrive(chunk: int) -> Values:
            x, *skips = torch.split(take(chunk), widths, 1)
            return Values(x, None, dict(zip(names, skips, strict=True)))

        return arrive

    def send_on(self, chunk: int, values: Values) -> None:
        """Sends rows and skip tensors of a chunk to the next stage."""
        skips = [values.skips[name] for name in self.program.skips_out]
        self._send(self.program.stage + 1, "forward", chunk, [values.x, *skips])

    def gradients(self, order: Sequence[int]) -> Callable[[int], list[Tensor]]:
        """Returns a function that takes gradients of rows and skip tensors sent on, in order."""
        widths = self._widths(self.program.last, self.program.skips_out)
        take = self._receiver(order, self.link.stage + 1, "backward", sum(widths))
        return lambda chunk: list(torch.split(take(chunk), widths, 1))

    def send_back(self, chunk: int, gradients: Sequence[Tensor]) -> None:
        """Sends the gradients of what came in back to the previous stage."""
        self._send(self.program.stage - 1, "backward", chunk, gradients)

    def _widths(self, layer: int, names: Sequence[str]) -> list[int]:
        return [self.widths.x[layer], *(self.widths.skip[name] for name in names)]

    def _wire(self) -> torch.dtype:
        return torch.bfloat16 if self.runtime.boundary else self.topology.dtype

    def _send(self, stage: int, purpose: str, chunk: int, parts: Sequence[Tensor]) -> None:
        rows = torch.cat([p.detach() for p in parts], 1).to(self._wire())
        self.link.send(self.link.stage_peer(stage), rows, purpose, chunk)

    def _receiver(
        self, order: Sequence[int], stage: int, purpose: str, width: int
    ) -> Callable[[int], Tensor]:
        coming = [(chunk, (self.chunks.size(chunk), width)) for chunk in order]
        like = torch.empty(0, dtype=self._wire(), device=self.topology.device)
        take = self.link.receiver(self.link.stage_peer(stage), purpose, coming, like)
        return lambda chunk: take(chunk).to(self.topology.dtype)
