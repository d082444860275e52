"""full_graph: training on all nodes and edges in every epoch, as a run asks for it.

A step is an epoch of `pipeline.FullGraph`, on one rank or in stages and ways. What later epochs
depend on is in the state: weights and optimiser of all stages, and of each rank its history, so a
run that is resumed on as many ranks goes on to the same weights.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.load import load_if_fits
from foregather.observe.progress import Progress, peak_memory
from foregather.observe.trace import span
from foregather.pipeline import FullGraph
from foregather.pipeline.split.split import layers_of
from foregather.train.device import find_device
from foregather.train.metrics import Metric, check_valid
from foregather.train.parallel_model import model_facts, whole_weights
from foregather.train.rank_agreement import Together
from foregather.train.runs.final_scores import split_nodes
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import make_optimizer
from foregather.train.tasks.goal import choose_goal
from foregather.train.tasks.per_class import count_classes
from foregather.train.trainers.chosen_plan import choose_plan
from foregather.train.trainers.epoch_links import (
    epoch_phases,
    sent_bytes,
    sent_links,
    stage_facts,
)
from foregather.train.trainers.layers import make_full_model
from foregather.train.trainers.trainer import Record
from foregather.train.trainers.unused_settings import check_named_splits
from foregather.units import format_bytes

__all__ = ["FullGraphTrainer"]

_MOST_TASKS = 600  # of a rank in the timeline of a report


class FullGraphTrainer:
    """A `Trainer` over a `FullGraph`; made by all ranks together.

    Attributes:
        full: stages, weights and history of this rank.
        settings: what was asked for.
        graph: what is trained on.
        shape: feature columns, and columns of scores.
        goal: task and metric.
        plan: chunks, stages and ways, as asked for or as the planner chose them.
        plan_text: why the planner chose so; empty where it was not asked.
        best: weights of the epoch with the best validation so far; None without validation.
    """

    unit = "epochs"
    own: tuple[str, ...] = ("counted", "rank")

    def __init__(
        self,
        settings: Settings,
        together: Together,
        begun: Mapping[str, Any] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.settings, self.together = settings, together
        self._history: list[Record] = []
        self._counted: Record = {}
        self.best: dict[str, Tensor] | None = None
        self.graph, layers = together.all_do(self._open, "opening the graph")
        together.agree({"graph (its digest)": str(self.graph.digest)})
        together.agree(model_facts(nn.ModuleList(layers)))
        loaded = load_if_fits(self.graph)
        with together.linked("choosing a plan"):
            self.plan, self.plan_text, partition = choose_plan(loaded, layers, settings, begun)
        self._scheduler: torch.optim.lr_scheduler.LRScheduler | None = None
        with together.linked("preparing stages"):
            self.full = FullGraph(
                loaded,
                layers,
                optimizer=self._make_optimizer,
                loss=self.goal.task.loss_sum,
                split=settings.train.split,
                seed=settings.train.seed,
                partition=partition,
                **self.plan.options(settings),
            )
        self.full.clip = settings.optimizer.clip
        self.plan = self.plan.with_cut(self.full.chunks)
        self._layers = nn.ModuleList(self.full.layers)
        self._seen = dict.fromkeys(self.full.link.ledger.snapshot(), 0)
        self._beside = dict(self._seen)
        if begun is None and together.first and say is not None:
            say(self.goal.describe(settings.train.task == "auto"))
        every, runtime = self.full.meter.every, self.full.engine.stage.runtime
        stale = self.full.mode != "exact" and runtime.boundary_rate == 1  # a sample is never stale
        if begun is None and together.first and say is not None and stale:
            if every:
                often = "epoch" if every == 1 else f"{every} epochs"
                costs = "costs about an exact epoch and a forward pass each time"
                say(f"staleness is measured every {often}, which {costs} (full_graph.measure)")
            else:
                say("staleness is not measured (full_graph.measure is 0), so it is unknown how far "
                    "fast epochs are off")  # fmt: skip
        if settings.full_graph.start and begun is None:
            self._start_from(Path(settings.full_graph.start))

    def _open(self) -> tuple[Graph, list[nn.Module]]:
        """What a rank does by itself: the graph, and layers that fit it."""
        settings = self.settings
        graph = Graph.open(settings.graph)
        if graph.features is None or graph.labels is None:
            raise InputError(
                f"{Path(settings.graph).name} has no features or no labels to learn from"
            )
        check_named_splits(graph, settings.train)
        self.goal = choose_goal(graph, settings.train)
        if settings.full_graph.validate:
            check_valid(graph, settings.train.valid, self.goal.task.known)
        self.device = find_device(settings.train.device)
        self.shape = {"width": graph.features.width, "classes": self.goal.task.width}
        made = make_full_model(settings, **self.shape)
        if isinstance(made, nn.Module):
            layers = layers_of(
                made.to(self.device), load_if_fits(graph), settings.full_graph.chunks
            )
            return graph, [*layers]
        return graph, [layer.to(self.device) for layer in made]

    def _make_optimizer(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        wanted = replace(self.settings.optimizer, clip=0.0)  # a stage knows only its own gradients
        optimizer, self._scheduler = make_optimizer(weights, wanted, self.settings.train.epochs)
        return optimizer

    def _start_from(self, path: Path) -> None:
        """Begins with a state that `train-full --save` wrote, of any number of ranks."""
        from foregather.pipeline import load_state

        state = self.together.all_do(lambda: load_state(path), "reading the first state")
        self.together.all_do(lambda: self.full.load_state_dict(state), "taking the first state")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the steps of its optimiser were made elsewhere
            for _ in range(self.full.epoch if self._scheduler is not None else 0):
                cast(torch.optim.lr_scheduler.LRScheduler, self._scheduler).step()

    # ---- epochs ------------------------------------------------------------------------------

    @property
    def history(self) -> list[Record]:
        """The record of each epoch."""
        return self._history

    @property
    def metric(self) -> Metric:
        """That of the goal."""
        return self.goal.metric

    @property
    def model(self) -> nn.Module:
        """All layers; those of other stages have the weights that they began with."""
        return self._layers

    def facts(self) -> Record:
        """Device, task and plan."""
        found = {"task": self.goal.task.facts(), "metric": self.goal.metric.name}
        return {"device": self.device.type, **found, "plan": self.plan.facts()}

    def begin(self) -> None:
        """Nothing that could be refused is left for later."""

    def steps(self) -> int:
        """An epoch is one step."""
        return 1

    def epochs_done(self) -> int:
        """Of this run, and before it where it began with a state."""
        return self.full.epoch

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """One epoch on all ranks; signals and checkpoints come after it."""
        self._look()
        number = self.full.epoch + 1
        tasks: list[tuple[str, float, float]] | None = [] if self._is_shown(number) else None
        self.full.engine.timeline = tasks
        begin, links = time.perf_counter(), self.full.link.ledger.entries()
        with span("epoch"), self.together.linked(f"epoch {number}"):
            report = self.full.train_epoch()
        if self._scheduler is not None:
            self._scheduler.step()
        self._seen = self.full.link.ledger.snapshot()
        bar.advance(1)
        own: Record = {"seconds": report.seconds, "peak_memory": peak_memory(), "sent": report.sent}
        own["links"] = sent_links(links, self.full.link.ledger.entries())
        own["tasks"] = [(what, at - begin, took) for what, at, took in (tasks or [])[:_MOST_TASKS]]
        own["layers"] = {} if report.reading is None else report.reading.errors
        own["measuring"] = 0.0 if report.reading is None else report.reading.seconds
        own["waited"] = report.waited
        parts: list[Record] = self.together.gather(own, "summing an epoch")
        record: Record = {"epoch": number, "metric": self.goal.metric.name}
        record |= {"loss": report.loss, "ran": report.ran}
        record["seconds"] = max(part["seconds"] for part in parts)
        if len(parts) > 1:
            record |= sent_bytes(
                {name: sum(part["sent"][name] for part in parts) for name in report.sent}
            )
            record["phases"] = epoch_phases(parts)
            record |= stage_facts(parts)
        record["peak_memory"] = max(part["peak_memory"] for part in parts)
        if report.reading is not None:
            read = report.reading
            record["staleness_seconds"] = max(part["measuring"] for part in parts)
            record["staleness"] = {
                "error": read.error,
                "cosine": read.cosine,
                "length": read.length,
                "layers": {str(n): e for part in parts for n, e in sorted(part["layers"].items())},
            }
        return record

    def _is_shown(self, number: int) -> bool:
        """Whether the report shows what ranks did in an epoch: the second, without first costs."""
        return self.together.size > 1 and number == min(2, self.settings.train.epochs)

    def evaluate(self) -> Record:
        """The metric of the split that chooses the best epoch, by every edge."""
        every, split = self.settings.full_graph.validate, self.settings.train.valid
        if not every or self.full.epoch % every:
            return {}
        if split_nodes(self.graph, split) is None:
            return {}
        with span("evaluate"), self.together.linked("evaluating"):
            score = self.full.rated(self._rate, [split])[split]
        return {"valid": score, "scored": "exact"}

    def _rate(self, scores: npt.NDArray[Any], nodes: npt.NDArray[np.int64]) -> float:
        """The metric of some nodes, from the scores of all."""
        assert self.graph.labels is not None
        return self.goal.rate_nodes(scores, self.graph.labels, nodes)

    def _rate_counting(self, scores: npt.NDArray[Any], nodes: npt.NDArray[np.int64]) -> float:
        """The same; on one rank also which class is taken for which in the test split."""
        labels, test = self.graph.labels, split_nodes(self.graph, self.settings.train.test)
        assert labels is not None
        if self.together.size == 1 and test is not None and np.array_equal(test, nodes):
            self._counted = count_classes(self.goal.task, "test", scores, labels, nodes)
        return self._rate(scores, nodes)

    def keep_best(self) -> None:
        """Collects the present weights of all stages."""
        with self.together.linked("collecting weights"):
            self.best = self.full.weights()

    def outlook(self) -> str:
        """Nothing is read from disk by a plan that could be foretold."""
        return ""

    def explain(self, record: Record) -> str:
        """After the first epoch between ranks its bytes; after a first reading what it cost."""
        if "staleness" in record and record["epoch"] == self.full.meter.every:
            took, rest = record["staleness_seconds"], record["seconds"]
            rest -= took
            return (
                f"measuring staleness took {took:.3g} s beside the epoch's {rest:.3g} s, "
                f"{took / max(rest, 1e-9) / self.full.meter.every:.0%} of all epochs' time"
            )
        if record["epoch"] != 1 or "sent" not in record or "staleness" in record:
            return ""
        swept = record["ran"] in ("fast", "swept") and self.settings.full_graph.first_sweep
        told = sum(self.full.volume(int(swept), record["epoch"] - 1).values())
        rows = record["sent"] - record["sent_control"] - record["sent_state"]
        return f"rows and gradients: {format_bytes(told)} predicted, {format_bytes(rows)} sent"

    # ---- what is moved beside epochs ---------------------------------------------------------

    def _look(self) -> None:
        """Books what this rank sent since the last look, which was in no epoch."""
        now = self.full.link.ledger.snapshot()
        for name, count in now.items():
            self._beside[name] += count - self._seen[name]
        self._seen = now

    def take_beside(self) -> Record:
        """What all ranks sent for anything but epochs; nothing on one rank."""
        self._look()
        found: dict[str, float] = {**self._beside}
        self._beside = dict.fromkeys(found, 0)
        if self.together.size == 1:
            return {}
        return sent_bytes(self.together.sums(found, "summing what was beside"))

    # ---- state -------------------------------------------------------------------------------

    def position(self) -> tuple[int, int]:
        """Between two epochs."""
        return self.full.epoch, 0

    def state_dict(self) -> dict[str, Any]:
        """Of all stages, and of this rank."""
        with self.together.linked("collecting weights"):
            whole = self.full.state_dict()
        self._look()
        rank = self.full.rank_state()
        rank["scheduler"] = None if self._scheduler is None else self._scheduler.state_dict()
        return {
            **whole,
            "history": self._history,
            "best": self.best,
            "counted": dict(self._beside),
            "rank": rank,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved state of as many ranks."""
        self.full.load_state_dict(state)
        self.full.load_rank_state(state["rank"])
        if self._scheduler is not None and self.full.optimizer is not None:
            self._scheduler.load_state_dict(state["rank"]["scheduler"])
            rates = self._scheduler.get_last_lr()
            for group, rate in zip(self.full.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
        self._history, self.best = list(state["history"]), state["best"]
        for name, count in state["counted"].items():
            self._beside[name] += int(count)

    def like(self, path: str) -> Tensor:
        """No weight lies in parts on several ranks."""
        raise KeyError(path)

    def best_weights(self) -> dict[str, Tensor]:
        """Those of the best validation, or the last."""
        if self.best is not None:
            return whole_weights(self.best)
        with self.together.linked("collecting weights"):
            return whole_weights(self.full.weights())

    # ---- the end -----------------------------------------------------------------------------

    def final_scores(self) -> Record:
        """The metric by split of the best weights, by every edge; and stages, ways and bytes."""
        facts: Record = {
            "stages": self.full.link.stages,
            "ways": self.full.link.ways,
            "chunks": len(self.full.chunks),
            "mode": self.full.mode,
            "loss": self._history[-1]["loss"] if self._history else None,
            "bytes_an_epoch": sum(self.full.volume().values()),
        }
        facts |= self.goal.facts()
        found = self._final()
        facts["scores"] = {name: one for name, one in found.items() if not math.isnan(one)}
        if bare := [name for name in found if name not in facts["scores"]]:
            facts["not_scored"] = bare  # no node of these has a label
        train = self.settings.train
        wanted = {name: self.graph.split(name) for name in facts["scores"]}
        reached = self.goal.baselines(self.graph, train.split, wanted)
        for name, split in {"valid": train.valid, "test": train.test}.items():
            if split in facts["scores"]:
                facts |= {name: facts["scores"][split], "scored": "exact"}
                if reached:
                    reached["baseline"][name] = reached["baseline"][split]
        return facts | reached | self._counted

    def _final(self) -> dict[str, float]:
        """Of all splits by one inference with the best weights; the last ones are put back."""
        with self.together.linked("final scores"):
            last = None if self.best is None else self.full.weights()
            if self.best is not None:
                self.full.load_weights(self.best)
            try:
                return self.full.rated(self._rate_counting, list(self.graph.splits))
            finally:
                if last is not None:
                    self.full.load_weights(last)

    def give_back(self) -> None:
        """Nothing is held that the process does not need to its end."""
