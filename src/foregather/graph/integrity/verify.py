"""verify: reads every byte of a graph and reports the first problem, if any.

Files are read with ordinary reads in small buffers, so a bad disk is an error and not a crash, and
memory use does not depend on the size of the graph. NaN and infinity in features are a warning:
they are legal, though rarely intended.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, StorageError
from foregather.files import open_regular
from foregather.graph.chunks import edge_pieces, row_pieces
from foregather.graph.graph_value import GraphValue
from foregather.graph.integrity.blocks import BLOCK, BlockSums, open_sums
from foregather.graph.integrity.check_topology import check_indptr
from foregather.graph.integrity.checks import REMAKE, table_file
from foregather.graph.on_disk.files import read_at
from foregather.graph.on_disk.folder import open_graph
from foregather.graph.on_disk.meta import ArrayEntry, Meta, read_meta
from foregather.graph.on_disk.npy import ALIGN, pack_header
from foregather.observe.progress import Progress

__all__ = ["Report", "verify"]

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
    blocks = None
    if graph.path is not None:
        meta = read_meta(graph.path)
        for entry in meta.arrays.values():
            _check_padding(graph.path, entry)
        size, chunks = _check_checksums(graph.path, meta, threads)
        if meta.tables is not None:
            blocks = sum(table.rows for table in meta.tables.values())
    check_indptr(graph)
    _check_edges(graph, threads)
    _check_labels(graph)
    negative = _check_weights(graph)
    for name, ids in graph.splits.items():
        _check_split(name, ids, graph.num_nodes)
    bad = {
        name: count
        for name, values in arrays.items()
        if values.dtype.kind == "f" and name != "labels" and (count := _nonfinite(name, values))
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


# ---- files -----------------------------------------------------------------------------------


def _check_padding(folder: Path, entry: ArrayEntry) -> None:
    """Checks that the header matches meta.json exactly and the file ends in zero padding."""
    try:
        with open_regular(folder / entry.file, folder) as file:
            header = file.read(ALIGN)
            file.seek(ALIGN + entry.nbytes)
            tail = file.read()
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {entry.file}: {error.strerror}") from error
    if header != pack_header(entry.dtype, entry.shape):
        raise FormatError(
            f"{entry.file} has a header that differs from meta.json (bytes 0 to {ALIGN}); "
            "the file is damaged"
        )
    if any(tail) or (entry.nbytes + len(tail)) % ALIGN:
        raise FormatError(f"{entry.file} does not end in zeros up to a multiple of {ALIGN} bytes")


def _check_chunk(path: Path, part: tuple[int, int], sums: BlockSums | None) -> tuple[str, str]:
    """Returns the XXH64 of a part of a file, and its first bad block or ""."""
    offset, length = part
    buffer = np.empty(min(length, _BUFFER), np.uint8)
    digest = _core.Xxh64()
    bad = ""
    with open_regular(path) as file:
        while length > 0:
            view = buffer[:length]
            read_at(file.fileno(), view, offset, path)
            digest.update(view)
            if sums is not None and not bad:
                bad = _bad_block(sums, offset, view)
            offset, length = offset + view.size, length - view.size
    return f"{digest.digest():016x}", bad


def _bad_block(sums: BlockSums, offset: int, view: npt.NDArray[np.uint8]) -> str:
    try:
        sums.check(offset, view)
    except FormatError as error:
        return str(error).removeprefix(f"{sums.name}: ").partition(" does not")[0]
    return ""


def _check_checksums(folder: Path, meta: Meta, threads: int) -> tuple[int, int]:
    workers = threads if threads > 0 else _core.default_threads()
    total = sum(entry.nbytes for entry in meta.arrays.values())
    chunks = 0
    with Progress("checksums", total, "B") as bar, ThreadPoolExecutor(workers) as pool:
        for entry in meta.arrays.values():
            sums = open_sums(folder, meta, entry.name)
            path = folder / entry.file
            aligned = sums if meta.chunk_bytes % BLOCK == 0 else None
            work = _parts(entry, meta.chunk_bytes)
            while batch := list(islice(work, 4 * workers)):
                count = len(batch)
                found = pool.map(_check_chunk, [path] * count, batch, [aligned] * count)
                for (begin, length), (checksum, block) in zip(batch, found, strict=True):
                    if checksum != entry.checksums[(begin - ALIGN) // meta.chunk_bytes]:
                        raise _corrupted(entry, begin, length, meta.chunk_bytes, block)
                    _check_table(entry, block)
                    bar.advance(length)
                    chunks += 1
            if aligned is not sums:  # chunks of another writer, which may split blocks
                _check_table(entry, _check_chunk(path, (ALIGN, entry.nbytes), sums)[1])
    return total, chunks


def _check_table(entry: ArrayEntry, block: str) -> None:
    if block:
        raise FormatError(
            f"{table_file(entry.name)} does not match {block} of {entry.file}, whose contents are "
            f"correct; {REMAKE}"
        )


def _parts(entry: ArrayEntry, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """(position in the file, length) of each chunk of an array."""
    for start in range(0, entry.nbytes, chunk_bytes):
        yield ALIGN + start, min(chunk_bytes, entry.nbytes - start)


def _corrupted(
    entry: ArrayEntry, begin: int, length: int, chunk_bytes: int, block: str
) -> FormatError:
    where = f", the first of them in {block}" if block else ""
    return FormatError(
        f"{entry.file} is corrupted: bytes {begin} to {begin + length} (chunk "
        f"{(begin - ALIGN) // chunk_bytes}) do not match their checksum{where}; restore the file "
        "or convert again"
    )


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


def _nonfinite(name: str, values: Array) -> int:
    count = 0
    with Progress(name, values.shape[0], "rows") as bar:
        for _, piece in row_pieces(values):
            count += piece.size - int(np.isfinite(piece).sum())
            bar.advance(len(piece))
    return count
