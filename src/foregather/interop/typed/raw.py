"""raw: samples of the engine as PyG's sampler outputs, with rows that were looked up ahead."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE
from foregather.interop.subgraphs import bidirectional, repeat_seeds
from foregather.interop.typed.repeat import repeat_typed_seeds
from foregather.loader.hetero.hetero_batch import as_long, edge_index_of
from foregather.loader.hetero.input_rows import Dealt
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample

__all__ = ["Raw", "RawAssembler", "plain_output", "typed_output"]


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A sample as PyG's sampler would return it, before its attributes are put together.

    Attributes:
        out: a HeteroSamplerOutput or SamplerOutput.
        node_type: of the input rows.
        looked: what was looked up ahead, for the finish of the batch.
        nbytes: bytes of both.
    """

    out: Any
    node_type: str
    looked: Any
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class RawAssembler:
    """Makes sampler outputs, and looks up ahead what can be.

    Attributes:
        output: makes an output of a sample, the type of the input rows, and these.
        look: looks rows up, for an output and with a number of threads; returns them and their
            bytes.
        threads: threads of it.
    """

    output: Callable[[HeteroSample, str, Dealt], Any]
    look: Callable[[Any, int], tuple[Any, int]]
    threads: int = 0

    def batch(self, sample: HeteroSample, node_type: str, rows: Dealt) -> Raw:
        """The output of a sample, and its rows."""
        out = self.output(sample, node_type, rows)
        looked, size = self.look(out, self.threads)
        return Raw(out, node_type, looked, sample.nbytes + size)

    def using(self, threads: int) -> "RawAssembler":
        """Returns the same with another number of threads."""
        return replaced(self, threads=threads)


def typed_output(sample: HeteroSample, node_type: str, rows: Dealt) -> Any:
    """The sample as a HeteroSamplerOutput; positions of edges are those of the walked relations.

    A seed given twice has two rows.
    """
    nodes, edges = sample.nodes, sample.edges
    layered = all(own.num_edges is not None for own in edges.values())
    trees = {name: _maybe(own.tree) for name, own in nodes.items()}
    pairs = {name: edge_index_of(own) for name, own in edges.items()}
    out = HeteroSamplerOutput(
        node={name: as_long(own.node) for name, own in nodes.items()},
        row={name: own[0] for name, own in pairs.items()},
        col={name: own[1] for name, own in pairs.items()},
        edge={name: _maybe(own.edge) for name, own in edges.items()},
        batch=None if None in trees.values() else trees,
        num_sampled_nodes={n: _new(own) for n, own in nodes.items()} if layered else None,
        num_sampled_edges={n: _counts(own) for n, own in edges.items()} if layered else None,
        metadata=_metadata(rows),
    )
    seeds = nodes[node_type]
    if seeds.seed_position is None:
        return out
    position = torch.from_numpy(seeds.seed_position.copy())
    return repeat_typed_seeds(out, node_type, position, seeds.num_seeds)


def plain_output(sample: HeteroSample, _: str, rows: Dealt, back: bool = False) -> Any:
    """The sample of a graph of one type and one relation as a SamplerOutput.

    Args:
        sample: nodes and edges.
        rows: the input rows.
        back: edges are also added in the other direction.
    """
    nodes, edges = sample.nodes[PLAIN_TYPE], sample.edges[PLAIN_RELATION]
    layered = edges.num_edges is not None
    pairs = edge_index_of(edges)
    out = SamplerOutput(
        node=as_long(nodes.node),
        row=pairs[0],
        col=pairs[1],
        edge=_maybe(edges.edge),
        batch=_maybe(nodes.tree),
        num_sampled_nodes=_new(nodes) if layered else None,
        num_sampled_edges=_counts(edges) if layered else None,
        metadata=_metadata(rows),
    )
    if back:
        out = bidirectional(out)
    if nodes.seed_position is None:
        return out
    position = torch.from_numpy(nodes.seed_position.copy())
    return repeat_seeds(out, position, nodes.num_seeds)[0]


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
