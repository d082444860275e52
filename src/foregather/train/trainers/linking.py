"""linking: the trainer for links, of plain and typed graphs.

Over ranks each has the whole model (DDP) and takes its batch of every step, so the links of an
epoch are those of one rank. What is rated is rated by the first rank, with all links.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph, is_typed_folder
from foregather.graph.on_disk.stamp import Stamp
from foregather.loader.rank_options import Topology
from foregather.nn.hetero.schema import Schema
from foregather.nn.links.lookup import Lookup
from foregather.nn.links.model import LinkModel, links_of
from foregather.observe.progress import Progress
from foregather.observe.usable_memory import trim_memory
from foregather.train.device import check_precision, find_device, in_precision
from foregather.train.fit import Training
from foregather.train.hetero.describe_arrays import set_numbers
from foregather.train.hetero.typed_meter import TypedMeter, add_counts
from foregather.train.links.check_links import (
    check_call,
    check_link_run,
    describe_run,
    link_schema,
)
from foregather.train.links.final_links import check_exact_links, final_links, rate_split
from foregather.train.links.link_data import LinkData, SplitLinks, read_links
from foregather.train.links.link_goal import LinkGoal, Linking, LinkScores, choose_link_metric
from foregather.train.links.make_links import (
    is_lookup,
    make_link_loader,
    make_link_model,
    relation_of,
    training_links,
)
from foregather.train.links.rate import Rating, check_k, choose_rating
from foregather.train.parallel_model import model_facts, spread
from foregather.train.rank_agreement import Together
from foregather.train.runs.run_counters import Meter
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import (
    check_used,
    choose_topology,
    count_layers,
    make_optimizer,
)
from foregather.train.trainers.resumable import ResumableEpochs
from foregather.train.trainers.trainer import Record

__all__ = ["LinkTrainer"]


class LinkTraining(Training):
    """A `Training` whose batches hold links.

    Attributes:
        links: the training links, whose rows batches name; set after construction.
        decay: penalty on the squares of learned rows.
    """

    links: SplitLinks
    decay: float = 0.0

    def scores(self, batch: Any) -> Any:
        """Scores of a batch's links and negatives, in the precision of the run."""
        if isinstance(self.meter, TypedMeter):
            self.meter.count(batch, getattr(batch, "share", 1.0) > 0)
        assert isinstance(self.model, LinkModel)
        found = links_of(batch, self.model.edge_type)
        relation = relation_of(self.links, found.row)
        call = self.model if self.parallel is None else self.parallel
        with in_precision(self.precision, found.left.device):
            positive, negative, links = call(batch, relation)
        penalty = self._penalty(batch, links) if self.decay else None
        return LinkScores(positive.float(), negative.float(), links, penalty)

    def _penalty(self, batch: Any, links: Any) -> Tensor:
        """Half of the squares of the learned rows of a batch's ends, per link."""
        assert isinstance(self.model, LinkModel) and isinstance(self.model.encoder, Lookup)
        weights = self.model.encoder.weights()
        parts = [weights[0][links.left], weights[-1][links.right]]
        if links.negative is not None:
            parts.append(weights[-1][links.negative.reshape(-1)])
        total = torch.stack([part.square().sum() for part in parts]).sum()
        return self.decay * total / (2 * max(1, len(links.left)))

    def labels(self, batch: Any) -> Tensor:
        """Which links they are: each counts once."""
        assert isinstance(self.model, LinkModel)
        found = links_of(batch, self.model.edge_type)
        return found.left if found.row is None else found.row

    def plan_facts(self) -> Record:
        """Totals of the plans of the last epoch, where something is read from disk."""
        return super().plan_facts() if hasattr(self.loader, "planned") else {}


class LinkTrainer(ResumableEpochs):
    """A `Trainer` over batches of links.

    Attributes:
        training: model, optimiser, loader and history.
        settings: the settings.
        folder: the run folder.
        graph: the graph trained on.
        data: the links.
        schema: what a typed model was made for; None for others.
        shape: feature columns, and columns of rows.
        say: called with every message for the user.
        together: the ranks that train, one or many.
        topology: over ranks, where neighbour lists are.
        device: where the model is.
        ratings: how each split is compared with its candidates.

    Args:
        begun: facts of the run that is resumed; None for a new one.
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
        model = together.all_do(lambda: self._open(begun is None), "opening the graph")
        together.agree(model_facts(model))
        self.topology = together.first_does(self._choose_topology, "choosing where the topology is")
        grid = together.grid
        loader = make_link_loader(self.data, settings, self.device, grid, self.topology)
        batches: Any = iter(loader)
        first = next(batches)
        batches.close()
        together.all_do(lambda: check_call(model, first, self.data, settings), "trying the model")
        meter = self._make_meter(loader)
        loader.set_epoch(0)
        parallel = spread(model, "replicated", together, partly=self.schema is not None)
        optimizer, scheduler = make_optimizer(
            model.parameters(), settings.optimizer, settings.train.epochs
        )
        link = settings.link
        if settings.model.kind == "distmult":  # which has its own
            link = replace(link, decoder="distmult")
        training = LinkTraining(
            model,
            loader,
            optimizer,
            scheduler,
            parallel=parallel,
            together=together,
            meter=meter,
            precision=settings.train.precision,
            goal=LinkGoal(Linking(settings.model.hidden, link), self._metric),
        )
        training.links = training_links(self.data, settings)
        training.decay = settings.link.embedding_decay
        super().__init__(training)
        self._given_back = False
        if begun is None and together.first:
            for text in describe_run(self):
                say(text)

    def _open(self, new: bool) -> LinkModel:
        """Opens the graph, reads the links and makes a fitting model, on each rank by itself."""
        settings = self.settings
        typed = is_typed_folder(settings.graph)
        check_link_run(settings, self.together.size, typed)
        if new and not is_lookup(settings):
            check_used(settings)
        self.device = find_device(settings.train.device)
        check_precision(settings.train.precision, self.device)
        self.graph: Graph | HeteroGraph
        self.graph = (HeteroGraph if typed else Graph).open(settings.graph)
        self._stamp = Stamp.of(self.graph) if isinstance(self.graph, HeteroGraph) else None
        self.data = self._read()
        self.schema = self._describe()
        width = 1
        if self.schema is not None:
            width = self.schema.width
        elif isinstance(self.graph, Graph) and self.graph.features is not None:
            width = self.graph.features.width
        self.shape = {"width": width, "classes": settings.model.hidden}
        return make_link_model(settings, self.data, self.schema, self._fill).to(self.device)

    def _choose_topology(self) -> Topology:
        if isinstance(self.graph, Graph):
            return choose_topology(self.graph, self.settings)
        return "replicated"

    def _make_meter(self, loader: Any) -> Meter:
        """Counts what batches move; what was read for the trial is given back."""
        if not hasattr(loader, "ranks"):
            return TypedMeter(loader, self.schema or _nothing(self.data))
        meter = Meter(loader)
        if loader.ranks is None:
            meter.give_back()
        else:
            loader.ranks.gather_ledger()  # what was asked for the trial has crossed by then
        return meter

    def _read(self) -> LinkData:
        train = self.settings.train
        names = {"train": train.split, "valid": train.valid, "test": train.test}
        data = read_links(self.graph, self.settings.link.relation, names)
        for role in ("valid", "test"):
            name, usual = getattr(train, role), getattr(type(train)(), role)
            if name and name != usual and role not in data.splits:
                raise InputError(
                    f"train.{role} is {name!r}, but there are no such links; name others, or leave "
                    "it out"
                )
        timed = self.settings.typed.time != "none"
        if timed and any(one.time is None for one in data.splits.values()):
            raise InputError(
                f"typed.time is {self.settings.typed.time!r}, but the links have no times, so "
                "nothing says what each of them may see; make the links with times, or leave "
                "typed.time out"
            )
        if self.settings.link.both_ends and not data.same:
            raise InputError(
                "link.both_ends is for links between nodes of one type, but these join two; leave "
                "it out"
            )
        self._metric = choose_link_metric(train.metric)
        self.ratings: dict[str, Rating] = {
            role: choose_rating(self._metric, self.settings.link, links, train.seed, timed)
            for role, links in data.splits.items()
            if role != "train"
        }
        found = {role: check_k(data, role, rating) for role, rating in self.ratings.items()}
        self.left_out = {role: one for role, one in found.items() if one is not None}
        return data

    def _describe(self) -> Schema | None:
        if is_lookup(self.settings) or isinstance(self.graph, Graph):
            return None
        return link_schema(self.graph, self.data, self.settings.model.hidden)

    def _fill(self, encoder: Any) -> None:
        assert isinstance(self.graph, HeteroGraph)
        set_numbers(encoder, self.graph)

    # ---- epochs ------------------------------------------------------------------------------

    def facts(self) -> Record:
        """Device, task, what the model was made for, and how many nodes have learned rows."""
        return {
            "device": self.device.type,
            "task": self.training.goal.task.facts(),
            "metric": self._metric.name,
            "accelerated": False,
            "topology": self.topology,
            "link": {
                "edge_type": self.data.edge_type,
                "relations": list(self.data.relations),
                "counts": list(self.data.counts),
            },
            **({"typed": self.schema.as_dict()} if self.schema is not None else {}),
            "hops": 0 if is_lookup(self.settings) else count_layers(self.settings),
        }

    def begin(self) -> None:
        """Prepares validation: sampled, or with every edge.

        Raises:
            BudgetError, InputError: exact scores are requested but not possible.
        """
        if "valid" in self.ratings:
            exact = self.settings.train.evaluate == "exact" or is_lookup(self.settings)
            first_does = self.together.first_does
            if exact:
                first_does(lambda: check_exact_links(self), "looking whether links can be rated")
            self._scored = "exact" if exact else "sampled"
            self.valid = lambda model: first_does(
                lambda: rate_split(self, "valid", exact), "rating links"
            )

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """Trains on the remaining batches of an epoch."""
        self.check_graph()
        record = super().train_epoch(bar, after_step)
        meter = self.training.meter
        if isinstance(meter, TypedMeter):
            counts = {name: record.pop(name) for name in list(record) if meter.is_count(name)}
            if self.schema is not None:
                record["typed"] = meter.by_name(counts)
        return record

    def check_graph(self) -> None:
        """Raises FormatError if the folder changed since it was opened."""
        if self._stamp is not None:
            self._stamp.check()

    def evaluate(self) -> Record:
        """Returns the score on the split that chooses the best epoch, and how it was computed."""
        found = super().evaluate()
        return found | {"scored": self._scored} if found else {}

    def outlook(self) -> str:
        """Nothing is read from disk by a plan that could be foretold."""
        return ""

    def explain(self, record: Record) -> str:
        """Nothing was predicted."""
        return ""

    # ---- the end -----------------------------------------------------------------------------

    def final_scores(self) -> Record:
        """Scores by split of the best weights, how they were found, and the baseline."""
        self.check_graph()
        if self.together.grid is not None:
            self.give_back()  # together: what follows is done by one
        facts = self.together.first_does(lambda: final_links(self), "rating links")
        counted = [record["typed"] for record in self.history if "typed" in record]
        return facts | ({"typed": add_counts(counted)} if counted else {})

    def give_back(self) -> None:
        """Frees what is not needed any more; a collective call."""
        if self.together.grid is not None and self._given_back:
            return
        self._given_back, over = True, getattr(self.training.loader, "ranks", None)
        if over is not None:
            over.gather_ledger()  # all that was asked for has crossed by then
        self.training.meter.give_back()
        trim_memory()


def _nothing(data: LinkData) -> Schema:
    """A schema without types, for batches of which nothing is counted."""
    return Schema("", 1, (), ())
