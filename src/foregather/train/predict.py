"""predict: scores of given nodes at once, with every edge of their neighbourhoods.

The model is called once, with the batch of a Loader of the same nodes with every neighbour, as many
hops as it has layers. So scores equal, bit for bit, those of the model on that batch, from memory
as from disk. The same nodes in other batches, or in `infer` for the whole graph, have these scores
up to rounding: torch rounds products of matrices of other shapes differently.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import InputError, NumericError
from foregather.graph.graph import Graph
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.train.exact.layers import Order
from foregather.train.exact.neighbourhoods import neighbourhood_loader
from foregather.train.hetero.exact import sampled_scores
from foregather.train.hetero.load import TypedRun
from foregather.train.hetero.make import exact_sampler
from foregather.train.metrics import forward

__all__ = ["Predictor", "predict_typed"]

Rows = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


class Predictor:
    """Predicts given nodes of a graph, a few at a time; close it when done.

    Args:
        model: any module that a batch can be given to; called in evaluation mode.
        graph: the graph; from a folder, for a budget below its size.
        layers: hops of the neighbourhoods: the model's layers.
        memory: bytes for what stays in memory, as of a Loader; None loads the graph first.
        storage: as of a Loader.
        threads: of sampling and gathering; 0 for all.
        norm: "gcn" if the model was trained with it.
        finish: applied to scores, such as `Task.finish`; None: nothing.

    Raises:
        InputError: the graph has no features, or no layers are given.
        BudgetError: `memory` is too small; the message states the minimum.
    """

    def __init__(
        self,
        model: nn.Module,
        graph: Graph,
        *,
        layers: int,
        memory: int | None = None,
        storage: Any = "auto",
        threads: int = 0,
        norm: Any = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        if graph.features is None or graph.num_nodes == 0:
            raise InputError("the graph has no features or no nodes, so there is nothing to infer")
        if layers < 1:
            raise InputError(f"layers is {layers}, expected at least 1")
        self.model, self._finish = model, finish
        order = Order(Path(), memory, False, storage, None, threads, norm)
        first = np.zeros(1, np.int64)
        self._loader = neighbourhood_loader(graph, order, [-1] * layers, 1, first)

    @torch.no_grad()
    def scores(self, nodes: Any) -> Rows:
        """Scores of these nodes, one row each, in the order given; repeats are allowed.

        Raises:
            InputError: there is no node, or one does not exist.
            NumericError: scores that are NaN or infinite.
        """
        batch = self._loader.one(nodes)
        with evaluating(self.model):
            found = forward(self.model, batch)
        if not bool(torch.isfinite(found).all()):
            raise NumericError("scores are NaN or infinite; check the features and the weights")
        if batch.seed_position is not None:
            found = found[batch.seed_position]
        rows: Rows = (found if self._finish is None else self._finish(found)).float().numpy()
        return rows

    def close(self) -> None:
        """Frees what is held."""
        self._loader.close()

    def __enter__(self) -> "Predictor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model is in evaluation mode inside this block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def predict_typed(run: TypedRun, nodes: Ids) -> Rows:
    """Scores of nodes of a typed run's target type, with every edge that they may see."""
    loader = HeteroLoader(
        run.graph,
        None,
        (run.task.target, nodes),
        max(1, len(nodes)),
        input_time=run.task.at(nodes),
        sampler=exact_sampler(run.settings, run.hops),
        threads=run.settings.train.threads,
        bulk=1,
        prefetch=0,
    )
    rows: Rows = run.task.goal.task.finish(sampled_scores(run.model, loader, run.task.target))
    return rows
