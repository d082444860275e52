"""join: brings the rows of a node table to the nodes of the graph.

The table is read twice: once for its ids, so that nodes without edges get numbers too, and once,
when every node has its number, for the rest. Features pass through a spool, sorted by node, so
their size is not bounded by memory; of labels, splits and places in the table a few bytes per node
are held. The order of the rows decides nothing but the division by chance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, FormatError, InputError
from foregather.graph.convert.nodes.node_options import NodeFile
from foregather.graph.convert.nodes.node_rows import NodeReader, NodeTableChunk, column_name
from foregather.graph.convert.source import RowStream, Strings
from foregather.graph.convert.spool import Spool
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress
from foregather.units import format_bytes

__all__ = ["JoinedRows", "NodeJoin", "Numbers"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
#: The numbers of nodes, from their ids or keys; -1 where a node is unknown.
Numbers = Callable[[Array], Int]

_NODE_BYTES = 64  # held of each node while labels and splits are made
_MOST = float(np.finfo(np.float32).max)
_EXACT = 2.0**53
_MOST_SPLITS = 100


@dataclass(frozen=True)
class JoinedRows(RowStream):
    """Features in the order of the nodes; `fill` where a node has no row."""

    spool: Spool
    limit: int
    fill: float

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        done = 0
        for group in self.spool.groups(self.limit):
            records = group.records[np.argsort(group.records["node"], kind="stable")]
            nodes = records["node"].astype(np.int64)
            end = int(nodes[-1]) + 1
            for start in range(done, end, step):
                stop = min(end, start + step)
                block = self._block(stop - start)
                first, last = np.searchsorted(nodes, (start, stop))
                block[nodes[first:last] - start] = records["row"][first:last]
                yield block
            done = end
        for start in range(done, self.count, step):
            yield self._block(min(step, self.count - start))

    def _block(self, count: int) -> Array:
        return np.full((count, self.width), self.fill, self.dtype)


class NodeJoin:
    """Reads a node table and holds what it says of each node.

    Args:
        writer: the folder being made, for scratch files.
        reader: the table.
        asked: what the user says about it.
        memory: bytes this may use.

    Attributes:
        lines: for each node its place in the table, 0 where it has none.
        labels: float64 or the number of a class for each node; None without labels.
        splits: the number of a split for each node, -1 for none; None without splits.
        times: for each node; None without times.
        in_edges: for each node whether an edge names it; None where that is not known.
    """

    def __init__(
        self, writer: FolderWriter, reader: NodeReader, asked: NodeFile, memory: int
    ) -> None:
        self.reader, self.fill, self.memory = reader, asked.fill, memory
        self.width = len(reader.columns.features)
        self.count = 0
        self.lines: Int = np.empty(0, np.int64)
        self.labels: Array | None = None
        self.splits: npt.NDArray[np.int32] | None = None
        self.times: Int | None = None
        self.in_edges: npt.NDArray[np.bool_] | None = None
        self._step = max(256, memory // (16 * (64 + 24 * self.width)))
        self._spool: Spool | None = None
        self._writer = writer

    def ids(self) -> Iterator[tuple[Array, Strings | None, Int]]:
        """The first reading: ids or keys, names, and places in the table."""
        with Progress("reading node ids", None, "rows") as bar:
            for rows in self.reader.rows(self._step):
                yield rows.ids, rows.names, rows.lines
                bar.advance(len(rows.ids))

    def read(self, numbers: Numbers, count: int) -> None:
        """The second reading, when the graph has `count` nodes.

        Raises:
            BudgetError: what is held of each node exceeds the memory.
            InputError: two rows have one id, or a feature is not there or does not fit float32.
        """
        if count * _NODE_BYTES > self.memory // 2:
            raise BudgetError(
                f"labels and splits of {count} nodes need {format_bytes(_NODE_BYTES * count)}, "
                f"more than half of the working memory ({format_bytes(self.memory)}); raise "
                "--memory"
            )
        columns, self.count = self.reader.columns, count
        self.lines = np.zeros(count, np.int64)
        if columns.label >= 0:
            text = self.reader.text_labels
            self.labels = np.full(count, -1, np.int32) if text else np.full(count, np.nan)
        if columns.split >= 0:
            self.splits = np.full(count, -1, np.int32)
        if self.width:
            kept = np.dtype([("node", "<u8"), ("row", "<f4", (self.width,))])
            scratch = self._writer.scratch("nodes")
            self._spool = Spool(scratch, kept, self.memory // 8, ("node",))
            self._writer.defer(self._spool.close)
        with Progress("reading nodes", None, "rows") as bar:
            for rows in self.reader.rows(self._step):
                nodes = numbers(rows.ids)
                if len(nodes) and int(nodes.min()) < 0:
                    raise FormatError(f"{self.reader.name} changed while it was read; try again")
                self._place(rows, nodes)
                self._keep(rows, nodes)
                bar.advance(len(nodes))

    def _place(self, rows: NodeTableChunk, nodes: Int) -> None:
        before = self.lines[nodes]
        self.lines[nodes] = rows.lines
        after = self.lines[nodes]  # the last of equal ids
        twice = (before > 0) | (after != rows.lines)
        if twice.any():
            at = int(np.argmax(twice))
            first = int(before[at]) or int(rows.lines[at])
            second = int(rows.lines[at]) if before[at] else int(after[at])
            unit = self.reader.unit
            raise InputError(
                f"{self.reader.name} has the same id in {unit} {first} and in {unit} {second}, "
                "expected one row per node; remove one"
            )

    def _keep(self, rows: NodeTableChunk, nodes: Int) -> None:
        if self.labels is not None and rows.label is not None:
            self._check_labels(rows)
            self.labels[nodes] = rows.label
        if self.splits is not None and rows.split is not None:
            self.splits[nodes] = rows.split
        if rows.time is not None:
            if self.times is None:
                self.times = np.full(self.count, _core.NO_TIME, np.int64)
            self.times[nodes] = rows.time
        if self._spool is not None:
            records = np.empty(len(nodes), self._spool.dtype)
            records["node"], records["row"] = nodes, self._stored(rows)
            self._spool.append(records)

    def _check_labels(self, rows: NodeTableChunk) -> None:
        if self.reader.text_labels or rows.label is None:
            return
        bad = np.isinf(rows.label)
        if bad.any():
            at = int(np.argmax(bad))
            raise InputError(
                f"{self.reader.name} {self.reader.unit} {rows.lines[at]} has the label "
                f"{rows.label[at]}, expected a finite number, or nothing where it is missing"
            )

    def _stored(self, rows: NodeTableChunk) -> npt.NDArray[np.float32]:
        """Features as float32, filled."""
        given = rows.features
        empty = np.isnan(given)
        if empty.any():
            if self.fill is None:
                raise self._error(rows, empty, "no number", "pass --fill 0, or correct it")
            given = np.where(empty, self.fill, given)
        beyond = np.isfinite(given) & (np.abs(given) > _MOST)
        if beyond.any():
            raise self._error(rows, beyond, "a number beyond float32", "scale the features")
        return given.astype(np.float32)

    def _error(
        self, rows: NodeTableChunk, bad: npt.NDArray[np.bool_], what: str, advice: str
    ) -> InputError:
        row, column = (int(k) for k in np.argwhere(bad)[0])
        where = column_name(self.reader, self.reader.columns.features[column])
        place = f"{self.reader.name} {self.reader.unit} {rows.lines[row]}"
        return InputError(f"{place} has {what} in {where}; {advice}")

    def features(
        self, first_missing: Callable[[int], str], why: Callable[[str], str]
    ) -> JoinedRows | None:
        """Features of all nodes, to be written.

        Args:
            first_missing: the original id of a node, for the message.
            why: from that id to what may be the reason, which ends the message.

        Raises:
            InputError: nodes have no row, and there is no `fill`.
        """
        if self._spool is None:
            return None
        missing = self.missing
        if missing and self.fill is None:
            first = first_missing(int(np.argmin(self.lines)))
            raise InputError(
                f"{missing} of {self.count} nodes have no row in {self.reader.name}, the first "
                f"is {first}; add them, or pass --fill 0 to give them features of 0{why(first)}"
            )
        kind, fill = np.dtype(np.float32), float(self.fill or 0)
        return JoinedRows(self.count, self.width, kind, self._spool, self.memory // 8, fill)

    def check_overlap(self, original: Callable[[int], str]) -> None:
        """Refuses a table of which no row belongs to a node of the edges.

        Args:
            original: the original id of a node, for the message.
        """
        if self.in_edges is None or not self.in_edges.any() or not self.lines.any():
            return
        if not (self.in_edges & (self.lines > 0)).any():
            raise InputError(
                f"no id of {self.reader.name} is in the edges, which have, for example, "
                f"{original(int(np.argmax(self.in_edges)))}; name the column of ids with --node-id"
            )

    @property
    def without_edges(self) -> int:
        """How many rows are of nodes that no edge names; 0 where that is not known."""
        if self.in_edges is None:
            return 0
        return int(np.count_nonzero(~self.in_edges & (self.lines > 0)))

    @property
    def missing(self) -> int:
        """How many nodes have no row."""
        return int(np.count_nonzero(self.lines == 0))

    def class_labels(self) -> tuple[Array | None, list[str] | None]:
        """Labels by node, and names of the classes: those of text, in alphabetical order.

        Raises:
            InputError: a whole number below -1 among whole numbers.
        """
        labels = self.labels
        if labels is None:
            return None, None
        if self.reader.text_labels:
            names = self.reader.classes()
            order = sorted(range(len(names)), key=names.__getitem__)
            rank = np.full(len(names) + 1, -1, np.int64)  # the last is for -1
            rank[order] = np.arange(len(names))
            return rank[labels], [names[k] for k in order]
        there = ~np.isnan(labels)
        held = labels[there]
        if not ((held == np.floor(held)) & (np.abs(held) < _EXACT)).all():
            return labels, None
        if len(held) and float(held.min()) < -1:
            at = int(np.flatnonzero(labels == held.min())[0])
            raise InputError(
                f"{self.reader.name} {self.reader.unit} {self.lines[at]} has the label "
                f"{int(labels[at])}, expected a class from 0 on, or -1 or nothing where it is "
                "missing"
            )
        return np.where(there, labels, -1).astype(np.int64), None

    def named_splits(self) -> dict[str, Int]:
        """Node ids by the name of their split in the table; val is called valid."""
        found: dict[str, list[Int]] = {}
        if self.splits is None:
            return {}
        names = self.reader.splits()
        if len(names) > _MOST_SPLITS:
            where = column_name(self.reader, self.reader.columns.split)
            raise InputError(
                f"{self.reader.name} names {len(names)} different splits in {where}, expected few, "
                "such as train, valid and test; name another column with --node-split"
            )
        for number, name in enumerate(names):
            same = "valid" if name in ("val", "validation") else name
            found.setdefault(same, []).append(np.flatnonzero(self.splits == number))
        return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}
