"""rows: P = Q·A, the rows of the graph's matrix that a layer chooses from, and the verbs on it.

P is stacked: the rows of batch 0, then those of batch 1, and so on. Entry e of P is an edge of the
graph from `columns[e]` to `rows[row[e]]`. The result of a verb is a pure function of P and the keys
of its batches, for any number of threads.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph

if TYPE_CHECKING:
    import torch

__all__ = ["Columns", "GivenRows", "Picks", "Rows", "as_weights"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Distinct columns of each batch and a weight for each.

    Attributes:
        ptr: int64 [k + 1]: batch b has the columns [ptr[b], ptr[b + 1]).
        ids: node ids, ascending in each batch; None means that all batches share the columns 0 to
            N - 1 (then ptr is [0, N]).
        weights: float64, one for each column; only their ratios matter.
        total: float64 [k] (or [1] if shared): sum of the weights of each batch.
    """

    ptr: Int
    ids: Array | None
    weights: Float
    total: Float


@dataclass(frozen=True, eq=False)
class Picks:
    """The entries of P that were chosen.

    Attributes:
        entry: int64 [m], ascending.
        weight: float64 [m] factor of each edge that keeps the aggregation unbiased, or None for 1.
    """

    entry: Int
    weight: Float | None = None


def as_weights(weights: Any, count: int, what: str) -> Float | None:
    """Converts numbers from NumPy or torch to float64 [count]; None stays None.

    Raises:
        InputError: the length does not fit.
    """
    if weights is None:
        return None
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu().numpy()
    made = np.ascontiguousarray(weights, np.float64)
    if made.shape != (count,):
        raise InputError(
            f"weights have the shape {made.shape}, expected ({count},): one number per {what}"
        )
    return made


@dataclass(frozen=True, eq=False)
class Rows:
    """The stacked matrix P of one layer.

    Attributes:
        graph: the graph.
        layer: number of the layer, 0 next to the seeds.
        rows: frontier nodes (ids), stacked over batches.
        batch_ptr: int64 [k + 1]: batch b has the rows [batch_ptr[b], batch_ptr[b + 1]).
        ptr: int64 [R + 1]: row r has the entries [ptr[r], ptr[r + 1]).
        columns: source of each entry (ids), ascending inside a row.
        edge: int64 position of each entry in the graph's CSC order.
        keys: uint64 [k] random keys of this layer of each batch.
        nodes: all nodes (ids) known so far, stacked over batches; the frontier is among them.
        node_ptr: int64 [k + 1]: batch b has the nodes [node_ptr[b], node_ptr[b + 1]).
        frontier: int64 [k]: where the rows of each batch begin among its nodes.
        threads: threads to use.
    """

    graph: Graph
    layer: int
    rows: Array
    batch_ptr: Int
    ptr: Int
    columns: Array
    edge: Int
    keys: npt.NDArray[np.uint64]
    nodes: Array
    node_ptr: Int
    frontier: Int
    threads: int

    # ---- queries -------------------------------------------------------------------------------

    @cached_property
    def row(self) -> Int:
        """Row of each entry, int64."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.ptr))

    @cached_property
    def targets(self) -> Array:
        """Target of each entry (id): the frontier node in whose row it is."""
        return self.rows[self.row]

    @cached_property
    def entry_ptr(self) -> Int:
        """int64 [k + 1]: batch b has the entries [entry_ptr[b], entry_ptr[b + 1])."""
        return np.ascontiguousarray(self.ptr[self.batch_ptr])

    @cached_property
    def batch(self) -> Int:
        """Batch of each entry, int64, counted from the first of the bulk."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.entry_ptr))

    @property
    def edge_weight(self) -> Array | None:
        """Weight of each entry's edge, or None if the graph has none."""
        weight = self.graph.edge_weight
        return None if weight is None else weight[self.edge]

    @cached_property
    def values(self) -> Float:
        """Value of each entry, float64: its edge weight, or 1 / (entries of its row)."""
        weight = self.edge_weight
        if weight is not None:
            return weight.astype(np.float64)
        degree = np.diff(self.ptr)
        return np.repeat(1.0 / np.maximum(degree, 1), degree)

    def tensor(self, name: str) -> "torch.Tensor":
        """An attribute as a tensor: ids and positions as int64, numbers as float32."""
        import torch

        array: Array = getattr(self, name)
        return torch.from_numpy(array.astype(np.float32 if array.dtype.kind == "f" else np.int64))

    # ---- verbs ---------------------------------------------------------------------------------

    def sum_columns(self, values: Any) -> Columns:
        """Adds one number (>= 0) for each entry over the rows of each batch.

        The sum is in fixed point with at least 61 - log2(entries) bits, so that it does not depend
        on the order of rows; a positive number counts as at least one unit.
        """
        numbers = as_weights(values, len(self.columns), "entry")
        assert numbers is not None
        ids, sums = np.empty_like(self.columns), np.empty(len(self.columns), np.int64)
        batches = len(self.keys)
        counts, unit = np.empty(batches, np.int64), np.empty(batches, np.float64)
        _core.sum_columns(
            self.entry_ptr, self.columns, numbers, ids, sums, counts, unit, self.threads
        )
        ptr = pointer(counts)
        take = np.arange(ptr[-1]) + np.repeat(self.entry_ptr[:-1] - ptr[:-1], counts)
        sums = sums[take]
        upto = pointer(sums)  # whole numbers; may wrap, differences inside a batch do not
        total = (upto[ptr[1:]] - upto[ptr[:-1]]).astype(np.float64) * unit
        weights = sums.astype(np.float64) * np.repeat(unit, counts)
        return Columns(ptr, ids[take], weights, total)

    def sample_rows(
        self, size: int, weights: Any = None, replace: bool = False, debias: bool = False
    ) -> Picks:
        """Picks `size` entries of each row (-1.

        All), with probability increasing with their weight.

        Args:
            size: entries of each row.
            weights: one number (>= 0) for each entry; None is uniform.
            replace: pick with replacement; an entry may then be picked more than once.
            debias: give each pick the weight value / inclusion probability, which makes sums over
                the picks unbiased (only without replacement).
        """
        numbers = as_weights(weights, len(self.columns), "entry")
        ptr = np.empty(len(self.rows) + 1, np.int64)
        _core.count_picks(self.ptr, numbers, size, replace, ptr)
        entry = np.empty(ptr[-1], np.int64)
        tau = np.empty(0 if numbers is None else len(self.rows), np.float64)
        _core.sample_rows(
            self.rows,
            self.batch_ptr,
            self.ptr,
            self.columns,
            numbers,
            self.keys,
            size,
            replace,
            ptr,
            entry,
            tau,
            self.threads,
        )
        if not debias:
            return Picks(entry)
        if replace:
            raise InputError(
                "debias needs replace=False: only then are inclusion probabilities known"
            )
        if numbers is None:  # every entry of a row is as likely as the others
            share = np.diff(ptr) / np.maximum(np.diff(self.ptr), 1)
            return Picks(entry, self.values[entry] / share[self.row[entry]])
        chance = inclusion(numbers[entry], tau[self.row[entry]])
        return Picks(entry, self.values[entry] / chance)

    def draw_rows(self, size: int, weights: Any, replace: bool = False) -> Picks:
        """Picks `size` entries of each row (-1: all) by weight, as `Neighbor` does.

        The distribution is that of `sample_rows`; the picks differ. They are drawn from tables that
        a kernel can prepare for each row, so they cost less, but the inclusion probability of an
        entry is not known.

        Args:
            size: entries of each row.
            weights: one number (>= 0) for each entry, not all 0 in any row that has entries.
            replace: pick with replacement; an entry may then be picked more than once.
        """
        numbers = as_weights(weights, len(self.columns), "entry")
        assert numbers is not None
        ptr = np.empty(len(self.rows) + 1, np.int64)
        _core.count_picks(self.ptr, numbers, size, replace, ptr)
        entry = np.empty(ptr[-1], np.int64)
        where, keys = (self.rows, self.batch_ptr, self.ptr), self.keys
        _core.draw_rows(*where, numbers, keys, size, replace, ptr, entry, self.threads)
        return Picks(entry)

    def column_draws(self) -> npt.NDArray[np.uint32]:
        """A random number for each entry, uniform over 32 bits, the same for equal columns.

        Entries of one column in different rows of a batch share the number; batches and layers do
        not. So rows that compare it with their own limits choose the same columns where possible.
        """
        made = np.empty(len(self.columns), np.uint32)
        _core.column_draws(self.entry_ptr, self.columns, self.keys, made, self.threads)
        return made

    def sample_columns(self, size: int, columns: Columns) -> tuple[Columns, Float]:
        """Picks `size` columns of each batch without replacement, favouring larger weights.

        Returns:
            The chosen columns with their weights (`total` is that of all columns), and for each
            batch tau: given tau, a column of weight w was included with probability 1 - exp(-w
            tau).
        """
        batches = len(self.keys)
        ptr = np.empty(len(columns.ptr), np.int64)
        _core.count_picks(columns.ptr, columns.weights, size, False, ptr)
        counts = np.diff(ptr) if columns.ids is not None else np.repeat(ptr[1], batches)
        ptr = pointer(counts)
        ids = np.empty(0, self.columns.dtype) if columns.ids is None else columns.ids
        picks, tau = np.empty(ptr[-1], np.int64), np.empty(batches, np.float64)
        _core.sample_columns(
            columns.ptr, ids, columns.weights, self.keys, size, ptr, picks, tau, self.threads
        )
        chosen = picks.astype(self.columns.dtype) if columns.ids is None else ids[picks]
        total = columns.total if columns.ids is not None else np.repeat(columns.total, batches)
        return Columns(ptr, chosen, columns.weights[picks], total), tau

    def match_columns(self, chosen: Columns) -> tuple[Int, Int]:
        """Finds the entries whose column was chosen in their batch, and which column it is."""
        assert chosen.ids is not None
        match = np.empty(len(self.columns), np.int64)
        _core.match_columns(
            self.entry_ptr, self.columns, chosen.ptr, chosen.ids, match, self.threads
        )
        entry = np.flatnonzero(match >= 0)
        return entry, match[entry]


@dataclass(frozen=True, eq=False)
class GivenRows(Rows):
    """P with given values instead of values looked up in a graph.

    Attributes:
        given: float64 value of each entry, or None for 1 / (entries of its row).
    """

    given: npt.NDArray[np.float64] | None = None

    @property
    def edge_weight(self) -> npt.NDArray[np.float64] | None:
        """Weight of each entry's edge."""
        return self.given

    @cached_property
    def values(self) -> npt.NDArray[np.float64]:
        """Value of each entry."""
        if self.given is not None:
            return self.given
        degree = np.diff(self.ptr)
        return np.repeat(1.0 / np.maximum(degree, 1), degree)


def pointer(counts: Array) -> Int:
    """Returns the start of each of consecutive pieces, and the end."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def inclusion(weights: Float, tau: Float) -> Float:
    """Probability of inclusion, 1 - exp(-weight tau), the same bits on every machine."""
    made = np.empty(len(weights))
    _core.inclusion(weights * tau, made)
    return made
