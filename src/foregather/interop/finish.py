"""finish: turns a batch of the engine into the batch that PyG's NeighborLoader would return.

The engine knows nodes, edges and (if it stores them exactly) feature rows; here they become a Data
of the user's own class with every attribute of the whole graph, in PyG's order and under PyG's
names. This runs in the iterating thread, so autograd sees a learnable `x`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from foregather.graph.graph import Graph
from foregather.interop.attributes import Attributes
from foregather.interop.subgraphs import bidirectional, induced, repeat_seeds
from foregather.loader.batches.batch import LayerGraph
from foregather.loader.batches.hop_counts import remember
from foregather.loader.batches.pyg_batch import plain_tensor, sorted_edge_index

__all__ = ["Finish", "paired", "version_of"]


class Finish:
    """Adds the attributes of the data to a batch.

    Args:
        data: the whole graph as a PyG Data.
        graph: the same as a Graph.
        stored: the part of `data.x` that the engine gathers ahead, until it is changed; None:
            nothing.
        subgraph: "directional", "bidirectional" or "induced".
        weights: `edge_weight` of a batch is the engine's, with the sampler's factors.
        device: target device of batches; None keeps attributes on the device of the data.
        threads: for induced subgraphs.
        change: called with the SamplerOutput.
        transform: called with the finished batch.
    """

    def __init__(
        self,
        data: Any,
        graph: Graph,
        stored: Any,
        *,
        subgraph: str = "directional",
        weights: bool = False,
        device: Any = None,
        threads: int = 0,
        change: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.attributes = Attributes(data)
        self.graph, self.stored, self.subgraph, self.weights = graph, stored, subgraph, weights
        self.device, self.threads = device, threads
        self.change, self.transform = change, transform
        #: Says in a batch where its links are, in place of its input nodes; set for those.
        self.links: Callable[[Any, Any], None] | None = None
        self._version = version_of(stored)
        self.edge_ids = None if graph.edge_ids is None else torch.from_numpy(graph.edge_ids)

    def __call__(self, batch: Any) -> Any:
        """Returns the batch as PyG would."""
        layered = getattr(batch, "edge_index", None) is None
        out, rows, weight = _output(batch), getattr(batch, "x", None), None
        if self.weights:
            weight = getattr(batch, "edge_weight", None)
        if self.subgraph == "induced":
            out = induced(out, self.graph, self.threads)
        elif self.subgraph == "bidirectional":
            out = bidirectional(out)
        position = getattr(batch, "seed_position", None)
        if position is not None and not layered:
            out, nodes, edges = repeat_seeds(out, position.cpu(), batch.batch_size)
            rows = None if rows is None else rows[nodes]
            weight = None if weight is None else weight[edges]
        asked, version = out.node, version_of(out.node)
        if self.change is not None:
            out = self.change(out)
        known: dict[str, Tensor] = {}
        same = out.node is asked and version_of(asked) == version
        if rows is not None and same and self._is_current(self.attributes.data.x):
            known["x"] = rows
        if weight is not None:
            known["edge_weight"] = weight
        made = self._fill(out, self._edges(out), known)
        if not layered and type(batch.edge_index) is not Tensor and self.change is None:
            made.edge_index = sorted_edge_index(made.edge_index, int(out.node.numel()))
        made.seed_id = batch.seed_id
        if "share" in batch:
            made.share = batch.share
        if layered:
            self._layers(made, batch)
        if self.device is not None:
            made = made.to(self.device, non_blocking=True)
        if made.edge_index is not None and out.num_sampled_edges is not None:
            remember(made.edge_index, out.num_sampled_nodes, out.num_sampled_edges)
        return made if self.transform is None else self.transform(made)

    def _edges(self, out: Any) -> Tensor | None:
        """The ids of the edges of a SamplerOutput in the data, if they have some."""
        edge: Tensor | None = out.edge
        return edge if edge is None or self.edge_ids is None else self.edge_ids[edge]

    def _fill(self, out: Any, edge: Tensor | None, known: Mapping[str, Tensor]) -> Any:
        """Builds a Data from a SamplerOutput.

        Args:
            out: nodes and edges.
            edge: ids of the edges in the data.
            known: rows that are already there, by name.
        """
        data = self.attributes.data
        made = self.attributes.part(out.node, edge, known)
        if out.row is None:
            made.edge_index = None
        else:
            edges = paired(out, self.change is None)
            made.edge_index = edges.to(getattr(data.edge_index, "device", edges.device))
        if "n_id" not in made:
            made.n_id = out.node
        if edge is not None and "e_id" not in made:
            made.e_id = edge
        made.batch = out.batch
        made.num_sampled_nodes = out.num_sampled_nodes
        made.num_sampled_edges = out.num_sampled_edges
        if self.links is not None:
            self.links(made, out)
            return made
        made.input_id, made.seed_time = out.metadata[:2]
        made.batch_size = int(out.metadata[0].numel())
        return made

    def _is_current(self, x: Any) -> bool:
        """Whether rows gathered ahead still equal those of `x`.

        After the first in-place change they are looked up here, like those of a learnable `x`,
        because the engine may have gathered a row before or after the change.
        """
        same = x is self.stored and not x.requires_grad
        return bool(same and version_of(x) == self._version)

    def _layers(self, made: Any, batch: Any) -> None:
        """Adds the layers of a sampler that expands per layer.

        Such a batch holds each seed once.
        """
        made.batch_size, made.seed_position = (
            batch.batch_size,
            getattr(batch, "seed_position", None),
        )
        made.layers, end = [], int(batch.e_id.numel())
        attr = made.edge_attr if self.attributes.role("edge_attr") == "edge" else None
        for part in batch.layers:  # the widest first, which is last in `e_id`
            start = end - int(part.e_id.numel())
            own = None if attr is None else attr[start:end]
            named = self._named(part.e_id)
            made.layers.append(LayerGraph(part.edge_index, named, part.size, part.weight, own))
            end = start

    def _named(self, edge: Tensor) -> Tensor:
        return edge if self.edge_ids is None else self.edge_ids[edge.cpu()].to(edge.device)


def paired(out: Any, ours: bool, of: Any = None) -> Tensor:
    """Sources and targets of a sampler output, [2, edges].

    Args:
        out: of PyG.
        ours: nobody else has seen it, so its memory may be that of the batch: nothing is copied if
            sources and targets lie one after the other, as ours do.
        of: the relation, if there are several.
    """
    row, col = (out.row, out.col) if of is None else (out.row[of], out.col[of])
    size, start = row.numel(), row.storage_offset()
    near = row.untyped_storage().data_ptr() == col.untyped_storage().data_ptr()
    near = near and col.numel() == size and col.storage_offset() == start + size
    if ours and near and row.is_contiguous() and col.is_contiguous():
        pair: Tensor = row.as_strided((2, size), (size, 1))
        return pair
    return torch.stack([row, col])


def version_of(x: Any) -> int | None:
    """Torch's counter of in-place changes; None if it keeps none."""
    try:
        return int(x._version)
    except (AttributeError, RuntimeError):  # not a tensor, or an inference-mode tensor
        return None


def _output(batch: Any) -> Any:
    """Converts a batch of the engine to PyG's SamplerOutput, on the CPU."""
    edges = getattr(batch, "edge_index", None)
    row, col = (None, None) if edges is None else plain_tensor(edges).cpu()
    trees = getattr(batch, "batch", None)
    return SamplerOutput(
        node=batch.n_id.cpu(),
        row=row,
        col=col,
        edge=batch.e_id.cpu(),
        batch=None if trees is None else trees.cpu(),
        num_sampled_nodes=batch.num_sampled_nodes,
        num_sampled_edges=batch.num_sampled_edges,
        metadata=(batch.input_id, None),
    )
