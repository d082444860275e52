"""final_scores: the final scores of a run, computed with its best weights.

They use every edge of the graph, layer by layer, within the run's budget; rank 0 computes them
while the others wait. If that is not possible, or not requested, neighbours are sampled as in
training, and the result says so: `scored` is "exact" or "sampled", and nothing is called exact that
is not.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.on_disk.npy import map_array
from foregather.train.fit import Training, evaluate
from foregather.train.infer import check_infer, infer
from foregather.train.metrics import Labelled, has_labels
from foregather.train.parallel_model import whole_weights
from foregather.train.settings import TrainSettings
from foregather.train.settings.from_settings import infer_options, make_model
from foregather.train.tasks.goal import Goal
from foregather.train.tasks.per_class import count_classes
from foregather.train.trainers.trainer import Record

if TYPE_CHECKING:
    from foregather.train.trainers.sampled import SampledTrainer

__all__ = [
    "best_weights",
    "check_exact",
    "exact_scores",
    "final_scores",
    "scored_splits",
    "split_nodes",
]

Nodes = npt.NDArray[np.int64]


def split_nodes(graph: Labelled, split: str) -> Nodes | None:
    """Returns the nodes of a split; None if there are none."""
    if not split:
        return None
    try:
        nodes = graph.split(split)
    except InputError:
        return None
    return nodes if len(nodes) else None


def final_scores(trainer: "SampledTrainer") -> Record:
    """Computes the metric by split of the best weights, says how, and what a constant reaches.

    A split without labels has no score; it is listed under `not_scored`.
    """
    graph, goal, train = trainer.graph, trainer.training.goal, trainer.settings.train
    nodes, facts = scored_splits(graph, goal, train, trainer.say)
    if not nodes:
        return facts
    return {**_scores(trainer, nodes), **goal.baselines(graph, train.split, nodes), **facts}


def scored_splits(
    graph: Labelled, goal: Goal, train: TrainSettings, say: Callable[[str], None]
) -> tuple[dict[str, Nodes], Record]:
    """The nodes of the splits that are scored at the end, and the facts known before.

    These are names of task and metric, and which splits are not scored for want of labels.
    """
    wanted = {"valid": train.valid, "test": train.test}
    found = {name: split_nodes(graph, split) for name, split in wanted.items()}
    there = {name: ids for name, ids in found.items() if ids is not None}
    nodes = {name: ids for name, ids in there.items() if has_labels(graph, ids, goal.task.known)}
    facts: Record = goal.facts()
    if len(nodes) < len(there):
        facts["not_scored"] = sorted(there.keys() - nodes)
    for name in facts.get("not_scored", ()):
        say(f"the split {wanted[name]!r} is not scored: no node of it has a label")
    return nodes, facts


@contextmanager
def best_weights(training: Training) -> Iterator[None]:
    """The model has its best weights inside this block, and its last ones after it."""
    last = {name: value.clone() for name, value in training.model.state_dict().items()}
    if training.best is not None:
        training.model.load_state_dict(training.best)
    try:
        yield
    finally:
        training.model.load_state_dict(last)


def _scores(trainer: "SampledTrainer", nodes: Mapping[str, Nodes]) -> Record:
    """Returns scores with every edge, or sampled, and which of the two."""
    training, why = trainer.training, ""
    with best_weights(training):
        if trainer.settings.train.final == "exact":
            try:
                trainer.give_back()
                found = exact_scores(trainer, training.model, nodes, count=True)
                return {**found, "scored": "exact"}
            except (BudgetError, InputError, StorageError) as error:
                why = str(error)
                if trainer.sampler.draws_seeds:  # batches of given nodes do not exist
                    trainer.say(f"the splits are not scored: {why}")
                    return {"why_not_scored": why}
                trainer.say(
                    f"the final scores are sampled, since not every edge can be used: {why}"
                )
        scores: Record = _sampled(trainer, nodes)
    return {**scores, "scored": "sampled"} | ({"why_sampled": why} if why else {})


def _sampled(trainer: "SampledTrainer", nodes: Mapping[str, Nodes]) -> dict[str, float]:
    trainer.reopen()
    training, together = trainer.training, trainer.together
    loader, model, goal = training.loader, training.model, training.goal
    return {
        name: evaluate(model, loader.beside(ids), together, goal=goal)
        for name, ids in nodes.items()
    }


def check_exact(trainer: "SampledTrainer") -> None:
    """Refuses, before training, exact scores that do not fit the run's budget.

    Raises:
        BudgetError: the budget is too small; the message states the minimum.
        InputError: the model cannot be computed in parts of the graph.
    """
    model = trainer.training.model
    if _needs_whole(trainer):
        model = _whole_model(trainer, model)
    options = infer_options(trainer.settings)

    def check() -> None:
        trainer.training.meter.note(bytes=check_infer(model, trainer.graph, **options))

    trainer.together.first_does(check, "exact scores")


def exact_scores(
    trainer: "SampledTrainer", model: nn.Module, nodes: Mapping[str, Nodes], count: bool = False
) -> Record:
    """Computes the metric with every edge, on rank 0; if wanted, also counts classes.

    Raises:
        BudgetError: the run's budget is too small.
        StorageError: the disk has no room for the rows between layers.
        InputError: the model cannot be computed in parts of the graph.
    """
    if _needs_whole(trainer):
        model = _whole_model(trainer, model)  # inference is on the host

    def score() -> Record:
        out, options = trainer.folder / "scores.npy", infer_options(trainer.settings)
        facts = infer(model, trainer.graph, out, overwrite=True, **options)
        trainer.training.meter.note(bytes=facts["bytes"])
        try:
            labels, rows = trainer.graph.labels, map_array(out)
            assert labels is not None
            rate = trainer.training.goal.rate_nodes
            found: Record = {name: rate(rows, labels, ids) for name, ids in nodes.items()}
            last, ids = list(nodes.items())[-1]
            task = trainer.training.goal.task
            return found | (count_classes(task, last, rows, labels, ids) if count else {})
        finally:
            out.unlink()

    return trainer.together.first_does(score, "exact scores")


def _needs_whole(trainer: "SampledTrainer") -> bool:
    """Whether exact inference needs another module than training, with the same weights."""
    return trainer.device.type != "cpu" or trainer.training.in_parts() or trainer.is_layered


def _whole_model(trainer: "SampledTrainer", model: nn.Module) -> nn.Module:
    """Returns the same model unsharded, without changing random states."""
    weights, random = whole_weights(model.state_dict()), torch.get_rng_state()
    whole = make_model(trainer.settings, **trainer.shape)
    torch.set_rng_state(random)
    whole.load_state_dict(weights)
    return whole
