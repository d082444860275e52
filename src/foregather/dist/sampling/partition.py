"""partition: a block of consecutive rows of a graph: the part of the topology that one rank holds.

Blocks are cut so that they have about the same number of edges (or nodes), or at the boundaries set
by `foregather partition`. Only the bytes of the block are read, and each is checked; ids and edge
positions stay those of the whole graph.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.files import open_regular
from foregather.graph.chunks import row_of
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import ArrayChecks, array_checks, read_checked
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import ALIGN, read_file_header

__all__ = ["Balance", "Partition", "cut_rows", "read_span"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Balance = Literal["edges", "nodes"]


def cut_rows(indptr: Int, blocks: int, balance: Balance = "edges") -> Int:
    """Returns the boundaries of `blocks` consecutive ranges of rows, int64 [blocks + 1].

    Args:
        indptr: of the whole graph; a few entries are read, so it may be memory-mapped.
        blocks: number of blocks; some may be empty if there are few rows.
        balance: what the blocks are balanced by.

    Raises:
        InputError: `blocks` is not positive, or `balance` is unknown.
    """
    if blocks < 1:
        raise InputError(f"blocks is {blocks}, expected at least 1")
    nodes = len(indptr) - 1
    parts = np.arange(blocks + 1, dtype=np.int64)
    if balance == "nodes":
        return parts * nodes // blocks
    if balance != "edges":
        raise InputError(f"balance is {balance!r}, expected 'edges' or 'nodes'")
    edges = int(fetch(indptr[-1:])[0])
    starts = [row_of(indptr, int(part) * edges // blocks, "left") for part in parts]
    starts[0], starts[-1] = 0, nodes
    return np.asarray(starts, np.int64)


@dataclass(frozen=True, eq=False)
class Partition:
    """Block `block` of a graph's rows.

    Attributes:
        num_nodes: nodes of the whole graph.
        num_edges: edges of the whole graph.
        row_starts: int64 [blocks + 1]: block i has the rows [row_starts[i], row_starts[i + 1]).
        block: number of this block.
        indptr: int64, positions in the whole graph of this block's rows.
        indices: sources of this block's edges.
        edge_weight: float32 of this block's edges, or None.
        digest: of the whole graph.
        whole: the graph that the block was cut from, mapped if it is in a folder, for a sampler's
            own verbs. None if a block was made without one.
    """

    num_nodes: int
    num_edges: int
    row_starts: Int
    block: int
    indptr: Int
    indices: Array
    edge_weight: npt.NDArray[np.float32] | None
    digest: str
    whole: Graph | None = None

    @property
    def num_blocks(self) -> int:
        """Blocks of the graph."""
        return len(self.row_starts) - 1

    @property
    def first_row(self) -> int:
        """Id of the first node of this block."""
        return int(self.row_starts[self.block])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.row_starts, self.indptr, self.indices, self.edge_weight)
        return sum(array.nbytes for array in arrays if array is not None)

    @staticmethod
    def open(
        path: str | os.PathLike[str], blocks: int, block: int, balance: Balance | None = None
    ) -> "Partition":
        """Reads only one block of a graph folder into memory.

        Args:
            path: the folder.
            blocks: how many blocks there are.
            block: the one to read.
            balance: how to cut; None takes the boundaries of `foregather partition` if it cut the
                graph into as many blocks, and "edges" otherwise.

        Raises:
            InputError: there is no such block.
            FormatError: the folder is damaged.
            StorageError: a file cannot be read.
        """
        graph = Graph.open(path)
        starts = _borders(graph, blocks, balance)
        return _take(graph, starts, block, graph.path)

    @staticmethod
    def of(graph: Graph, blocks: int, block: int, balance: Balance = "edges") -> "Partition":
        """Returns one block of a graph in memory, without a copy."""
        return _take(graph, cut_rows(graph.indptr, blocks, balance), block, None)


def _borders(graph: Graph, blocks: int, balance: Balance | None) -> Int:
    kept = graph.meta.get("partition")
    if balance is None and isinstance(kept, dict):
        starts = np.asarray(kept.get("row_starts", []), np.int64)
        if len(starts) == blocks + 1:
            if starts[0] != 0 or starts[-1] != graph.num_nodes or (np.diff(starts) < 0).any():
                raise FormatError("meta.json has borders of blocks that do not cut the nodes")
            return starts
    return cut_rows(graph.indptr, blocks, balance or "edges")


def _take(graph: Graph, starts: Int, block: int, path: Path | None) -> Partition:
    if not 0 <= block < len(starts) - 1:
        raise InputError(f"block is {block}, but there are {len(starts) - 1} blocks (0 to B-1)")
    first, last = int(starts[block]), int(starts[block + 1])

    def piece(name: str, values: Array, begin: int, end: int) -> Array:
        if path is None:
            return values[begin:end]
        return read_span(path / f"{name}.npy", begin, end, array_checks(graph, name))

    indptr = piece("indptr", graph.indptr, first, last + 1)
    begin, end = int(indptr[0]), int(indptr[-1])
    if not 0 <= begin <= end <= graph.num_edges or (np.diff(indptr) < 0).any():
        raise FormatError(f"indptr does not ascend in rows {first} to {last}; verify the graph")
    indices = np.ascontiguousarray(piece("indices", graph.indices, begin, end))
    if path is not None and (bad := _core.check_ids(indices, graph.num_nodes)) >= 0:
        raise FormatError(
            f"indices.npy holds node {int(indices[bad])} at position {begin + bad}, but the graph "
            f"has {graph.num_nodes} nodes (ids are 0 to N-1); verify the graph"
        )
    weight = graph.edge_weight
    return Partition(
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        row_starts=starts,
        block=block,
        indptr=np.ascontiguousarray(indptr),
        indices=indices,
        edge_weight=None if weight is None else piece("edge_weight", weight, begin, end),
        digest=graph.digest,
        whole=graph,
    )


def read_span(path: Path, begin: int, end: int, checks: ArrayChecks | None = None) -> Array:
    """Reads elements begin to end - 1 of an array file, without mapping it, and checks them.

    Args:
        path: the file.
        begin: the first element.
        end: one past the last.
        checks: block checksums of the file; None if it has none.

    Raises:
        FormatError: the file is shorter, or a block does not match its checksum.
        StorageError: it cannot be read.
    """
    try:
        with open_regular(path) as file:
            header = read_file_header(file, path.name)
            size = header.dtype.itemsize
            if checks is not None and header.offset == ALIGN and end * size <= header.nbytes:
                sums = checks.load(begin * size, end * size)
                data = read_checked(file.fileno(), begin * size, end * size, path, sums)
                return data.view(header.dtype)
            file.seek(header.offset + begin * size)
            values = np.fromfile(file, header.dtype, end - begin)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path.name}: {error.strerror}") from error
    if len(values) < end - begin:
        raise FormatError(f"{path.name} ends before its entry {end}; the file is truncated")
    return values
