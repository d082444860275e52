"""ahead: rows of attributes, looked up in the producer before their batch is asked for.

What is looked up ahead is used only while it is what the loop would find: the same tensor, which
torch has counted no change of since the loader was made, and the nodes or edges that were sampled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, from_numpy, int64

from foregather import _core
from foregather.gather.memory import gather, gathered_dtype
from foregather.graph.features import Features
from foregather.interop.attributes import Attributes, Role, rows_of
from foregather.interop.finish import version_of
from foregather.loader.batches.array_pool import ArrayPool, shared_pool

__all__ = ["Ahead", "Found", "Looked"]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows of the attributes of one type or relation.

    Attributes:
        asked: the nodes or edges of the sample that they belong to.
        version: torch's count of changes to those.
        index: the rows of the attributes that those are.
        rows: by name.
    """

    asked: Tensor
    version: int | None
    index: Tensor
    rows: Mapping[str, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(rows.nbytes for rows in self.rows.values())


#: What was looked up for a batch, by (node type or edge type, role).
Looked = Mapping[tuple[Any, str], Found]


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    name: str
    value: Tensor
    dim: int
    version: int | None


class Ahead:
    """The attributes of types and relations that can be looked up ahead.

    Args:
        attributes: by node type or edge type; a Data has one entry, for its nodes and edges.
        ids: by edge type, the rows of edges by their positions in the sampled relation, or None.
    """

    def __init__(
        self, attributes: Mapping[Any, Attributes], ids: Mapping[Any, Tensor | None]
    ) -> None:
        self._stores = {key: own.store for key, own in attributes.items()}
        self._ids = ids
        self._pool = shared_pool()  # memory of earlier batches, where it is free again
        self._columns: dict[tuple[Any, str], list[_Column]] = {}
        for key, own in attributes.items():
            for name, value, role, dim in own.steady():
                column = _Column(name, value, dim, version_of(value))
                self._columns.setdefault((key, str(role)), []).append(column)
            if ids.get(key) is not None:
                self._columns.setdefault((key, "edge"), [])  # their ids are looked up as well

    def look(self, asked: Mapping[tuple[Any, str], Tensor], threads: int) -> Looked:
        """Looks up the rows of nodes and edges, given by (type, role)."""
        found = {}
        for place, columns in self._columns.items():
            given = asked.get(place)
            if given is None:
                continue
            index = self._index(place, given, threads)
            rows = {one.name: _rows(one, index, threads, self._pool) for one in columns}
            found[place] = Found(given, version_of(given), index, rows)
        return found

    def _index(self, place: tuple[Any, str], given: Tensor, threads: int) -> Tensor:
        ids = self._ids.get(place[0]) if place[1] == "edge" else None
        return given if ids is None else _numbers(ids, given, threads, self._pool)

    def edges(self, looked: Looked, key: Any, asked: Tensor | None) -> Tensor | None:
        """The ids in the data of these edges of a relation, given by their positions."""
        ids, found = self._ids.get(key), looked.get((key, "edge"))
        if asked is None or ids is None:
            return asked
        if found is not None and found.asked is asked and version_of(asked) == found.version:
            return found.index
        return ids[asked]

    def known(
        self, looked: Looked, key: Any, role: Role, asked: Tensor | None
    ) -> dict[str, Tensor]:
        """The rows that the loop would find for these nodes or edges, by name."""
        place = (key, str(role))
        found = looked.get(place)
        if found is None or found.asked is not asked or version_of(asked) != found.version:
            return {}
        store = self._stores[key]
        return {
            one.name: found.rows[one.name]
            for one in self._columns[place]
            if store.get(one.name) is one.value
            and not one.value.requires_grad
            and version_of(one.value) == one.version
        }


def _rows(column: _Column, index: Tensor, threads: int, pool: ArrayPool) -> Tensor:
    value = column.value.detach()  # a gradient that came later is the loop's
    plain = type(value) is Tensor and value.numel() and column.dim == 0 and value.is_contiguous()
    if plain and value.ndim == 1 and value.dtype == int64:
        return _numbers(value, index, threads, pool)
    if (
        plain
        and value.ndim == 2
        and value.dtype.is_floating_point
        and value.element_size() in (4, 8)
    ):
        ids, features = np.ascontiguousarray(index.numpy()), Features(value.numpy())
        out = pool.empty((ids.size, features.width), gathered_dtype(features))
        return gather(features, ids, from_numpy(out), threads=threads)
    rows: Tensor = rows_of(value, index, column.dim)
    return rows


def _numbers(values: Tensor, index: Tensor, threads: int, pool: ArrayPool) -> Tensor:
    """Entries of int64 [n]; threads of torch beside those that sample would make both slower."""
    ids = np.ascontiguousarray(index.numpy())
    out = pool.empty(ids.shape, np.int64)
    _core.widen_labels(values.numpy(), ids, out, threads)
    return from_numpy(out)
