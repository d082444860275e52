"""run: convert() turns a source into a graph folder within a memory budget.

The folder depends only on the source and the options, not on memory, threads or chunk sizes. It
appears under its name when it is complete, or not at all.
"""

import os
import shutil
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import InputError, StorageError
from foregather.graph.convert.detect import open_features, open_source
from foregather.graph.convert.link_files import LinkFiles
from foregather.graph.convert.linked import convert_linked, link_wishes
from foregather.graph.convert.nodes.join import NodeJoin
from foregather.graph.convert.nodes.node_options import SplitRule
from foregather.graph.convert.nodes.node_rows import NodeReader
from foregather.graph.convert.nodes.write_nodes import (
    NodeParts,
    largest_id,
    open_table,
    table_notes,
    write_nodes,
)
from foregather.graph.convert.numbering import Numbering
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.source import RowStream, Source
from foregather.graph.convert.topology import (
    EdgeRules,
    IdTooWide,
    TopologyWriter,
    is_wide,
    record_dtype,
)
from foregather.graph.convert.typed.description.kind import typed_source
from foregather.graph.convert.typed.run import convert_typed
from foregather.graph.convert.working_memory import working_memory as _working_memory
from foregather.graph.links.rule import LinkSplit
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress, peak_memory
from foregather.old_spellings import from_old_arguments, refuse_unknown
from foregather.units import format_bytes, format_number, parse_size

__all__ = ["convert"]


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
    splits: bool | SplitRule | LinkSplit | LinkFiles = True,
    overwrite: bool = False,
    threads: int = 0,
    **others: Any,
) -> dict[str, Any]:
    """Converts existing data to a graph folder, in bounded memory.

    Args:
        src: a .npz, .npy, edge list (csv, tsv, txt, mtx, gzipped or not), .parquet, OGB folder,
            graph folder, or a PyG `Data` object or data set of one graph; or a .toml that
            describes tables of several node and edge types, or a database of SQLite or DuckDB,
            which become a `HeteroGraph`.
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
        splits: False leaves the splits out; a `SplitRule` makes new ones of the labelled nodes; a
            `LinkSplit` divides edges into links, only the training ones of which stay edges;
            `LinkFiles` adds links that come divided already.
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
    wanted, nodes = link_wishes(src, splits)
    changes = (undirected, self_loops, dedup)

    def make(folder: str | os.PathLike[str], anew: bool) -> dict[str, Any]:
        return _convert(src, folder, memory, changes, dtype, asked, features, nodes, anew, threads)

    if wanted is None:
        return make(dst, overwrite)
    reading = asked
    if isinstance(wanted, LinkFiles) and _typed(src) is not None:
        asked = replace(asked, header=None)  # it is of the links; a description has its own
    work = _working_memory(parse_size(memory))
    return convert_linked(
        lambda whole: make(whole, False), src, dst, wanted, reading, work, overwrite
    )


def _convert(
    src: Any,
    dst: str | os.PathLike[str],
    memory: str | int,
    changes: tuple[bool | None, bool, bool],
    dtype: str,
    asked: ReadOptions,
    features: str | os.PathLike[str] | None,
    splits: bool | SplitRule,
    overwrite: bool,
    threads: int,
) -> dict[str, Any]:
    """Converts without links; `changes` are the options undirected, self_loops and dedup."""
    undirected, self_loops, dedup = changes
    if (kind := _typed(src)) is not None:
        _only_plain(kind, undirected, self_loops, dedup, dtype, asked, features)
        return convert_typed(
            src,
            dst,
            memory=memory,
            splits=splits,
            strict=asked.strict,
            skip_columns=asked.skip_columns,
            overwrite=overwrite,
            threads=threads,
        )
    started = time.perf_counter()
    work = _working_memory(parse_size(memory))
    source = open_source(src, asked, splits=splits is True)
    reader = open_table(asked.table, source, splits)
    rows = open_features(features, work // 4) if features is not None else source.features
    joined = reader is not None and bool(reader.columns.features)
    if rows is not None and reader is not None and joined:
        raise InputError(
            f"{reader.name} has features, and so has the source or --features; leave one of them "
            "out (--node-features takes the columns of a table that are features)"
        )
    if rows is None and not joined and dtype != "auto":
        raise InputError(
            f"--dtype is {dtype!r}, the type of node features, but {source.name} has none; leave "
            "it out, or name a file with --features"
        )
    if undirected is None:
        undirected = bool(source.stored_once)
    rules = EdgeRules(undirected, self_loops, dedup)
    with FolderWriter(dst, overwrite) as writer:
        _check_space(writer.folder, source, rules, rows, dtype)
        table = None
        if reader is not None and asked.table is not None:
            table = NodeJoin(writer, reader, asked.table, work)
        topology, count, edges, numbering = _write_edges(
            writer, source, table, rules, work, threads
        )
        parts = NodeParts(rows, dtype, splits, table, _same, str)
        if numbering is not None:
            original = numbering.original
            numbers = _same if table is None else numbering.numbers()
            parts = NodeParts(rows, dtype, splits, table, numbers, original)
        facts = write_nodes(writer, source, parts, count, work)
        if topology.negative:
            facts["edge_weight"] = {"negative": topology.negative}
        writer.finish(
            count,
            edges,
            undirected=True if rules.undirected else None,
            self_loops="added" if rules.self_loops else "kept",
            duplicates="removed" if rules.drops else "kept",
            provenance={
                "source": source.name,
                "options": asdict(rules) | {"dtype": dtype} | _node_options(reader, splits),
            },
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
            *table_notes(table),
            *_direction_note(source, rules),
            *_weight_note(topology),
            *_feature_note(source, features),
        ],
        "seconds": time.perf_counter() - started,
        "peak_memory": peak_memory(),
    }


def _typed(src: Any) -> str | None:
    """The words for a source of several types; None for any other."""
    return typed_source(Path(src)) if isinstance(src, (str, os.PathLike)) else None


def _only_plain(
    what: str,
    undirected: bool | None,
    self_loops: bool,
    dedup: bool,
    dtype: str,
    asked: ReadOptions,
    features: str | os.PathLike[str] | None,
) -> None:
    """Refuses options that tables of several types have no use for."""
    for name, given in (
        ("undirected", undirected is not None),
        ("self-loops", self_loops),
        ("dedup", dedup),
        ("dtype", dtype != "auto"),
        ("features", features is not None),
    ):
        if given:
            raise InputError(f"--{name} does not apply to {what}; leave it out")
    asked.only(what, "strict", "skip_columns")


def _check_space(
    folder: Path, source: Source, rules: EdgeRules, rows: RowStream | None, dtype: str
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


def _same(ids: Any) -> Any:
    return ids


def _write_edges(
    writer: FolderWriter,
    source: Source,
    table: NodeJoin | None,
    rules: EdgeRules,
    work: int,
    threads: int,
) -> tuple[TopologyWriter, int, int, Numbering | None]:
    count = source.num_nodes
    if source.ids != "dense":
        return _write_numbered(writer, source, table, rules, work, threads)
    for wide in (count is not None and is_wide(count), True):
        dtype = record_dtype(wide, source.has_weight, source.edge_features)
        topology = TopologyWriter(writer, dtype, rules, work, threads)
        try:
            _spool(topology, source, count, work)
            break
        except IdTooWide:  # reread with 64 bits
            topology.discard()
    largest, rows = (-1, 0) if table is None else largest_id(table, count)
    if count is None:
        largest = max(largest, topology.largest)
        count = largest + 1
        if count > 1_000_000 + 100 * (topology.position + rows):
            raise InputError(
                f"the largest id is {largest} but there are only {topology.position} "
                "edges; pass --ids sparse to renumber the nodes, or --nodes to say their number"
            )
        if is_wide(count) and not wide:
            raise InputError(
                f"the node table has the id {largest}, beyond 32 bits, and the edges have none; "
                "pass --ids sparse to renumber the nodes"
            )
    return topology, count, topology.finish(count), None


def _spool(topology: TopologyWriter, source: Source, count: int | None, work: int) -> None:
    with Progress("reading edges", source.num_edges, "edges") as bar:
        for chunk in source.edges(_edge_step(topology.dtype, work)):
            topology.add(chunk, count)
            bar.advance(len(chunk.source))


def _edge_step(dtype: np.dtype[Any], work: int) -> int:
    # a chunk is held as read, as int64 and as records, for two directions: an eighth of the memory
    return max(1024, work // (8 * (32 + 3 * dtype.itemsize)))


def _write_numbered(
    writer: FolderWriter,
    source: Source,
    table: NodeJoin | None,
    rules: EdgeRules,
    work: int,
    threads: int,
) -> tuple[TopologyWriter, int, int, Numbering]:
    numbering = Numbering(
        writer, source.ids, source.has_weight, source.edge_features, work // 2, threads
    )
    keyed = record_dtype(True, source.has_weight, source.edge_features)
    with Progress("reading edges", source.num_edges, "edges") as bar:
        for chunk in source.edges(_edge_step(keyed, work // 2)):
            numbering.add(chunk)
            bar.advance(len(chunk.source))
    if table is not None:
        for ids, names, _ in table.ids():
            numbering.add_ids(ids, names)
    count = numbering.finish()
    if source.num_nodes is not None and source.num_nodes != count:
        also = "" if table is None else f" and {table.reader.name}"
        raise InputError(
            f"--nodes is {source.num_nodes}, but the edges{also} name {count} different nodes"
        )
    dtype = record_dtype(is_wide(count), source.has_weight, source.edge_features)
    topology = TopologyWriter(writer, dtype, rules, work // 2, threads)
    if table is not None:
        table.in_edges = np.zeros(count, np.bool_)
    for chunk in numbering.edges():
        if table is not None and table.in_edges is not None:
            table.in_edges[chunk.source] = table.in_edges[chunk.target] = True
        topology.add(chunk, count)
    topology.memory = work
    return topology, count, topology.finish(count), numbering


def _node_options(reader: NodeReader | None, splits: bool | SplitRule) -> dict[str, Any]:
    """What meta.json says of a node table and of splits that were made; nothing without."""
    said: dict[str, Any] = {} if reader is None else {"node_table": reader.name}
    if isinstance(splits, SplitRule) and splits.fractions is not None:
        said["split"] = {"fractions": list(splits.fractions), "seed": splits.seed}
    elif isinstance(splits, SplitRule) and splits.times is not None:
        said["split"] = {"times": [str(one) for one in splits.times]}
    return said


def _direction_note(source: Source, rules: EdgeRules) -> list[str]:
    if rules.undirected and source.stored_once:
        return ["Reverse edges were added: this data set is undirected and stored one way."]
    if rules.undirected:
        return ["Reverse edges were added and repeated pairs removed."]
    return ["Edges are kept as in the source; no reverse edges were added."]


def _weight_note(topology: TopologyWriter) -> list[str]:
    if not topology.negative:
        return []
    return [
        f"The weight of {format_number(topology.negative, 'edge')} is negative: models use it "
        "unchanged, weighted sampling refuses it."
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
