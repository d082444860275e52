"""graph_store: the topology of a graph as a PyG GraphStore; read-only."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, GraphStore
from torch_geometric.data.graph_store import EdgeLayout

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import show_edge_type
from foregather.graph.hetero.relation import Level
from foregather.graph.mapped import fetch

__all__ = ["PygGraphStore"]

_READ_ONLY = "the graph is read-only; make a new one, for example with from_pyg"


class PygGraphStore(GraphStore):  # type: ignore[misc]
    """The topology of a graph as a PyG GraphStore; read-only.

    Edges of a relation are those of a folder in its order: by target, then by source, or by time
    and then source. `e_id` of batches are positions in that order. PyG's own sampler copies all of
    it into memory as int64.

    Args:
        graph: a Graph or HeteroGraph.
        edge_attr: False leaves the graph's edge features and weights out, which PyG would not ask
            for. foregather's own NeighborLoader includes those of a HeteroGraph.
        time: "node" or "edge" orders the edges into a node by the times of their sources, or their
            own; PyG needs that for `time_attr`.

    Raises:
        InputError: the graph is a Graph with edge weights or edge features, which such a store
            cannot hand on; or it has no times of that level.
    """

    def __init__(
        self, graph: Graph | HeteroGraph, edge_attr: bool = True, time: Level | None = None
    ) -> None:
        if isinstance(graph, Graph):
            _check_plain(graph, edge_attr, time)
        elif time is not None:
            for name in graph.edge_types[:1]:
                graph.relation(name, time)  # refuses a level that the graph does not have
        super().__init__()
        self.__dict__.update(graph=graph, time=time, edge_attr=edge_attr)

    def csc_of(self, edge_type: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
        """Where rows begin, their sources, and the number of sources there can be."""
        if isinstance(self.graph, Graph):
            return fetch(self.graph.indptr), fetch(self.graph.indices), self.graph.num_nodes
        relation = self.graph.relation(edge_type, self.time)
        return relation.indptr, relation.indices, self.graph.nodes[edge_type[0]].num_nodes

    def _get_edge_index(self, attr: Any) -> tuple[Tensor, Tensor] | None:
        key = tuple(attr.edge_type) if isinstance(attr.edge_type, list) else attr.edge_type
        known = [None] if isinstance(self.graph, Graph) else self.graph.edges
        if key not in known:
            return None  # PyG says that there are no such edges
        self._check_attributes()
        indptr, indices, sources = self.csc_of(key)
        if attr.layout == EdgeLayout.CSC:
            return _long(indices), _long(indptr)
        target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        if attr.layout == EdgeLayout.COO:
            return _long(indices), _long(target)
        order = np.argsort(indices, kind="stable")
        starts = np.zeros(sources + 1, np.int64)
        np.cumsum(np.bincount(indices, minlength=sources), out=starts[1:])
        return _long(starts), _long(target[order])

    def get_all_edge_attrs(self) -> list[Any]:
        """Every relation, in CSC."""
        self._check_attributes()
        return self.described()

    def described(self) -> list[Any]:
        """What `get_all_edge_attrs` returns, for one who asks for attributes of edges too."""
        if isinstance(self.graph, Graph):
            sizes: dict[Any, Any] = {None: (self.graph.num_nodes, self.graph.num_nodes)}
        else:
            nodes = self.graph.nodes
            sizes = {
                name: (nodes[name[0]].num_nodes, nodes[name[2]].num_nodes)
                for name in self.graph.edge_types
            }
        return [
            EdgeAttr(edge_type=name, layout=EdgeLayout.CSC, is_sorted=True, size=size)
            for name, size in sizes.items()
        ]

    def _check_attributes(self) -> None:
        """Refuses to be asked by PyG for a graph whose edges have what PyG never asks for."""
        if isinstance(self.graph, Graph) or not self.edge_attr:
            return
        for name, one in self.graph.edges.items():
            if one.features is not None or one.weights is not None:
                what = "features" if one.features is not None else "weights"
                raise InputError(
                    f"the edges of relation {show_edge_type(name)} have {what}, which PyG does not "
                    "ask stores for; use foregather's NeighborLoader, or leave them out with "
                    "edge_attr=False"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the graph: that of a folder as its path."""
        return PygGraphStore, (self.graph, self.edge_attr, self.time)

    def _put_edge_index(self, edge_index: Any, edge_attr: Any) -> bool:
        raise InputError(_READ_ONLY)

    def _remove_edge_index(self, edge_attr: Any) -> bool:
        raise InputError(_READ_ONLY)


def _check_plain(graph: Graph, edge_attr: bool, time: Any) -> None:
    if time is not None:
        raise InputError(f"time is {time!r:.40}, but a Graph has no times; leave it out")
    if graph.edge_weight is not None:
        raise InputError(
            "the graph has edge weights, which PyG does not ask a GraphStore for; use "
            "foregather.Loader, or give NodeLoader a Data with edge_weight"
        )
    if graph.edge_features is not None and edge_attr:
        raise InputError(
            "the graph has edge features, which PyG does not ask stores for; use "
            "foregather.Loader, or leave them out with edge_attr=False"
        )


def _long(values: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(values, np.int64))
