"""scipy_arrays: a .npz of `scipy.sparse.save_npz`, read as the arrays of a graph.

Entry (u, v) is the edge from u to v with that weight. Of CSR and CSC only the pointers are held in
memory; indices and values are read in pieces.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.on_disk.npy import Header

__all__ = ["ScipyArrays", "is_scipy", "read_scipy"]

Array = npt.NDArray[Any]
_POINTED, _PAIRS = ("data", "indices", "indptr"), ("data", "row", "col")


def is_scipy(names: Sequence[str]) -> bool:
    """Whether an archive with these arrays was written by `save_npz`."""
    return {"shape", "data"} <= set(names) and (
        {"indices", "indptr"} <= set(names) or {"row", "col"} <= set(names)
    )


class ScipyArrays:
    """The arrays `edge_index`, `edge_weight` and `num_nodes` of a sparse matrix.

    Args:
        arrays: the archive; it is closed with this.
        budget: bytes for the pointers.

    Raises:
        FormatError: the matrix is not square, or its parts do not fit each other.
        BudgetError: the pointers do not fit.
    """

    def __init__(self, arrays: ZipArrays, budget: int) -> None:
        self._arrays, self.name = arrays, arrays.name
        shape = arrays.whole("shape", budget)
        if shape.size != 2 or shape.dtype.kind not in "iu" or int(shape[0]) != int(shape[1]):
            raise FormatError(
                f"the matrix in {self.name} has shape {tuple(shape.tolist())}, expected as many "
                "rows as columns"
            )
        self._nodes, self._count = int(shape[0]), int(np.prod(arrays.header("data").shape))
        self._pointers: Array | None = None
        parts = _POINTED if "indptr" in arrays.names() else _PAIRS
        fits = all(
            arrays.header(name).shape == (self._count,) for name in parts if name != "indptr"
        )
        if parts is _POINTED:
            self._pointers = arrays.whole("indptr", budget).astype(np.int64)
            fits = fits and self._is_pointers(self._pointers)
        if not fits or arrays.header("data").dtype.kind not in "biuf":
            raise FormatError(
                f"{', '.join(parts)} and shape in {self.name} do not make a sparse matrix of "
                "numbers; save it again with scipy.sparse.save_npz"
            )
        self._by_column = self._format() == "csc"
        pieces = arrays.chunks("data", 1 << 20)
        self._weighted = any(bool((piece != 1).any()) for piece in pieces)

    def _is_pointers(self, pointers: Array) -> bool:
        return (
            len(pointers) == self._nodes + 1
            and pointers[0] == 0
            and pointers[-1] == self._count
            and bool((np.diff(pointers) >= 0).all())
        )

    def _format(self) -> str:
        """csr, csc or coo; SciPy writes the name as bytes or text."""
        if self._pointers is None:
            return "coo"
        if "format" not in self._arrays.names():
            return "csr"
        found = self._arrays.label("format")
        if found not in ("csr", "csc"):
            raise FormatError(
                f"the matrix in {self.name} has the format {found[:20]!r}, expected csr, csc or "
                "coo; convert it with .tocsr() and save it again"
            )
        return found

    def close(self) -> None:
        """Closes the archive."""
        self._arrays.close()

    def names(self) -> list[str]:
        """Names of the arrays."""
        weight = ["edge_weight"] if self._weighted else []  # entries that are all 1 say nothing
        return ["edge_index", *weight, "num_nodes"]

    def header(self, name: str) -> Header:
        """Dtype and shape of one array."""
        if name == "edge_index":
            return Header(np.dtype(np.int64), (2, self._count), False, 0)
        return self._arrays.header("data")

    def whole(self, name: str, budget: int) -> Array:
        """The number of nodes, or all weights."""
        if name == "num_nodes":
            return np.array(self._nodes)
        return self._arrays.whole("data", budget)

    def chunks(self, name: str, step_rows: int) -> Iterator[Array]:
        """The weights in order."""
        for chunk in self._arrays.chunks("data", step_rows):
            yield chunk.astype(np.float32) if chunk.dtype.kind == "b" else chunk

    def pair_chunks(self, name: str, step: int) -> Iterator[tuple[Array, Array]]:
        """Sources and targets in the order of the entries."""
        if self._pointers is None:
            columns = self._arrays.chunks("col", step)
            for row in self._arrays.chunks("row", step):
                yield row, next(columns)
            return
        first = 0
        for inner in self._arrays.chunks("indices", step):
            places = np.arange(first, first + len(inner))
            outer = np.searchsorted(self._pointers, places, side="right") - 1
            yield (inner, outer) if self._by_column else (outer, inner)
            first += len(inner)


def read_scipy(arrays: ZipArrays, budget: int = 1 << 62) -> ScipyArrays:
    """The matrix in an archive of `save_npz`."""
    return ScipyArrays(arrays, budget)
