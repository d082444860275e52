"""graph_value: the arrays of a graph, frozen and checked to fit together.

Shapes and dtypes are checked on construction, in constant time. Code that reads, writes and checks
graphs works on this value; `Graph` adds how graphs are made and saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.features import Features
from foregather.graph.links.links import Links, check_alike, find_links
from foregather.graph.links.stored import link_arrays
from foregather.graph.mapped import fetch, hold, shows_file
from foregather.units import format_bytes, format_number

__all__ = ["EDGE_STEP", "AnyGraph", "GraphValue", "plain_fields"]

Array = npt.NDArray[Any]

EDGE_STEP = 4 << 20  # edges processed at once when all are read
#: Arrays that are read from disk through the folder and its meta.json.
_READ_BY_PATH = frozenset(
    {"indptr", "indices", "edge_weight", "places"}
    | {f"{one}{end}" for one in ("features", "edge_features") for end in ("", "_scale")}
)
_SAME_SPLIT = ("val", "valid", "validation")


class _Referable:
    """Makes a class with slots weakly referenceable."""

    __slots__ = ("__weakref__",)


class Token:
    """The identity shared by a graph and its twins; a graph with other arrays has another one.

    Attributes:
        opened: the arrays are those of the folder that the graph was opened from.
    """

    __slots__ = ("__weakref__", "opened")

    def __init__(self) -> None:
        self.opened = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GraphValue(_Referable):
    """The arrays of a directed graph; `Graph`, the public class, documents each of them."""

    num_nodes: int
    num_edges: int
    indptr: npt.NDArray[np.int64]
    indices: Array
    features: Features | None = None
    edge_weight: npt.NDArray[np.float32] | None = None
    edge_features: Features | None = None
    labels: Array | None = None
    splits: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    edge_ids: npt.NDArray[np.int64] | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    checked: bool = False
    links: Mapping[str, Links] = field(default_factory=dict)
    _digest: list[str] = field(default_factory=list, init=False)
    _sound: list[bool] = field(default_factory=list, init=False)  # see check_topology.py
    _loaded: dict[Any, Any] = field(default_factory=dict, init=False)  # see load.py
    _token: Token = field(default_factory=Token, init=False)  # one for all twins, see load.py

    def __post_init__(self) -> None:
        self._check_topology()
        self._check_rows()
        object.__setattr__(self, "links", check_alike(self.links, "the graph"))
        for name in ("splits", "extra", "meta", "links"):  # read-only, as the rest of the value
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if not self._shows_folder():  # what is read by the path would be another graph
            object.__setattr__(self, "path", None)
            object.__setattr__(self, "checked", False)

    def _shows_folder(self) -> bool:
        """Whether what is read from the folder is what the arrays hold, in constant time."""
        entries = self.meta.get("arrays")
        if self.path is None or "digest" not in self.meta or not isinstance(entries, Mapping):
            return False
        arrays = {k: v for k, v in self.stored_arrays().items() if k in _READ_BY_PATH}
        return arrays.keys() == entries.keys() & _READ_BY_PATH and all(
            shows_file(values, self.path, entries[name]) for name, values in arrays.items()
        )

    def _check_topology(self) -> None:
        nodes, edges = self.num_nodes, self.num_edges
        if self.indptr.dtype != np.int64 or self.indptr.shape != (nodes + 1,):
            raise InputError(
                f"indptr is {self.indptr.dtype} of shape {self.indptr.shape}, "
                f"expected int64 of shape ({nodes + 1},)"
            )
        if self.indices.dtype not in (np.uint32, np.int64) or self.indices.shape != (edges,):
            raise InputError(
                f"indices is {self.indices.dtype} of shape {self.indices.shape}, "
                f"expected uint32 or int64 of shape ({edges},)"
            )
        if self.indices.dtype == np.uint32 and nodes >= 1 << 32:
            raise InputError(f"indices is uint32, which cannot name {nodes} nodes; use int64")
        first, last = int(fetch(self.indptr[:1])[0]), int(fetch(self.indptr[-1:])[0])
        if first != 0 or last != edges:
            raise InputError(f"indptr runs from {first} to {last}, expected 0 to {edges}")

    def _check_rows(self) -> None:
        nodes, edges = self.num_nodes, self.num_edges
        if self.features is not None and self.features.num_rows != nodes:
            raise InputError(
                f"features have {self.features.num_rows} rows, but the graph has {nodes} nodes"
            )
        if self.edge_features is not None and self.edge_features.num_rows != edges:
            raise InputError(
                f"edge_features have {self.edge_features.num_rows} rows, "
                f"but the graph has {edges} edges"
            )
        for name, dtype in (("edge_weight", np.float32), ("edge_ids", np.int64)):
            values = getattr(self, name)
            if values is not None and (values.dtype != dtype or values.shape != (edges,)):
                raise InputError(
                    f"{name} is {values.dtype} of shape {values.shape}, "
                    f"expected {np.dtype(dtype)} of shape ({edges},)"
                )
        labels = self.labels
        if labels is not None and (
            labels.shape[:1] != (nodes,) or labels.ndim > 2 or labels.dtype.kind not in "biuf"
        ):
            raise InputError(
                f"labels are {labels.dtype} of shape {labels.shape}, "
                f"expected numbers of shape [{nodes}] or [{nodes}, classes]"
            )
        for name, ids in self.splits.items():
            if ids.dtype != np.int64 or ids.ndim != 1:
                raise InputError(
                    f"split {name} is {ids.dtype} of shape {ids.shape}, expected a list of int64"
                )

    # ---- queries ---------------------------------------------------------------------------

    def in_degree(self) -> npt.NDArray[np.int64]:
        """Edges that end in each node, int64 [N]."""
        counts = np.empty(self.num_nodes, np.int64)
        for start in range(0, self.num_nodes, EDGE_STEP):
            part = slice(start, start + EDGE_STEP)
            counts[part] = np.diff(fetch(self.indptr[start : start + EDGE_STEP + 1]))
        return counts

    def out_degree(self) -> npt.NDArray[np.int64]:
        """Edges that start in each node, int64 [N]; reads the edges a chunk at a time."""
        counts = np.zeros(self.num_nodes, np.int64)
        for start in range(0, self.num_edges, EDGE_STEP):
            _core.count_ids(fetch(self.indices[start : start + EDGE_STEP]), counts)
        return counts

    def split(self, name: str) -> npt.NDArray[np.int64]:
        """Node ids of a split; val, valid and validation are the same name.

        Raises:
            InputError: there is no such split; the message lists the existing ones.
        """
        same = _SAME_SPLIT if name in _SAME_SPLIT else (name,)
        for candidate in (name, *same):
            if candidate in self.splits:
                if ("split", candidate) not in self._loaded:
                    self._loaded["split", candidate] = hold(self.splits[candidate])
                ids: npt.NDArray[np.int64] = self._loaded["split", candidate]
                return ids
        there = ", ".join(sorted(self.splits)) or "none"
        raise InputError(
            f"there is no split {name!r}; the graph has: {there}; make some with "
            "foregather convert SRC DST --split 0.6 0.2 0.2"
        )

    def links_of(self, name: str) -> Links:
        """The links of that name; val, valid and validation are the same name.

        Raises:
            InputError: there are none; the message names the nearest.
        """
        return find_links(name, self.links, "the graph")

    def stored_arrays(self) -> dict[str, Array]:
        """Every array of the graph that a folder holds, by its name there."""
        named: dict[str, Array | None] = {
            "indptr": self.indptr,
            "indices": self.indices,
            "edge_weight": self.edge_weight,
            "labels": self.labels,
            **self.extra,
        }
        for name, features in (("features", self.features), ("edge_features", self.edge_features)):
            if features is not None:
                named[name] = features.data
                named[f"{name}_scale"] = features.scale
                named["places"] = features.places if name == "features" else None
        for name, ids in self.splits.items():
            named[f"splits/{name}"] = ids
        named |= link_arrays(self.links.values())
        return {name: values for name, values in named.items() if values is not None}

    @property
    def num_features(self) -> int:
        """Columns of the node features; 0 if there are none."""
        return 0 if self.features is None else self.features.width

    @property
    def num_classes(self) -> int:
        """Columns of scores that a model needs: classes, labels of a node, or numbers.

        Without labels 0. Classes are counted once: 1 + the largest label.
        """
        if self.labels is None:
            return 0
        if self.labels.ndim == 2:
            return int(self.labels.shape[1])
        if self.labels.dtype.kind not in "biu":
            return 1
        if "classes" not in self._loaded:
            labels = hold(self.labels)
            self._loaded["classes"] = 1 + int(labels.max()) if len(labels) else 0
        found: int = self._loaded["classes"]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all stored arrays."""
        return sum(int(values.nbytes) for values in self.stored_arrays().values())

    def __repr__(self) -> str:
        parts = [format_number(self.num_nodes, "node"), format_number(self.num_edges, "edge")]
        if self.features is not None:
            parts.append(f"features {self.features.width} x {self.features.dtype}")
        if self.edge_weight is not None:
            parts.append("edge weights")
        if self.edge_features is not None:
            parts.append(f"edge features {self.edge_features.width} x {self.edge_features.dtype}")
        if self.labels is not None:
            shape = "" if self.labels.ndim == 1 else f" x {self.labels.shape[1]}"
            parts.append(f"labels {self.labels.dtype}{shape}")
        if self.splits:
            sizes = ", ".join(f"{name} {len(ids):,}" for name, ids in self.splits.items())
            parts.append(f"splits ({sizes})")
        if self.links:
            sizes = ", ".join(f"{name} {len(one):,}" for name, one in self.links.items())
            parts.append(f"links ({sizes})")
        where = "in memory" if self.path is None else f"in folder {self.path.name}"
        return f"Graph({', '.join(parts)}; {format_bytes(self.nbytes)} {where})"


def plain_fields(graph: GraphValue) -> dict[str, Any]:
    """The fields from which an equal graph can be built, in memory and picklable."""
    made = {one.name: _plain(getattr(graph, one.name)) for one in fields(graph) if one.init}
    for name in ("splits", "extra", "meta", "links"):
        made[name] = {key: _plain(value) for key, value in made[name].items()}
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Features):
        rest = (value.scale, value.places)
        return Features(fetch(value.data), *(None if one is None else fetch(one) for one in rest))
    return fetch(value) if isinstance(value, np.ndarray) else value


#: Functions on graphs return a graph of the same class.
AnyGraph = TypeVar("AnyGraph", bound=GraphValue)
