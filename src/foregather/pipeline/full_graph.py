"""full_graph: FullGraph, what a user works with: a graph, layers, a mode, and epochs.

The same script runs on one device (`python`) and on many (`torchrun`, stages of one or more ranks).
Weights after an epoch depend on chunks, order, seed and mode, not on the number of stages or ways.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.load import load_if_fits
from foregather.observe.progress import Progress
from foregather.old_spellings import refuse_unknown, warn_old_spelling
from foregather.pipeline.dry_run import check_batch_norm
from foregather.pipeline.engine import Engine
from foregather.pipeline.options import USUAL_EVERY, Meter, Mode, Runtime, Techniques
from foregather.pipeline.partition.chunks import Method
from foregather.pipeline.passes.loss import Loss
from foregather.pipeline.passes.segments import as_layers, cut_layers, shared_layers
from foregather.pipeline.planning.volume import schedule_bytes
from foregather.pipeline.setup import check_same_count, make_link, make_stage, shared_chunks
from foregather.pipeline.split.layers import SplitLayer
from foregather.pipeline.split.split import layers_of
from foregather.pipeline.staleness import Ladder, Reading
from foregather.pipeline.state import (
    collect,
    history_state,
    load_history,
    load_optimizer,
    load_weights,
    optimizer_state,
)
from foregather.pipeline.user_weights import UserWeights

__all__ = ["EpochReport", "FullGraph"]

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Rate = Callable[[npt.NDArray[Any], npt.NDArray[np.int64]], float]


@dataclass(frozen=True, slots=True)
class EpochReport:
    """The result of one epoch.

    Attributes:
        epoch: its number, from 0.
        loss: mean over training nodes, before the step.
        seconds: wall time on this rank.
        ran: "exact", "fast", "swept" (fast after a sweep) or "sampled" (some boundary rows).
        sent: bytes this rank sent, by purpose.
        reading: the meter's reading, if the epoch was measured.
        waited: seconds this rank spent on messages, by purpose: handing them over, and waiting for
            those that others send or take.
    """

    epoch: int
    loss: float
    seconds: float
    ran: str
    sent: dict[str, int]
    reading: Reading | None = None
    waited: dict[str, float] = field(default_factory=dict)


def _with_abreast(runtime: Runtime, others: dict[str, Any]) -> Runtime:
    """Returns the runtime with `abreast`, which was a separate argument in release 0.1."""
    if "abreast" not in others:
        refuse_unknown(others, FullGraph)
        return runtime
    warn_old_spelling("abreast= of a FullGraph", "runtime=Runtime(abreast=...)")
    return _with_abreast(replace(runtime, abreast=others.pop("abreast")), others)


def _check_stale(mode: Mode, techniques: Techniques | None, meter: Meter | None) -> None:
    """Refuses options of stale rows where there are none, and bounds that nobody looks at."""
    given = {"techniques": techniques, "meter": meter}
    if mode == "exact":
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"{name}= is for rows of earlier epochs, which mode 'exact' never reads; leave "
                    f"{name}= out, or choose mode 'fast' or 'bounded'"
                )
    if mode == "bounded" and meter is not None and meter.every == 0:
        raise InputError(
            "mode 'bounded' acts on what the meter finds, but Meter(every=0) never measures; give "
            "a number of epochs, or choose mode 'fast'"
        )


class FullGraph:
    """Full-graph training and inference by node chunks, on one device or in stages.

    If torch.distributed is initialised, each rank is one stage, or one way of a stage
    (`Runtime.ways`); all ranks make the same call. With as many ways and chunks as ranks, training
    is graph-parallel, or with `Runtime.split` "columns" tensor-parallel; both are exact.

    Args:
        graph: with features, labels and the split to train on.
        layers: a model, called with `(x, edge_index)` and perhaps `edge_weight` and `edge_attr`,
            whose nodes mix only by PyG's message passing; or a list of graph layers, PyG
            convolutions, and row-wise modules, first to last.
        chunks: K; more chunks need less memory at a time.
        mode: "exact" equals full-graph training up to rounding; "fast" reads history of chunks that
            come later; "bounded" is fast, measures staleness, and sweeps or runs exact epochs when
            the meter's bounds are exceeded.
        optimizer: makes the optimiser of a stage from its weights; None: Adam, learning rate 0.01.
        loss: a function of (scores, labels) that sums over rows; None chooses one by the labels.
        split: the split to train on.
        seed: random seed of chunk orders, dropout and random chunks.
        partition: how nodes are cut into chunks; see `make_chunks`.
        techniques: order, refresh and gradient factor of fast epochs; not for "exact".
        meter: when and how strictly staleness is measured; None measures every 10 epochs in
            "bounded", every 25 in "fast"; `Meter(every=0)` never does. Not for "exact".
        runtime: memory, messages, ways and timeout.
        others: accepts `abreast`, which is now a field of `runtime`, with a warning.

    Attributes:
        clip: the largest length of the gradient of all weights, which a longer one is shortened
            to before the optimiser's step; 0, the default, leaves it as it is.

    Raises:
        InputError: more stages than layers, fewer chunks than stages, no training node, layers
            that do not fit together, layers whose results by chunks differ from those on the whole
            graph, options that the mode has no use for, or ranks with different arguments.
    """

    def __init__(
        self,
        graph: Graph,
        layers: nn.Module | Sequence[nn.Module],
        chunks: int,
        mode: Mode = "exact",
        *,
        optimizer: MakeOptimizer | None = None,
        loss: Loss | None = None,
        split: str = "train",
        seed: int = 0,
        partition: Method | Any = "auto",
        techniques: Techniques | None = None,
        meter: Meter | None = None,
        runtime: Runtime | None = None,
        **others: Any,
    ) -> None:
        if mode not in ("exact", "bounded", "fast"):
            raise InputError(f"mode is {mode!r}, expected exact, bounded or fast")
        runtime = _with_abreast(runtime or Runtime(), others)
        _check_stale(mode, techniques, meter)
        runtime.check_mode(mode)
        self.mode: Mode = mode
        self.meter = meter or Meter(every=USUAL_EVERY[mode])
        graph = load_if_fits(graph)
        self.link = make_link(runtime)
        check_same_count(self.link, chunks)
        self.layers = as_layers(layers_of(layers, graph, chunks))
        self._names = UserWeights(self.layers)
        check_batch_norm(self.layers, mode, chunks)
        cut_layers(self.layers, self.link.stages)  # raises before the work of cutting chunks
        together = runtime.abreast or self.link.ways
        self.chunks = shared_chunks(graph, chunks, partition, seed, together, self.link)
        stage = make_stage(
            graph, self.layers, self.chunks, split, loss, seed, mode, runtime, self.link
        )
        self._shared = shared_layers(stage.programs)
        self.engine = Engine(stage, techniques or Techniques(), seed)
        self._share_first_weights()
        weights = list({id(p): p for p in self.engine.parameters().values()}.values())
        make = optimizer or (lambda parameters: torch.optim.Adam(parameters, 0.01))
        self.optimizer = make(weights) if weights else None
        self.clip = 0.0
        self.epoch = 0
        self.reports: list[EpochReport] = []
        self._ladder = Ladder()
        self._filled = not (techniques or Techniques()).first_sweep

    # ---- training ----------------------------------------------------------------------------

    def fit(self, epochs: int) -> list[EpochReport]:
        """Trains for this many epochs; returns their reports."""
        first = len(self.reports)
        with Progress("training", epochs, "epoch") as bar:
            for _ in range(epochs):
                self.train_epoch()
                bar.advance(1)
        return self.reports[first:]

    def train_epoch(self) -> EpochReport:
        """Trains one epoch: all chunks forward and backward, then one step of the optimiser.

        Raises:
            NumericError: something became NaN or infinite; the message says where.
            RankError: another rank stopped, or was silent for longer than the timeout.
        """
        begin, before = time.perf_counter(), self.link.ledger.snapshot()
        waited = dict(self.link.waited)
        for layer in self.layers:
            layer.train()
        self.engine.clear()
        ran, loss, reading = self._gradients()
        if self.clip:
            self.engine.shorten_gradients(self.clip)
        if self.optimizer is not None:
            self.optimizer.step()
        for layer in self.layers:
            if isinstance(layer, SplitLayer):
                layer.end_epoch()
        after = self.link.ledger.snapshot()
        sent = {purpose: after[purpose] - before[purpose] for purpose in after}
        seconds = time.perf_counter() - begin
        waited = {purpose: spent - waited[purpose] for purpose, spent in self.link.waited.items()}
        self.reports.append(EpochReport(self.epoch, loss, seconds, ran, sent, reading, waited))
        self.epoch += 1
        return self.reports[-1]

    def _gradients(self) -> tuple[str, float, Reading | None]:
        engine, epoch = self.engine, self.epoch
        if self.mode == "exact" or (self.link.ways > 1 and self.chunks.ticks == 1):
            every = self.engine.stage.runtime.boundary_rate == 1
            return "exact" if every else "sampled", engine.exact(epoch), None
        due = self.meter.due(epoch)
        ran = self._ladder.name if self.mode == "bounded" else "fast"
        if ran == "exact" and not due:
            self._filled = False  # history will be out of date when fast epochs resume
            return "exact", engine.exact(epoch), None
        if not self._filled or self._ladder.measured == "swept":
            engine.sweep(epoch)
            self._filled = True
        if not due:
            loss, reading = engine.fast(epoch), None
        else:
            loss, reading = engine.measured(epoch)
            ran = self._act(reading, ran)
        engine.commit(epoch)
        return ran, loss, reading

    def _act(self, reading: Reading, ran: str) -> str:
        """Warns if a bound is exceeded; `bounded` then adapts, and uses the exact gradient."""
        if not reading.within(self.meter):
            warnings.warn(
                f"epoch {reading.epoch}: {reading}, beyond the bounds {self.meter.error:g} and "
                f"{self.meter.cosine:g}; use fewer chunks, METIS, or mode exact",
                UserWarning,
                stacklevel=4,
            )
        if self.mode != "bounded":
            return ran
        self._ladder.act(reading, self.meter)
        for name, parameter in self.engine.parameters().items():
            parameter.grad = self.engine.exact_gradients[name]
        return "exact"

    # ---- inference -----------------------------------------------------------------------------

    def infer(self) -> Tensor | None:
        """Returns exact scores [N, classes] by node id on the last stage; None on the others."""
        return self.engine.scores()

    def evaluate(self, split: str = "valid") -> float:
        """Returns the share of the split's labelled nodes whose class is right, on all ranks.

        Raises:
            InputError: labels are not classes, or there is no such split.
        """
        return self.accuracies([split])[split]

    def accuracies(self, splits: Sequence[str]) -> dict[str, float]:
        """Evaluates several splits with one inference."""
        labels = self.engine.stage.topology.graph.labels
        if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputError("labels are not classes; use rated() with your own measure")

        def share(scores: npt.NDArray[Any], nodes: npt.NDArray[np.int64]) -> float:
            classes = np.asarray(labels[nodes], np.int64)
            right = scores[nodes].argmax(1) == classes
            return float(right[classes >= 0].mean()) if (classes >= 0).any() else float("nan")

        return self.rated(share, splits)

    def rated(self, rate: Rate, splits: Sequence[str]) -> dict[str, float]:
        """Rates splits by your own measure, with one inference; all ranks get the same.

        Args:
            rate: a function of the scores of all nodes [N, columns] and the nodes of a split,
                called on one rank.
            splits: names of splits.

        Raises:
            InputError: there is no such split.
        """
        graph = self.engine.stage.topology.graph
        ids = {split: graph.split(split) for split in splits}
        scores = self.infer()
        values = torch.zeros(len(ids), dtype=torch.float64)
        if scores is not None and self.link.way == 0:
            rows = scores.detach().cpu().numpy()
            values = torch.tensor([rate(rows, nodes) for nodes in ids.values()], dtype=values.dtype)
        return dict(zip(ids, self.link.agree(values, torch.add).tolist(), strict=True))

    # ---- predicted bytes, and state ----------------------------------------------------------

    def volume(self, sweeps: int = 0, epoch: int | None = None) -> dict[str, int]:
        """Returns the bytes that all ranks send in an epoch, by its schedule, as the ledger counts.

        `rows` cross between stages, `exchange` between ways, `weights` are sums of gradients.

        Args:
            sweeps: forward passes without gradients before it.
            epoch: its number, which matters for a boundary rate below 1; None: the next one.
        """
        number = self.epoch if epoch is None else epoch
        exact = self.mode == "exact" or (self.link.ways > 1 and self.chunks.ticks == 1)
        how = self.engine.exact_how if exact else "chunkwise"
        schedule = self.engine.schedule(how, number)
        return schedule_bytes(schedule, self.engine.sizes(number), sweeps)

    def state_dict(self) -> dict[str, Any]:
        """Returns epoch, weights and optimiser state of all stages; all ranks must call it."""
        own = optimizer_state(self.optimizer, self.engine.parameters())
        return {
            "epoch": self.epoch,
            "weights": self.weights(),
            "optimizer": collect(own, self.link),
        }

    def weights(self) -> dict[str, Tensor]:
        """Returns the weights of all stages by name; all ranks must call it, and get the same."""
        own = self.engine.parameters()
        weights: dict[str, Tensor] = {name: p.detach().clone() for name, p in own.items()}
        for number in range(self.engine.stage.program.first, self.engine.stage.program.last):
            for name, value in self.layers[number].state_dict().items():
                weights[f"{number}.{name}"] = value.detach().clone()
        found = collect(self._names.renamed(weights), self.link)
        if self._names.model is None:
            return found
        # in the order of the model; what no layer uses is as it was
        return {n: found.get(n, v.detach().clone()) for n, v in self._names.all().items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Loads the weights of all layers, including those of other stages.

        Raises:
            InputError: a weight is missing, or has the wrong shape.
        """
        load_weights(self._names.all(), weights)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a state, which may come from another number of stages.

        All layers get their weights, including those of other stages; history is rebuilt.
        """
        self.load_weights(state["weights"])
        load_optimizer(self.optimizer, self.engine.parameters(), state["optimizer"])
        self.epoch = int(state["epoch"])
        self._filled = False

    def rank_state(self) -> dict[str, Any]:
        """Returns what only this rank has: the history of its rows, and the rung of `bounded`.

        With this and `state_dict`, a run that resumes on as many stages and ways gets the same
        weights as one without interruption. Rows are not copied: the next epoch changes them.
        """
        found = {"filled": self._filled, "rung": self._ladder.rung}
        return {"history": history_state(self.engine.history), **found}

    def load_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `rank_state` returned on this rank; call it after `load_state_dict`.

        Raises:
            InputError: it belongs to other stages, ways or chunks.
        """
        load_history(self.engine.history, state["history"])
        self._filled, self._ladder.rung = bool(state["filled"]), int(state["rung"])

    def _share_first_weights(self) -> None:
        """Makes ranks that hold the same weights start with those of the first such rank."""
        if self._shared and self.link.peers > 1:
            self._take_over([p for n in self._shared for p in self.layers[n].parameters()], None)
        if self.link.ways > 1:
            held = {id(p): p for p in self.engine.parameters().values()}
            self._take_over(list(held.values()), self.link.way_chain)

    def _take_over(self, weights: Sequence[nn.Parameter], chain: Sequence[int] | None) -> None:
        if not weights:
            return
        flat = torch.cat([p.detach().flatten() for p in weights])
        flat = self.link.around(flat, lambda first, _: first, "state", chain)
        parts = torch.split(flat, [p.numel() for p in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.data.copy_(part.view_as(weight))
