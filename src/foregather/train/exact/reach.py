"""reach: checks that a model only looks at neighbourhoods as deep as its layers.

A model that does not expose its layers is computed on the neighbourhoods of some nodes at a time.
GCN also divides by the degrees of the outermost nodes, whose edges are missing; others look a hop
further, or at all nodes of a batch. Their scores would depend on the batch, so they are refused: by
a test on a small graph that is deeper than they look, and on some nodes of the graph itself, where
one more hop, or other nodes in the batch, must change nothing.
"""

import contextlib
import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.graph.mapped import take
from foregather.train.exact.layers import Order
from foregather.train.exact.neighbourhoods import neighbourhood_loader
from foregather.train.exact.own_forward import (
    like_edges,
    node_scores,
    own_scores,
    same,
    small_batches,
)
from foregather.train.exact.probe import dtype_of
from foregather.train.metrics import reads

__all__ = ["check_reach"]

Nodes = npt.NDArray[np.int64]

_TOGETHER = (1, 5)  # nodes of a batch, of the small graph
_FAR = 3  # ids that an edge of the small graph goes at most
_TRIED = 16  # nodes of the graph itself
_LOOKED_AT = 4096  # among which they are chosen
_NEVER = np.iinfo(np.int64).max


def check_reach(model: nn.Module, graph: Graph, order: Order, layers: int) -> int:
    """Refuses a model whose scores depend on more than neighbourhoods of `layers` hops.

    Returns:
        Bytes that were read from disk for the check.

    Raises:
        InputError: the scores differ.
        BudgetError: the budget holds no neighbourhood to try it with, and the model does not run
            on a small graph.
    """
    random, threads = torch.get_rng_state(), torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # of calls this small, threads are most of the time
        seen = _holds_on_small(model, graph, order.norm, layers)
        torch.set_num_threads(threads)
        if seen is False:
            raise _refusal(model, layers)
        return _check_some(model, graph, order, layers, seen is True)
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random)


def _refusal(model: nn.Module, layers: int) -> InputError:
    return InputError(
        f"{type(model).__name__} looks further than its {layers} layers (layers=, model.layers, or "
        "as many as fan-outs), or at degrees of its neighbours, or at others of a batch, so its "
        "scores would depend on the batch size; give it a method layer_steps, let the loader "
        "normalise (norm='gcn', and convolutions with normalize=False), or use sampled scores"
    )


# ---- a small graph -----------------------------------------------------------------------------


def _small_graph(graph: Graph, layers: int) -> Graph:
    """A long one of short edges, of unequal degrees, and what the edges of `graph` carry."""
    assert graph.features is not None
    random = np.random.default_rng(5)
    count = 2 * _FAR * (layers + 2) + max(_TOGETHER)
    node = np.arange(count)
    hops = [
        (node[far:][keep], far)
        for far, keep in (
            (1, slice(None)),
            (2, slice(0, None, 2)),
            (3, slice(1, None, 5)),
            (3, slice(1, None, 10)),  # parallel ones
            (-1, slice(3, None, 4)),  # against the others: they reach as far
            (0, slice(2, None, 7)),
        )
    ]
    target = np.concatenate([into[into < count + far] for into, far in hops])
    source = np.concatenate([(into - far)[into < count + far] for into, far in hops])
    pairs = np.stack([source, target])
    x = random.normal(size=(count + 2, graph.features.width)).astype(np.float32)  # two isolated
    more = like_edges(graph, pairs.shape[1], random)
    return Graph.from_edge_index(pairs, count + 2, x=x, **more)


def _holds_on_small(model: nn.Module, graph: Graph, norm: Any, layers: int) -> bool | None:
    """Whether neighbourhoods give the same scores as the whole small graph.

    None: it does not run.
    """
    small = _small_graph(graph, layers)
    (whole,) = small_batches(small, layers, norm, small.num_nodes)
    parts = [small_batches(small, layers, norm, size) for size in _TOGETHER]
    for dtype in (torch.float64, dtype_of(model)):
        try:
            tried = copy.deepcopy(model).to(
                dtype
            )  # a copy, because models may keep state between calls
        except Exception:
            tried, dtype = model, dtype_of(model)
        try:
            expected = own_scores(tried, whole, dtype)
            return all(
                same(torch.cat([own_scores(tried, one, dtype) for one in part]), expected, dtype)
                for part in parts
            )
        except Exception:  # needs its own precision, or more nodes, or other columns
            continue
    return None


# ---- the graph itself --------------------------------------------------------------------------


def _check_some(model: nn.Module, graph: Graph, order: Order, layers: int, seen: bool) -> int:
    """Some nodes, with a hop more, and by themselves; fewer where the budget is small."""
    nodes = _some_nodes(graph)
    for few in (nodes, nodes[:1]):
        with contextlib.ExitStack() as kept:
            near = _Near(model, graph, order, kept if order.memory is None else None)
            try:
                scores, alone = near(few, layers), near(few[:1], layers)
            except BudgetError:
                if len(few) == 1 and not seen:
                    raise
                continue
            try:
                further = near(few, layers + 1)
            except BudgetError:
                if len(few) == 1 and not seen:
                    raise
                continue
            except InputError as error:  # it may count its layers; a small graph was enough then
                if seen:
                    return near.read
                raise _refusal(model, layers) from error
            found, wanted = torch.cat([scores, alone]), torch.cat([further, further[:1]])
            if not same(found, wanted, torch.float32):
                raise _refusal(model, layers)
            return near.read
    return 0


def _some_nodes(graph: Graph) -> Nodes:
    """Nodes all over the graph, those with few in-edges first, but with some."""
    step = max(1, graph.num_nodes // _LOOKED_AT)
    nodes = np.arange(0, graph.num_nodes, step, dtype=np.int64)[:_LOOKED_AT]
    degree = take(graph.indptr, nodes + 1).astype(np.int64) - take(graph.indptr, nodes)
    by_degree = nodes[np.argsort(np.where(degree > 0, degree, _NEVER), kind="stable")]
    half = by_degree[: max(1, len(nodes) // 2)]
    return half[:: max(1, len(half) // _TRIED)][:_TRIED]


class _Near:
    """Scores of some nodes using all edges up to a number of hops, in one batch.

    Args:
        model: the model to test.
        graph: the user's.
        order: its budget.
        kept: keeps loaders open, so that what they loaded is loaded once; None: none is kept.

    Attributes:
        read: bytes from disk.
    """

    def __init__(
        self, model: nn.Module, graph: Graph, order: Order, kept: contextlib.ExitStack | None
    ) -> None:
        self._model, self._graph, self._order, self._kept = model, graph, order, kept
        self.read = 0

    def __call__(self, nodes: Nodes, hops: int) -> Tensor:
        loader = neighbourhood_loader(self._graph, self._order, [-1] * hops, len(nodes), nodes)
        try:
            return torch.cat([node_scores(self._model, batch) for batch in loader])
        finally:
            self.read += reads(loader)["bytes"]
            if self._kept is None:
                loader.close()
            else:
                self._kept.callback(loader.close)
