"""hetero_bulk: k sampled minibatches of a graph with types, made together.

A `HeteroSample` is one minibatch: for every node type of the graph its nodes, for every relation
its edges, each with numbers of its own; a type or relation that was not reached is there and empty.
Nodes of a type are in the order of discovery, so the targets of a layer are a prefix of the nodes
of their type; edges of a relation are grouped by layer and, inside a layer, ordered by target.
Arrays are read-only.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.files import write_safely
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.hetero.names import EdgeType, check_edge_type, check_name, show_edge_type
from foregather.sampling.bulk import Expand, Minibatches
from foregather.targets import check_target
from foregather.units import format_bytes

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
        weight: float32 [m], by which sums over the edges are right on average; None where the
            sampler gives none.
    """

    row: npt.NDArray[np.uint32]
    col: npt.NDArray[np.uint32]
    edge: npt.NDArray[np.int64] | None
    num_edges: tuple[int, ...] | None
    weight: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeteroSample:
    """One sampled minibatch of a graph with types.

    Attributes:
        nodes: by node type, all types of the graph in their order.
        edges: by relation, all relations of the graph in their order.
        batch: number of the minibatch in its epoch.
        expand: "once": a node has the edges of one layer. "per-layer": every layer has edges into
            all nodes known before it, so that a model applies each layer to its own edges.
    """

    nodes: Mapping[str, NodeSample]
    edges: Mapping[EdgeType, EdgeSample]
    batch: int
    expand: Expand = "once"

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for _, array in _arrays(self))


@dataclass(frozen=True, slots=True, eq=False)
class HeteroBulk(Minibatches[HeteroSample]):
    """Minibatches of a graph with types; attributes as of `Minibatches`."""

    @property
    def digest(self) -> str:
        """XXH64 of all minibatches: equal bulks have equal digests, on every machine."""
        state = _core.Xxh64()
        for sample in self.samples:
            for name, values in _arrays(sample):
                state.update(np.frombuffer(f"{name}:{len(values)};".encode(), np.uint8))
                # ids as int64, so that the digest does not depend on how they are stored
                kind = np.float32 if values.dtype.kind == "f" else np.int64
                state.update(np.ascontiguousarray(values, kind).view(np.uint8))
        return f"{state.digest():016x}"

    def summary(self) -> str:
        """A readable summary of the bulk."""
        lines = [self._title()]
        first = self.samples[0] if self.samples else HeteroSample({}, {}, self.first_batch)
        for node_type in first.nodes:
            counts = [len(sample.nodes[node_type].node) for sample in self.samples]
            lines.append(f"  {node_type}: {_spread(counts)} nodes each")
        for edge_type in first.edges:
            counts = [len(sample.edges[edge_type].row) for sample in self.samples]
            lines.append(f"  {show_edge_type(edge_type)}: {_spread(counts)} edges each")
        lines += [f"  memory   {format_bytes(self.nbytes)}", f"  digest   {self.digest}"]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the bulk as a .npz of plain arrays; types and relations are numbered in it.

        Raises:
            StorageError: the file is inside a graph folder or part of a run, or cannot be written.
        """
        first = self.samples[0] if self.samples else HeteroSample({}, {}, self.first_batch)
        names = json.dumps({"nodes": list(first.nodes), "edges": list(first.edges)}).encode()
        arrays: dict[str, Array] = {"names": np.frombuffer(names, np.uint8)}
        for number, sample in enumerate(self.samples):
            for kind, parts in (("nodes", sample.nodes.values()), ("edges", sample.edges.values())):
                for place, part in enumerate(parts):
                    for name in _FIELDS[kind]:
                        value = getattr(part, name)
                        if value is not None:
                            arrays[f"{number}.{kind}.{place}.{name}"] = np.asarray(value)
            if sample.expand == "per-layer":
                arrays[f"{number}.per_layer"] = np.zeros(0, np.int64)
        head = np.array([len(self), self.epoch, self.first_batch], np.int64)
        file = io.BytesIO()
        np.savez(file, head=head, seed=np.array(self.seed, np.uint64), **arrays)  # type: ignore[arg-type]
        check_target(path)
        write_safely(Path(path), file.getvalue())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "HeteroBulk":
        """Reads what `save` wrote.

        Raises:
            FormatError: the file is not a saved bulk.
            StorageError: the file cannot be read.
        """
        try:
            with ZipArrays(path) as file:
                return _load(file)
        except FormatError as error:
            raise FormatError(
                f"{Path(path).name} is not a saved typed bulk, or it is damaged ({error})"
            ) from error


_FIELDS = {
    "nodes": ("node", "num_nodes", "tree", "seed_position"),
    "edges": ("row", "col", "edge", "num_edges", "weight"),
}
_MOST = 1 << 40  # bytes of an array; an archive cannot claim more than this


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
            ("row", "col", "edge", "counts", "weight"),
            (edges.row, edges.col, edges.edge, counts, edges.weight),
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
    expand: Expand = "once",
) -> list[HeteroSample]:
    """Converts a kernel's result to samples.

    Args:
        made: for each minibatch, the arrays of types and of relations.
        node_types: names of the types, by number.
        edge_types: names of the relations, by number.
        first_batch: number of the first minibatch.
        layers: whether edges have layers.
        expand: how layers are expanded.
    """
    return [
        HeteroSample(
            {
                name: NodeSample(node, tuple(num_nodes), tree, position)
                for name, (node, num_nodes, position, tree) in zip(node_types, types, strict=True)
            },
            {
                name: EdgeSample(row, col, edge, tuple(counts) if layers else None, weight)
                for name, (row, col, counts, edge, weight) in zip(
                    edge_types, relations, strict=True
                )
            },
            first_batch + number,
            expand,
        )
        for number, (types, relations) in enumerate(made)
    ]


def _load(file: ZipArrays) -> HeteroBulk:
    head, seed = _array(file, "head", (np.int64,)), file.whole("seed", _MOST)
    if head is None or len(head) != 3 or seed.shape != () or seed.dtype.kind not in "iu":
        raise FormatError(f"{file.name} has no head or no seed")
    count, epoch, first = (int(n) for n in head)
    if not 0 <= count <= len(file.names()) or min(epoch, first) < 0:
        raise FormatError(f"head in {file.name} has impossible counts")
    node_types, edge_types = _names(file)
    samples = []
    for number in range(count):
        nodes = {
            name: _load_nodes(file, f"{number}.nodes.{place}.")
            for place, name in enumerate(node_types)
        }
        edges = {
            name: _load_edges(file, f"{number}.edges.{place}.")
            for place, name in enumerate(edge_types)
        }
        layered = f"{number}.per_layer" in file.names()
        expand: Expand = "per-layer" if layered else "once"
        samples.append(HeteroSample(nodes, edges, first + number, expand))
        if not _fits(samples[-1]):
            raise FormatError(f"minibatch {number} in {file.name} does not fit together")
    return HeteroBulk(samples, int(seed), epoch, first)


def _names(file: ZipArrays) -> tuple[list[str], list[EdgeType]]:
    raw = _array(file, "names", (np.uint8,))
    try:
        found = json.loads(b"" if raw is None else raw.tobytes())
        node_types = [check_name(name, "node type") for name in found["nodes"]]
        edge_types = [check_edge_type(tuple(name)) for name in found["edges"]]
    except (InputError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise FormatError(f"the names in {file.name} cannot be read") from error
    known = set(node_types)
    whole = len(known) == len(node_types) and len(set(edge_types)) == len(edge_types)
    if not whole or any({name[0], name[2]} - known for name in edge_types):
        raise FormatError(f"the names in {file.name} do not fit together")
    return node_types, edge_types


def _array(file: ZipArrays, name: str, dtypes: tuple[Any, ...]) -> Any:
    """A list of numbers of one of these dtypes, or None if there is none of this name."""
    if name not in file.names():
        return None
    values = file.whole(name, _MOST)
    if values.ndim != 1 or values.dtype not in dtypes:
        raise FormatError(f"{name} in {file.name} is {values.dtype} of shape {values.shape}")
    values.setflags(write=False)
    return values


def _counts(file: ZipArrays, name: str) -> tuple[int, ...] | None:
    values = _array(file, name, (np.int64,))
    return None if values is None else tuple(int(n) for n in values)


def _load_nodes(file: ZipArrays, place: str) -> NodeSample:
    node = _array(file, f"{place}node", (np.uint32, np.int64))
    counts = _counts(file, f"{place}num_nodes")
    tree = _array(file, f"{place}tree", (np.uint32,))
    position = _array(file, f"{place}seed_position", (np.int64,))
    if node is None or not counts or any(a > b for a, b in pairwise((0, *counts, len(node)))):
        raise FormatError(f"{place}node in {file.name} does not have the nodes of its layers")
    if counts[-1] != len(node) or (tree is not None and len(tree) != len(node)):
        raise FormatError(f"{place}node in {file.name} does not fit its counts")
    if position is not None and not _below(position, counts[0]):
        raise FormatError(f"{place}seed_position in {file.name} names nodes that are no seeds")
    return NodeSample(node, counts, tree, position)


def _load_edges(file: ZipArrays, place: str) -> EdgeSample:
    row, col = (_array(file, place + name, (np.uint32,)) for name in ("row", "col"))
    edge, counts = _array(file, f"{place}edge", (np.int64,)), _counts(file, f"{place}num_edges")
    if row is None or col is None or len(row) != len(col):
        raise FormatError(f"{place}row and col in {file.name} do not fit together")
    if (edge is not None and len(edge) != len(row)) or (
        counts is not None and (min(counts, default=0) < 0 or sum(counts) != len(row))
    ):
        raise FormatError(f"{place}edge in {file.name} does not fit its rows")
    weight = _array(file, f"{place}weight", (np.float32,))
    if weight is not None and len(weight) != len(row):
        raise FormatError(f"{place}weight in {file.name} does not fit its rows")
    return EdgeSample(row, col, edge, counts, weight)


def _fits(sample: HeteroSample) -> bool:
    """Whether positions are nodes, trees have seeds, and all have the same layers."""
    layers = {len(nodes.num_nodes) - 1 for nodes in sample.nodes.values()}
    layers |= {
        len(edges.num_edges) for edges in sample.edges.values() if edges.num_edges is not None
    }
    trees = sum(nodes.num_nodes[0] for nodes in sample.nodes.values())
    return (
        len(layers) <= 1
        and len({nodes.tree is None for nodes in sample.nodes.values()}) <= 1
        and all(n.tree is None or _below(n.tree, trees) for n in sample.nodes.values())
        and all(
            _below(own.row, len(sample.nodes[name[0]].node))
            and _below(own.col, len(sample.nodes[name[2]].node))
            for name, own in sample.edges.items()
        )
    )


def _below(values: Array, count: int) -> bool:
    return not len(values) or (int(values.min()) >= 0 and int(values.max()) < count)
