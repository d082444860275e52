"""array_source: a graph given as named arrays: .npz, a folder of .npy files, or PyG's Data.

Recognised names: `edge_index`; `x` or `features` (dense), or `x_data`, `x_indices`, `x_indptr`,
`x_shape` (CSR); `y` or `labels`; `edge_weight`; `edge_attr` or `edge_features`; `num_nodes`; and
splits as `NAME_idx` or `NAME_mask`, where val becomes valid.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.convert.reading.named_arrays import Arrays
from foregather.graph.convert.source import EdgeChunk, Ids, RowStream, Small

__all__ = ["ArraysSource", "DenseRows", "check_count", "find_features", "rename_split"]

Array = npt.NDArray[Any]
_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")


def rename_split(name: str) -> str:
    """Normalises the name of a split: "val" and "validation" become "valid"."""
    return "valid" if name in ("val", "validation") else name


@dataclass(frozen=True)
class DenseRows(RowStream):
    """Rows of one dense array; a vector is one column."""

    arrays: Arrays
    name: str

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        for chunk in self.arrays.chunks(self.name, step):
            yield chunk.reshape(len(chunk), self.width)


@dataclass(frozen=True)
class SparseRows(RowStream):
    """Rows of a CSR matrix stored as x_data, x_indices, x_indptr; made dense chunk by chunk."""

    arrays: Arrays
    indptr: npt.NDArray[np.int64]

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        values = _Reader(self.arrays.chunks("x_data", 1 << 20))
        columns = _Reader(self.arrays.chunks("x_indices", 1 << 20))
        for start in range(0, self.count, step):
            ends = self.indptr[start : start + step + 1]
            nonzeros = int(ends[-1] - ends[0])
            rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            column = columns.take(nonzeros).astype(np.int64)
            if nonzeros and not (int(column.min()) >= 0 and int(column.max()) < self.width):
                raise FormatError(
                    f"x_indices holds column {column.max()}, but the matrix has {self.width} "
                    "columns"
                )
            dense = np.zeros((len(ends) - 1, self.width), self.dtype)
            np.add.at(dense, (rows, column), values.take(nonzeros))
            yield dense


class _Reader:
    """Takes any number of values from a stream of chunks."""

    def __init__(self, chunks: Iterator[Array]) -> None:
        self._chunks = chunks
        self._rest: Array = np.empty(0, np.uint8)

    def take(self, count: int) -> Array:
        parts = []
        while count > 0:
            if not len(self._rest):
                self._rest = next(self._chunks, np.empty(0))
                if not len(self._rest):
                    raise FormatError("x_data or x_indices ends before x_indptr says it does")
            parts.append(self._rest[:count])
            self._rest = self._rest[count:]
            count -= len(parts[-1])
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def check_count(asked: int, said: int | None, name: str) -> None:
    """Refuses a node count that differs from the source's own."""
    if said is not None and asked != said:
        raise InputError(
            f"--nodes is {asked}, but {name} says it has {said} nodes; leave --nodes out"
        )


def _check_single(names: list[str], where: str) -> None:
    """Refuses two arrays with the same meaning: one of them would be ignored."""
    groups = [("x", "features", "x_data"), ("y", "labels"), ("edge_attr", "edge_features")]
    splits: dict[str, list[str]] = {}
    for name in names:
        for ending in ("_idx", "_mask"):
            if name.endswith(ending):
                splits.setdefault(rename_split(name.removesuffix(ending)), []).append(name)
    for group in (*groups, *splits.values()):
        found = [name for name in group if name in names]
        if len(found) > 1:
            raise InputError(
                f"{where} has {' and '.join(found)}, which mean the same; keep only one of them"
            )


def _mask(name: str, values: Array) -> Array:
    """Returns a mask as booleans; refuses ids, which would read as a mask of nearly all nodes."""
    wrong = np.flatnonzero(~np.isin(values, (0, 1)))
    if wrong.size:
        raise InputError(
            f"{name} holds {values.reshape(-1)[wrong[0]]}, expected 0 or 1 for each node; "
            f"name it {name.removesuffix('_mask')}_idx if it holds ids"
        )
    return values.astype(np.bool_)


def find_features(arrays: Arrays, budget: int) -> RowStream | None:
    """The node features among the arrays, dense or CSR, or None."""
    names = arrays.names()
    _check_single(names, arrays.name)
    for name in ("x", "features"):
        if name in names:
            header = arrays.header(name)
            if len(header.shape) not in (1, 2) or header.dtype.kind not in "biuf":
                raise FormatError(
                    f"{name} has shape {header.shape} and dtype {header.dtype}, expected a matrix "
                    "of numbers with one row per node"
                )
            width = header.shape[1] if len(header.shape) == 2 else 1
            return DenseRows(header.shape[0], width, header.dtype.newbyteorder("="), arrays, name)
    if all(name in names for name in _SPARSE):
        return _sparse(arrays, budget)
    return None


def _sparse(arrays: Arrays, budget: int) -> SparseRows:
    shape = arrays.whole("x_shape", budget)
    indptr = arrays.whole("x_indptr", budget).astype(np.int64)
    values, columns = arrays.header("x_data"), arrays.header("x_indices")
    count, width = (int(n) for n in shape)
    fits = (
        len(indptr) == count + 1
        and indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and values.shape == columns.shape == (int(indptr[-1]),)
    )
    if not fits:
        raise FormatError("x_data, x_indices, x_indptr and x_shape do not make a CSR matrix")
    return SparseRows(count, width, values.dtype.newbyteorder("="), arrays, indptr)


class ArraysSource:
    """A graph given as named arrays.

    Args:
        arrays: the arrays.
        ids: how nodes are identified.
        num_nodes: overrides the node count.
        budget: bytes allowed for the small index arrays read while opening.
    """

    def __init__(
        self,
        arrays: Arrays,
        ids: Ids = "dense",
        num_nodes: int | None = None,
        budget: int = 1 << 28,
    ) -> None:
        self.arrays, self.ids, self.name = arrays, ids, arrays.name
        names = arrays.names()
        if "edge_index" not in names:
            raise FormatError(
                f"{self.name} has no edge_index; it holds {', '.join(sorted(names)) or 'nothing'}"
            )
        shape = arrays.header("edge_index").shape
        if len(shape) != 2 or 2 not in shape:
            raise FormatError(
                f"edge_index in {self.name} has shape {shape}, expected [2, E] or [E, 2]"
            )
        self.num_edges: int | None = shape[1] if shape[0] == 2 else shape[0]
        self.features = find_features(arrays, budget)
        self.num_nodes = self._count(names, budget) if num_nodes is None else num_nodes
        if num_nodes is not None and "num_nodes" in names:
            check_count(num_nodes, self._count(names, budget), self.name)
        self.has_weight = "edge_weight" in names
        self._edge_name = next((n for n in ("edge_attr", "edge_features") if n in names), None)
        self.edge_features = self._edge_width()
        self.stored_once: bool | None = None

    def _count(self, names: list[str], budget: int) -> int | None:
        if "num_nodes" in names:
            count = self.arrays.whole("num_nodes", budget)
            if count.size != 1 or count.dtype.kind not in "iu" or int(count.reshape(())) < 0:
                raise FormatError(f"num_nodes in {self.name} is not a count")
            return int(count.reshape(()))
        if self.features is not None:
            return self.features.count
        label = next((n for n in ("y", "labels") if n in names), None)
        return self.arrays.header(label).shape[0] if label else None

    def _edge_width(self) -> tuple[int, np.dtype[Any]] | None:
        for name in ("edge_weight", self._edge_name):
            if name is None or (name == "edge_weight" and not self.has_weight):
                continue
            header = self.arrays.header(name)
            if not header.shape or header.shape[0] != self.num_edges:
                raise InputError(
                    f"{name} has shape {header.shape}, expected {self.num_edges} rows, one per edge"
                )
        if self._edge_name is None:
            return None
        header = self.arrays.header(self._edge_name)
        width = int(np.prod(header.shape[1:], dtype=np.int64))
        return width, header.dtype.newbyteorder("<")

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order."""
        weights = self.arrays.chunks("edge_weight", step) if self.has_weight else None
        rows = self.arrays.chunks(self._edge_name, step) if self._edge_name else None
        for source, target in self.arrays.pair_chunks("edge_index", step):
            weight = next(weights).reshape(-1) if weights else None
            features = next(rows).reshape(len(source), -1) if rows else None
            yield EdgeChunk(source, target, weight, features)

    def small(self, budget: int) -> Small:
        """Reads labels and splits."""
        names = self.arrays.names()
        label = next((n for n in ("y", "labels") if n in names), None)
        labels = self.arrays.whole(label, budget) if label else None
        splits: dict[str, Array] = {}
        for name in names:
            for ending in ("_idx", "_mask"):
                if name.endswith(ending):
                    values = self.arrays.whole(name, budget)
                    if ending == "_mask":
                        values = _mask(name, values)
                    splits[rename_split(name.removesuffix(ending))] = values
        return Small(labels, splits)

    def notes(self) -> list[str]:
        """What was found and not converted."""
        known = {"edge_index", "x", "features", "y", "labels", "num_nodes", "edge_weight"}
        known |= {"edge_attr", "edge_features", *_SPARSE}
        other = [
            n for n in self.arrays.names() if n not in known and not n.endswith(("_idx", "_mask"))
        ]
        return [f"Not converted: {', '.join(sorted(other))}."] if other else []
