"""node_table: what is known about the nodes of one type.

A table is frozen and its arrays fit together: shapes and dtypes are checked on construction, in
constant time. Arrays are in memory or mapped from a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.features import Features
from foregather.graph.hetero.columns import as_matrix, to_rows, to_times
from foregather.graph.hetero.names import check_name
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.labels import normalize_split
from foregather.graph.mapped import fetch, hold
from foregather.graph.on_disk.holdable import DTYPES

__all__ = ["NodeTable"]

Array = npt.NDArray[Any]

_MOST_COUNT = 1 << 60
_SAME_SPLIT = ("val", "valid", "validation")


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of one type, numbered 0 to num_nodes - 1.

    Attributes:
        num_nodes: how many there are.
        features: arrays of one row per node, by name; PyG's is `x`.
        labels: numbers, one row per node, as they were given; or None.
        time: int64, when each node came to be; None where the type has no time, and its nodes are
            then visible at any time.
        splits: node ids (int64) by name: train, val, test.
        ids: the ids of the source, int64 or `TextIds`; None where they are 0 to num_nodes - 1.
        scales: float32 [width] for each int8 array of `features` that stands for
            array * scale; see `rows`.
    """

    num_nodes: int
    features: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None
    time: npt.NDArray[np.int64] | None = None
    splits: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    ids: npt.NDArray[np.int64] | TextIds | None = None
    scales: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    _held: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        nodes = self.num_nodes
        if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer):
            raise InputError(f"num_nodes is {nodes!r:.40}, expected a count")
        if not 0 <= nodes < _MOST_COUNT:
            raise InputError(f"num_nodes is {nodes}, expected a count")
        object.__setattr__(self, "num_nodes", int(nodes))
        for name in ("features", "splits", "scales"):
            given = getattr(self, name)
            ordered = {check_name(key, "array"): given[key] for key in sorted(given)}
            object.__setattr__(self, name, MappingProxyType(ordered))
        self._check_rows()
        self._check_scales()

    def _check_rows(self) -> None:
        for name, values in self.features.items():
            _check_shape(f"feature {name!r}", values, self.num_nodes)
        if self.labels is not None:
            _check_shape("labels", self.labels, self.num_nodes)
        if self.time is not None:
            _check_vector("time", self.time, self.num_nodes)
        for name, values in self.splits.items():
            _check_vector(f"split {name!r}", values, None)
        if isinstance(self.ids, TextIds):
            if len(self.ids) != self.num_nodes:
                raise InputError(f"there are {len(self.ids)} ids for {self.num_nodes} nodes")
        elif self.ids is not None:
            _check_vector("ids", self.ids, self.num_nodes)

    def _check_scales(self) -> None:
        for name, scale in self.scales.items():
            if name not in self.features:
                raise InputError(f"there is a scale of feature {name!r}, but no such feature")
            Features(self.features[name], scale)  # checks that they fit

    @staticmethod
    def of(
        num_nodes: int,
        features: Mapping[str, Any] | None = None,
        *,
        labels: Any = None,
        time: Any = None,
        splits: Mapping[str, Any] | None = None,
        ids: Any = None,
    ) -> "NodeTable":
        """Makes a table from tensors, arrays or lists, checking every number.

        Args:
            num_nodes: how many nodes there are.
            features: arrays of one row per node, by name.
            labels: one row per node; kept as given.
            time: whole numbers, or datetime64, which becomes seconds since 1970.
            splits: node ids or boolean masks by name.
            ids: the ids of the source, whole numbers or strings.

        Raises:
            InputError: something does not fit, or times are floats or missing.
        """
        made = NodeTable(num_nodes)
        count = made.num_nodes
        return NodeTable(
            count,
            {
                name: to_rows(values, count, f"feature {name!r}", "node")
                for name, values in (features or {}).items()
            },
            None if labels is None else to_rows(labels, count, "labels", "node"),
            None if time is None else to_times(time, count, "time", "node"),
            {
                name: normalize_split(name, to_array(values, f"split {name}"), count)
                for name, values in (splits or {}).items()
            },
            _to_ids(ids),
        )

    def rows(self, name: str = "x") -> Features:
        """The feature array `name` as the numbers it stands for, one row of any width per node.

        Raises:
            InputError: there is no such array.
        """
        if name not in self.features:
            there = ", ".join(self.features) or "none"
            raise InputError(f"there is no feature {name!r:.80}; the node type has: {there}")
        return Features(as_matrix(self.features[name]), self.scales.get(name))

    def split(self, name: str) -> npt.NDArray[np.int64]:
        """Node ids of a split; val, valid and validation are the same name.

        Raises:
            InputError: there is no such split; the message lists the existing ones.
        """
        for candidate in (name, *(_SAME_SPLIT if name in _SAME_SPLIT else ())):
            if candidate in self.splits:
                if candidate not in self._held:
                    self._held[candidate] = hold(self.splits[candidate])
                ids: npt.NDArray[np.int64] = self._held[candidate]
                return ids
        there = ", ".join(self.splits) or "none"
        raise InputError(
            f"there is no split {name!r:.80}; the node type has: {there}; make some with "
            "foregather convert SRC DST --split 0.6 0.2 0.2"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays, read into memory."""
        read = {
            name: {key: fetch(values) for key, values in getattr(self, name).items()}
            for name in ("features", "splits", "scales")
        }
        labels, time, ids = (
            fetch(one) if isinstance(one, np.ndarray) else one
            for one in (self.labels, self.time, self.ids)
        )
        return NodeTable, (
            self.num_nodes,
            read["features"],
            labels,
            time,
            read["splits"],
            ids,
            read["scales"],
        )


def _check_shape(name: str, values: Array, rows: int) -> None:
    if not isinstance(values, np.ndarray) or values.dtype.name not in DTYPES:
        found = getattr(values, "dtype", type(values).__name__)
        raise InputError(f"{name} is {found}, expected an array of numbers of at most 64 bits")
    if values.shape[:1] != (rows,):
        raise InputError(f"{name} has shape {list(values.shape)}, expected {rows} rows")


def _check_vector(name: str, values: Array, rows: int | None) -> None:
    if (
        not isinstance(values, np.ndarray)
        or values.dtype != np.int64
        or values.ndim != 1
        or (rows is not None and values.shape != (rows,))
    ):
        found = getattr(values, "dtype", type(values).__name__)
        shape = list(getattr(values, "shape", ()))
        raise InputError(
            f"{name} is {found} of shape {shape}, expected int64 of shape "
            f"[{'n' if rows is None else rows}]"
        )


def _to_ids(ids: Any) -> npt.NDArray[np.int64] | TextIds | None:
    if ids is None or isinstance(ids, TextIds):
        return ids
    if not hasattr(ids, "dtype"):
        ids = list(ids)
    if isinstance(ids, list) and ids and all(isinstance(one, str) for one in ids):
        return TextIds.of(ids)
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "UTO":
        return TextIds.of(str(one) for one in ids)
    ids = to_array(ids, "ids")
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"ids are {ids.dtype} of shape {list(ids.shape)}, expected whole numbers")
    return np.ascontiguousarray(ids, dtype=np.int64)
