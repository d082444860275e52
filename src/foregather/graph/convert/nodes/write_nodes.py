"""write_nodes: features, labels and splits of a conversion, from its source or a node table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, StorageError
from foregather.graph.convert.nodes.join import NodeJoin, Numbers
from foregather.graph.convert.nodes.node_options import NodeFile, SplitRule
from foregather.graph.convert.nodes.node_rows import NodeReader, column_name
from foregather.graph.convert.nodes.node_splits import divide_by_chance, divide_by_time, read_times
from foregather.graph.convert.rows import write_rows
from foregather.graph.convert.source import RowStream, Source
from foregather.graph.labels import normalize_labels, normalize_split
from foregather.graph.on_disk.writer import FolderWriter
from foregather.units import format_number

__all__ = ["NodeParts", "largest_id", "open_table", "table_notes", "write_nodes"]

Array = npt.NDArray[Any]
_TEXT = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class NodeParts:
    """What is known of the nodes, and how it is to be stored.

    Attributes:
        rows: features of the source or of a file; None without, or where the table has them.
        dtype: how features are stored.
        splits: True keeps those there are, False leaves them out, a rule makes others.
        table: the rows of a node table; None without.
        numbers: from the table's ids to nodes.
        original: the original id of a node, as messages show it.
    """

    rows: RowStream | None
    dtype: str
    splits: bool | SplitRule
    table: NodeJoin | None
    numbers: Numbers
    original: Callable[[int], str]


def open_table(
    asked: NodeFile | None, source: Source, splits: bool | SplitRule
) -> NodeReader | None:
    """Opens a node table and checks that it fits what else is asked for; None without one.

    Raises:
        InputError: an option has no effect, or needs a column that is not there.
    """
    if not isinstance(splits, (bool, SplitRule)):
        raise InputError(
            f"splits is {splits!r:.60}, expected True, False or foregather.SplitRule(...)"
        )
    if asked is not None and not isinstance(asked, NodeFile):
        raise InputError(f"table is {asked!r:.60}, expected foregather.NodeFile(...)")
    by_time = isinstance(splits, SplitRule) and splits.times is not None
    if asked is None:
        if by_time:
            raise InputError(
                "--split-time needs the times of the nodes; name a table with --node-table"
            )
        return None
    if asked.time is not None and not by_time:
        raise InputError("--node-time has no effect without --split-time; leave it out")
    if asked.split is not None and splits is not True:
        raise InputError(
            "--node-split takes the splits of the node table, which --split, --split-time and "
            "--no-splits leave out; pass one of them"
        )
    reader = _open_reader(asked, source.ids == "string", by_time)
    if by_time and reader.columns.time < 0:
        raise InputError(
            f"--split-time needs a column of times in {reader.name}; name it with --node-time"
        )
    if asked.label_kind != "auto" and reader.columns.label < 0:
        raise InputError(
            "--node-label-kind has no effect without labels; name them by --node-label"
        )
    if asked.fill is not None and not reader.columns.features:
        raise InputError(f"--fill has no effect: {reader.name} has no features; leave it out")
    return reader


def _open_reader(asked: NodeFile, strings: bool, with_time: bool) -> NodeReader:
    path = Path(asked.path)
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the path of the node table")
    bare = path.name.lower().removesuffix(".gz")
    if path.name.lower().endswith(".parquet"):
        from foregather.graph.convert.nodes.parquet_nodes import ParquetNodes

        return ParquetNodes(asked, strings, with_time)
    if bare.endswith(_TEXT):
        from foregather.graph.convert.nodes.text_nodes import TextNodes

        return TextNodes(asked, strings, with_time)
    raise InputError(
        f"{path.name} is not a supported node table; expected .csv, .tsv, .txt (or .gz of these) "
        "or .parquet"
    )


def largest_id(table: NodeJoin, count: int | None) -> tuple[int, int]:
    """The largest id of a table with dense ids (-1: it is empty), and how many rows it has.

    Args:
        table: not read yet.
        count: how many nodes the graph has, if that is known already.

    Raises:
        InputError: an id is below 0, or not below `count`.
    """
    largest, rows = -1, 0
    for ids, _, lines in table.ids():
        bad = (ids < 0) if count is None else (ids < 0) | (ids >= count)
        if bad.any():
            at = int(np.argmax(bad))
            there = "0 or more" if count is None else f"0 to {count - 1}, a node of the graph"
            raise InputError(
                f"{table.reader.name} {table.reader.unit} {lines[at]} has the id {ids[at]}, "
                f"expected {there}; pass --ids sparse to renumber the nodes"
            )
        largest, rows = max(largest, int(ids.max())), rows + len(ids)
    return largest, rows


def write_nodes(
    writer: FolderWriter, source: Source, parts: NodeParts, count: int, work: int
) -> dict[str, Any]:
    """Writes features, labels and splits; returns their facts for meta.json.

    Raises:
        InputError: they do not fit the graph, or each other.
    """
    facts: dict[str, Any] = {}
    table = parts.table
    if table is not None:
        table.read(parts.numbers, count)
        table.check_overlap(parts.original)
    rows = _features(source, parts, count)
    if rows is not None:
        facts["features"] = write_rows(writer, "features", rows, parts.dtype, work // 4)
    small = source.small(work // 2)
    given, classes = (None, None) if table is None else table.class_labels()
    if given is not None and small.labels is not None:
        raise InputError(
            f"{source.name} has labels, and so has the node table; leave one of them out"
        )
    labels = small.labels if given is None else given
    if labels is not None:
        labels, facts["labels"] = normalize_labels(labels, count)
        classes = small.classes if given is None else classes
        if classes is not None:
            facts["labels"]["classes"] = classes
        writer.put("labels", labels)
    splits = _splits(parts, small.splits, labels)
    for name, values in getattr(source, "mapping", {}).items():
        writer.put(name, values)
    for name, values in splits.items():
        writer.put(f"splits/{name}", normalize_split(name, values, count))
    if splits:
        facts["splits"] = {n: int(writer.arrays[f"splits/{n}"]["shape"][0]) for n in splits}
    return facts


def _features(source: Source, parts: NodeParts, count: int) -> RowStream | None:
    def header(first: str) -> str:
        line = getattr(source, "first_edge", None)  # of an edge list of text
        if line is None or first.strip("'\"") not in line[1]:
            return ""
        return (
            f"; line {line[0]} of {source.name}, {line[1][:80]!r}, was read as an edge: if it is a "
            "header, pass --header yes"
        )

    joined = None if parts.table is None else parts.table.features(parts.original, header)
    if parts.rows is None or joined is not None:
        return joined
    if source.ids != "dense":
        raise InputError(
            "features need dense ids: their rows are in the order of the ids; put them in a node "
            "table and name it with --node-table"
        )
    if parts.rows.count != count:
        raise InputError(
            f"features have {parts.rows.count} rows, but the graph has {count} nodes; "
            "expected one row per node"
        )
    return parts.rows


def _splits(parts: NodeParts, given: dict[str, Array], labels: Array | None) -> dict[str, Array]:
    if parts.splits is False:
        return {}
    rule, table = parts.splits, parts.table
    if not isinstance(rule, SplitRule):
        named = {} if table is None else table.named_splits()
        if named and given:
            raise InputError("the source has splits, and so has the node table; leave one out")
        return {**given, **named}
    if labels is None:
        raise InputError(
            f"--split and --split-time divide labelled nodes; there are no labels{_unread(table)}"
        )
    labelled = np.flatnonzero(_is_labelled(labels))
    if table is not None and table.reader.columns.label >= 0:
        labelled = labelled[np.argsort(table.lines[labelled], kind="stable")]
    if rule.times is None:
        return dict(divide_by_chance(rule, labelled))
    assert table is not None
    times = np.empty(0, np.int64) if table.times is None else table.times[labelled]
    if (times == _core.NO_TIME).any():
        node = int(labelled[int(np.argmax(times == _core.NO_TIME))])
        place = int(table.lines[node])
        where = f"{table.reader.unit} {place}" if place else f"no row for {parts.original(node)}"
        raise InputError(
            f"{table.reader.name} has no time in {where}, which has a label; add it, or leave the "
            "label empty"
        )
    limits = read_times(rule.times, table.reader.dates)
    return dict(divide_by_time(limits, labelled, times))


def _unread(table: NodeJoin | None) -> str:
    """Where labels may be, for a message that there are none."""
    if table is None:
        return "; a table of the nodes brings them: --node-table"
    left = [column_name(table.reader, column) for column in table.reader.columns.left[:5]]
    known = f" (not read: {', '.join(left)})" if left else ""
    return f"; --node-label names their column in {table.reader.name}{known}"


def _is_labelled(labels: Array) -> npt.NDArray[np.bool_]:
    there = np.asarray(~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0)
    return there if there.ndim == 1 else np.asarray(there.any(axis=1))


def table_notes(table: NodeJoin | None) -> list[str]:
    """What was read of a node table, in whole sentences."""
    if table is None:
        return []
    reader = table.reader
    columns = reader.columns
    said = [f"ids from {column_name(reader, columns.id)}"]
    if columns.label >= 0:
        said.append(f"labels from {column_name(reader, columns.label)}")
    if columns.split >= 0 and table.splits is not None:
        said.append(f"splits from {column_name(reader, columns.split)}")
    if columns.features:
        listed = [column_name(reader, c) for c in columns.features[:3]]
        more = len(columns.features) - len(listed)
        said.append(f"features from {', '.join(listed)}" + (f" and {more} more" if more else ""))
    notes = [f"{reader.name}: {'; '.join(said)}."]
    if columns.left:
        shown = ", ".join(column_name(reader, c) for c in columns.left[:5])
        notes.append(f"Not read: {shown}{' and more' if len(columns.left) > 5 else ''}.")
    if table.without_edges:
        notes.append(f"{table.without_edges} of its rows are of nodes without edges.")
    if table.missing:
        filled = f"; features there are {table.fill:g}" if columns.features else ""
        nodes = format_number(table.missing, "node")
        notes.append(f"There is no row in {reader.name} for {nodes}{filled}.")
    return notes
