"""attributes: classifies the attributes of PyG's data by node and edge, and slices them.

PyG's own rule decides (`Data.is_node_attr`, `is_edge_attr`, `__cat_dim__`): an attribute with one
row per node is indexed by the nodes of the subgraph, one with one row per edge by its edges, and
all others belong to the whole graph and are passed on unchanged. An attribute with one row per node
or edge that cannot be indexed is refused by name: nothing arrives unsliced.
"""

import copy
import warnings
from collections.abc import Mapping, Set
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.storage import EdgeStorage, NodeStorage

from foregather.errors import InputError

__all__ = ["Attributes", "is_steady", "rows_of"]

#: What the rows of an attribute belong to; None: it belongs to the whole graph.
Role = Literal["node", "edge"] | None
_CHOSEN = ("num_nodes", "edge_index")  # set by the subgraph itself
_ADJACENCY = ("adj", "adj_t")
_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr, torch.sparse_csc, torch.sparse_bsc)


class Attributes:
    """The attributes of a Data, or of one type of a HeteroData.

    They are classified on creation, and again when one was replaced.

    Args:
        data: the whole graph.
        store: that of a node type or relation of a HeteroData; None for a Data.

    Raises:
        InputError: an attribute has one row per node or edge, but cannot be indexed.
    """

    def __init__(self, data: Any, store: Any = None) -> None:
        self.data = data
        self.store = data._store if store is None else store
        self._known: dict[str, tuple[Any, Role, int]] = {}
        for name, value in self._items():
            self._find(name, value)

    def part(self, node: Tensor, edge: Tensor | None, known: Mapping[str, Tensor]) -> Data:
        """Returns a Data with the rows of these nodes and edges; attributes keep their order.

        Args:
            node: node ids.
            edge: edge ids, positions in `edge_index`; None leaves edge attributes out.
            known: values that already exist, by name; may include attributes that the data lacks.
        """
        made = copy.copy(self.data)
        for name, value in self.sliced(node, edge, known).items():
            if name == "num_nodes":
                made.num_nodes = value
            else:
                made[name] = value
        return made

    def sliced(
        self, node: Tensor | None, edge: Tensor | None, known: Mapping[str, Tensor]
    ) -> dict[str, Any]:
        """The attributes that differ from those of the whole graph, by name; see `part`.

        Args:
            node: node ids; None for a relation.
            edge: as in `part`.
            known: as in `part`.
        """
        found: dict[str, Any] = {}
        for name, value in self._items():
            if name == "num_nodes":
                found[name] = 0 if node is None else int(node.numel())
            elif name in known or name in _CHOSEN:
                continue
            else:
                role, dim = self._find(name, value)
                if role == "node" and node is not None:
                    found[name] = rows_of(value, node, dim)
                elif role == "edge":
                    found[name] = None if edge is None else rows_of(value, edge, dim)
        return found | dict(known)

    def steady(self) -> list[tuple[str, Tensor, Role, int]]:
        """Name, value, role and dimension of those whose changes torch counts.

        Rows of these may be looked up in any thread, ahead of their use. The others are looked up
        when they are used: those with a gradient, on a device, sparse, and what is no tensor.
        """
        found: list[tuple[str, Tensor, Role, int]] = []
        for name, value in self._items():
            role, dim = self._find(name, value)
            if role is not None and is_steady(value):
                found.append((name, value, role, dim))
        return found

    def role(self, name: str) -> Role:
        """What an attribute's rows belong to; None also if there is no such attribute."""
        return self._find(name, self.store[name])[0] if name in self.store else None

    def _find(self, name: str, value: Any) -> tuple[Role, int]:
        before = self._known.get(name)
        if before is None or before[0] is not value:
            role, dim = (None, 0) if name in _CHOSEN else self._classify(name, value)
            before = self._known[name] = (value, role, dim)
        return before[1:]

    def _items(self) -> list[tuple[str, Any]]:
        return list(self.store.items())

    def _classify(self, name: str, value: Any) -> tuple[Role, int]:
        return _classify(self.data, self.store, name, value)


def is_steady(x: Any) -> bool:
    """Whether x is a tensor in this process's memory whose changes torch counts."""
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        return False
    return x.is_cpu and not x.requires_grad and not x.is_inference()


def _classify(data: Any, store: Any, name: str, value: Any) -> tuple[Role, int]:
    """Determines what an attribute's rows belong to, and along which dimension."""
    vars(store).pop("_cached_attr", None)  # PyG's cache of this outlives a new num_nodes
    with warnings.catch_warnings(record=True) as said:  # PyG warns when it has to guess num_nodes
        warnings.simplefilter("always")
        node = bool(store.is_node_attr(name))
        role: Role = "node" if node else "edge" if store.is_edge_attr(name) else None
        nodes = store.num_nodes if isinstance(store, NodeStorage) else None
        counts = {} if nodes is None else {nodes: "node"}
        if isinstance(store, EdgeStorage):
            counts[store.num_edges] = "edge"
    guessed = any("infer 'num_nodes'" in str(warning.message) for warning in said)
    if isinstance(value, Tensor) and value.layout != torch.strided and name in _ADJACENCY:
        raise InputError(
            f"{name} is a sparse tensor, which cannot be sliced for a batch; leave it out of the "
            "data"
        )
    if role is None:
        _refuse_rows(name, value, counts)
        if guessed and isinstance(value, (Tensor, np.ndarray)) and value.ndim:
            raise InputError(
                f"the data does not say how many nodes it has, its edges name {nodes}, "
                f"and {name} has {value.shape[0]} rows; set data.num_nodes"
            )
        return None, 0
    if not (isinstance(value, (Tensor, np.ndarray)) or _is_frame(value)):
        raise InputError(
            f"{name} is a {type(value).__name__} with an entry for each {role}, which cannot be "
            "indexed by a batch; make it a tensor or a NumPy array, or leave it out of the data"
        )
    if isinstance(value, np.ndarray):
        _check_dtype(name, value)
    dim = 0 if _is_frame(value) else int(data.__cat_dim__(name, value, store))
    if isinstance(value, Tensor) and value.layout in _COMPRESSED and dim % value.ndim != 0:
        raise InputError(f"{name} is {value.layout} and indexed by column; make it dense")
    return role, dim


def _is_frame(value: Any) -> bool:
    """A TensorFrame of torch_frame, which indexes its rows itself."""
    return type(value).__name__ == "TensorFrame" and hasattr(value, "num_rows")


def _refuse_rows(name: str, value: Any, counts: Mapping[Any, str]) -> None:
    """Refuses values that PyG assigns to the whole graph although they have one row per node."""
    if value is None or isinstance(value, (str, bytes, Mapping, Set, Tensor, np.ndarray)):
        return
    shape = getattr(value, "shape", None)
    if shape is None and callable(getattr(value, "sparse_sizes", None)):
        shape = value.sparse_sizes()
    rows = shape[0] if isinstance(shape, tuple) and shape else None
    if rows in counts:
        raise InputError(
            f"{name} is a {type(value).__name__} with one row per {counts[rows]}, which PyG passes "
            "on whole; make it a tensor or a NumPy array, or leave it out of the data"
        )


def _check_dtype(name: str, value: np.ndarray[Any, Any]) -> None:
    try:
        torch.from_numpy(np.empty(0, value.dtype.newbyteorder("=")))
    except TypeError as error:
        raise InputError(
            f"{name} holds {value.dtype}, which no tensor can; convert it to numbers, or leave it "
            "out of the data"
        ) from error


def rows_of(value: Any, index: Tensor, dim: int) -> Any:
    """Returns rows of a tensor, array, memory map or frame; arrays become tensors, as in PyG."""
    if isinstance(value, np.ndarray):
        taken = np.take(value, index.cpu().numpy(), axis=dim)
        return torch.from_numpy(np.asarray(taken, taken.dtype.newbyteorder("=")))
    index = index.to(value.device)
    if not isinstance(value, Tensor):
        return value[index]
    if value.layout in _COMPRESSED:  # torch cannot index it, but can in coordinate format
        rows = torch.index_select(value.to_sparse(layout=torch.sparse_coo), 0, index)
        return rows.to_sparse(layout=value.layout)
    return torch.index_select(value, dim, index)
