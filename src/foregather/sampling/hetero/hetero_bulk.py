"""hetero_bulk: k sampled minibatches of a graph with types, made together.

A `HeteroSample` is one minibatch: for every node type of the graph its nodes, for every relation
its edges, each with numbers of its own; a type or relation that was not reached is there and empty.
Nodes of a type are in the order of discovery, so the targets of a layer are a prefix of the nodes
of their type; edges of a relation are grouped by layer and, inside a layer, ordered by target.
Arrays are read-only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.hetero.names import EdgeType, show_edge_type
from foregather.units import format_bytes, format_number

__all__ = ["EdgeSample", "HeteroBulk", "HeteroSample", "NodeSample", "to_hetero_samples"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class NodeSample:
    """The nodes of one type in a minibatch.

    Attributes:
        node: ids in the graph, uint32 or int64 [n]; the seeds of the type first.
        num_nodes: nodes known before layer 0, after layer 0, ...: L + 1 ascending numbers, the last
            is n.
        tree: uint32 [n]: the tree of each node, which is the number of its seed in the minibatch;
            seeds are then in `node` as often as they were given. None: seeds share nodes, and each
            is there once.
        seed_position: int64 [seeds given]: where each given seed is in `node`; None if no seed was
            given twice (then it is 0, 1, 2, ...).
    """

    node: Array
    num_nodes: tuple[int, ...]
    tree: npt.NDArray[np.uint32] | None
    seed_position: npt.NDArray[np.int64] | None

    @property
    def num_seeds(self) -> int:
        """Number of distinct seeds of the type; with trees, of all seeds."""
        return self.num_nodes[0]


@dataclass(frozen=True, slots=True, eq=False)
class EdgeSample:
    """The edges of one relation in a minibatch.

    Attributes:
        row: source of each edge as a position among the nodes of the source type, uint32 [m].
        col: target of each edge as a position among the nodes of the target type, uint32 [m],
            ascending.
        edge: position of each edge in `graph.relation(edge_type, time)`, int64 [m], with the `time`
            of the sampler; None where edges were added in the other direction.
        num_edges: edges of each layer, L numbers with sum m; None where edges have no layer
            (`subgraph_type` is not "directional").
    """

    row: npt.NDArray[np.uint32]
    col: npt.NDArray[np.uint32]
    edge: npt.NDArray[np.int64] | None
    num_edges: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class HeteroSample:
    """One sampled minibatch of a graph with types.

    Attributes:
        nodes: by node type, all types of the graph in their order.
        edges: by relation, all relations of the graph in their order.
        batch: number of the minibatch in its epoch.
    """

    nodes: Mapping[str, NodeSample]
    edges: Mapping[EdgeType, EdgeSample]
    batch: int

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for _, array in _arrays(self))


@dataclass(frozen=True, slots=True, eq=False)
class HeteroBulk:
    """Minibatches `first_batch` to `first_batch + len - 1` of an epoch, sampled together.

    Attributes:
        samples: the minibatches, in order.
        seed: seed of the run.
        epoch: number of the epoch.
        first_batch: number of the first minibatch.
    """

    samples: Sequence[HeteroSample]
    seed: int
    epoch: int
    first_batch: int

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[HeteroSample]:
        return iter(self.samples)

    def __getitem__(self, index: int) -> HeteroSample:
        return self.samples[index]

    @property
    def nbytes(self) -> int:
        """Bytes of all minibatches."""
        return sum(sample.nbytes for sample in self.samples)

    @property
    def digest(self) -> str:
        """XXH64 of all minibatches: equal bulks have equal digests, on every machine."""
        state = _core.Xxh64()
        for sample in self.samples:
            for name, values in _arrays(sample):
                state.update(np.frombuffer(f"{name}:{len(values)};".encode(), np.uint8))
                # as int64, so that the digest does not depend on how ids are stored
                state.update(np.ascontiguousarray(values, np.int64).view(np.uint8))
        return f"{state.digest():016x}"

    def summary(self) -> str:
        """A readable summary of the bulk."""
        last = self.first_batch + len(self) - 1
        lines = [
            f"bulk of {format_number(len(self), 'minibatch')}: {self.first_batch} to {last} of "
            f"epoch {self.epoch}, seed {self.seed}"
        ]
        first = self.samples[0] if self.samples else HeteroSample({}, {}, self.first_batch)
        for node_type in first.nodes:
            counts = [len(sample.nodes[node_type].node) for sample in self.samples]
            lines.append(f"  {node_type}: {_spread(counts)} nodes each")
        for edge_type in first.edges:
            counts = [len(sample.edges[edge_type].row) for sample in self.samples]
            lines.append(f"  {show_edge_type(edge_type)}: {_spread(counts)} edges each")
        lines += [f"  memory   {format_bytes(self.nbytes)}", f"  digest   {self.digest}"]
        return "\n".join(lines)


def _spread(counts: Sequence[int]) -> str:
    return f"{min(counts):,} to {max(counts):,}, mean {sum(counts) / len(counts):,.0f}"


def _arrays(sample: HeteroSample) -> Iterator[tuple[str, Array]]:
    """All arrays and counts of a minibatch, with names that no two share."""
    for node_type, nodes in sample.nodes.items():
        parts = (nodes.node, np.array(nodes.num_nodes, np.int64), nodes.tree, nodes.seed_position)
        for name, array in zip(("node", "counts", "tree", "seeds"), parts, strict=True):
            if array is not None:
                yield f"{node_type!r}.{name}", array
    for edge_type, edges in sample.edges.items():
        counts = None if edges.num_edges is None else np.array(edges.num_edges, np.int64)
        for name, array in zip(
            ("row", "col", "edge", "counts"),
            (edges.row, edges.col, edges.edge, counts),
            strict=True,
        ):
            if array is not None:
                yield f"{edge_type!r}.{name}", array


def to_hetero_samples(
    made: Sequence[Any],
    node_types: Sequence[str],
    edge_types: Sequence[EdgeType],
    first_batch: int,
    layers: bool,
) -> list[HeteroSample]:
    """Converts a kernel's result to samples.

    Args:
        made: for each minibatch, the arrays of types and of relations.
        node_types: names of the types, by number.
        edge_types: names of the relations, by number.
        first_batch: number of the first minibatch.
        layers: whether edges have layers.
    """
    return [
        HeteroSample(
            {
                name: NodeSample(node, tuple(num_nodes), tree, position)
                for name, (node, num_nodes, position, tree) in zip(node_types, types, strict=True)
            },
            {
                name: EdgeSample(row, col, edge, tuple(num_edges) if layers else None)
                for name, (row, col, num_edges, edge) in zip(edge_types, relations, strict=True)
            },
            first_batch + number,
        )
        for number, (types, relations) in enumerate(made)
    ]
