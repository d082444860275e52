"""link_tables: links of a relation that come divided already, from tables with the ids of its ends.

Ids are those of the two node types, so the two columns may be of different kinds. Lists of links
are held in memory: they are refused where they would not fit into the budget.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.table_header import Asked, find_header, header_note
from foregather.graph.convert.typed.tables import arrow, column_names, first_rows, is_text
from foregather.graph.convert.typed.values import times_of
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.links.links import Links
from foregather.graph.mapped import fetch
from foregather.units import format_bytes

__all__ = ["EACH", "ID", "Lookup", "link_headers", "read_link_tables"]

Int = npt.NDArray[np.int64]
_NAMES = {"source", "target"}
EACH = 96  # bytes that a link needs while it is read
ID = 96  # bytes that an id needs to be looked up, and its text


def read_link_tables(
    nodes: Mapping[str, NodeTable],
    edge_type: EdgeType,
    links: dict[str, Path],
    negatives: dict[str, Path],
    headers: Mapping[Path, bool],
    work: int,
) -> dict[str, Links]:
    """The links of files: columns source and target (or the first two), time and label.

    Args:
        nodes: the node types of the graph.
        edge_type: the relation that the links are of.
        links: files by name.
        negatives: files of pairs that are no links, by the name of the links.
        headers: of text files, whether the first line names columns (`link_headers`).
        work: bytes that may be used.

    Raises:
        InputError: a node does not exist; names the file and the row.
        BudgetError: the links do not fit.
    """
    ends = [nodes[edge_type[0]], nodes[edge_type[2]]]
    left = work // 2 - sum(ID * table.num_nodes for table in ends if table.ids is not None)
    lookups = [Lookup(table, name) for table, name in zip(ends, edge_type[::2], strict=True)]
    reader, made = Reader(max(1 << 20, work // 8)), {}
    counts = (ends[0].num_nodes, ends[1].num_nodes)
    for path, header in headers.items():
        reader.take_header(path, header)
    for name, path in links.items():
        found = _read(path, lookups, reader, left)
        wrong: Int | None = None
        if name in negatives:
            wrong = _read(negatives[name], lookups, reader, left)["index"]
        made[name] = Links.of(
            found["index"],
            *counts,
            labels=found.get("label"),
            time=found.get("time"),
            negatives=wrong,
        )
        left -= EACH * made[name].num_links
    return made


def link_headers(paths: Iterable[Path], header: bool | None) -> tuple[dict[Path, bool], list[str]]:
    """Whether first lines of text files name columns, and what was assumed, in whole sentences.

    Args:
        paths: files of links and of negatives.
        header: what was said of all of them.

    Raises:
        InputError: a first line is in doubt.
    """
    headers: dict[Path, bool] = {}
    notes: list[str] = []
    for path in (one for one in dict.fromkeys(paths) if is_text(one)):
        named = set(first_rows(path)[0]) >= _NAMES
        columns = ("source", "target") if named else ("1", "2")
        asked = [Asked(path, columns, header, "--header yes", "--header no")]
        headers[path] = bool(find_header(asked))
        notes += header_note(asked, headers[path])
    return headers, notes


class Lookup:
    """Finds the nodes of a type by the ids of the source."""

    def __init__(self, table: NodeTable, kind: str) -> None:
        pa = arrow()
        self.kind, self.count, ids = kind, table.num_nodes, table.ids
        self.text = isinstance(ids, TextIds)
        self.known: Any = None
        if isinstance(ids, TextIds):
            self.known = pa.array(list(ids), pa.string())
        elif ids is not None:
            self.known = pa.array(fetch(ids), pa.int64())

    def find(self, column: Any, path: Path, side: str, rows: int) -> Int:
        """The nodes of a column.

        Raises:
            InputError: one of the ids is no node; names the row.
        """
        nodes = self.places(column, f"{path.name}: the {side} of links")
        if (nodes < 0).any():
            at = int(np.argmax(nodes < 0))
            raise InputError(
                f"{path.name}: the {side} of link {rows + at + 1} is "
                f"{column[at].as_py()!r:.80}, which is no node of type {self.kind!r}; leave the "
                "link out, or give the graph that node"
            )
        return nodes

    def places(self, column: Any, what: str) -> Int:
        """The nodes of a column, -1 where an id is none.

        Raises:
            InputError: ids are of another kind; `what` names them.
        """
        pa = arrow()
        import pyarrow.compute as compute

        if not self.text and not pa.types.is_integer(column.type) and len(column):
            raise InputError(
                f"{what} is {column.type}, but nodes of type "
                f"{self.kind!r} have whole numbers as ids"
            )
        if self.known is None:
            given = column.cast(pa.int64())
            inside = compute.and_(compute.greater_equal(given, 0), compute.less(given, self.count))
            found = compute.if_else(inside, given, None)
        else:
            given = column if self.text else column.cast(pa.int64())
            found = compute.index_in(given, value_set=self.known)
        nodes: Int = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return nodes


def _read(path: Path, lookups: list[Lookup], reader: Reader, left: int) -> dict[str, Any]:
    """Index, and the columns label and time where the file has them."""
    names = column_names(path, reader.header_of(path))
    ends = ["source", "target"] if set(names) >= _NAMES else ["1", "2"]
    if len(names) < 2:
        raise InputError(f"{path.name} has {len(names)} column, expected source and target")
    taken = set(names[:2]) if ends == ["1", "2"] else set(ends)
    more = [one for one in ("label", "time") if one in names and one not in taken]
    text = [one for one, lookup in zip(ends, lookups, strict=True) if lookup.text]
    parts: dict[str, list[Any]] = {"index": [], **{one: [] for one in more}}
    rows = 0
    for batch in reader.batches(
        path, [*ends, *more], text, [one for one in more if one == "label"]
    ):
        size = len(batch[ends[0]])
        if EACH * (rows + size) > left:
            raise BudgetError(
                f"the links of {path.name} do not fit into the {format_bytes(max(0, left))} that "
                "are left for them; raise --memory"
            )
        columns = [
            lookup.find(batch[one], path, side, rows)
            for lookup, one, side in zip(lookups, ends, ("source", "target"), strict=True)
        ]
        parts["index"].append(np.stack(columns))
        if "label" in more:
            parts["label"].append(batch["label"].to_numpy(zero_copy_only=False))
        if "time" in more:
            parts["time"].append(times_of(batch["time"], f"column 'time' of {path.name}", rows))
        rows += size
    if not rows:
        raise InputError(f"{path.name} holds no links; leave it out")
    return {name: np.concatenate(found, axis=-1) for name, found in parts.items()}
