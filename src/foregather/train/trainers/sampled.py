"""sampled: the trainer for sampled batches."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.loops import has_loops
from foregather.loader.disk.outlook import outlook
from foregather.loader.loader import Loader
from foregather.loader.memory.ways import compare_measured
from foregather.loader.source import MemorySource
from foregather.nn import Accelerated, accelerate
from foregather.nn.by_name import NORMED
from foregather.observe.usable_memory import trim_memory
from foregather.sampling.subgraphs.saint import Saint
from foregather.sampling.subgraphs.subgraph import SubgraphSampler
from foregather.train.device import check_precision, find_device
from foregather.train.fit import Training, evaluate
from foregather.train.metrics import check_classes, check_split, check_valid, wants_edge_attr
from foregather.train.parallel_model import model_facts, spread
from foregather.train.rank_agreement import Together
from foregather.train.runs.final_scores import check_exact, exact_scores, final_scores, split_nodes
from foregather.train.runs.run_counters import Meter
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import (
    check_used,
    choose_topology,
    make_loader,
    make_optimizer,
    make_trained,
)
from foregather.train.settings.samplers import make_sampler
from foregather.train.tasks.goal import choose_goal
from foregather.train.trainers.resumable import ResumableEpochs
from foregather.train.trainers.torch_threads import Trial, try_threads
from foregather.train.trainers.trainer import Record
from foregather.train.trainers.unused_settings import check_named_splits

__all__ = ["SampledTrainer"]


class SampledTrainer(ResumableEpochs):
    """A `Trainer` over the batches of a loader; created collectively.

    Attributes:
        training: model, optimiser, loader and history.
        settings: the settings.
        folder: the run folder, for exact scores.
        graph: the graph trained on.
        shape: feature columns and classes that the model was made for.
        say: called with every message for the user.
        together: the ranks that train, one or many.
        device: where the model is.
        goal: task and metric.
        sampler: which nodes are sampled.
        topology: over ranks, where neighbour lists are.
        fast: the model, accelerated; None if it runs as it is.
        trial: how torch's threads were chosen; None if they were not, or in an earlier process.

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
        self.graph, model = together.all_do(lambda: self._open(begun is None), "opening the graph")
        together.agree(model_facts(model))
        self.topology = together.first_does(
            lambda: choose_topology(self.graph, settings), "choosing where the topology is"
        )
        loader = self._make_loader(model)
        batches: Any = iter(loader)
        first = next(batches)
        batches.close()
        self.fast = self._accelerate(model, first, begun)
        meter = Meter(loader)
        if loader.ranks is None:
            meter.give_back()  # an epoch starts with an empty cache, after any check
        else:
            loader.ranks.gather_ledger()  # what was asked for the check has crossed by then
        loader.set_epoch(0)
        called = model if self.fast is None else self.fast
        parallel = spread(called, settings.grid.weights, together)
        optimizer, scheduler = make_optimizer(
            model.parameters(), settings.optimizer, settings.train.epochs
        )
        super().__init__(
            Training(
                model,
                loader,
                optimizer,
                scheduler,
                parallel=parallel,
                together=together,
                meter=meter,
                fast=self.fast,
                precision=settings.train.precision,
                goal=self.goal,
                only=self._own_nodes(),
                loss_weight=self._loss_weight(),
            )
        )
        self._open_loader = True
        if begun is None and together.first:
            self._tell()
        self.trial: Trial | None = None
        if begun is None and settings.train.torch_threads == "measured":
            self._divide()

    def _divide(self) -> None:
        """Chooses the threads of torch, for all of the run."""
        self.trial = try_threads(self.training, torch.get_num_threads())
        self.training.meter.give_back()  # an epoch starts with an empty cache
        torch.set_num_threads(self.trial.chosen)
        self.say(self.trial.explain())

    def _tell(self) -> None:
        """Says what was chosen."""
        train, kind = self.settings.train, self.settings.model.kind
        self.say(self.goal.describe(train.task == "auto"))
        if self.sampler.draws_seeds and train.evaluate == "sampled":
            self.say(
                f"{self.settings.sampler.kind} chooses the nodes of its batches itself, so "
                "validation is exact"
            )
        if kind in NORMED and not has_loops(self.graph):
            self.say(
                f"{kind} takes the self-loops that a graph has, and this one lacks some, so a node "
                "may not see itself; foregather convert --self-loops adds them"
            )

    def _open(self, new: bool) -> tuple[Graph, nn.Module]:
        """Opens the graph and makes a fitting model, on each rank by itself."""
        settings = self.settings
        if new:
            check_used(settings)
        graph = Graph.open(settings.graph)
        if graph.features is None:
            more = "; to predict its links, set train.task to link" if graph.links else ""
            raise InputError(
                "the graph has no features to train on; convert it with --features FILE or "
                f"--node-table FILE{more}"
            )
        self.sampler = make_sampler(graph, settings)
        self.device = find_device(settings.train.device)
        check_precision(settings.train.precision, self.device)
        self.goal = choose_goal(graph, settings.train)
        known = self.goal.task.known
        self.shape = {"width": graph.features.width, "classes": self.goal.task.width}
        check_split(graph, settings.train.split, known)
        check_named_splits(graph, settings.train)
        check_valid(graph, settings.train.valid, known)
        model = make_trained(self.is_layered, settings, **self.shape)
        return graph, model.to(self.device)

    @property
    def is_layered(self) -> bool:
        """Whether batches have layers that a model by name is made for."""
        return self.sampler.expand == "per-layer" and ":" not in self.settings.model.kind

    def _accelerate(
        self, model: nn.Module, first: Any, begun: Mapping[str, Any] | None
    ) -> Accelerated | None:
        """Tries the model on a batch, accelerated where that was seen to be equal on every rank.

        A run that was started without goes on without: the last bits of its sums would differ.

        Raises:
            InputError: the model cannot be called, or gives too few columns.
        """
        settings, together, classes = self.settings, self.together, self.shape["classes"]
        wanted = settings.train.accelerate and settings.grid.weights == "replicated"
        by_hops = not self.is_layered and not isinstance(self.sampler, SubgraphSampler)
        wanted = wanted and by_hops  # others have no rows that later layers do not need
        fast = accelerate(model) if wanted else None
        if begun is not None and not begun.get("accelerated", False):
            fast = None
        reason = together.all_do(
            lambda: check_classes(model, first, classes, fast), "trying the model"
        )
        found = together.gather({"plain": fast is None or reason is not None}, "trying the model")
        if not any(part["plain"] for part in found):
            return fast
        if fast is not None and reason is not None and together.first:
            self.say(f"the model runs as it is: {reason}")
        return None

    def _own_nodes(self) -> torch.Tensor | None:
        """Nodes to learn from, where batches have nodes that the sampler chose itself."""
        if not self.sampler.draws_seeds:
            return None
        only = np.zeros(self.graph.num_nodes, np.bool_)
        only[self.graph.split(self.settings.train.split)] = True
        return torch.from_numpy(only)

    def _loss_weight(self) -> torch.Tensor | None:
        """GraphSAINT's: with them the loss of a batch is the mean of the training nodes, expected.

        Those of the sampler are for a mean over all nodes of the graph.
        """
        sampler, train = self.sampler, self.settings.train
        if not isinstance(sampler, Saint) or not sampler.draws_seeds or not sampler.normalise:
            return None
        found = sampler.loss_weight(self.graph, seed=train.seed, threads=train.threads)
        assert self.graph.labels is not None
        learned = self.goal.task.known(self.graph.labels[self.graph.split(train.split)])
        return torch.from_numpy(found) * (self.graph.num_nodes / max(1, int(learned.sum())))

    def _make_loader(self, model: nn.Module) -> Loader:
        edges, grid = None if wants_edge_attr(model) else False, self.together.grid
        return make_loader(
            self.graph, self.settings, grid, self.device, self.topology, edges, self.sampler
        )

    # ---- epochs ------------------------------------------------------------------------------

    def facts(self) -> Record:
        """Device, topology, task, and whether the model is accelerated."""
        return {
            "device": self.device.type,
            "task": self.goal.task.facts(),
            "metric": self.goal.metric.name,
            "topology": self.topology,
            "accelerated": self.fast is not None,
            **({} if self.trial is None else {"torch_threads": self.trial.facts()}),
        }

    def begin(self) -> None:
        """Prepares validation: sampled, or with every edge.

        Raises:
            BudgetError, InputError: exact scores are requested but not possible.
        """
        nodes = split_nodes(self.graph, self.settings.train.valid)
        if nodes is None:
            return
        if self.evaluates == "exact":
            check_exact(self)
            self.valid = lambda model: self._exact(model, nodes)
            return
        loader = self.training.loader.beside(nodes)
        self.valid = lambda model: evaluate(model, loader, self.together, self.fast, self.goal)

    def _exact(self, model: nn.Module, nodes: npt.NDArray[np.int64]) -> float:
        """Computes the metric with every edge; on one rank, the cache is freed meanwhile."""
        if self.together.grid is None:
            self.training.meter.give_back()
        return float(exact_scores(self, model, {"valid": nodes})["valid"])

    def evaluate(self) -> Record:
        """Returns the score on the split that chooses the best epoch, and how it was computed."""
        found = super().evaluate()
        return found | {"scored": self.evaluates} if found else {}

    @property
    def evaluates(self) -> str:
        """How validation is computed: exactly, where the sampler chooses its nodes itself."""
        return "exact" if self.sampler.draws_seeds else self.settings.train.evaluate

    def outlook(self) -> str:
        """The layout of the budget, and what an epoch is predicted to read."""
        return outlook(self.training.loader)

    def explain(self, record: Record) -> str:
        """After the first epoch, what was predicted and what was measured."""
        if record["epoch"] != 1:
            return ""
        loader = self.training.loader
        source = loader._source
        pace = source.pace if isinstance(source, MemorySource) else None
        return compare_measured(loader, record) or ("" if pace is None else pace.explain())

    # ---- the end -----------------------------------------------------------------------------

    def final_scores(self) -> Record:
        """The metric by split of the best weights, and how it was found."""
        return final_scores(self)

    def give_back(self) -> None:
        """Frees the loader's resources, keeping its counters; a collective call."""
        if not self._open_loader:
            return
        self._open_loader = False
        if self.training.loader.ranks is not None:
            self.training.loader.ranks.gather_ledger()  # all that was asked for has crossed by then
        self.training.meter.give_back()
        trim_memory()

    def reopen(self) -> None:
        """Reopens the loader after `give_back`; a collective call."""
        if self._open_loader:
            return
        if self.together.grid is not None:  # on one rank a loop opens by itself what it needs
            self.training.loader = self._make_loader(self.training.model)
            self.training.meter.switch(self.training.loader)
        self._open_loader = True
