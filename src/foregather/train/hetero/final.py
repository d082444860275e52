"""final: the final scores of a typed run, with its best weights, next to what guessing reaches.

They use every edge, layer by layer; with times, every edge that the tree of a row may see. Where
that would look at too many edges, neighbours are sampled as in training, and the result says so.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.mapped import take
from foregather.train.hetero.exact import MOST_EDGES, choose_way, predict_edges
from foregather.train.runs.final_scores import best_weights, scored_splits
from foregather.train.tasks.per_class import count_classes
from foregather.train.trainers.trainer import Record
from foregather.units import format_count

if TYPE_CHECKING:
    from foregather.train.trainers.typed import TypedTrainer

__all__ = ["check_feasible", "final_typed"]

Nodes = npt.NDArray[np.int64]


def check_feasible(trainer: "TypedTrainer", nodes: Mapping[str, Nodes]) -> str:
    """Why exact scores of these nodes are not computed; empty if they are."""
    if choose_way(trainer.model, trainer.settings) != "trees":
        return ""
    every = np.concatenate(list(nodes.values()))
    args = (trainer.graph, trainer.task, trainer.settings, trainer.hops, every)
    edges = predict_edges(*args)
    if edges <= MOST_EDGES:
        return ""
    return (
        f"the trees of {format_count(len(every))} seeds with every edge that they may see have "
        f"about {format_count(edges)} edges, more than {format_count(MOST_EDGES)}"
    )


def final_typed(trainer: "TypedTrainer") -> Record:
    """Scores by split of the best weights, how they were computed, and the baseline.

    A split without labels has no score; it is listed under `not_scored`.
    """
    trainer.check_graph()
    task, train = trainer.task, trainer.settings.train
    nodes, facts = scored_splits(task.table, task.goal, train, trainer.say)
    facts["target"] = task.target
    if not nodes:
        return facts
    baselines = task.goal.baselines(task.table, train.split, nodes)
    return {**_scores(trainer, nodes), **baselines, **facts}


def _scores(trainer: "TypedTrainer", nodes: Mapping[str, Nodes]) -> Record:
    """Scores with every edge, or sampled, and which of the two."""
    why = ""
    with best_weights(trainer.training):
        if trainer.settings.train.final == "exact":
            try:
                why = check_feasible(trainer, nodes)
                if not why:
                    return {**_exact(trainer, nodes), "scored": "exact"}
            except (InputError, RuntimeError) as error:  # a model that cannot take the whole graph
                why = str(error).partition("\n")[0]
            trainer.say(f"the final scores are sampled, since not every edge can be used: {why}")
        scores: Record = {
            name: trainer.rate(trainer.sampled(ids), ids) for name, ids in nodes.items()
        }
    return {**scores, "scored": "sampled"} | ({"why_sampled": why} if why else {})


def _exact(trainer: "TypedTrainer", nodes: Mapping[str, Nodes]) -> Record:
    """Scores with every edge, computed for all splits together; classes counted for the last."""
    rows, first = trainer.exact(np.concatenate(list(nodes.values()))), 0
    found: Record = {}
    for name, mine in nodes.items():
        part = rows[first : first + len(mine)]
        found[name] = trainer.rate(part, mine)
        first += len(mine)
    labels = trainer.task.table.labels
    assert labels is not None
    every = np.arange(len(mine))
    return found | count_classes(trainer.task.goal.task, name, part, take(labels, mine), every)
