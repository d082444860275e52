"""neighbor_loader: PyG's NeighborLoader by name and arguments, served by a foregather Loader.

Batches hold what PyG's hold: every node attribute of the data by `n_id`, every edge attribute by
`e_id`, the rest as it is; `data.edge_index[:, e_id] == n_id[edge_index]`. What would change results
in silence is refused; what only says how batches are made (workers) is accepted and not needed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.train.loader import Loader

__all__ = ["NeighborLoader"]

#: How PyG makes its batches; ours are made in a thread, and do not depend on it.
_NOT_NEEDED = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory", "timeout")


class NeighborLoader(Loader):
    """`torch_geometric.loader.NeighborLoader` with another engine: swap the import.

    Not the same random numbers as PyG: the same kind of sample. Batches depend on `seed` alone;
    where it is not given it is torch's (`torch.manual_seed` before the loader is made).

    Args:
        data: a PyG Data, converted once (topology and x are copied), or a Graph.
        num_neighbors: fan-outs, one a layer, -1 for all.
        input_nodes: node ids, a boolean mask, the name of a split, or None for all.
        transform: called with each finished batch.
        seed: what order and samples are derived from; None takes torch's initial seed.
        options: other arguments of PyG's NeighborLoader, torch's DataLoader and `Loader`.
            num_workers, persistent_workers, prefetch_factor, pin_memory and timeout are accepted
            and not needed.

    Raises:
        InputError: heterogeneous data, or an argument that asks for what is not there.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        *,
        transform: Callable[[Any], Any] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        for name in _NOT_NEEDED:
            options.pop(name, None)
        if isinstance(num_neighbors, dict):
            raise InputError(
                "num_neighbors is a dict, but the graph has one type of edges; give a list"
            )
        if isinstance(data, Graph):
            graph, finish = data, transform
        else:
            graph = _topology(data, options.get("weight_attr"))
            if options.get("weight_attr") is not None:
                options["weight_attr"] = "edge_weight"  # what the column is called in the graph
            finish = _Finish(data, graph, transform)
        super().__init__(
            graph,
            num_neighbors,
            input_nodes,
            transform=finish,
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            pyg=True,
            **options,
        )
        self._data = data

    @property
    def data(self) -> Any:
        """What the loader was made from."""
        return self._data


class _Finish:
    """Gives a batch the attributes of the data; runs in the thread that iterates."""

    def __init__(self, data: Any, graph: Graph, transform: Callable[[Any], Any] | None) -> None:
        self.data, self.transform = data, transform
        self.edge_ids = None
        if graph.edge_ids is not None:
            self.edge_ids = torch.from_numpy(graph.edge_ids)
        self.gathered = graph.features is not None

    def __call__(self, batch: Any) -> Any:
        if self.edge_ids is not None:
            batch.e_id = self.edge_ids[batch.e_id.cpu()].to(batch.e_id.device)
        for name, value in self.data.to_dict().items():
            if name in ("edge_index", "num_nodes") or (name == "x" and self.gathered):
                continue
            batch[name] = self._part(name, value, batch)
        return batch if self.transform is None else self.transform(batch)

    def _part(self, name: str, value: Any, batch: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if self.data.is_node_attr(name):
                return value[batch.n_id.to(value.device)].to(batch.n_id.device)
            if self.data.is_edge_attr(name):
                return value[batch.e_id.to(value.device)].to(batch.e_id.device)
        return value


def _topology(data: Any, weight_attr: str | None) -> Graph:
    if not isinstance(data, Data):
        raise InputError(
            f"data is a {type(data).__name__}, expected a PyG Data with one type of nodes, or a "
            "Graph"
        )
    if data.edge_index is None:
        raise InputError("the data has no edge_index; a Data with edge_index [2, edges] is needed")
    x = data.x
    # what a graph stores exactly; any other x is indexed like the other attributes
    exact = x is not None and x.ndim == 2 and x.dtype in (torch.float32, torch.float16)
    weight = None if weight_attr is None else data[weight_attr]
    return Graph.from_edge_index(
        data.edge_index, data.num_nodes, x=x if exact else None, edge_weight=weight
    )
