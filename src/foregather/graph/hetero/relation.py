"""relation: the edges of one relation as CSC: for each target its sources.

A relation is frozen and its arrays fit together; whether ids are nodes is known only to the graph
that holds it. Rows are ordered by source, or by (time, source), so that the edges up to a moment
are the first ones of a row.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.build import edge_array, finite_weights
from foregather.graph.hetero.columns import to_rows, to_times
from foregather.graph.hetero.layout import by_time, endpoints, lay_out
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.holdable import DTYPES

__all__ = ["Level", "Order", "Relation", "is_identity"]

Array = npt.NDArray[Any]

Order = Literal["source", "time"]
Level = Literal["edge", "node"]


@dataclass(frozen=True, eq=False)
class Relation:
    """Edges from the nodes of one type to those of another, or of the same.

    The in-neighbours of target v are `indices[indptr[v]:indptr[v + 1]]`, its *row*.

    Attributes:
        indptr: int64 [targets + 1].
        indices: sources, uint32 [edges] (int64 where there are 2^32 sources or more).
        edge_ids: int64 [edges], the position of each edge in the caller's edge_index; None where
            the edges were given in this order.
        time: int64 [edges], when each edge came to be; or None.
        weights: float32 [edges], or None.
        features: numbers, one row per edge as stored, or None.
        order: of a row: "source" (ascending sources) or "time" (ascending times, then sources).
            Equal edges keep the caller's order.
        time_level: "edge" where `time` belongs to the edges, "node" where it was copied from the
            sources to order rows by it.
    """

    indptr: npt.NDArray[np.int64]
    indices: Array
    edge_ids: npt.NDArray[np.int64] | None = None
    time: npt.NDArray[np.int64] | None = None
    weights: npt.NDArray[np.float32] | None = None
    features: Array | None = None
    order: Order = "source"
    time_level: Level = "edge"
    _sources: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.indptr.dtype != np.int64 or self.indptr.ndim != 1 or not self.indptr.size:
            raise InputError(
                f"indptr is {self.indptr.dtype} of shape {list(self.indptr.shape)}, expected int64 "
                "of shape [targets + 1]"
            )
        if self.indices.dtype not in (np.uint32, np.int64) or self.indices.ndim != 1:
            raise InputError(
                f"indices is {self.indices.dtype} of shape {list(self.indices.shape)}, expected "
                "uint32 or int64 of shape [edges]"
            )
        edges = self.num_edges
        first, last = int(fetch(self.indptr[:1])[0]), int(fetch(self.indptr[-1:])[0])
        if first != 0 or last != edges:
            raise InputError(f"indptr runs from {first} to {last}, expected 0 to {edges}")
        for name, dtype in (("edge_ids", np.int64), ("time", np.int64), ("weights", np.float32)):
            values = getattr(self, name)
            if values is not None and (values.dtype != dtype or values.shape != (edges,)):
                raise InputError(
                    f"{name} is {values.dtype} of shape {list(values.shape)}, expected "
                    f"{np.dtype(dtype)} of shape [{edges}]"
                )
        rows = self.features
        if rows is not None and (rows.shape[:1] != (edges,) or rows.dtype.name not in DTYPES):
            raise InputError(
                f"edge features are {rows.dtype} of shape {list(rows.shape)}, expected numbers "
                f"with {edges} rows"
            )
        self._check_order()

    def _check_order(self) -> None:
        if self.order not in ("source", "time"):
            raise InputError(f"order is {self.order!r:.40}, expected 'source' or 'time'")
        if self.time_level not in ("edge", "node"):
            raise InputError(f"time_level is {self.time_level!r:.40}, expected 'edge' or 'node'")
        if self.order == "time" and self.time is None:
            raise InputError("order is 'time', but the edges have no time")
        if self.time_level == "node" and self.order != "time":
            raise InputError("times of nodes are copied to edges only to order rows by them")

    @property
    def num_edges(self) -> int:
        """Number of edges, parallel ones counted."""
        return int(self.indices.size)

    @property
    def num_targets(self) -> int:
        """Number of rows."""
        return int(self.indptr.size) - 1

    @property
    def num_sources(self) -> int | None:
        """How many source nodes the ids were made for; None where nobody said."""
        return self._sources

    def made_for(self, num_sources: int) -> "Relation":
        """Itself, once it is known how many source nodes its ids were made for."""
        object.__setattr__(self, "_sources", num_sources)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays, read into memory."""
        values = (getattr(self, one.name) for one in fields(self) if one.init)
        return Relation, tuple(fetch(v) if isinstance(v, np.ndarray) else v for v in values)

    @staticmethod
    def of(
        edge_index: Any,
        num_sources: int,
        num_targets: int,
        *,
        time: Any = None,
        weights: Any = None,
        features: Any = None,
        order: Order = "source",
        threads: int = 0,
    ) -> "Relation":
        """Makes a relation from edges in any order, checking every id, time and weight.

        Args:
            edge_index: [2, edges] tensor or array: row 0 the sources, row 1 the targets.
            num_sources: nodes of the source type.
            num_targets: nodes of the target type.
            time: [edges] whole numbers, or datetime64, which becomes seconds since 1970.
            weights: [edges] finite numbers.
            features: one row per edge.
            order: "time" orders rows by (time, source).
            threads: 0 uses all cores; the result is the same for any number.

        Raises:
            InputError: an id that is no node, or something that does not fit.
        """
        pairs = edge_array(edge_index)
        count = pairs.shape[1]
        source, target = endpoints(pairs, num_sources, num_targets)
        times = None if time is None else to_times(time, count, "time", "edge")
        weight = None if weights is None else finite_weights(to_array(weights, "weights"), count)
        rows = None if features is None else to_rows(features, count, "edge features", "edge")
        taken = None
        if order == "time":
            if times is None:
                raise InputError("order is 'time', but the edges have no time")
            taken = by_time(source, times)
        indptr, indices, ids = lay_out(source, target, num_sources, num_targets, taken, threads)
        return Relation(
            indptr,
            indices,
            None if is_identity(ids) else ids,
            None if times is None else times[ids],
            None if weight is None else weight[ids],
            None if rows is None else rows[ids],
            order,
        ).made_for(num_sources)


def is_identity(ids: npt.NDArray[np.int64]) -> bool:
    """Whether positions are 0, 1, 2, ..."""
    return bool((ids == np.arange(ids.size)).all())
