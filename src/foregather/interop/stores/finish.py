"""finish: turns samples of a pair of stores into the batches that PyG's loaders would return.

The FeatureStore is asked once per batch, for all types together. One of ours is asked in the
producer, ahead of the loop; others may not expect a second thread, so they are asked in the loop.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, TensorAttr

from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE, EdgeType
from foregather.graph.hetero.relation import Level
from foregather.interop.stores.feature_store import PygFeatureStore
from foregather.interop.stores.pair import Pair
from foregather.interop.typed.raw import Raw

__all__ = ["PairFinish"]

#: Rows of the attributes of a batch, by group and name.
Rows = Mapping[tuple[Any, str], Tensor]


class PairFinish:
    """Makes a Data or HeteroData of a sample.

    Args:
        pair: the stores.
        level: whose times the sampler looks at.
        custom_cls: PyG's argument: the class of batches.
    """

    def __init__(self, pair: Pair, level: Level | None, custom_cls: Any = None) -> None:
        self.pair = pair
        self.device: Any = None
        self.change: Callable[[Any], Any] | None = None
        self.transform: Callable[[Any], Any] | None = None
        self.links: Callable[[Any, Any], None] | None = None  # as of TypedFinish
        self._class = custom_cls or (Data if pair.plain else HeteroData)
        self._ids: dict[EdgeType, Tensor | None] = {}
        for name in pair.graph.edge_types:
            ids = pair.graph.relation(name, level).edge_ids
            self._ids[name] = None if ids is None else torch.tensor(ids)

    def look(self, out: Any, _: int) -> tuple[Rows | None, int]:
        """Asks a store of ours ahead of the loop; returns rows and their bytes, for any thread."""
        if self.change is not None or not isinstance(self.pair.features, PygFeatureStore):
            return None, 0
        rows = self._rows(out)
        return rows, sum(one.nbytes for one in rows.values())

    def __call__(self, raw: Raw) -> Any:
        """Returns the batch as PyG would."""
        out = raw.out if self.change is None else self.change(raw.out)
        rows = self._rows(out) if raw.looked is None else raw.looked
        made = self._class()
        if self.pair.plain:
            self._fill_plain(made, out, rows)
        else:
            self._fill_typed(made, out, rows, raw.node_type)
        if self.device is not None:
            made = made.to(self.device, non_blocking=True)
        return made if self.transform is None else self.transform(made)

    def _edges(self, out: Any, name: EdgeType) -> Tensor | None:
        """The positions of edges in the GraphStore."""
        edge = out.edge
        if edge is not None and not self.pair.plain:
            edge = edge.get(name)
        ids = self._ids[name]
        return edge if edge is None or ids is None else ids[edge]

    def _rows(self, out: Any) -> Rows:
        """Everything that the FeatureStore has about the nodes and edges, in one call."""
        wanted, places = [], []
        for (group, name), key in self.pair.rows.items():
            if isinstance(key, tuple):
                index = self._edges(out, key)
            else:
                index = out.node if self.pair.plain else out.node.get(key)
            if index is not None:
                wanted.append(TensorAttr(group_name=group, attr_name=name, index=index))
                places.append((group, name))
        if not wanted:
            return {}
        found = self.pair.features.multi_get_tensor(wanted)
        return dict(zip(places, found, strict=True))

    def _fill_plain(self, made: Any, out: Any, rows: Rows) -> None:
        made.edge_index = torch.stack([out.row, out.col])
        for (group, name), values in rows.items():
            made[name] = values
            if self.pair.rows[group, name] == PLAIN_TYPE:
                made.num_nodes = int(out.node.numel())
        edge = self._edges(out, PLAIN_RELATION)
        if "n_id" not in made:
            made.n_id = out.node
        if edge is not None and "e_id" not in made:
            made.e_id = edge
        made.batch, made.num_sampled_nodes = out.batch, out.num_sampled_nodes
        made.num_sampled_edges = out.num_sampled_edges
        if self.links is not None:
            self.links(made, out)
            return
        made.input_id, made.seed_time = out.metadata[:2]
        made.batch_size = int(out.metadata[0].numel())
        made.seed_id, made.share = out.node[: made.batch_size], 1.0  # as batches of a Data

    def _fill_typed(self, made: Any, out: Any, rows: Rows, node_type: str) -> None:
        nothing = torch.empty(0, dtype=torch.int64)
        for (group, name), values in rows.items():
            made[self.pair.rows[group, name]][name] = values
        for kind in self.pair.graph.node_types:
            store, node = made[kind], out.node.get(kind, nothing)
            store.num_nodes = int(node.numel())
            if "n_id" not in store:
                store.n_id = node
            _set(store, "batch", out.batch, kind)
            _set(store, "num_sampled_nodes", out.num_sampled_nodes, kind)
        for edge_type in self.pair.graph.edge_types:
            store, edge = made[edge_type], self._edges(out, edge_type)
            ends = [of.get(edge_type, nothing) for of in (out.row, out.col)]
            store.edge_index = torch.stack(ends)
            if edge is not None and "e_id" not in store:
                store.e_id = edge
            _set(store, "num_sampled_edges", out.num_sampled_edges, edge_type)
        if self.links is not None:
            self.links(made, out)
            return
        store = made[node_type]
        store.input_id, store.seed_time = out.metadata[:2]
        store.batch_size = int(out.metadata[0].numel())


def _set(store: Any, name: str, values: Any, of: Any) -> None:
    if values is not None and values.get(of) is not None:
        store[name] = values[of]
