"""feature_store: what a graph knows about nodes and edges, as a PyG FeatureStore; read-only.

Rows equal those of the folder to the bit; each byte that is read from it is compared with its
checksum. Classes arrive as int64, int8 rows with a scale as the float32 they stand for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore, TensorAttr

from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.on_disk.stamp import Stamp
from foregather.interop.stores.group import Group, groups_of

__all__ = ["PygFeatureStore"]

_READ_ONLY = "the graph is read-only; make a new one, for example with from_pyg"


class PygFeatureStore(FeatureStore):  # type: ignore[misc]
    """Features, labels and times of a graph as a PyG FeatureStore; read-only.

    Of a Graph: `x` and `y` by node. Of a HeteroGraph, by node type: every feature array under its
    name, `y` and `time`; by edge type: `edge_attr`, `edge_weight` and `time`, in the order of a
    `PygGraphStore` with the same `time`. A node type that has nothing else has `n_id`, because PyG
    learns of a type from its attributes.

    Use it with `filter_per_worker=False`, so that rows are read in the main process.

    Args:
        graph: a Graph or HeteroGraph.
        time: as for `PygGraphStore`.
        loaded: True reads everything into memory now, False reads the rows that are asked for from
            the folder; None: True if it fits into free memory.

    Raises:
        FormatError: the folder holds another graph by now, or is damaged.
        StorageError: it cannot be read.
    """

    def __init__(
        self, graph: Graph | HeteroGraph, time: Any = None, loaded: bool | None = None
    ) -> None:
        super().__init__()
        # PyG's base class is a mapping in some versions, so attributes are set beside it
        self.__dict__.update(graph=graph, _made=(graph, time, loaded), _stamp=Stamp.of(graph))
        self.__dict__["_groups"] = groups_of(graph, time, loaded)

    def _find(self, attr: Any) -> tuple[Group, str]:
        key = attr.group_name
        if isinstance(key, list):
            key = tuple(key)
        group = self._groups.get(key)
        if group is None:  # KeyError, because PyG's stores raise it
            there = ", ".join(map(repr, list(self._groups)[:8]))
            raise KeyError(f"the graph has no group {attr.group_name!r:.80}; it has {there}")
        if attr.attr_name not in group.names:
            there = ", ".join(group.names) or "nothing"
            raise KeyError(
                f"the graph has no {attr.attr_name!r:.80} of {key!r:.80}; there is {there}"
                if key is not None
                else f"the graph has no {attr.attr_name!r:.80}, only x and y where it has them"
            )
        return group, str(attr.attr_name)

    def _get_tensor(self, attr: Any) -> Tensor:
        return self._multi_get_tensor([attr])[0]

    def _multi_get_tensor(self, attrs: Sequence[Any]) -> list[Tensor]:
        """The rows of several attributes; ids that several of them share are prepared once."""
        if self._stamp is not None:
            self._stamp.check()
        made, ready = [], dict[tuple[int, int], npt.NDArray[np.int64]]()
        for attr in attrs:
            group, name = self._find(attr)
            key = (id(group), id(attr.index))
            if key not in ready:
                ready[key] = _ids(attr.index, group.count)
            made.append(group.rows(name, ready[key], attr.index is None))
        return made

    def _get_tensor_size(self, attr: Any) -> tuple[int, ...] | None:
        try:
            group, name = self._find(attr)
        except KeyError:
            return None
        return group.shape(name)

    def get_all_tensor_attrs(self) -> list[Any]:
        """The attributes there are, by node type and edge type."""
        return [
            TensorAttr(group_name=key, attr_name=name)
            for key, group in self._groups.items()
            for name in group.names
        ]

    def __len__(self) -> int:
        return len(self.get_all_tensor_attrs())

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        raise InputError(_READ_ONLY)

    def _remove_tensor(self, attr: Any) -> bool:
        raise InputError(_READ_ONLY)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the graph: that of a folder as its path."""
        return PygFeatureStore, self._made


def _ids(index: Any, count: int) -> npt.NDArray[np.int64]:
    """The rows that PyG's `index` names: None, a slice, a number, a mask, or ids."""
    if index is None or isinstance(index, slice):
        return np.arange(count)[slice(None) if index is None else index]
    given = index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)
    given = np.atleast_1d(given)
    if given.dtype == bool:
        if given.shape != (count,):
            raise InputError(f"index is a mask of shape {list(given.shape)}, expected [{count}]")
        given = np.flatnonzero(given)
    return np.ascontiguousarray(to_ids(given, count, "index", "rows"), np.int64)
