"""engine: carries out the schedule of an epoch on one rank, task by task.

An epoch ends with the gradients of all chunks summed in the weights' `.grad`; the caller runs the
optimiser. Stages agree twice per epoch (on the loss, and on whether everything is finite), so that
a fault is the same error on all ranks.
"""

import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import NumericError
from foregather.pipeline.infer import infer
from foregather.pipeline.options import Techniques
from foregather.pipeline.passes.boundary_sample import kept_nodes
from foregather.pipeline.passes.chunkwise import ChunkPass, History
from foregather.pipeline.passes.executor import Executor, Outcome
from foregather.pipeline.passes.layerwise import LayerPass
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.passes.tensor_parallel import TensorPass
from foregather.pipeline.planning.chunk_order import chunk_order
from foregather.pipeline.planning.messages import Sizes, trained_values, trained_weights
from foregather.pipeline.planning.schedule import How, Schedule, Task, exact_pass
from foregather.pipeline.staleness import Reading, compare_gradients, history_errors
from foregather.pipeline.whole.run import whole_run
from foregather.pipeline.whole.whole_pass import WholePass

__all__ = ["Engine"]

_PHASES = ("forward", "backward")


class Engine:
    """Computes the gradients of an epoch, fast or exact.

    Args:
        stage: the stage of this rank.
        techniques: order, refresh and factor of fast epochs.
        seed: of the order of chunks.

    Attributes:
        timeline: set it to a list, and each task adds (what, begin, seconds) to it.
    """

    def __init__(self, stage: Stage, techniques: Techniques, seed: int) -> None:
        self.stage = stage
        self.techniques = techniques
        self.history = History(stage)
        self.exact_gradients: dict[str, Tensor | None] = {}  # of the last measured epoch
        self.whole = whole_run(stage)
        self.timeline: list[tuple[str, float, float]] | None = None  # None: nothing is noted
        self._seed = seed
        self._trained = trained_weights(stage.layers)
        held = {*range(stage.program.first, stage.program.last), *stage.program.again}
        self._held = sorted(held)

    # ---- weights -----------------------------------------------------------------------------

    def parameters(self) -> dict[str, nn.Parameter]:
        """The weights that this stage trains, named by layer."""
        return {
            f"{number}.{name}": parameter
            for number in self._held
            for name, parameter in self.stage.layers[number].named_parameters()
            if parameter.requires_grad
        }

    def own_gradients(self) -> list[Tensor]:
        """Returns the gradient of each weight, on one rank only."""
        if self.stage.link.way:
            return []
        return [
            torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
            for number in range(self.stage.program.first, self.stage.program.last)
            for p in self._trained[number]
        ]

    def shorten_gradients(self, longest: float) -> None:
        """Scales the gradient of all stages to a length, if it is longer."""
        own = [g.double().square().sum().cpu() for g in self.own_gradients()]
        total = self.stage.link.agree(torch.stack([torch.zeros((), dtype=torch.float64), *own])
                                      .sum().view(1), torch.add)  # fmt: skip
        scale = longest / (float(total.sqrt()) + 1e-6)  # as torch.nn.utils.clip_grad_norm_ does
        if scale < 1:
            for weight in {id(p): p for p in self.parameters().values()}.values():
                if weight.grad is not None:
                    weight.grad.mul_(scale)

    def clear(self) -> None:
        """Clears all gradients, also of weights that were frozen since they got one."""
        for number in self._held:
            for parameter in self.stage.layers[number].parameters():
                parameter.grad = None

    # ---- epochs ------------------------------------------------------------------------------

    def order(self, epoch: int) -> list[int]:
        """Returns the order of ticks in an epoch."""
        return chunk_order(self.stage.chunks.ticks, self._seed, epoch, self.techniques.reshuffle)

    def schedule(self, how: How, epoch: int, gradients: bool = True) -> Schedule:
        """Returns what all ranks do in one pass of an epoch."""
        stage = self.stage
        return Schedule(
            how,
            stage.programs,
            stage.link.ways,
            len(stage.chunks),
            tuple(self.order(epoch)),
            gradients,
            stage.runtime.recompute == "all",
        )

    def sizes(self, epoch: int) -> Sizes:
        """Returns the sizes from which the bytes of an epoch's messages follow."""
        stage = self.stage
        size = stage.topology.dtype.itemsize
        return Sizes(
            [stage.chunks.size(c) for c in range(len(stage.chunks))],
            self._crossing(epoch),
            stage.widths,
            trained_values(stage.layers),
            size,
            2 if stage.runtime.boundary else size,
        )

    def _crossing(self, epoch: int) -> npt.NDArray[np.int64]:
        """Counts the rows [tick, giver, reader] that ways exchange."""
        stage, rate = self.stage, self.stage.runtime.boundary_rate
        if rate == 1:
            return stage.reach.counts
        everyone = np.arange(stage.topology.graph.num_nodes)
        return stage.reach.counts_of(kept_nodes(everyone, rate, stage.seed, epoch))

    def sweep(self, epoch: int, count: int = 1) -> None:
        """Renews history with forward passes without gradients."""
        for _ in range(count):
            schedule = self.schedule("chunkwise", epoch, gradients=False)
            self._carry_out(ChunkPass(self.stage, self.history, schedule, epoch), epoch)
            self.history.commit(epoch)

    def fast(self, epoch: int) -> float:
        """Adds the gradients of a fast epoch; returns the loss. History stays as it is."""
        schedule, factor = self.schedule("chunkwise", epoch), self.techniques.factor
        run = ChunkPass(self.stage, self.history, schedule, epoch, factor)
        return self._carry_out(run, epoch)

    def exact(self, epoch: int) -> float:
        """Adds the exact gradients; returns the loss."""
        if self.whole is not None:
            return self.whole.run(lambda whole: self._carry_out(whole, epoch), epoch)
        return self._carry_out(self._exact_run(self.schedule(self.exact_how, epoch), epoch), epoch)

    def scores(self) -> Tensor | None:
        """Returns exact scores [N, columns] by node id on the last stage; None on the others."""
        if self.whole is not None and self.whole.choice.most:  # what is held was promised
            return self.whole.scores()
        return infer(self.stage)

    @property
    def exact_how(self) -> How:
        """How an exact epoch is run here."""
        stage = self.stage
        return exact_pass(stage.runtime.split, stage.link.ways, stage.chunks.ticks)

    def _exact_run(self, schedule: Schedule, epoch: int) -> Executor:
        if schedule.how == "columns":
            return TensorPass(self.stage, schedule, epoch)
        if schedule.how == "chunkwise":
            return ChunkPass(self.stage, self.history, schedule, epoch)
        return LayerPass(self.stage, schedule, epoch)

    def measured(self, epoch: int) -> tuple[float, Reading]:
        """Adds the gradients of a fast epoch and measures them; returns loss and reading.

        The exact gradients are in `exact_gradients` afterwards.
        """
        loss, begin = self.fast(epoch), time.perf_counter()
        used = {n: None if p.grad is None else p.grad.clone() for n, p in self.parameters().items()}
        ours = self.own_gradients()
        self.clear()
        run = LayerPass(self.stage, self.schedule("layerwise", epoch), epoch, keep_messages=True)
        self._carry_out(run, epoch)
        old = {n: r.history for n, r in self.history.rows.items() if r.history is not None}
        errors = history_errors(old, self._true_messages(epoch, run), self.stage)
        reading = compare_gradients(epoch, ours, self.own_gradients(), errors, self.stage.link)
        self.exact_gradients = {n: p.grad for n, p in self.parameters().items()}
        for name, parameter in self.parameters().items():
            parameter.grad = used[name]
        return loss, replace(reading, seconds=time.perf_counter() - begin)

    def _true_messages(self, epoch: int, run: LayerPass) -> dict[int, Tensor]:
        """Returns exact messages with history's dropout, which must not look like staleness."""
        drawn = self.history.epoch
        if drawn is None or drawn == epoch:
            return run.messages
        schedule = self.schedule("layerwise", epoch, gradients=False)
        past = LayerPass(self.stage, schedule, drawn, keep_messages=True)
        with torch.no_grad():
            self._carry_out(past, epoch)
        return past.messages

    def commit(self, epoch: int) -> None:
        """Makes the messages of a fast epoch history, if a refresh is due."""
        if (epoch + 1) % self.techniques.refresh == 0:
            self.history.commit(epoch)

    # ---- helpers -----------------------------------------------------------------------------

    def _carry_out(self, run: Executor | WholePass, epoch: int) -> float:
        """Carries out all tasks of this rank in order; returns the loss.

        Random numbers inside are keyed; the caller's generator is left as it was.
        """
        loss = 0.0
        with torch.random.fork_rng():
            for task in run.tasks:
                begin = time.perf_counter()
                if task.kind == "agree":
                    self.stage.link.flush()
                    if task.backward:
                        self._check_gradients(epoch)
                    else:
                        loss = self._agree(run.outcome, epoch)
                elif task.kind == "sum":
                    self.stage.link.flush()
                    self._sum(task)
                else:
                    run.do(task)
                if self.timeline is not None and task.kind != "free":
                    name = task.kind if task.kind != "run" else _PHASES[task.backward]
                    self.timeline.append((name, begin, time.perf_counter() - begin))
        return loss

    def _agree(self, outcome: Outcome, epoch: int) -> float:
        """Returns the loss of all ranks; raises on all of them if any met NaN or infinity."""
        stage, count = self.stage.program.stage, len(self.stage.chunks)
        code = 0 if outcome.fault is None else 1 + stage * count + outcome.fault
        own = torch.tensor([outcome.loss, code], dtype=torch.float64)
        total = self.stage.link.agree(own, _loss_and_fault)
        loss, first = float(total[0]), int(total[1])
        if first:
            where, chunk = divmod(first - 1, count)
            raise NumericError(
                f"epoch {epoch}: rows of chunk {chunk} became NaN or infinite in stage {where}; "
                "lower the learning rate, or check the features of that chunk"
            )
        if loss != loss or loss in (float("inf"), float("-inf")):
            raise NumericError(
                f"epoch {epoch}: the loss is {loss} although all scores are finite; check labels"
            )
        return loss

    def _check_gradients(self, epoch: int) -> None:
        bad = next(
            (
                int(name.partition(".")[0])
                for name, p in self.parameters().items()
                if p.grad is not None and not bool(torch.isfinite(p.grad).all())
            ),
            -1,
        )
        own = torch.tensor([0.0, bad + 1], dtype=torch.float64)
        _, first = self.stage.link.agree(own, _loss_and_fault).tolist()
        if first:
            raise NumericError(
                f"epoch {epoch}: gradients of layer {int(first) - 1} are NaN or infinite; "
                "lower the learning rate"
            )

    def _sum(self, task: Task) -> None:
        """Sums gradients along a chain, so that all its ranks end with the same sums.

        A rank that does not hold a weight only passes its sum on.
        """
        weights = [p for n in task.layers for p in self._trained[n]]
        if not weights:
            return
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in weights]
        )
        total = self.stage.link.around(flat, torch.add, "weights", task.peers)
        held = {id(p) for p in self.parameters().values()}
        parts = torch.split(total, [p.numel() for p in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.grad = part.view_as(weight).clone() if id(weight) in held else None


def _loss_and_fault(a: Tensor, b: Tensor) -> Tensor:
    """Adds losses, and keeps the fault of the first stage that has one."""
    first = a[1:] if a[1] else b[1:]
    return torch.cat([a[:1] + b[:1], first])
