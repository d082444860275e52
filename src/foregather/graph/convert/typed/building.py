"""building: what the steps of a typed conversion share: the folder, the tables, memory and indexes.

Every type and every relation is one step. What a step made depends on its tables and on its part of
the description, so a step that was finished before a kill need not be done again.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.convert.typed.description.node_spec import NodeSpec
from foregather.graph.convert.typed.journal import Journal
from foregather.graph.convert.typed.lookup.columns import kind_of, stored_ids
from foregather.graph.convert.typed.lookup.index import Finder, Index, IndexBuilder
from foregather.graph.convert.typed.lookup.joined import JoinedColumn
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.tables import Table
from foregather.graph.hetero.on_disk.stored import node_folder
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.on_disk.npy import map_array
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["Building", "TypeFacts"]


@dataclass(frozen=True)
class TypeFacts:
    """What is known about a type that is written.

    Attributes:
        count: its nodes.
        kind: "rows", "integers" or "text", of its ids.
        features: names of its feature arrays, sorted.
        splits: names of its splits, sorted.
        classes: names of its labels, by number; None where they are numbers.
        categories: names that the numbers of a feature array stand for.
        dates: whether its times were dates.
    """

    count: int
    kind: str
    features: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    categories: dict[str, list[str]] = field(default_factory=dict)
    dates: bool = False


@dataclass
class Building:
    """The state of a conversion.

    Attributes:
        writer: the folder being made.
        reader: reads the tables.
        journal: the steps that are done.
        memory: bytes that a step may use.
        threads: threads of the kernels, 0 for all.
        numbers: the number of each node type.
        types: the types that are written.
        prints: a digest of what each type was made of.
    """

    writer: FolderWriter
    reader: Reader
    journal: Journal
    memory: int
    threads: int
    numbers: dict[str, int]
    types: dict[str, TypeFacts] = field(default_factory=dict)
    prints: dict[str, str] = field(default_factory=dict)
    _indexes: dict[tuple[str, str | None], Index] = field(default_factory=dict)
    _joined: int = 0

    def path(self, name: str, array: str) -> Path:
        """The file of an array of a node type."""
        return self.writer.folder / f"{node_folder(self.numbers[name])}/{array}.npy"

    def original(self, name: str, node: int) -> str:
        """The text that a node is called by."""
        ids = TextIds(map_array(self.path(name, "ids_bytes")), self.offsets(name))
        return ids[node]

    def offsets(self, name: str) -> npt.NDArray[np.int64]:
        """Where the text of each id of a type begins."""
        return map_array(self.path(name, "ids_offsets"))

    def keep(self, name: str, column: str | None, index: Index) -> None:
        """Takes an index that was made with a type, or for a column of it."""
        self._indexes[name, column] = index

    def finder(
        self, spec: NodeSpec, named: tuple[Table, str], column: str | None = None
    ) -> Finder | JoinedColumn:
        """What finds the nodes of a type by their ids, or by another column of their table.

        Args:
            spec: the type.
            named: the table and the column whose batches it will be asked for, in order.
            column: of the table of the type; None for its ids.

        Raises:
            InputError: another column holds a value twice, or ids are of another kind.
        """
        known = (spec.name, column)
        if known not in self._indexes:
            self.keep(*known, self._index(spec, column))
        index = self._indexes[known]
        if index.nbytes <= self.memory // 8:
            return Finder(index, self.threads)
        table, asked = named
        where = f"column {asked!r} of {table.name}"
        text = [asked] if index.kind == "text" else []
        batches = self.reader.batches(table, [asked], text)
        self._joined += 1
        return JoinedColumn(
            index,
            ((batch[asked], where) for batch in batches),
            self.writer,
            f"joined-{self._joined}",
            self.memory // 2,
            self.threads,
        )

    def _index(self, spec: NodeSpec, column: str | None) -> Index:
        """An index that is not there: of another column, or of a type done before a kill."""
        facts = self.types[spec.name]
        scratch = f"{self.numbers[spec.name]}-{len(self._indexes)}"
        if column is None:
            if facts.kind == "rows":
                return Index(facts.count, "rows")
            made = IndexBuilder(self.writer, scratch, facts.kind, self.memory // 2, self.threads)
            folder = self.path(spec.name, "ids").parent
            for part in stored_ids(folder, facts.kind, self.memory // 32):
                made.add(part, "its ids")
            return made.finish("its ids", lambda row: self.original(spec.name, row))
        assert spec.file is not None
        return self._of_column(spec, column, scratch)

    def _of_column(self, spec: NodeSpec, column: str, scratch: str) -> Index:
        assert spec.file is not None
        where = f"column {column!r} of {spec.file.name}"
        made: IndexBuilder | None = None
        texts = [column] if spec.ids == "text" else []
        for batch in self.reader.batches(spec.file, [column], texts):
            if made is None:
                kind = kind_of(batch[column], where)
                made = IndexBuilder(self.writer, scratch, kind, self.memory // 2, self.threads)
            made.add(batch[column], where, gaps=True)
        assert made is not None
        return made.finish(where, lambda row: f"a value ({column} of row {row + 1})")

    def facts_of(self, name: str) -> dict[str, Any]:
        """What meta.json says about a type."""
        facts = self.types[name]
        return {
            "type": name,
            "num_nodes": facts.count,
            "features": list(facts.features),
            "splits": list(facts.splits),
        }
