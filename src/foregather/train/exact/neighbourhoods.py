"""neighbourhoods: exact inference for models that do not expose their layers, part by part.

Each part is computed from all in-neighbours of its targets, as deep as the model is; that costs
more with every layer. A part that turns out too large is retried with fewer targets, down to one;
whether one node fits is checked before anything starts.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from foregather.errors import BudgetError
from foregather.graph.graph import Graph
from foregather.graph.load import as_mapped
from foregather.graph.mapped import fetch
from foregather.loader.loader import Loader
from foregather.loader.memory.division import GUESS_RESERVE
from foregather.loader.options import BatchContents
from foregather.observe.progress import Progress
from foregather.sampling.neighbor import Neighbor
from foregather.train.exact.layers import Order
from foregather.train.exact.own_forward import node_scores
from foregather.train.exact.steps import edge_chunks
from foregather.train.exact.write import write_rows
from foregather.train.metrics import reads

__all__ = ["by_neighbourhoods", "largest_neighbourhood", "neighbourhood_loader", "with_least"]

_BATCH = 4096  # targets of a part without a budget
_FLIGHT = 3  # batches alive at once
_CANDIDATES = 4096  # nodes whose neighbourhoods are counted


def by_neighbourhoods(model: nn.Module, graph: Graph, order: Order, layers: int) -> dict[str, Any]:
    """Writes `scores.npy` to the scratch folder; returns what was done.

    The order comes from `with_least`, and `exact.reach` has accepted the model.

    Raises:
        InputError: the model does not fit the graph.
    """
    facts: dict[str, Any] = {"way": "neighbourhoods", "sweeps": 1, "bytes": 0}
    rows = _ScoresInOrder(model, graph, order, [-1] * layers, facts)
    with Progress("inferring", graph.num_nodes, "nodes") as bar:
        write_rows(order.scratch / "scores.npy", order.finished(rows.all()), bar)
    facts["written"] = (order.scratch / "scores.npy").stat().st_size
    return facts


class _ScoresInOrder:
    """The scores of all nodes in order; part sizes adapt to what fits."""

    def __init__(
        self, model: nn.Module, graph: Graph, order: Order, fanouts: list[int], facts: Any
    ) -> None:
        self.model, self.graph, self.order = model, graph, order
        self.fanouts, self.facts = fanouts, facts
        self.size = order.batch_size or _guess(graph, order.memory)
        self.done = 0

    def all(self) -> Iterator[npt.NDArray[np.float32]]:
        """Yields part after part."""
        while self.done < self.graph.num_nodes:
            try:
                yield from self._go_on(self.graph.num_nodes)
            except BudgetError:
                if self.size == 1:  # estimated from smaller ones; alone it fits, or never will
                    yield from self._go_on(self.done + 1)
                self.size = max(1, self.size // 2)

    def _go_on(self, end: int) -> Iterator[npt.NDArray[np.float32]]:
        whole = (self.done, end) == (0, self.graph.num_nodes)
        nodes = None if whole else np.arange(self.done, end, dtype=np.int64)
        loader = neighbourhood_loader(self.graph, self.order, self.fanouts, self.size, nodes)
        try:
            for batch in loader:
                made = node_scores(self.model, batch).numpy()
                self.done += len(made)
                yield made
            self.facts["bytes"] += reads(loader)["bytes"]
        finally:
            loader.close()


def neighbourhood_loader(
    graph: Graph, order: Order, fanouts: list[int], size: int, nodes: npt.NDArray[np.int64] | None
) -> Loader:
    """Makes a loader of nodes (None: all) with all their in-neighbours, within the budget."""
    budget = order.memory is not None
    return Loader(
        graph,
        None,
        nodes,
        size,
        sampler=Neighbor(fanouts),
        memory=order.memory,
        storage=order.storage if budget else "auto",
        bulk="auto" if budget else 1,
        threads=order.threads,
        prefetch=1,
        contents=BatchContents("seeds", norm=order.norm, pyg=False),
    )


def _guess(graph: Graph, memory: int | None) -> int:
    """Targets whose batches, several in flight, take about half of the budget."""
    if memory is None:
        return min(_BATCH, graph.num_nodes)
    assert graph.features is not None
    degree = graph.num_edges / max(1, graph.num_nodes)
    row = 4 * graph.features.width + 24 * degree + 16
    most = memory / 2 / (_FLIGHT * GUESS_RESERVE * row)  # rows of a batch
    if most >= graph.num_nodes:
        return graph.num_nodes
    return max(1, int(most / (1 + degree)))


# ---- the minimum -------------------------------------------------------------------------------


def with_least(graph: Graph, order: Order, layers: int) -> Order:
    """Refuses a given budget that does not hold the largest neighbourhood of one node.

    A budget that was chosen here grows to hold it.
    """
    if order.memory is None:
        return order
    node = largest_neighbourhood(graph, layers)
    try:
        one = np.array([node], np.int64)
        neighbourhood_loader(graph, order, [-1] * layers, 1, one).close()
    except BudgetError as error:
        if not order.chosen or error.least is None:
            raise
        return replace(order, memory=error.least)
    return order


def largest_neighbourhood(graph: Graph, layers: int) -> int:
    """Finds the node with the most nodes within `layers` steps against its in-edges.

    Nodes are counted in the order of an upper bound, the number of paths that end in them, until no
    other can have more; at most 4096 of them.
    """
    bound = _paths(graph, layers)
    order = np.argsort(-bound, kind="stable")[:_CANDIDATES]
    sampler, best, most = Neighbor([-1] * layers), int(order[0]), -1
    view = as_mapped(graph)  # this is before the budget is divided
    for node in order:
        if bound[node] <= most:
            break
        bulk = sampler.sample_bulk(view, [np.array([node], np.int64)], seed=0, threads=1)
        count = len(bulk[0].node)
        if count > most:
            best, most = int(node), count
    return best


def _paths(graph: Graph, layers: int) -> npt.NDArray[np.float64]:
    """Counts, for each node, the paths of at most `layers` edges that end in it."""
    found = np.ones(graph.num_nodes)
    for _ in range(layers):
        total = np.ones(graph.num_nodes)
        for rows, target, edges in edge_chunks(graph):
            sources = fetch(graph.indices[edges])
            total[rows] += np.bincount(target, found[sources], rows.stop - rows.start)
        found = total
    return found
