"""lookup: learned rows of nodes, without a graph or averaged over it (LightGCN).

Such models are transductive: a node that was not there in training has no row. He et al., LightGCN,
SIGIR 2020.
"""

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import InputError

__all__ = ["LightGCN", "Lookup"]

Ids = npt.NDArray[np.int64]


class Lookup(nn.Module):
    """A learned row for each node of the two types that links connect.

    Attributes:
        counts: nodes of the source type and of the target type.
        same: both are one type, which has one table.
        tables: one or two tables of rows.

    Args:
        counts: see the attribute.
        same: see the attribute.
        width: columns of rows.
        deviation: of the first rows.
    """

    def __init__(
        self, counts: tuple[int, int], same: bool, width: int, deviation: float | None = None
    ) -> None:
        super().__init__()
        self.counts, self.same = counts, same
        self.tables = nn.ModuleList(
            nn.Embedding(count, width) for count in (counts[:1] if same else counts)
        )
        for table in self.tables:
            assert isinstance(table, nn.Embedding)
            nn.init.normal_(table.weight, std=deviation or 1 / math.sqrt(width))

    def weights(self) -> list[Tensor]:
        """The learned rows of the source type and, if it is another, of the target type."""
        return [table.weight for table in self.tables]  # type: ignore[misc]

    def every(self) -> tuple[Tensor, Tensor]:
        """Rows of all sources and of all targets."""
        found = self.weights()
        return found[0], found[-1]

    def forward(self, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of these sources and targets."""
        left, right = self.tables[0], self.tables[-1]
        return left(sources), right(targets)


class LightGCN(Lookup):
    """Learned rows, averaged over the layers of a graph convolution without weights.

    The graph is that of the links that messages pass along, in both directions, normalised by the
    roots of both degrees. A repeated link counts once.

    Args:
        counts: see `Lookup`.
        same: see `Lookup`.
        width: columns of rows.
        layers: how far rows travel.
    """

    def __init__(self, counts: tuple[int, int], same: bool, width: int, layers: int = 3) -> None:
        super().__init__(counts, same, width, deviation=0.1)
        self.layers = layers
        self._matrix: Tensor | None = None

    def set_edges(self, sources: Ids, targets: Ids) -> None:
        """Sets the links that rows travel along; not part of the weights.

        Args:
            sources: a node of the source type for each link.
            targets: a node of the target type for each link.
        """
        shift = 0 if self.same else self.counts[0]
        total = self.counts[0] + (0 if self.same else self.counts[1])
        self._matrix = _normalised(sources, targets + shift, total)

    def every(self) -> tuple[Tensor, Tensor]:
        """Rows of all sources and of all targets: the mean of what each layer gives.

        Raises:
            InputError: no graph was set.
        """
        if self._matrix is None:
            raise InputError("LightGCN has no links to pass rows along; call set_edges first")
        rows = torch.cat(self.weights())
        matrix = self._matrix.to(rows.device)
        total = rows
        for _ in range(self.layers):
            rows = _Symmetric.apply(matrix, rows)  # type: ignore[no-untyped-call]
            total = total + rows
        mean = total / (self.layers + 1)
        return (mean, mean) if self.same else (mean[: self.counts[0]], mean[self.counts[0] :])

    def forward(self, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of these sources and targets; those of all nodes are computed."""
        left, right = self.every()
        return left[sources], right[targets]


def _normalised(sources: Ids, targets: Ids, count: int) -> Tensor:
    """The symmetric matrix of links, divided by the roots of both degrees (CSR, float32)."""
    rows = np.concatenate([sources, targets]).astype(np.int64)
    columns = np.concatenate([targets, sources]).astype(np.int64)
    place = np.unique(rows * count + columns)
    rows, columns = np.divmod(place, count)
    degree = np.bincount(rows, minlength=count)
    root = 1 / np.sqrt(np.maximum(1, degree))
    ends = np.concatenate([[0], np.cumsum(degree)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(ends),
            torch.from_numpy(columns),
            torch.from_numpy((root[rows] * root[columns]).astype(np.float32)),
            size=(count, count),
            check_invariants=True,
        )


class _Symmetric(torch.autograd.Function):
    """A symmetric sparse matrix times rows: its own transpose, so the gradient needs no other."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ gradients[0]
