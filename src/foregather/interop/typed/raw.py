"""raw: samples of the engine as PyG's sampler outputs, before attributes are looked up."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE
from foregather.loader.hetero.hetero_batch import as_long
from foregather.loader.hetero.input_rows import Dealt
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample

__all__ = ["Raw", "RawAssembler", "plain_output", "typed_output"]


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A sample and its input rows, of this node type."""

    sample: HeteroSample
    node_type: str
    rows: Dealt

    @property
    def nbytes(self) -> int:
        """Bytes of the sample."""
        return self.sample.nbytes


class RawAssembler:
    """Leaves samples as they are: attributes are looked up in the thread that iterates."""

    def batch(self, sample: HeteroSample, node_type: str, rows: Dealt) -> Raw:
        """The sample."""
        return Raw(sample, node_type, rows)

    def using(self, threads: int) -> "RawAssembler":
        """The same: it uses no threads."""
        return self


def typed_output(raw: Raw) -> Any:
    """The sample as a HeteroSamplerOutput; positions of edges are those of the walked relations."""
    nodes, edges = raw.sample.nodes, raw.sample.edges
    layered = all(own.num_edges is not None for own in edges.values())
    trees = {name: _maybe(own.tree) for name, own in nodes.items()}
    return HeteroSamplerOutput(
        node={name: as_long(own.node) for name, own in nodes.items()},
        row={name: as_long(own.row) for name, own in edges.items()},
        col={name: as_long(own.col) for name, own in edges.items()},
        edge={name: _maybe(own.edge) for name, own in edges.items()},
        batch=None if None in trees.values() else trees,
        num_sampled_nodes={n: _new(own) for n, own in nodes.items()} if layered else None,
        num_sampled_edges={n: _counts(own) for n, own in edges.items()} if layered else None,
        metadata=_metadata(raw.rows),
    )


def plain_output(raw: Raw) -> Any:
    """The sample of a graph of one type and one relation as a SamplerOutput."""
    nodes, edges = raw.sample.nodes[PLAIN_TYPE], raw.sample.edges[PLAIN_RELATION]
    layered = edges.num_edges is not None
    return SamplerOutput(
        node=as_long(nodes.node),
        row=as_long(edges.row),
        col=as_long(edges.col),
        edge=_maybe(edges.edge),
        batch=_maybe(nodes.tree),
        num_sampled_nodes=_new(nodes) if layered else None,
        num_sampled_edges=_counts(edges) if layered else None,
        metadata=_metadata(raw.rows),
    )


def _maybe(values: Any) -> Tensor | None:
    return None if values is None else as_long(values)


def _new(nodes: NodeSample) -> list[int]:
    new: list[int] = np.diff(nodes.num_nodes, prepend=0).tolist()
    return new


def _counts(edges: EdgeSample) -> list[int]:
    return list(edges.num_edges or ())


def _metadata(rows: Dealt) -> tuple[Tensor, Tensor | None]:
    input_id = torch.from_numpy(np.array(rows.input_id))
    return input_id, None if rows.time is None else torch.from_numpy(np.array(rows.time))
