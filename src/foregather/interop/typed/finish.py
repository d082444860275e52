"""finish: turns typed and timed samples into the batches that PyG's NeighborLoader would return.

Every attribute of the data is sliced by PyG's own rule, type by type; see `interop.attributes`.
`look` runs in the producer, the rest in the iterating thread, so autograd sees learnable features.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.relation import Level
from foregather.interop.attributes import Attributes
from foregather.interop.finish import Finish, paired
from foregather.interop.typed.ahead import Ahead, Looked
from foregather.interop.typed.raw import Raw
from foregather.interop.typed.topology import stores_of
from foregather.loader.batches.typed_counts import remember_batch

__all__ = ["TimedFinish", "TypedFinish"]


class TypedFinish:
    """Makes a HeteroData of a sample.

    `links`, if it is set, says in a batch where its links are, in place of its input rows.

    Args:
        data: the whole graph as a HeteroData.
        graph: the same as a HeteroGraph.
        level: whose times the sampler looks at.
        device: target device of batches; None keeps attributes on the device of the data.
        change: called with the HeteroSamplerOutput.
        transform: called with the finished batch.

    Raises:
        InputError: an attribute cannot be sliced; names the type or relation.
    """

    def __init__(
        self,
        data: Any,
        graph: HeteroGraph,
        level: Level | None,
        *,
        device: Any = None,
        change: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.data, self.device, self.change, self.transform = data, device, change, transform
        self.links: Callable[[Any, Any], None] | None = None
        self._nodes: dict[str, Attributes] = {}
        self._edges: dict[EdgeType, Attributes] = {}
        edge_ids: dict[EdgeType, Tensor | None] = {}
        nodes, edges = stores_of(data)
        for name, store in nodes.items():
            with about(f"node type {name!r}"):
                self._nodes[name] = Attributes(data, store)
        for edge_type, store in edges.items():
            with about(f"relation {show_edge_type(edge_type)}"):
                self._edges[edge_type] = Attributes(data, store)
            ids = graph.relation(edge_type, level).edge_ids
            edge_ids[edge_type] = None if ids is None else torch.from_numpy(ids)
        self._ahead = Ahead({**self._nodes, **self._edges}, edge_ids)

    def look(self, out: Any, threads: int) -> tuple[Looked, int]:
        """Looks rows up ahead of their use, and returns them and their bytes; for any thread."""
        asked = {(name, "node"): node for name, node in out.node.items()}
        asked |= {(name, "edge"): edge for name, edge in out.edge.items() if edge is not None}
        return _with_bytes(self._ahead.look(asked, threads))

    def __call__(self, raw: Raw) -> Any:
        """Returns the batch as PyG would."""
        out = raw.out if self.change is None else self.change(raw.out)
        made = copy.copy(self.data)
        for name in self._nodes:
            self._fill_nodes(made[name], name, out, raw.looked)
        for edge_type in self._edges:
            self._fill_edges(made[edge_type], edge_type, out, raw.looked)
        if self.links is not None:
            self.links(made, out)
        else:
            store, (input_id, seed_time) = made[raw.node_type], out.metadata[:2]
            store.input_id, store.seed_time = input_id, seed_time
            store.batch_size = int(input_id.numel())
        if self.device is not None:
            made = made.to(self.device, non_blocking=True)
        remember_batch(made)
        return made if self.transform is None else self.transform(made)

    def _fill_nodes(self, store: Any, name: str, out: Any, looked: Looked) -> None:
        node = out.node.get(name)
        known = self._ahead.known(looked, name, "node", node)
        if node is None:  # a transform of the sample left the type out
            node = torch.empty(0, dtype=torch.int64)
        for key, value in self._nodes[name].sliced(node, None, known).items():
            store[key] = value
        if "n_id" not in store:
            store.n_id = node
        _set(store, "batch", out.batch, name)
        _set(store, "num_sampled_nodes", out.num_sampled_nodes, name)

    def _fill_edges(self, store: Any, name: EdgeType, out: Any, looked: Looked) -> None:
        nothing = torch.empty(0, dtype=torch.int64)
        edge = None if out.edge is None else out.edge.get(name, nothing)
        known = self._ahead.known(looked, name, "edge", edge)
        edge = self._ahead.edges(looked, name, edge)
        if name in out.row and name in out.col:
            pairs = paired(out, self.change is None, name)
        else:  # a transform of the sample left the relation out
            pairs = torch.stack([one.get(name, nothing) for one in (out.row, out.col)])
        device = store.edge_index.device if isinstance(store.edge_index, Tensor) else pairs.device
        for key, value in self._edges[name].sliced(None, edge, known).items():
            store[key] = value
        store.edge_index = pairs.to(device)
        if edge is not None and "e_id" not in store:
            store.e_id = edge
        _set(store, "num_sampled_edges", out.num_sampled_edges, name)


class TimedFinish(Finish):
    """Makes a Data of a sample of a graph with times.

    Args:
        data: the whole graph as a Data.
        relation: its edges as they are walked.
        options: device, change and transform of `Finish`.
    """

    def __init__(self, data: Any, relation: Any, **options: Any) -> None:
        super().__init__(data, relation, None, **options)
        self._ahead = Ahead({None: self.attributes}, {None: self.edge_ids})

    def look(self, out: Any, threads: int) -> tuple[Looked, int]:
        """Looks rows up ahead of their use, and returns them and their bytes; for any thread."""
        asked = {(None, "node"): out.node}
        if out.edge is not None:
            asked[None, "edge"] = out.edge
        return _with_bytes(self._ahead.look(asked, threads))

    def __call__(self, raw: Raw) -> Any:
        """Returns the batch as PyG would."""
        out = raw.out if self.change is None else self.change(raw.out)
        known = self._ahead.known(raw.looked, None, "node", out.node)
        known |= self._ahead.known(raw.looked, None, "edge", out.edge)
        made = self._fill(out, self._ahead.edges(raw.looked, None, out.edge), known)
        if self.device is not None:
            made = made.to(self.device, non_blocking=True)
        return made if self.transform is None else self.transform(made)


def _with_bytes(looked: Looked) -> tuple[Looked, int]:
    return looked, sum(found.nbytes for found in looked.values())


def _set(store: Any, name: str, values: Any, of: Any) -> None:
    if values is not None and values.get(of) is not None:
        store[name] = values[of]
