"""run: convert() turns a source into a graph folder within a memory budget.

The folder depends only on the source and the options, not on memory, threads or chunk sizes. It
appears under its name when it is complete, or not at all.
"""

import os
import shutil
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.convert.detect import open_features, open_source
from foregather.graph.convert.numbering import Numbering
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.rows import write_rows
from foregather.graph.convert.source import Rows, Source
from foregather.graph.convert.topology import (
    EdgeRules,
    IdTooWide,
    Topology,
    is_wide,
    record_dtype,
)
from foregather.graph.convert.typed.run import convert_typed
from foregather.graph.labels import normalize_labels, normalize_split
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress, peak_memory
from foregather.observe.usable_memory import usable_memory
from foregather.old_spellings import from_old_arguments, refuse_unknown
from foregather.units import format_bytes, parse_size

__all__ = ["convert"]

_LEAST = 96 << 20  # working memory below which buffers would be absurdly small


def convert(
    src: Any,
    dst: str | os.PathLike[str],
    *,
    memory: str | int = "2GB",
    undirected: bool | None = None,
    self_loops: bool = False,
    dedup: bool = False,
    dtype: str = "auto",
    reading: ReadOptions | None = None,
    features: str | os.PathLike[str] | None = None,
    splits: bool = True,
    overwrite: bool = False,
    threads: int = 0,
    **others: Any,
) -> dict[str, Any]:
    """Converts existing data to a graph folder, in bounded memory.

    Args:
        src: a .npz, .npy, edge list (csv, tsv, txt, mtx, gzipped or not), .parquet, OGB folder,
            graph folder, or a PyG `Data` object or data set of one graph; or a .toml that
            describes tables of several node and edge types, which become a `HeteroGraph`.
        dst: the folder to make.
        memory: bytes the process may use, such as "2GB"; at most what the machine has is used.
        undirected: add the reverse of each edge and drop repeated pairs (the first is kept). None:
            only if the data set is undirected by definition but stored one way.
        self_loops: add an edge from each node to itself where there is none.
        dedup: keep the first of several edges with the same source and target.
        dtype: node features as "float32", "float16", "int8" (with one scale per column), "source",
            or "auto": float16 is kept, everything else becomes float32.
        reading: how the source is read where it does not say so: ids, number of nodes, columns,
            weights, header.
        features: a file with the node features; those of the source are left out.
        splits: False leaves the splits out.
        overwrite: replace an existing graph folder.
        threads: threads of the kernels, 0 for all.
        others: fields of `reading`, which release 0.1 had as arguments; with a warning.

    Returns:
        Facts about the result: counts, bytes, notes, seconds and peak memory.

    Raises:
        InputError: an option does not apply to the source, or something in it cannot be stored.
    """
    asked = from_old_arguments(reading, others, ReadOptions(), "reading", "convert")
    refuse_unknown(others, convert, *(one.name for one in fields(ReadOptions)))
    if isinstance(src, (str, os.PathLike)) and Path(src).suffix.lower() == ".toml":
        _only_plain(undirected, self_loops, dedup, dtype, asked, features, splits)
        return convert_typed(src, dst, memory=memory, overwrite=overwrite, threads=threads)
    started = time.perf_counter()
    work = _working_memory(parse_size(memory))
    source = open_source(src, asked, splits=splits)
    rows = open_features(features, work // 4) if features is not None else source.features
    if rows is None and dtype != "auto":
        raise InputError(
            f"--dtype is {dtype!r}, the type of node features, but {source.name} has none; leave "
            "it out, or name a file with --features"
        )
    if undirected is None:
        undirected = bool(source.stored_once)
    rules = EdgeRules(undirected, self_loops, dedup)
    with FolderWriter(dst, overwrite) as writer:
        _check_space(writer.folder, source, rules, rows, dtype)
        topology, count, edges = _write_edges(writer, source, rules, work, threads)
        facts = _write_nodes(writer, source, rows, dtype, count, work, splits)
        if topology.negative:
            facts["edge_weight"] = {"negative": topology.negative}
        writer.finish(
            count,
            edges,
            undirected=True if rules.undirected else None,
            self_loops="added" if rules.self_loops else "kept",
            duplicates="removed" if rules.drops else "kept",
            provenance={"source": source.name, "options": asdict(rules) | {"dtype": dtype}},
            **facts,
        )
        bytes_written = _folder_bytes(Path(dst))
    return {
        "graph": Path(dst).name,
        "source": source.name,
        "num_nodes": count,
        "num_edges": edges,
        "undirected": rules.undirected,
        "duplicates_removed": topology.removed,
        "self_loops_added": topology.loops_added,
        **facts,
        "bytes": bytes_written,
        "notes": [
            *source.notes(),
            *_direction_note(source, rules),
            *_weight_note(topology),
            *_feature_note(source, features),
        ],
        "seconds": time.perf_counter() - started,
        "peak_memory": peak_memory(),
    }


def _only_plain(
    undirected: bool | None,
    self_loops: bool,
    dedup: bool,
    dtype: str,
    asked: ReadOptions,
    features: str | os.PathLike[str] | None,
    splits: bool,
) -> None:
    """Refuses options that tables of several types have no use for."""
    for name, given in (
        ("undirected", undirected is not None),
        ("self-loops", self_loops),
        ("dedup", dedup),
        ("dtype", dtype != "auto"),
        ("features", features is not None),
        ("no-splits", splits is not True),
    ):
        if given:
            raise InputError(f"--{name} does not apply to a TOML description; leave it out")
    asked.only("a TOML description")


def _working_memory(memory: int) -> int:
    """Returns what the budget leaves after the interpreter and loaded libraries.

    A budget above the machine's free memory is reduced to it.
    """
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    least = resident + _LEAST
    if memory < least:
        raise BudgetError(
            f"--memory is {format_bytes(memory)}, but this needs at least {format_bytes(least)}; "
            "raise it"
        )
    memory = min(memory, max(least, resident + usable_memory()))
    return memory - resident - (_LEAST // 3)  # the rest of _LEAST covers small allocations


def _check_space(
    folder: Path, source: Source, rules: EdgeRules, rows: Rows | None, dtype: str
) -> None:
    """Refuses work that cannot fit on the disk, before it starts."""
    need = 0
    if source.num_edges is not None:
        ways = 2 if rules.undirected else 1
        need += 12 * ways * source.num_edges  # spooled once, written once
    if rows is not None:
        size = {"float16": 2, "int8": 1, "source": rows.dtype.itemsize}.get(dtype, 4)
        need += rows.count * rows.width * (2 if rows.dtype == np.float16 else size)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise StorageError(
            f"the graph needs about {format_bytes(need)} of disk while it is made, "
            f"{format_bytes(free)} are free (no space left); choose a larger disk"
        )


def _write_edges(
    writer: FolderWriter, source: Source, rules: EdgeRules, work: int, threads: int
) -> tuple[Topology, int, int]:
    count = source.num_nodes
    if source.ids != "dense":
        return _write_numbered(writer, source, rules, work, threads)
    for wide in (count is not None and is_wide(count), True):
        dtype = record_dtype(wide, source.has_weight, source.edge_features)
        topology = Topology(writer, dtype, rules, work, threads)
        try:
            _spool(topology, source, count, work)
            break
        except IdTooWide:  # reread with 64 bits
            topology.discard()
    if count is None:
        count = topology.largest + 1
        if count > 1_000_000 + 100 * topology.position:
            raise InputError(
                f"the largest id is {topology.largest} but there are only {topology.position} "
                "edges; pass --ids sparse to renumber the nodes, or --nodes to say their number"
            )
    return topology, count, topology.finish(count)


def _spool(topology: Topology, source: Source, count: int | None, work: int) -> None:
    with Progress("reading edges", source.num_edges, "edges") as bar:
        for chunk in source.edges(_edge_step(topology.dtype, work)):
            topology.add(chunk, count)
            bar.advance(len(chunk.source))


def _edge_step(dtype: np.dtype[Any], work: int) -> int:
    # a chunk is held as read, as int64 and as records, for two directions: an eighth of the memory
    return max(1024, work // (8 * (32 + 3 * dtype.itemsize)))


def _write_numbered(
    writer: FolderWriter, source: Source, rules: EdgeRules, work: int, threads: int
) -> tuple[Topology, int, int]:
    numbering = Numbering(
        writer, source.ids, source.has_weight, source.edge_features, work // 2, threads
    )
    keyed = record_dtype(True, source.has_weight, source.edge_features)
    with Progress("reading edges", source.num_edges, "edges") as bar:
        for chunk in source.edges(_edge_step(keyed, work // 2)):
            numbering.add(chunk)
            bar.advance(len(chunk.source))
    count = numbering.finish()
    if source.num_nodes is not None and source.num_nodes != count:
        raise InputError(
            f"--nodes is {source.num_nodes}, but the edges name {count} different nodes"
        )
    dtype = record_dtype(is_wide(count), source.has_weight, source.edge_features)
    topology = Topology(writer, dtype, rules, work // 2, threads)
    for chunk in numbering.edges():
        topology.add(chunk, count)
    topology.memory = work
    return topology, count, topology.finish(count)


def _write_nodes(
    writer: FolderWriter,
    source: Source,
    rows: Rows | None,
    dtype: str,
    count: int,
    work: int,
    with_splits: bool,
) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if rows is not None:
        if source.ids != "dense":
            raise InputError("features need dense ids: their rows are in the order of the ids")
        if rows.count != count:
            raise InputError(
                f"features have {rows.count} rows, but the graph has {count} nodes; "
                "expected one row per node"
            )
        facts["features"] = write_rows(writer, "features", rows, dtype, work // 4)
    small = source.small(work // 2)
    if small.labels is not None:
        labels, facts["labels"] = normalize_labels(small.labels, count)
        writer.put("labels", labels)
    splits = small.splits if with_splits else {}
    for name, values in splits.items():
        writer.put(f"splits/{name}", normalize_split(name, values, count))
    if splits:
        facts["splits"] = {n: int(writer.arrays[f"splits/{n}"]["shape"][0]) for n in splits}
    return facts


def _direction_note(source: Source, rules: EdgeRules) -> list[str]:
    if rules.undirected and source.stored_once:
        return ["Reverse edges were added: this data set is undirected and stored one way."]
    if rules.undirected:
        return ["Reverse edges were added and repeated pairs removed."]
    return ["Edges are kept as in the source; no reverse edges were added."]


def _weight_note(topology: Topology) -> list[str]:
    if not topology.negative:
        return []
    return [
        f"{topology.negative} edges have a negative weight: models use it unchanged, weighted "
        "sampling refuses it."
    ]


def _feature_note(source: Source, features: str | os.PathLike[str] | None) -> list[str]:
    if features is None or source.features is None:
        return []
    return [
        f"The features of {source.name} were left out; those of {Path(features).name} are used "
        "instead."
    ]


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
