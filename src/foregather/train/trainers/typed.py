"""typed: the trainer for graphs with node types, relations and times; in memory, on one rank."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import show_edge_type
from foregather.graph.mapped import hold
from foregather.graph.on_disk.stamp import Stamp
from foregather.nn import Accelerated, accelerate
from foregather.nn.hetero.model import TypedModel
from foregather.observe.progress import Progress
from foregather.observe.usable_memory import trim_memory
from foregather.train.device import check_precision, find_device, in_precision
from foregather.train.fit import Training
from foregather.train.hetero.call import (
    check_call,
    prove_call,
    seed_labels,
    seed_scores,
    takes_whole_batch,
)
from foregather.train.hetero.describe_arrays import describe_arrays, set_numbers
from foregather.train.hetero.exact import exact_scores, sampled_scores
from foregather.train.hetero.final import check_feasible, final_typed
from foregather.train.hetero.make import (
    LAYERWISE,
    check_offered,
    count_hops,
    make_typed,
    make_typed_loader,
    make_typed_sampler,
    model_kind,
)
from foregather.train.hetero.task import find_typed_task
from foregather.train.hetero.typed_meter import TypedMeter, add_counts
from foregather.train.rank_agreement import Together
from foregather.train.runs.final_scores import split_nodes
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import check_used, make_optimizer
from foregather.train.trainers.resumable import ResumableEpochs
from foregather.train.trainers.trainer import Record

__all__ = ["TypedTrainer"]

Ids = npt.NDArray[np.int64]


class TypedTraining(Training):
    """A `Training` whose batches are typed.

    Attributes:
        target: the node type of the seeds; set after construction.
    """

    target: str

    def scores(self, batch: Any) -> Tensor:
        """Scores of a batch's seeds in training, in the precision of the run."""
        assert isinstance(self.meter, TypedMeter)
        self.meter.count(batch)
        with in_precision(self.precision, batch[self.target].y.device):
            fast = self.fast if isinstance(self.fast, Accelerated) else None
            scores = seed_scores(self.model, batch, self.target, fast)
        return scores.float() if scores.dtype == torch.bfloat16 else scores

    def labels(self, batch: Any) -> Tensor:
        """Labels of a batch's seeds."""
        return seed_labels(batch, self.target)

    def plan_facts(self) -> Record:
        """Nothing is read from disk, so nothing is planned."""
        return {}


class TypedTrainer(ResumableEpochs):
    """A `Trainer` over the batches of a `HeteroLoader`.

    Attributes:
        training: model, optimiser, loader and history.
        settings: the settings.
        graph: the graph trained on.
        task: the node type that is learned about, its labels and times.
        schema: what the model was made for.
        hops: layers of the model.
        shape: feature columns and classes, as of other runs.
        say: called with every message for the user.
        together: one rank.
        device: where the model is.
        fast: a model of the user, accelerated; None if it runs as it is.

    Args:
        begun: facts of the run that is resumed, which goes on as it began; None for a new one.
    """

    own: tuple[str, ...] = ("counted", "accelerated", "scored")

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        say: Callable[[str], None],
        together: Together,
        begun: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings, self.folder, self.say, self.together = settings, folder, say, together
        check_offered(settings, together.size)
        if begun is None:
            check_used(settings)
        self.device = find_device(settings.train.device)
        check_precision(settings.train.precision, self.device)
        self.graph = HeteroGraph.open(settings.graph)
        self._stamp = Stamp.of(self.graph)
        self.task = find_typed_task(self.graph, settings)
        sampler = make_typed_sampler(self.graph, settings)
        self.hops = count_hops(settings, sampler)
        wanted = settings.typed
        self.schema = describe_arrays(self.graph, self.task, wanted.seed_time, wanted.encode_time)
        self.shape = {"width": self.schema.width, "classes": self.task.classes}
        model = make_typed(
            settings, self.schema, self.hops, lambda made: set_numbers(made, self.graph)
        ).to(self.device)
        loader: Any = make_typed_loader(self.graph, self.task, settings, sampler, self.device)
        batches: Any = iter(loader)
        first = next(batches)
        batches.close()
        check_call(model, first, self.task.target, self.task.classes)
        self.fast = self._accelerate(model, first, begun)
        loader.set_epoch(0)
        optimizer, scheduler = make_optimizer(
            model.parameters(), settings.optimizer, settings.train.epochs
        )
        meter = TypedMeter(loader, self.schema)
        training = TypedTraining(
            model,
            loader,
            optimizer,
            scheduler,
            together=together,
            meter=meter,
            fast=self.fast,
            precision=settings.train.precision,
            goal=self.task.goal,
        )
        training.target = self.task.target
        super().__init__(training)
        self._meter = meter
        if begun is None:
            self._tell()

    def _accelerate(
        self, model: nn.Module, first: Any, begun: Mapping[str, Any] | None
    ) -> Accelerated | None:
        """A model of the user on only the rows that it needs, where that was seen to be equal.

        Models by name do that by themselves. A run that was started without goes on without: the
        last bits of its sums would differ.
        """
        if isinstance(model, TypedModel) or not self.settings.train.accelerate:
            return None
        if self.settings.sampler.kind in LAYERWISE:  # layers hold the rows that they need
            return None
        if begun is not None and not begun.get("accelerated", False):
            return None
        fast = accelerate(model)
        if (reason := prove_call(model, fast, first)) is None:
            return fast
        self.say(f"the model runs as it is: {reason}")
        return None

    def _tell(self) -> None:
        """Says what was chosen, and what of the graph the model does not use."""
        settings, task, say = self.settings, self.task, self.say
        if not settings.typed.target:
            say(
                f"the target is {task.target!r}, the only node type with labels and a split "
                f"{settings.train.split!r}"
            )
        say(task.goal.describe(settings.train.task == "auto"))
        if settings.model.kind == "sage":
            say("the graph has node types, so the model sage is hetero-sage")
        for text in self._unused():
            say(text)

    def _unused(self) -> list[str]:
        """What the graph has and the model is not given, a sentence each."""
        found, model = [], self.training.model
        named = isinstance(model, TypedModel)
        for what in ("features", "weights"):
            rows = [
                show_edge_type(name)
                for name, one in self.graph.edges.items()
                if getattr(one, what) is not None
            ]
            if rows and named:
                kind = model_kind(self.settings)
                found.append(f"edge {what} are not used by {kind}: those of {', '.join(rows)}")
        if not named and not takes_whole_batch(model):
            left = [
                f"{array.name!r} of {one.name!r}"
                for one in self.schema.nodes
                for array in one.arrays
                if array.name != "x"
            ]
            if left:
                found.append(
                    f"{type(model).__name__} is called with x_dict, so it is not given "
                    f"{', '.join(left)}; a forward(batch) gets them"
                )
        timed = [one.name for one in self.schema.nodes if one.timed]
        edges = [one for one in self.graph.edges.values() if one.time is not None]
        if self.settings.typed.time == "none" and (timed or edges):
            found.append(
                "the graph has times, which are not looked at, so a seed may see what came later; "
                "typed.time = 'node' or 'edge' prevents that"
            )
        return found

    # ---- epochs ------------------------------------------------------------------------------

    def facts(self) -> Record:
        """Device, task, what the model was made for, and whether it is accelerated."""
        return {
            "device": self.device.type,
            "task": self.task.goal.task.facts(),
            "metric": self.task.goal.metric.name,
            "typed": self.schema.as_dict(),
            "hops": self.hops,
            "accelerated": self.fast is not None,
        }

    def begin(self) -> None:
        """Prepares validation: sampled, or with every edge.

        Raises:
            InputError: exact scores are requested after each epoch, but not possible.
        """
        nodes = split_nodes(self.task.table, self.settings.train.valid)
        if nodes is None:
            return
        if self.settings.train.evaluate == "exact":
            if why := check_feasible(self, {"valid": nodes}):
                raise InputError(
                    f"train.evaluate is 'exact', but {why}; leave it out to validate with sampled "
                    "neighbours"
                )
            self.valid = lambda model: self.rate(self.exact(nodes), nodes)
        else:
            self.valid = lambda model: self.rate(self.sampled(nodes), nodes)

    def rate(self, scores: npt.NDArray[np.float32], nodes: Ids) -> float:
        """The score of nodes by the run's metric."""
        assert self.task.table.labels is not None
        return self.task.goal.rate(scores, hold(self.task.table.labels)[nodes])

    def exact(self, nodes: Ids) -> npt.NDArray[np.float32]:
        """Scores of nodes of the target type, with every edge."""
        args = (self.graph, self.task, self.settings, self.hops, nodes)
        return exact_scores(self.training.model, *args)

    def sampled(self, nodes: Ids) -> npt.NDArray[np.float32]:
        """Scores of nodes of the target type, with the fan-outs of the training."""
        loader: Any = self.training.loader
        beside = loader.beside((self.task.target, nodes), input_time=self.task.at(nodes))
        return sampled_scores(self.training.model, beside, self.task.target, fast=self.fast)

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """Trains on the remaining batches of an epoch, and counts them by type and relation."""
        self.check_graph()
        record = super().train_epoch(bar, after_step)
        counts = {name: record.pop(name) for name in list(record) if self._meter.is_count(name)}
        record["typed"] = self._meter.by_name(counts)
        return record

    def check_graph(self) -> None:
        """Raises FormatError if the folder changed since it was opened."""
        if self._stamp is not None:
            self._stamp.check()

    def evaluate(self) -> Record:
        """Returns the score on the split that chooses the best epoch, and how it was computed."""
        found = super().evaluate()
        return found | {"scored": self.settings.train.evaluate} if found else {}

    def take_beside(self) -> Record:
        """Nothing is read from disk beside epochs."""
        return {}

    def outlook(self) -> str:
        """Nothing is read from disk by a plan that could be foretold."""
        return ""

    def explain(self, record: Record) -> str:
        """Nothing was predicted."""
        return ""

    # ---- the end -----------------------------------------------------------------------------

    def final_scores(self) -> Record:
        """Scores by split of the best weights, how they were found, and counts by type."""
        counted = [record["typed"] for record in self.history if "typed" in record]
        return {**final_typed(self), "typed": add_counts(counted)}

    def give_back(self) -> None:
        """Frees what is not needed any more."""
        self.training.meter.give_back()
        trim_memory()
