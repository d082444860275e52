"""topology: edges in any order become CSC arrays on disk, through a spool.

The result equals that of `build_csc` in memory: rows by target, sources ascending, parallel
edges in the order of the source. Memory stays within the budget, whatever the number of edges and
the skew of degrees.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype
from foregather.graph.convert.source import EdgeChunk
from foregather.graph.convert.spool import Group, Spool
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress

__all__ = [
    "EdgeRules",
    "IdTooWide",
    "TopologyWriter",
    "check_ids",
    "check_weights",
    "is_wide",
    "record_dtype",
]

Array = npt.NDArray[Any]
_LEAST_GROUP = 1 << 16  # bytes of records sorted at a time, however small the budget
_GAP_ROWS = 1 << 20  # rows without edges are written this many at a time


class IdTooWide(Exception):
    """An id needs 64 bits, and the records have 32; never leaves the engine."""


def is_wide(num_nodes: int) -> bool:
    """Whether ids of a graph of that size need 64 bits."""
    return id_dtype(num_nodes).itemsize == 8


@dataclass(frozen=True)
class EdgeRules:
    """How edges are changed during conversion.

    Attributes:
        undirected: add the reverse of every edge, then drop repeated pairs.
        self_loops: add an edge from each node to itself if there is none.
        dedup: keep only the first of several edges with the same source and target.
    """

    undirected: bool = False
    self_loops: bool = False
    dedup: bool = False

    @property
    def drops(self) -> bool:
        """Whether repeated pairs are dropped."""
        return self.dedup or self.undirected


def record_dtype(
    wide: bool, weight: bool, features: tuple[int, np.dtype[Any]] | None
) -> np.dtype[Any]:
    """The spooled form of one edge; the target comes first, it is the key."""
    ident = np.dtype("<u8" if wide else "<u4")
    fields: list[Any] = [("target", ident), ("source", ident)]
    if weight:
        fields.append(("weight", np.dtype("<f4")))
    if features is not None:
        fields.append(("features", features[1], (features[0],)))
    return np.dtype(fields)


def check_ids(ids: Array, role: str, start: int, num_nodes: int | None) -> Array:
    """Checks ids and returns them as unsigned integers; `start` is the position of the first.

    Raises:
        InputError: not integers, NaN, negative, or not below `num_nodes`.
    """
    if ids.dtype.kind == "f":
        bad = np.flatnonzero(~(np.isfinite(ids) & (ids == np.floor(ids))))
        if bad.size:
            raise InputError(
                f"edge {start + bad[0]} has {role} {ids[bad[0]]}, expected an integer id"
            )
        if ids.size and np.abs(ids).max() >= 2.0**53:
            raise InputError(
                f"{role} ids are floats beyond 2^53, where integers are not exact; "
                "store them as integers"
            )
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise InputError(f"{role} ids have dtype {ids.dtype}, expected integers")
    if ids.size == 0:
        return ids.astype(np.uint64)
    if ids.dtype.kind == "i" and (low := int(ids.min())) < 0:
        at = int(np.flatnonzero(ids == low)[0])
        raise InputError(f"edge {start + at} has {role} {low}, expected an id of 0 or more")
    if num_nodes is not None and (high := int(ids.max())) >= num_nodes:
        at = int(np.flatnonzero(ids == high)[0])
        raise InputError(
            f"edge {start + at} has {role} {high}, but the graph has {num_nodes} nodes "
            "(ids are 0 to N-1)"
        )
    return ids


def check_weights(weights: Any, start: int) -> npt.NDArray[np.float32]:
    """Checks weights and returns them as float32; `start` is the position of the first.

    Raises:
        InputError: one is NaN, infinite, or too large for float32.
    """
    given = np.asarray(weights)
    if given.dtype.kind not in "fiub":
        raise InputError(f"edge weights have dtype {given.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        stored = given.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(stored))
    if bad.size:
        raise InputError(
            f"edge {start + bad[0]} has weight {given[bad[0]]}, expected a finite number "
            "(of float32); remove the edge or give it another weight"
        )
    return stored


class TopologyWriter:
    """Collects edges, then writes indptr, indices and the edge arrays.

    Args:
        writer: the folder being made.
        dtype: from `record_dtype`.
        rules: what to do to the edges.
        memory: bytes this may use.
        threads: threads of the kernels, 0 for all.
        scratch: name of the scratch file, where there are several at a time.

    Attributes:
        in_order: whether the edges were written in the order in which they came; known of records
            that have a field `ids`, once they are written.
    """

    def __init__(
        self,
        writer: FolderWriter,
        dtype: np.dtype[Any],
        rules: EdgeRules,
        memory: int,
        threads: int = 0,
        scratch: str = "edges",
    ) -> None:
        self.writer, self.dtype, self.rules, self.threads = writer, dtype, rules, threads
        self.memory = memory
        self.largest = -1  # largest id seen
        self.removed = 0
        self.loops_added = 0
        self.negative = 0  # edges written with a weight below 0
        self.position = 0
        self.in_order = True
        # a run is held twice while it is grouped, next to the chunk being added
        self._spool = Spool(
            writer.scratch(scratch), dtype, memory // 3, ("target", "source"), threads=threads
        )
        writer.defer(self._spool.close)

    def add(self, chunk: EdgeChunk, num_nodes: int | None) -> None:
        """Spools the edges of a chunk (and their reverses) after checking their ids."""
        source = check_ids(chunk.source, "source", self.position, num_nodes)
        target = check_ids(chunk.target, "target", self.position, num_nodes)
        count = len(source)
        weighted = "weight" in (self.dtype.names or ())
        weight = check_weights(chunk.weight, self.position) if weighted else None
        self.position += count
        if count == 0:
            return
        self.largest = max(self.largest, int(source.max()), int(target.max()))
        if self.dtype["target"].itemsize == 4 and is_wide(self.largest + 1):
            raise IdTooWide
        # An edge and its reverse are adjacent in the spool, so which of two equal pairs came first
        # does not depend on how the source was split into chunks.
        ways = 2 if self.rules.undirected else 1
        records = np.empty((count, ways), self.dtype)
        records["target"][:, 0], records["source"][:, 0] = target, source
        if ways == 2:
            records["target"][:, 1], records["source"][:, 1] = source, target
        if weight is not None:
            records["weight"] = weight[:, None]
        if "features" in (self.dtype.names or ()):
            records["features"] = np.asarray(chunk.features)[:, None, :]
        self._spool.append(records.reshape(-1))

    def append(self, records: Array) -> None:
        """Spools edges that were checked already."""
        self._spool.append(records)

    def discard(self) -> None:
        """Forgets the edges added so far."""
        self._spool.close()

    def finish(
        self,
        num_nodes: int,
        num_sources: int | None = None,
        called: Callable[[str], str] = str,
    ) -> int:
        """Sorts and writes everything; returns the number of edges.

        Args:
            num_nodes: how many targets there are.
            num_sources: how many sources there are, where they are of another type.
            called: the name that an array ("indptr", "edge_weight") has in the folder.
        """
        names = self.dtype.names or ()
        sources = num_nodes if num_sources is None else num_sources
        rows = _RowsOut(self.writer, self.dtype, (num_nodes, sources), called)
        # per record while sorting: itself, split ids, result, kernel scratch, order
        cost = self.dtype.itemsize * 2 + 40
        limit = max(_LEAST_GROUP, self.memory * self.dtype.itemsize // cost)
        with Progress("sorting edges", self._spool.count, "edges") as bar:
            for group in self._spool.groups(limit):
                if not (group.partial and rows.open_row and rows.next == group.low):
                    self._gap(rows, group.low)
                if group.partial:
                    self._partial(rows, group)
                else:
                    high = min(group.high, num_nodes)
                    self._whole(rows, group.low, high, group.records)
                bar.advance(len(group.records))
            self._gap(rows, num_nodes)
        self._spool.close()
        for name in ("indptr", "indices", *(f"edge_{n}" for n in names[2:])):
            self.writer.close(called(name))
        self.negative, self.in_order = rows.negative, rows.in_order
        return rows.edges

    def _gap(self, rows: "_RowsOut", until: int) -> None:
        """Writes the empty rows after the last one written, up to `until`."""
        if rows.open_row:
            if self.rules.self_loops and not rows.loop_seen:
                self.loops_added += 1
                self._emit_partial(rows, rows.next, _loops(self.dtype, rows.next, rows.next + 1))
            rows.end_row()
        while rows.next < until:
            low, high = rows.next, min(until, rows.next + _GAP_ROWS)
            self._whole(rows, low, high, np.empty(0, self.dtype))

    def _whole(self, rows: "_RowsOut", low: int, high: int, records: Array) -> None:
        if self.rules.self_loops:
            present = np.zeros(high - low, np.bool_)
            present[records["target"][records["target"] == records["source"]] - low] = True
            loops = _loops(self.dtype, low, high)[~present]
            self.loops_added += len(loops)
            records = np.concatenate([records, loops])
        indptr, indices, order = self._sort(rows, records, low, high)
        rows.append(indptr, indices, order, records)

    def _sort(
        self, rows: "_RowsOut", records: Array, low: int, high: int
    ) -> tuple[npt.NDArray[np.int64], Array, Array | None]:
        ident = rows.work
        target = (records["target"] - records["target"].dtype.type(low)).astype(ident)
        source = records["source"].astype(ident)
        indptr = np.empty(high - low + 1, np.int64)
        indices = np.empty(len(records), ident)
        payload = len(self.dtype.names or ()) > 2
        order = np.empty(len(records), np.int64) if payload else None
        _core.build_csc(source, target, rows.most, indptr, indices, order, self.threads, True)
        if not self.rules.drops:
            return indptr, indices, order
        keep = np.empty(len(indices), np.uint8)
        removed = _core.dedup_rows(indptr, indices, keep)
        if removed:
            self.removed += removed
            kept = np.empty_like(indptr)
            count = _core.compact_rows(indptr, indices, keep, kept)
            indptr, indices = kept, indices[:count]
            order = order[keep.view(np.bool_)] if order is not None else None
        return indptr, indices, order

    def _partial(self, rows: "_RowsOut", group: Group) -> None:
        """Writes a part of one row too large for memory.

        Parts come in ascending order of source.
        """
        records = group.records
        rows.open_row = True
        if self.rules.self_loops and not rows.loop_seen:
            sources = records["source"]
            if (sources == group.low).any():
                rows.loop_seen = True
            elif int(sources.max()) > group.low:
                records = np.concatenate([records, _loops(self.dtype, group.low, group.low + 1)])
                self.loops_added += 1
                rows.loop_seen = True
        self._emit_partial(rows, group.low, records)

    def _emit_partial(self, rows: "_RowsOut", row: int, records: Array) -> None:
        _indptr, indices, order = self._sort(rows, records, row, row + 1)
        if self.rules.drops and len(indices) and int(indices[0]) == rows.last_source:
            self.removed += 1
            indices = indices[1:]
            order = order[1:] if order is not None else None
        rows.append_part(indices, order, records)


def _loops(dtype: np.dtype[Any], low: int, high: int) -> Array:
    """Self-loops of the nodes low .. high - 1: weight 1, features 0."""
    loops = np.zeros(high - low, dtype)
    loops["target"] = loops["source"] = np.arange(low, high)
    if "weight" in (dtype.names or ()):
        loops["weight"] = 1
    return loops


class _RowsOut:
    """The CSC arrays being written, row by row."""

    def __init__(
        self,
        writer: FolderWriter,
        dtype: np.dtype[Any],
        counts: tuple[int, int],
        called: Callable[[str], str],
    ) -> None:
        num_nodes, num_sources = counts
        self.most = max(num_nodes, num_sources, 1)
        self.work = id_dtype(self.most)
        self.in_order = True
        self.next = 0  # first row not complete yet
        self.edges = 0
        self.negative = 0  # weights below 0
        self.open_row = False  # parts of row `next` have been written
        self.loop_seen = False
        self.last_source = -1
        self._indptr = writer.array(called("indptr"), np.int64, rows=num_nodes + 1)
        self._indptr.append(np.zeros(1, np.int64))
        self._indices = writer.array(called("indices"), id_dtype(num_sources))
        self._extra = {
            name: writer.array(called(f"edge_{name}"), dtype[name].base, dtype[name].shape)
            for name in (dtype.names or ())[2:]
        }

    def append(self, indptr: Array, indices: Array, order: Array | None, records: Array) -> None:
        self._indptr.append(indptr[1:] + self.edges)
        self._append_edges(indices, order, records)
        self.next += len(indptr) - 1

    def append_part(self, indices: Array, order: Array | None, records: Array) -> None:
        self._append_edges(indices, order, records)
        if len(indices):
            self.last_source = int(indices[-1])

    def _append_edges(self, indices: Array, order: Array | None, records: Array) -> None:
        self._indices.append(indices.astype(self._indices.dtype, copy=False))
        for name, out in self._extra.items():
            values = records[name][order]
            if name == "weight":
                self.negative += int(np.count_nonzero(values < 0))
            if name == "ids" and self.in_order:
                expected = np.arange(self.edges, self.edges + len(values))
                self.in_order = bool((values == expected).all())
            out.append(values.astype(out.dtype, copy=False))
        self.edges += len(indices)

    def end_row(self) -> None:
        self._indptr.append(np.array([self.edges], np.int64))
        self.next += 1
        self.open_row, self.loop_seen, self.last_source = False, False, -1
