"""steps: a model as the list of steps that exact inference runs one after the other.

A step gets the rows of some targets and of all their in-neighbours, and returns the targets' next
rows. Quantities of the whole graph (the degrees of GCN's normalisation) are passed as edge weights,
so a part of the nodes gives the same result as all of them at once.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch
from foregather.nn import MLP, SAGE, Conv
from foregather.train.exact.part import Part

__all__ = ["Step", "edge_chunks", "layer_steps", "whole_degree"]

_ROWS, _EDGES = 1 << 18, 1 << 18  # of the topology looked at together


@dataclass(frozen=True)
class Step:
    """One sweep over the graph.

    Attributes:
        call: from a part, its targets with all their in-neighbours, to the targets' next rows.
        module: the module that aggregates in it, or contains it; `exact.cut` works on it.
        neighbours: False for steps that treat every row independently.
        norm: "gcn" or "sym" if `call` needs degrees of the whole graph, otherwise None.
        edge_attr: it uses edge features if the graph has them.
    """

    call: Callable[["Part", "npt.NDArray[np.float64] | None"], Tensor]
    module: nn.Module
    neighbours: bool = True
    norm: str | None = None
    edge_attr: bool = False


class _Near:
    """A layer's view of a part; see `foregather.nn.layer.Near`."""

    def __init__(self, part: Part, degree: "npt.NDArray[np.float64] | None") -> None:
        self.rows = part.x
        self.count = part.batch_size
        self._part, self._degree = part, degree

    @property
    def own(self) -> Tensor:
        """The rows of the targets."""
        return self.rows[: self.count]

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Not used by PyG's convolutions."""
        raise NotImplementedError

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """Edges over the rows, with the weights of the whole graph."""
        edges, weight = self._part.edge_index, self._part.edge_weight
        if norm is None:
            return edges, None if weight is None else weight.to(self.rows.dtype)
        assert self._degree is not None
        if weight is None:
            weight = torch.ones(edges.shape[1], dtype=torch.float64)
        weight = weight.double()
        if norm == "gcn":
            edges, weight = self._one_loop_each(edges, weight)
        degree = torch.from_numpy(self._degree[self._part.n_id.numpy()])
        scale = torch.where(degree > 0, degree.clamp(min=1e-300) ** -0.5, 0.0)
        return edges, (weight * scale[edges[0]] * scale[edges[1]]).to(self.rows.dtype)

    def _one_loop_each(self, edges: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """One self-loop a target, with the weight of its last one; in the last piece of a row."""
        loop, piece = edges[0] == edges[1], self._part.piece
        own = torch.ones(self.count, dtype=torch.float64)
        own[edges[1][loop]] = weight[loop]
        if piece is not None:
            own[:] = piece.loop
        nodes = torch.arange(self.count if piece is None or piece.last else 0)
        edges = torch.cat([edges[:, ~loop], torch.stack([nodes, nodes])], dim=1)
        return edges, torch.cat([weight[~loop], own[: len(nodes)]])

    def edge_attr(self) -> Tensor | None:
        """Edge feature rows."""
        return self._part.edge_attr

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`."""
        return part(*values)


def layer_steps(model: nn.Module) -> list[Step] | None:
    """Returns the steps of a model, or None if it does not expose them.

    Supported are the models of `foregather.nn`, PyG's (GCN, GraphSAGE, GAT, GIN, ... with `jk` None
    or "last"), and any model with a method `layer_steps`, which returns functions from `(x,
    edge_index, count)` to the next rows of the first `count` nodes; they also get `edge_weight` and
    `edge_attr` if they name them. `exact.probe` checks that the steps give the same scores as
    `forward`.
    """
    shown: Any = getattr(model, "layer_steps", None)
    if shown is not None:
        return [_own_step(model, function) for function in shown()]
    if type(model) is SAGE:  # not a subclass, which may compute something else
        return [_sage_step(list(model.layers), k) for k in range(len(model.layers))]
    if type(model) is MLP:
        return [Step(lambda part, _: model(part.x), model, neighbours=False)]
    if getattr(type(model).forward, "__qualname__", "") == "BasicGNN.forward":
        return _pyg_steps(model)
    return None


def _sage_step(layers: list[nn.Module], number: int) -> Step:
    def call(part: Part, degree: Any) -> Tensor:
        out: Tensor = layers[number]((part.x, part.x[: part.batch_size]), part.edge_index)
        return out if number + 1 == len(layers) else out.relu()

    return Step(call, layers[number])


def _own_step(model: nn.Module, function: Callable[..., Tensor]) -> Step:
    takes = inspect.signature(function).parameters
    names = [name for name in ("edge_weight", "edge_attr") if name in takes]

    def call(part: Part, degree: Any) -> Tensor:
        more = {name: getattr(part, name) for name in names}
        return function(part.x, part.edge_index, part.batch_size, **more)

    return Step(call, model, edge_attr="edge_attr" in names)


def _pyg_steps(model: Any) -> list[Step] | None:
    if getattr(model, "jk_mode", None) not in (None, "last"):
        return None
    return [_pyg_step(model, k) for k in range(len(model.convs))]


def _pyg_step(model: Any, number: int) -> Step:
    # as PyG's own forward does: by the model's attributes
    asked = None if getattr(model, "supports_edge_attr", True) else False
    layer, final = Conv(model.convs[number], edge_attr=asked), number + 1 == len(model.convs)
    bare = final and getattr(model, "jk_mode", None) is None

    def call(part: Part, degree: Any) -> Tensor:
        x: Tensor = layer.update(part.x[: part.batch_size], _Near(part, degree))
        if not bare:
            if model.act is not None and model.act_first:
                x = model.act(x)
            if model.norms is not None:
                x = model.norms[number](x)
            if model.act is not None and not model.act_first:
                x = model.act(x)
        return model.lin(x) if final and hasattr(model, "lin") else x

    return Step(call, layer.conv, norm=layer._norm(), edge_attr=layer.takes_edge_attr)


def whole_degree(graph: Graph, norm: str) -> npt.NDArray[np.float64]:
    """The summed weights of the edges into each node, as `norm` counts them; one sweep.

    Raises:
        InputError: `norm` is neither "gcn" (with one self-loop per node) nor "sym".
    """
    if norm not in ("gcn", "sym"):
        raise InputError(f"norm is {norm!r}, expected 'gcn' or 'sym'")
    total, own = np.zeros(graph.num_nodes), np.ones(graph.num_nodes if norm == "gcn" else 0)
    for rows, target, edges in edge_chunks(graph):
        weight = np.ones(target.size)
        if graph.edge_weight is not None:
            weight = fetch(graph.edge_weight[edges]).astype(np.float64)
        if norm == "gcn":
            loop = fetch(graph.indices[edges]).astype(np.int64) == target + rows.start
            own[rows.start + target[loop]] = weight[loop]  # the last of several, as in PyG
            target, weight = target[~loop], weight[~loop]
        total[rows] += np.bincount(target, weight, rows.stop - rows.start)
    return total + own if norm == "gcn" else total


def edge_chunks(graph: Graph) -> Iterator[tuple[slice, npt.NDArray[np.int64], slice]]:
    """Yields all edges in order, in chunks.

    Their rows, the position of each among these, edge ids.
    """
    for row in range(0, graph.num_nodes, _ROWS):
        bounds = fetch(graph.indptr[row : row + _ROWS + 1])
        for start in range(int(bounds[0]), int(bounds[-1]), _EDGES):
            end = min(start + _EDGES, int(bounds[-1]))
            first = int(np.searchsorted(bounds, start, "right")) - 1
            last = int(np.searchsorted(bounds, end, "left"))
            counts = np.diff(np.clip(bounds[first : last + 1], start, end)).astype(np.int64)
            target = np.repeat(np.arange(last - first), counts)
            yield slice(row + first, row + last), target, slice(start, end)
