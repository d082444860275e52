"""bulk: k sampled minibatches in one arena, made by samplers and read by plans and gathers.

A `Sample` is one minibatch: a small graph with its own numbering. Its nodes are in the order of
discovery: the seeds first, then the new nodes of layer 0, of layer 1, and so on, so that the
targets of a layer are always a prefix of its sources. Edges are grouped by layer and, inside a
layer, ordered by target. Subgraph samplers (subgraph.py) make one layer whose targets are all
nodes, not only the seeds. Arrays are views of the bulk's arena and read-only.
"""

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.files import write_safely
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.targets import check_target
from foregather.units import format_bytes, format_number

__all__ = ["Bulk", "Expand", "Minibatches", "Sample", "to_samples"]

Array = npt.NDArray[Any]

#: "once": a node is expanded in the layer after the one that found it, as in PyG; all layers form
#: one edge_index. "per-layer": every layer expands all nodes found so far, as in the papers; each
#: layer is a bipartite graph.
Expand = Literal["once", "per-layer"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One sampled minibatch.

    Attributes:
        node: ids in the graph, uint32 or int64 [n]; the first `num_nodes[0]` are the seeds, each
            once, in the order given.
        num_nodes: nodes known before layer 0, after layer 0, ... : L + 1 ascending numbers, the
            last is n.
        row: source of each edge as a position in `node`, uint32 [m].
        col: target of each edge as a position in `node`, uint32 [m], ascending inside a layer (and
            over all layers if expand is "once").
        num_edges: edges of each layer, L numbers with sum m.
        edge: position of each edge in the graph's CSC order, int64 [m].
        weight: float32 [m] factor of each edge that keeps the aggregation unbiased, or None for 1.
        seed_position: int64 [seeds given]: the position of each given seed in `node`; None if no
            seed was given twice (then it is 0, 1, 2, ...).
        batch: number of the minibatch in its epoch.
        expand: how layers were expanded.
        tree: uint32 [n]: the seed each node belongs to, if each seed has its own tree
            (`FusedSampler.sample_trees`); seeds then appear in `node` as often as they were given,
            and nodes of a layer are ordered by tree. None: seeds share nodes.
    """

    node: Array
    num_nodes: tuple[int, ...]
    row: npt.NDArray[np.uint32]
    col: npt.NDArray[np.uint32]
    num_edges: tuple[int, ...]
    edge: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float32] | None
    seed_position: npt.NDArray[np.int64] | None
    batch: int
    expand: Expand
    tree: npt.NDArray[np.uint32] | None = None

    @property
    def num_seeds(self) -> int:
        """Number of distinct seeds; with trees, of all seeds."""
        return self.num_nodes[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (getattr(self, name) for name in (*_ARRAYS, "tree"))
        return sum(array.nbytes for array in arrays if array is not None)


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Made = TypeVar("Made", bound=_Sized)


@dataclass(frozen=True, slots=True, eq=False)
class Minibatches(Generic[Made]):
    """Minibatches `first_batch` to `first_batch + len - 1` of an epoch, sampled together.

    Attributes:
        samples: the minibatches, in order.
        seed: seed of the run.
        epoch: number of the epoch.
        first_batch: number of the first minibatch.
    """

    samples: Sequence[Made]
    seed: int
    epoch: int
    first_batch: int

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Made]:
        return iter(self.samples)

    def __getitem__(self, index: int) -> Made:
        return self.samples[index]

    @property
    def nbytes(self) -> int:
        """Bytes of all minibatches."""
        return sum(sample.nbytes for sample in self.samples)

    def _title(self) -> str:
        last = self.first_batch + len(self) - 1
        return (
            f"bulk of {format_number(len(self), 'minibatch')}: {self.first_batch} to {last} of "
            f"epoch {self.epoch}, seed {self.seed}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bulk(Minibatches[Sample]):
    """Minibatches of a graph with one type of nodes; attributes as of `Minibatches`."""

    @property
    def digest(self) -> str:
        """XXH64 of all minibatches: equal bulks have equal digests, on every machine."""
        state = _core.Xxh64()
        for sample in self.samples:
            for name in _ARRAYS if sample.tree is None else (*_ARRAYS, "tree"):
                values = getattr(sample, name)
                # ids as int64, so that the digest does not depend on how they are stored
                whole = np.empty(0, np.int64) if values is None else values
                if whole.dtype.kind in "iu":
                    whole = whole.astype(np.int64)
                state.update(np.array([len(whole)], np.int64).view(np.uint8))
                state.update(np.ascontiguousarray(whole).view(np.uint8))
            counts = np.array([*sample.num_nodes, *sample.num_edges], np.int64)
            state.update(counts.view(np.uint8))
        return f"{state.digest():016x}"

    def summary(self) -> str:
        """A readable summary of the bulk."""
        nodes = [len(sample.node) for sample in self.samples]
        edges = [len(sample.row) for sample in self.samples]
        distinct = len(np.unique(np.concatenate([s.node for s in self.samples] or [_NONE])))
        rows = max(1, sum(nodes))
        return "\n".join(
            [
                self._title(),
                f"  nodes    {_spread(nodes)} each; {distinct:,} distinct of {sum(nodes):,} "
                f"({1 - distinct / rows:.0%} repeats)",
                f"  edges    {_spread(edges)} each",
                f"  memory   {format_bytes(self.nbytes)}",
                f"  digest   {self.digest}",
            ]
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the bulk as a .npz of plain arrays.

        Raises:
            StorageError: the file is inside a graph folder or part of a run, or cannot be written.
        """
        arrays: dict[str, Array] = {}
        for number, sample in enumerate(self.samples):
            for name in (*_ARRAYS, "tree"):
                values = getattr(sample, name)
                if values is not None:
                    arrays[f"{number}.{name}"] = values
            arrays[f"{number}.num_nodes"] = np.array(sample.num_nodes, np.int64)
            arrays[f"{number}.num_edges"] = np.array(sample.num_edges, np.int64)
            arrays[f"{number}.once"] = np.array(sample.expand == "once")
        head = np.array([len(self), self.epoch, self.first_batch], np.int64)
        file = io.BytesIO()
        np.savez(file, head=head, seed=np.array(self.seed, np.uint64), **arrays)  # type: ignore[arg-type]
        check_target(path)
        write_safely(Path(path), file.getvalue())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Bulk":
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
                f"{Path(path).name} is not a saved bulk, or it is damaged ({error})"
            ) from error


_ARRAYS = ("node", "row", "col", "edge", "weight", "seed_position")
_NONE = np.empty(0, np.int64)
_MOST = 1 << 40  # bytes of an array; an archive cannot claim more than this


def _spread(counts: Sequence[int]) -> str:
    if not counts:
        return "none"
    return f"{min(counts):,} to {max(counts):,}, mean {sum(counts) / len(counts):,.0f}"


def _whole(file: ZipArrays, name: str, shape: tuple[int, ...] | None = None) -> Array:
    """Whole numbers, of one dimension unless a shape is given."""
    values = file.whole(name, _MOST)
    if values.dtype.kind not in "iu" or (shape is None and values.ndim != 1):
        raise FormatError(f"{name} in {file.name} is not a list of whole numbers")
    if shape is not None and values.shape != shape:
        raise FormatError(f"{name} in {file.name} has shape {values.shape}, expected {shape}")
    return values


def _load(file: ZipArrays) -> Bulk:
    count, epoch, first = (int(n) for n in _whole(file, "head", (3,)))
    seed = _whole(file, "seed", ())
    if not 0 <= count <= len(file.names()) or min(epoch, first) < 0:
        raise FormatError(f"head in {file.name} has impossible counts")
    samples = [_load_sample(file, number, first) for number in range(count)]
    return Bulk(samples, int(seed), epoch, first)


def _load_sample(file: ZipArrays, number: int, first: int) -> Sample:
    names = set(file.names())

    def optional(name: str) -> Any:
        key = f"{number}.{name}"
        return file.whole(key, _MOST) if key in names else None

    once = file.whole(f"{number}.once", _MOST)
    sample = Sample(
        node=_whole(file, f"{number}.node"),
        num_nodes=tuple(int(n) for n in _whole(file, f"{number}.num_nodes")),
        row=_whole(file, f"{number}.row"),
        col=_whole(file, f"{number}.col"),
        num_edges=tuple(int(n) for n in _whole(file, f"{number}.num_edges")),
        edge=_whole(file, f"{number}.edge"),
        weight=optional("weight"),
        seed_position=optional("seed_position"),
        batch=first + number,
        expand="once" if once.any() else "per-layer",
        tree=optional("tree"),
    )
    if not _fits(sample):
        raise FormatError(
            f"minibatch {number} in {file.name} does not fit together; the file is damaged"
        )
    return sample


def _fits(sample: Sample) -> bool:
    """Whether counts, positions and dtypes are those of a minibatch."""
    nodes, edges = len(sample.node), len(sample.row)
    seeds = sample.num_nodes[0] if sample.num_nodes else 0
    position, weight = sample.seed_position, sample.weight
    return (
        sample.num_nodes == tuple(sorted(sample.num_nodes))
        and len(sample.num_nodes) == len(sample.num_edges) + 1
        and (seeds >= 0 and sample.num_nodes[-1] == nodes)
        and (min(sample.num_edges, default=0) >= 0 and sum(sample.num_edges) == edges)
        and (len(sample.col) == len(sample.edge) == edges)
        and sample.node.dtype in (np.uint32, np.int64)
        and (sample.row.dtype == sample.col.dtype == np.uint32 and sample.edge.dtype == np.int64)
        and (not edges or max(int(sample.row.max()), int(sample.col.max())) < nodes)
        and (weight is None or (weight.shape == (edges,) and weight.dtype == np.float32))
        and (position is None or _are_positions(position, seeds))
        and (sample.tree is None or _are_trees(sample.tree, nodes, seeds))
    )


def _are_positions(values: Array, count: int) -> bool:
    right = values.ndim == 1 and values.dtype == np.int64
    return right and (not len(values) or (values.min() >= 0 and values.max() < count))


def _are_trees(values: Array, nodes: int, seeds: int) -> bool:
    right = values.shape == (nodes,) and values.dtype == np.uint32
    return right and (not nodes or int(values.max()) < seeds)


def to_samples(
    made: Sequence[tuple[Any, ...]], first_batch: int, expand: Expand = "once"
) -> list[Sample]:
    """Converts a kernel's result to samples."""
    return [
        Sample(
            node=node,
            num_nodes=tuple(num_nodes),
            row=row,
            col=col,
            num_edges=tuple(num_edges),
            edge=edge,
            weight=weight,
            seed_position=position,
            batch=first_batch + number,
            expand=expand,
            tree=tree,
        )
        for number, (
            node,
            num_nodes,
            row,
            col,
            num_edges,
            edge,
            position,
            weight,
            tree,
        ) in enumerate(made)
    ]
