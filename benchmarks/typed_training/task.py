"""task: what is asked about a typed graph, and how it is trained on; the same for every side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from common.graphs import data_folder
from common.skip import skip

from foregather.graph.hetero import EdgeType, HeteroGraph, Relation

__all__ = ["Task", "both_ways", "read", "standard"]


@dataclass(frozen=True)
class Task:
    """A graph, rows of one node type with labels, and the settings of training.

    Args:
        name: of the set.
        graph: the graph, as every side gets it.
        target: the node type that is asked about.
        classes: how many there are.
        split: node ids by part; `val` is missing where there is none.
        fanout: of both layers, for every relation.
        batch_size: rows of a step.
        steps: at most.
        every: steps between evaluations.
        patience: evaluations without a better one after which training ends; 0: never.
        rate: of Adam.
        hidden: width of the models, by model where it differs.
        learnt: standard deviation of learnt rows before training.
        level: whose times limit trees; None: no times.
        ages: node types whose rows get the time from them to the seed as a column, with the
            attribute that holds their time.
        later: what in a batch no tree may see, as a sentence; None where all is well.
        seeds: of weights and samples.
    """

    name: str
    graph: HeteroGraph
    target: str
    classes: int
    split: Mapping[str, np.ndarray]
    fanout: tuple[int, int]
    batch_size: int
    steps: int
    every: int
    patience: int = 0
    rate: float = 0.01
    hidden: Mapping[str, int] = field(default_factory=dict)
    learnt: float = 1.0
    level: str | None = None
    ages: Mapping[str, str] = field(default_factory=dict)
    later: Callable[[Any], str | None] | None = None
    seeds: int = 5

    def width(self, model: str) -> int:
        """Hidden columns of a model."""
        return self.hidden.get(model, 64)

    def times(self, part: str) -> np.ndarray | None:
        """The times of the rows of a part: those of their nodes."""
        if self.level is None:
            return None
        own = self.graph.nodes[self.target]
        known = own.time if own.time is not None else own.features["when"]
        return known[self.split[part]]

    @property
    def settings(self) -> str:
        """What a kept run depends on, as text."""
        own = (self.fanout, self.batch_size, self.steps, self.every, self.patience, self.rate)
        parts = {name: len(ids) for name, ids in self.split.items()}
        return f"{self.name} {own} {dict(self.hidden)} {self.learnt} {parts} {self.graph.digest}"


def read(name: str) -> dict[str, np.ndarray]:
    """The arrays of a set."""
    path = data_folder() / "typed" / f"{name}.npz"
    if not path.is_file():
        skip(f"typed/{path.name} is not in the folder that FOREGATHER_DATA names")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def both_ways(
    found: Mapping[EdgeType, np.ndarray], sizes: Mapping[str, int]
) -> dict[EdgeType, Relation]:
    """Each relation and its reverse, called rev_NAME."""
    edges = {}
    for (source, name, end), pairs in found.items():
        edges[source, name, end] = Relation.of(pairs, sizes[source], sizes[end])
        edges[end, f"rev_{name}", source] = Relation.of(pairs[::-1], sizes[end], sizes[source])
    return edges


def standard(x: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Columns of mean 0 and variance 1 over `rows`; what is missing (NaN) becomes the mean."""
    known = x if rows is None else x[rows]
    mean, deviation = np.nanmean(known, 0), np.nanstd(known, 0)
    return np.nan_to_num((x - mean) / np.maximum(deviation, 1e-6)).astype(np.float32)
