"""row_lists: whole neighbour lists of a topology on disk, with their edge weights.

A call names the rows it needs, ascending; those that are held (see `hot`) are copied, the others
are read by plan (`array_ranges`). Memory is counted in `ListShares`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, FormatError
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import array_checks
from foregather.graph.mapped import fetch
from foregather.sampling.hot import best_rows, count_named
from foregather.sampling.on_disk.array_ranges import ArrayRanges
from foregather.sampling.rows import pointer

__all__ = ["ListShares", "Lists", "RowLists", "divide_lists", "least_for_work"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Value = TypeVar("Value")

_ROWS = 1 << 16  # rows whose lengths are looked at together
_STEP = 4 << 20  # rows of indptr read together
_LEAST_STAGING = 1 << 20  # both buffers
_MOST_STAGING = 32 << 20
_LEAST_WORK = 1 << 20
_STAGING_PART = 8  # of what is above the least, one part in this many


@dataclass(frozen=True)
class ListShares:
    """How a budget is divided, in bytes.

    Attributes:
        index: starts and lengths of rows.
        sums: block checksums of the files that are read.
        staging: buffers to read into, for each file.
        nodes: numbers for each node that the sampler needs, such as sums over all edges.
        work: lists that were read and what a layer makes of them.
        hot: lists that are held.
        least: the smallest budget that works.
    """

    index: int
    sums: int
    staging: int
    nodes: int
    work: int
    hot: int
    least: int


def divide_lists(graph: Graph, memory: int, weighted: bool, nodes: int, hot: float) -> ListShares:
    """Divides a budget.

    Args:
        graph: a graph opened from a folder.
        memory: the budget.
        weighted: whether edge weights are read too.
        nodes: bytes that the sampler needs for all nodes.
        hot: part of what is left for lists that are held.

    Raises:
        BudgetError: it is below the least, which the message states.
    """
    files = ["indices", "edge_weight"] if weighted else ["indices"]
    checks = [array_checks(graph, name) for name in files]
    sums = sum(0 if one is None else one.load_bytes() for one in checks)
    index = int(_core.RowIndex.bytes(graph.num_nodes, graph.num_edges))
    fixed = index + sums + nodes
    least = fixed + _LEAST_STAGING * len(files) + _LEAST_WORK
    if memory < least:
        raise _refused(memory, least)
    rest = memory - least
    staging = min(_LEAST_STAGING + rest // _STAGING_PART // len(files), _MOST_STAGING)
    left = memory - fixed - staging * len(files)
    held = int((left - _LEAST_WORK) * hot)
    if held < 4 * graph.num_nodes:  # no room to choose rows in
        held = 0
    return ListShares(index, sums, staging, nodes, left - held, held, least)


def least_for_work(graph: Graph, need: int, weighted: bool, nodes: int) -> int:
    """The smallest budget that has `need` bytes for work, if no lists are held."""
    low = divide_lists(graph, 1 << 62, weighted, nodes, 0.0).least
    high = low + 2 * need
    while low < high:
        middle = (low + high) // 2
        if divide_lists(graph, middle, weighted, nodes, 0.0).work < need:
            low = middle + 1
        else:
            high = middle
    return low


def _refused(memory: int, least: int) -> BudgetError:
    error = BudgetError(
        f"memory is {memory} bytes, but sampling whole neighbour lists of this topology from disk "
        f"takes at least {least} bytes; give it that or more"
    )
    error.least = least
    return error


@dataclass(frozen=True, eq=False)
class Lists:
    """Neighbour lists of some rows.

    Attributes:
        rows: int64, ascending.
        start: int64: where each list begins in the graph's order of edges.
        ptr: int64 [rows + 1]: where it begins here.
        ids: sources.
        weight: float32 weight of each edge; None if it was not asked for.
    """

    rows: Int
    start: Int
    ptr: Int
    ids: Array
    weight: Array | None

    def take(self, rows: Int) -> tuple[Int, Int, Int]:
        """For rows in any order: where their entries end, which they are here, their edges."""
        at = np.searchsorted(self.rows, rows)
        degree = np.diff(self.ptr)[at]
        ptr = pointer(degree)
        entry = np.arange(ptr[-1]) + np.repeat(self.ptr[at] - ptr[:-1], degree)
        edge = entry + np.repeat((self.start - self.ptr[:-1])[at], degree)
        return ptr, entry, edge


class RowLists:
    """Reads neighbour lists of a graph folder within a budget.

    Args:
        graph: a graph opened from a folder.
        shares: how the budget is divided.
        weighted: whether edge weights are read too.
        ways: (backend, depth, gap), as in `DiskTopology`.
    """

    def __init__(
        self, graph: Graph, shares: ListShares, weighted: bool, ways: tuple[str, int, int]
    ) -> None:
        self.graph, self.shares, self._weighted = graph, shares, weighted
        self._index = _core.RowIndex(graph.num_nodes, graph.num_edges)
        for first in range(1, len(graph.indptr), _STEP):
            self._index.append(np.ascontiguousarray(fetch(graph.indptr[first : first + _STEP])))
        self._ids = ArrayRanges(graph, "indices", *ways, shares.staging)
        self._weight: ArrayRanges | None = None
        if weighted:
            self._weight = ArrayRanges(graph, "edge_weight", *ways, shares.staging)
        self._held: Lists | None = None
        self._kept: dict[str, Any] = {}
        self._scanned = 0
        self.entries = self.hits = self.calls = 0

    def hold(self, block: int) -> None:
        """Holds the lists that are worth it, once."""
        if self._held is not None or not self.shares.hot:
            return
        width = self.graph.indices.dtype.itemsize
        each = (width + 4) / width if self._weight is not None else 1.0  # bytes beside an id
        room = int(self.shares.hot / each) - 24 * 1024
        rows = best_rows(self.graph, count_named(self.graph), -1, room * 2 // 3, block)
        self._scanned = int(self.graph.indices.nbytes)
        self._held = self._read(np.sort(rows))

    def make_room(self, entries: int, each: int) -> None:
        """Gives up what is held, so that there is room for this many entries of `each` bytes.

        Raises:
            BudgetError: that is not enough; the message states the minimum.
        """
        shares, need = self.shares, entries * each
        if shares.work + shares.hot < need:
            least = least_for_work(self.graph, need, self._weighted, shares.nodes)
            error = BudgetError(
                f"a minibatch looks at {entries} entries of neighbour lists in one layer; give the "
                f"topology at least {least} bytes of memory, or use smaller minibatches or fan-outs"
            )
            error.least = least
            raise error
        self._held = None
        self.shares = replace(shares, work=shares.work + shares.hot, hot=0)

    def kept(self, name: str, make: "Callable[[RowLists], Value]") -> "Value":
        """What is made once of all lists, such as sums over them, and kept as long as they are."""
        if name not in self._kept:
            self._kept[name] = make(self)
        made: Value = self._kept[name]
        return made

    def pieces(self) -> Iterator["Lists"]:
        """All lists in the order of the file, some rows at a time."""
        most = max(1, self.shares.work // 64)  # ids, weights, and what is made of them
        for first in range(0, self.graph.num_nodes, _ROWS):
            rows = np.arange(first, min(first + _ROWS, self.graph.num_nodes))
            ends = pointer(self.spans(rows)[1])
            at = 0
            while at < len(rows):
                end = max(at + 1, int(np.searchsorted(ends, ends[at] + most, "right")) - 1)
                yield self._read(rows[at:end])
                at = end

    def spans(self, rows: Int) -> tuple[Int, Int]:
        """Where rows start, and how long they are."""
        start, degree = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        self._index.spans(np.ascontiguousarray(rows, np.int64), start, degree)
        return start, degree

    def read(self, rows: Int) -> Lists:
        """The lists of these rows: distinct nodes, ascending.

        Raises:
            StorageError: a file cannot be read, or is another than when it was opened.
            FormatError: a block does not match its checksum, or a list names no node.
        """
        self.calls += 1
        held = self._held
        if held is None or not len(held.rows) or not len(rows):
            found = self._read(rows)
            self.entries += len(found.ids)
            return found
        at = np.minimum(np.searchsorted(held.rows, rows), len(held.rows) - 1)
        there = held.rows[at] == rows
        start, degree = self.spans(rows)
        ptr = pointer(degree)
        fresh = self._read(rows[~there])
        ids = np.empty(int(ptr[-1]), self.graph.indices.dtype)
        weight = None if fresh.weight is None else np.empty(len(ids), fresh.weight.dtype)
        of_held = np.repeat(there, degree)
        _, entry, _ = held.take(rows[there])
        ids[of_held], ids[~of_held] = held.ids[entry], fresh.ids
        if weight is not None and held.weight is not None:
            weight[of_held], weight[~of_held] = held.weight[entry], fresh.weight
        self.entries += len(ids)
        self.hits += len(entry)
        return Lists(rows, start, ptr, ids, weight)

    def ids_at(self, edges: Int) -> Array:
        """The sources of single edges, in any order and as often as they like."""
        order, back = np.unique(edges, return_inverse=True)
        self.calls += 1
        self.entries += len(edges)
        found = self._ids.read(order, np.ones(len(order), np.int64), self.graph.indices.dtype)
        self._check(found, lambda bad: int(order[bad]))
        return found[back.reshape(-1)]

    def _read(self, rows: Int) -> Lists:
        start, degree = self.spans(rows)
        ptr = pointer(degree)
        ids = self._ids.read(start, degree, self.graph.indices.dtype)

        def edge_of(entry: int) -> int:
            row = int(np.searchsorted(ptr, entry, "right")) - 1
            return int(start[row] + entry - ptr[row])

        self._check(ids, edge_of)
        weight = None
        if self._weight is not None:
            weight = self._weight.read(start, degree, np.dtype(np.float32))
        return Lists(rows, start, ptr, ids, weight)

    def _check(self, ids: Array, edge_of: Callable[[int], int]) -> None:
        bad = _core.check_ids(ids, self.graph.num_nodes, 1)
        if bad >= 0:
            raise FormatError(
                f"{self._ids.name} holds node {int(ids[bad])} at position {edge_of(bad)}, but the "
                f"graph has {self.graph.num_nodes} nodes; the file is damaged, foregather verify "
                "says where"
            )

    def counters(self) -> dict[str, Any]:
        """As `DiskTopology.counters`; picks are entries of lists that were looked at."""
        files = [one for one in (self._ids, self._weight) if one is not None]
        read = [one.counters() for one in files]
        held = self._held
        return {
            "picks": self.entries,
            "hits": self.hits,
            "misses": self.entries - self.hits,
            "passes": self.calls,
            "hot_hits": self.hits,
            "hot_rows": 0 if held is None else len(held.rows),
            "hot_held": 0 if held is None else int(held.ids.nbytes),
            "hot_scanned": self._scanned,
            "planned_requests": sum(one.planned_requests for one in files),
            "planned_bytes": sum(one.planned_bytes for one in files),
            "requests": sum(one["requests"] for one in read),
            "bytes": sum(one["bytes"] for one in read),
            "retries": sum(one["retries"] for one in read),
            "seconds": {"read": sum(one["seconds"] for one in read)},
        }

    def close(self) -> None:
        """Ends the reading threads and gives back what is held."""
        self._held = None
        for one in (self._ids, self._weight):
            if one is not None:
                one.close()
