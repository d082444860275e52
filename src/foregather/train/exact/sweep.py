"""sweep: runs one step of a model over all nodes, part by part, in ascending order.

A row that was cut is returned once, after its last piece, so the result is the next row of every
node, in order, however the parts were cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch
from foregather.observe.trace import span
from foregather.train.exact.cut import Cut
from foregather.train.exact.deal import Shape
from foregather.train.exact.part import Part, Piece
from foregather.train.exact.steps import Step, whole_degree

__all__ = ["Edges", "sweep"]


@dataclass(frozen=True)
class Edges:
    """The attributes of the edges of parts.

    Attributes:
        graph: the graph.
        scale: a factor per node that weights are multiplied with for both ends of an edge, or None.
    """

    graph: Graph
    scale: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(cls, graph: Graph, norm: str | None) -> "Edges":
        """Makes edges with all attributes of the graph; `norm` as in the Loader."""
        scale = None
        if norm == "gcn":
            root = np.sqrt(np.maximum(whole_degree(graph, "sym"), 0))
            scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        return cls(graph, scale)

    def weight(self, shape: Shape) -> Tensor | None:
        """Of a part's edges, float32; None where they have none."""
        stored, scale = self.graph.edge_weight, self.scale
        if not shape.source.size:
            return None if stored is None and scale is None else torch.empty(0)
        part: Any = None if stored is None else fetch(stored[slice(*shape.edges)])
        if scale is not None:
            target = scale[shape.first : shape.first + shape.count]
            values = scale[shape.nodes][shape.source] * target[self.target(shape)]
            part = values if part is None else values * part
        return None if part is None else torch.from_numpy(np.array(part, np.float32))

    def target(self, shape: Shape) -> npt.NDArray[np.int64]:
        """The position of each edge's target."""
        if shape.piece or not shape.source.size:
            return np.zeros(shape.source.size, np.int64)
        bounds = fetch(self.graph.indptr[shape.first : shape.first + shape.count + 1])
        degree: npt.NDArray[np.int64] = np.diff(bounds).astype(np.int64)
        return np.repeat(np.arange(shape.count), degree)

    def part(self, shape: Shape, x: Tensor) -> Part:
        """The part with its edges."""
        index = np.empty((2, shape.source.size), np.int64)
        index[0], index[1] = shape.source, self.target(shape)
        attr = None
        if self.graph.edge_features is not None:
            attr = torch.from_numpy(self.graph.edge_features[slice(*shape.edges)]).to(x.dtype)
        nodes = torch.from_numpy(shape.nodes.astype(np.int64))
        return Part(x, shape.count, torch.from_numpy(index), nodes, self.weight(shape), attr, None)


def sweep(
    step: Step,
    parts: Iterator[tuple[Shape, Tensor]],
    edges: Edges,
    degree: "npt.NDArray[np.float64] | None",
    dtype: torch.dtype,
) -> Iterator[Tensor]:
    """Yields the next rows of all nodes.

    Args:
        step: what is computed.
        parts: of all rows, with the feature rows of their nodes.
        edges: their edge attributes.
        degree: of the whole graph, if the step needs it.
        dtype: dtype of the step's input rows.
    """
    row = None
    for shape, x in parts:
        part = edges.part(shape, x.to(dtype))
        try:
            with span("forward"):
                if not shape.piece:
                    made = step.call(part, degree)
                else:
                    row = row or _Row(step)
                    made = row.add(part, shape.last, degree)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise InputError(
                f"{type(step.module).__name__} fails on nodes {shape.first} to "
                f"{shape.first + shape.count - 1} ({type(error).__name__}: {error})"
            ) from error
        if shape.last:
            yield made
            row = None
        del part, made


class _Row:
    """A row that is being computed in pieces."""

    def __init__(self, step: Step) -> None:
        self._step, self._cut, self._loop = step, Cut(step.module), 1.0

    def add(self, part: Part, last: bool, degree: Any) -> Tensor:
        """Adds a piece; returns the row's value so far."""
        loops = part.edge_index[0] == 0
        if part.edge_weight is not None and bool(loops.any()):
            self._loop = float(part.edge_weight[loops][-1])
        keep = ~loops if self._cut.strips else slice(None)
        part = Part(
            part.x,
            1,
            part.edge_index[:, keep],
            part.n_id,
            None if part.edge_weight is None else part.edge_weight[keep],
            None if part.edge_attr is None else part.edge_attr[keep],
            Piece(last, self._loop),
        )
        with self._cut:
            self._cut.begin_piece(last)
            return self._step.call(part, degree)
