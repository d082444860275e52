"""ogb_layouts: the two ways OGB keeps one graph on disk: csv.gz files, or arrays in data.npz.

Each layout reads its declared counts and streams edges, features and labels; every stream raises
FormatError if it does not have exactly the declared number of rows.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, FormatError, InputError
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.reading.stream import read_ahead
from foregather.graph.convert.reading.tables import (
    Layout,
    count_columns,
    read_edges,
    read_integers,
    read_numbers,
)
from foregather.graph.convert.source import EdgeChunk, RowStream
from foregather.units import format_bytes

__all__ = ["BinaryLayout", "CsvLayout"]

_PLAIN = Layout(",")
_MOST_GRAPHS = 1 << 16  # counts read of a list that should have one

Array = npt.NDArray[Any]


def _exactly(chunks: Iterator[Array], count: int, name: str, what: str) -> Iterator[Array]:
    """Passes chunks through and checks the total number of rows."""
    rows = 0
    with closing(cast(Any, chunks)):
        for chunk in chunks:
            rows += len(chunk)
            if rows > count:
                break
            yield chunk
    if rows != count:
        amount = f"more than {count}" if rows > count else str(rows)
        raise FormatError(f"{name} has {amount} rows, expected one for each of {count} {what}")


class _Taker:
    """Takes any number of rows from a stream of chunks."""

    def __init__(self, chunks: Iterator[Array], name: str) -> None:
        self._chunks, self._name = chunks, name
        self._rest: Array | None = None

    def take(self, count: int) -> Array:
        parts: list[Array] = []
        while count > 0:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._chunks, None)
                if self._rest is None:
                    raise FormatError(f"{self._name} has fewer rows than there are edges")
            parts.append(self._rest[:count])
            self._rest = self._rest[count:]
            count -= len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def end(self) -> None:
        if (self._rest is not None and len(self._rest)) or next(self._chunks, None) is not None:
            raise FormatError(f"{self._name} has more rows than there are edges")


def _with_features(
    edges: Iterator[EdgeChunk], features: Iterator[Array], name: str
) -> Iterator[EdgeChunk]:
    """Joins a stream of edge features with the edges they belong to."""
    with closing(cast(Any, edges)), closing(cast(Any, features)):
        taker = _Taker(features, name)
        for chunk in edges:
            yield chunk._replace(features=taker.take(len(chunk.source)))
        taker.end()


def _one(counts: Array, name: str) -> int:
    if counts.size != 1:
        raise FormatError(f"{name} lists {counts.size} graphs, expected one")
    count = counts.reshape(-1)[0]
    if not 0 <= count < 1 << 62 or count != int(count):
        raise FormatError(f"{name} says {count}, expected a count")
    return int(count)


@dataclass(frozen=True)
class CsvRows(RowStream):
    """Node features as lines of numbers."""

    path: Path

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        rows = read_numbers(self.path, self.width, step, _PLAIN)
        return _exactly(rows, self.count, self.path.name, "nodes")


class CsvLayout:
    """The layout of csv.gz files: edge.csv.gz, num-node-list.csv.gz and so on."""

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._edge = self._need("edge")
        self.num_nodes = self._count("num-node-list")
        self.num_edges = self._count("num-edge-list")
        self._edge_feat = self._find("edge-feat")
        feat = self._find("node-feat")
        self.features: RowStream | None = None
        if feat is not None:
            width = self._width(feat)
            self.features = CsvRows(self.num_nodes, width, np.dtype(np.float32), feat)
        self.edge_features: tuple[int, np.dtype[Any]] | None = None
        if self._edge_feat is not None:
            self.edge_features = (self._width(self._edge_feat), np.dtype(np.float32))

    def _find(self, stem: str) -> Path | None:
        for ending in (".csv.gz", ".csv"):
            if (self._raw / (stem + ending)).is_file():
                return self._raw / (stem + ending)
        return None

    def _need(self, stem: str) -> Path:
        path = self._find(stem)
        if path is None:
            raise FormatError(
                f"{stem}.csv.gz is missing from the raw folder; the download is not complete, "
                "fetch it again"
            )
        return path

    def _count(self, stem: str) -> int:
        path = self._need(stem)
        with closing(cast(Any, read_integers(path, [0], _MOST_GRAPHS, _PLAIN))) as chunks:
            first = next(chunks, np.empty((1, 0), np.int64))
        return _one(first[0], path.name)

    @staticmethod
    def _width(path: Path) -> int:
        width = count_columns(path)
        if width == 0:
            raise FormatError(f"{path.name} is empty; the download is not complete")
        return width

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order."""
        edges = read_edges(self._edge, (0, 1), step, _PLAIN)
        if self._edge_feat is None or self.edge_features is None:
            return edges
        rows = read_numbers(self._edge_feat, self.edge_features[0], step, _PLAIN)
        return _with_features(edges, rows, self._edge_feat.name)

    def labels(self, budget: int) -> Array | None:
        """Labels [N, C]: int64 if all are whole, otherwise float with NaN for missing."""
        path = self._find("node-label")
        if path is None:
            return None
        width = self._width(path)
        need = 8 * width * self.num_nodes
        if need > budget:
            raise BudgetError(
                f"{path.name} needs {format_bytes(need)} in memory, the budget leaves "
                f"{format_bytes(budget)}; raise the memory budget"
            )
        out = np.empty((self.num_nodes, width), np.float64)
        start = 0
        whole = True
        rows = read_numbers(path, width, max(1, 8192 // width), _PLAIN, np.float64)
        for chunk in _exactly(rows, self.num_nodes, path.name, "nodes"):
            out[start : start + len(chunk)] = chunk
            start += len(chunk)
            whole = whole and bool((np.isfinite(chunk) & (np.floor(chunk) == chunk)).all())
        if not whole:
            return out.astype(np.float32)
        return _to_integers(out, path.name)

    def ignored(self) -> list[str]:
        """Names of files in the raw folder that no stream reads."""
        read = {"edge", "num-node-list", "num-edge-list", "edge-feat", "node-feat", "node-label"}
        stems = {p.name: p.name.split(".")[0] for p in self._raw.iterdir() if p.is_file()}
        return sorted(stem for stem in stems.values() if stem not in read)


def _to_integers(values: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.int64]:
    """The same memory as int64; the values are whole."""
    out = values.view(np.int64)
    for start in range(0, len(values), 8192):
        part = values[start : start + 8192]
        if len(part) and np.abs(part).max() > 1 << 53:
            raise FormatError(f"{name} has a label beyond 2^53, expected classes")
        out[start : start + 8192] = part.astype(np.int64)
    return out


@dataclass(frozen=True)
class ZipRows(RowStream):
    """Node features as a member of an archive."""

    arrays: ZipArrays
    member: str

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        if step < 1:
            raise InputError(f"step is {step}, expected at least 1")
        # A thread decompresses the next rows; at most three chunks are in memory at once.
        return read_ahead(lambda: self.arrays.chunks(self.member, max(1, step // 3)), 1)


class BinaryLayout:
    """The layout of data.npz with edge_index, node_feat and the counts, and node-label.npz."""

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._arrays = ZipArrays(raw / "data.npz")
        self.num_nodes = self._count("num_nodes_list")
        self.num_edges = self._count("num_edges_list")
        held = self._arrays.names()
        self.features: RowStream | None = None
        self.edge_features: tuple[int, np.dtype[Any]] | None = None
        if "edge_index" not in held:
            raise FormatError("data.npz has no array edge_index, so it is not an OGB graph")
        if "node_feat" in held:
            width, dtype = self._matrix("node_feat", self.num_nodes, "nodes")
            self.features = ZipRows(self.num_nodes, width, dtype, self._arrays, "node_feat")
        if "edge_feat" in held:
            self.edge_features = self._matrix("edge_feat", self.num_edges, "edges")

    def _count(self, name: str) -> int:
        return _one(self._arrays.whole(name, 8 * _MOST_GRAPHS), f"{name} in data.npz")

    def _matrix(self, name: str, count: int, what: str) -> tuple[int, np.dtype[Any]]:
        header = self._arrays.header(name)
        if len(header.shape) != 2 or header.shape[0] != count:
            raise FormatError(
                f"{name} in data.npz has shape {header.shape}, expected one row for each of "
                f"{count} {what}"
            )
        return header.shape[1], header.dtype.newbyteorder("=")

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order."""
        pairs = self._arrays.pair_chunks("edge_index", step)
        edges = (EdgeChunk(source, target) for source, target in pairs)
        if self.edge_features is None:
            return edges
        return _with_features(edges, self._arrays.chunks("edge_feat", step), "edge_feat")

    def labels(self, budget: int) -> Array | None:
        """Labels as they are stored; float NaN where missing."""
        path = self._raw / "node-label.npz"
        if not path.is_file():
            return None
        with ZipArrays(path) as arrays:
            labels = arrays.whole("node_label", budget)
        if labels.ndim not in (1, 2) or labels.shape[0] != self.num_nodes:
            raise FormatError(
                f"node_label in node-label.npz has shape {labels.shape}, expected one row for "
                f"each of {self.num_nodes} nodes"
            )
        return labels

    def ignored(self) -> list[str]:
        """Names of arrays and files that no stream reads."""
        read = {"edge_index", "node_feat", "edge_feat", "num_nodes_list", "num_edges_list"}
        files = {p.name for p in self._raw.iterdir() if p.is_file()}
        return sorted(set(self._arrays.names()) - read | files - {"data.npz", "node-label.npz"})
