"""verify: reads every byte of a graph and reports the first problem, if any.

Files are read with ordinary reads in small buffers, so a bad disk is an error and not a crash, and
memory use does not depend on the size of the graph. NaN and infinity in features are a warning:
they are legal, though rarely intended.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.chunks import edge_pieces, row_pieces
from foregather.graph.graph_value import GraphValue
from foregather.graph.integrity.check_topology import check_indptr
from foregather.graph.integrity.file_checks import check_files
from foregather.graph.links.check import check_links
from foregather.graph.on_disk.folder import open_graph
from foregather.graph.on_disk.meta import read_meta
from foregather.observe.progress import Progress

__all__ = ["Report", "count_nonfinite", "verify"]

Array = npt.NDArray[Any]

_BUFFER = 4 << 20


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked and found correct.

    Attributes:
        arrays: names of the arrays checked.
        checksummed_bytes: payload bytes compared with their checksums (0 for a graph in memory).
        chunks: checksums compared.
        blocks: block checksums compared; None for a folder that has none, so that its bytes are
            not checked when they are read.
        num_nodes: rows of the topology checked.
        num_edges: ids checked, and checked to ascend inside their row.
        nonfinite: NaN and infinite numbers found, by array; only arrays that have any.
        warnings: warnings for the user, in whole sentences.
    """

    arrays: tuple[str, ...]
    checksummed_bytes: int
    chunks: int
    num_nodes: int
    num_edges: int
    nonfinite: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    blocks: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        return {
            "arrays": list(self.arrays),
            "checksummed_bytes": self.checksummed_bytes,
            "chunks": self.chunks,
            "blocks": self.blocks,
            "num_nodes": self.num_nodes,
            "num_edges": self.num_edges,
            "nonfinite": dict(self.nonfinite),
            "warnings": list(self.warnings),
        }


def verify(graph: GraphValue | str | os.PathLike[str], threads: int = 0) -> Report:
    """Checks a graph completely: checksums and headers (of a folder), topology, labels, splits.

    Args:
        graph: a graph, or the path of a folder.
        threads: for checksums and ids; 0 uses all.

    Raises:
        FormatError: names the file and the byte range, row or position of the first problem.
        StorageError: a file cannot be read.
    """
    if not isinstance(graph, GraphValue):
        graph = open_graph(Path(graph), GraphValue)
    arrays = graph.stored_arrays()
    size = chunks = 0
    blocks: int | None = None
    if graph.path is not None:
        size, chunks, blocks = check_files(graph.path, read_meta(graph.path), threads)
    check_indptr(graph)
    _check_edges(graph, threads)
    _check_places(graph)
    _check_labels(graph)
    negative = _check_weights(graph)
    for name, ids in graph.splits.items():
        _check_split(name, ids, graph.num_nodes)
    for name, links in graph.links.items():
        check_links(f"links {name!r}", links, graph.num_nodes, graph.num_nodes)
    bad = {
        name: count
        for name, values in arrays.items()
        if values.dtype.kind == "f"
        and name != "labels"
        and (count := count_nonfinite(name, values))
    }
    for name in bad:
        if name.endswith("_scale"):
            raise FormatError(f"{name}.npy holds a scale that is not finite")
    warnings = [f"{name} holds {count} NaN or infinite numbers" for name, count in bad.items()]
    if negative:
        warnings.append(
            f"edge_weight holds {negative} negative numbers, which sampling by weight refuses"
        )
    counts = size, chunks, graph.num_nodes, graph.num_edges
    return Report(tuple(sorted(arrays)), *counts, bad, tuple(warnings), blocks)


# ---- contents --------------------------------------------------------------------------------


def _check_edges(graph: GraphValue, threads: int) -> None:
    with Progress("edges", graph.num_edges, "edges") as bar:
        for piece in edge_pieces(graph):
            bad = _core.check_ids(piece.indices, graph.num_nodes, threads)
            if bad >= 0:
                raise FormatError(
                    f"indices.npy holds node {int(piece.indices[bad])} at position "
                    f"{piece.start + bad}, but the graph has {graph.num_nodes} nodes "
                    "(ids are 0 to N-1)"
                )
            bad = _core.check_rows(piece.indptr, piece.indices, piece.start)
            if bad >= 0:
                edge = piece.start + bad
                row = piece.first_row - 1 + int(np.searchsorted(piece.indptr, edge, side="right"))
                raise FormatError(
                    f"indices.npy does not ascend in row {row}: "
                    f"{int(piece.indices[bad - 1])} is followed by {int(piece.indices[bad])} at "
                    f"position {edge}"
                )
            bar.advance(len(piece.indices) - piece.skip)


def _check_places(graph: GraphValue) -> None:
    places = None if graph.features is None else graph.features.places
    if places is None:
        return
    taken = np.zeros(graph.num_nodes, np.bool_)
    for start, piece in row_pieces(places):
        bad = _core.check_ids(np.ascontiguousarray(piece), graph.num_nodes)
        if bad >= 0:
            raise FormatError(
                f"places.npy holds {int(piece[bad])} for node {start + bad}, expected a row from 0 "
                f"to {graph.num_nodes - 1}"
            )
        taken[piece] = True
    if not taken.all():
        raise FormatError(
            f"places.npy gives row {int(np.argmin(taken))} to no node, so another row has two; the "
            "folder is damaged, reorder it again"
        )


def _check_labels(graph: GraphValue) -> None:
    labels = graph.labels
    if labels is None or labels.dtype.kind == "f":
        return
    facts = graph.meta.get("labels")
    classes = facts.get("num_classes") if isinstance(facts, dict) else None
    limit = classes if isinstance(classes, int) and labels.ndim == 1 else None
    for start, piece in row_pieces(labels):
        wrong = piece < -1 if labels.dtype.kind == "i" else np.zeros(piece.shape, np.bool_)
        if limit is not None:
            wrong = wrong | (piece >= limit)
        if wrong.any():
            at = np.argwhere(wrong)[0]
            raise FormatError(
                f"labels.npy holds {piece[tuple(at)]} at row {start + int(at[0])}, expected "
                f"-1 (missing) to {'the last class' if limit is None else limit - 1}"
            )


def _check_weights(graph: GraphValue) -> int:
    """Refuses weights that are not finite; returns how many are negative."""
    negative = 0
    if graph.edge_weight is None:
        return negative
    for start, piece in row_pieces(graph.edge_weight):
        wrong = np.flatnonzero(~np.isfinite(piece))
        if wrong.size:
            raise FormatError(
                f"edge_weight.npy holds {piece[wrong[0]]} at position {start + int(wrong[0])}, "
                "expected finite numbers; convert the graph again without that edge"
            )
        negative += int(np.count_nonzero(piece < 0))
    return negative


def _check_split(name: str, ids: npt.NDArray[np.int64], num_nodes: int) -> None:
    for start, piece in row_pieces(ids):
        bad = _core.check_ids(piece, num_nodes)
        if bad >= 0:
            raise FormatError(
                f"splits/{name}.npy holds node {int(piece[bad])} at position {start + bad}, but "
                f"the graph has {num_nodes} nodes (ids are 0 to N-1)"
            )


def count_nonfinite(name: str, values: Array) -> int:
    """How many numbers are NaN or infinite."""
    count = 0
    with Progress(name, values.shape[0], "rows") as bar:
        for _, piece in row_pieces(values):
            count += piece.size - int(np.isfinite(piece).sum())
            bar.advance(len(piece))
    return count
