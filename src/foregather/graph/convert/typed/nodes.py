"""nodes: writes the arrays of a node type from its table, column by column and batch by batch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.convert.typed.building import Building, TypeFacts
from foregather.graph.convert.typed.codes import Codes
from foregather.graph.convert.typed.description.node_spec import NodeSpec
from foregather.graph.convert.typed.description.spec import Spec
from foregather.graph.convert.typed.lookup.columns import IdColumn, collect_ids
from foregather.graph.convert.typed.lookup.index import Index
from foregather.graph.convert.typed.tables import Batch, Table, arrow
from foregather.graph.convert.typed.values import is_date, is_text, labels_of, numbers_of, times_of
from foregather.graph.hetero.columns import check_times
from foregather.graph.hetero.on_disk.stored import node_folder
from foregather.graph.on_disk.npy import map_array
from foregather.graph.on_disk.writer import ArrayWriter

__all__ = ["naming_columns", "write_type"]

Array = npt.NDArray[Any]
_MOST_SPLITS = 1000


def write_type(spec: Spec, node: NodeSpec, building: Building) -> TypeFacts:
    """Writes everything about a type but the splits that a rule makes.

    Raises:
        InputError: its table breaks a rule; names the column and the row.
    """
    folder = node_folder(building.numbers[node.name])
    writer = building.writer
    if node.file is not None:
        out = _Columns(node, folder, building)
        for batch in building.reader.batches(*out.wanted):
            out.add(batch)
        facts = out.finish()
    elif node.count is not None:
        facts = TypeFacts(node.count, "rows")
    else:
        ids = IdColumn(writer, folder, node.name, building.memory // 2, building.threads)
        count = collect_ids(_named(spec, node, building), node.name, ids)
        index = ids.finish()
        building.keep(node.name, None, index)
        facts = TypeFacts(count, index.kind)
    names = sorted({*facts.features, *node.arrays})
    for name, path in node.arrays.items():
        writer.put(f"{folder}/features_{names.index(name)}", _rows(path, name, facts.count))
    return replace(facts, features=tuple(names))


class _Columns:
    """The arrays of a node table while it is read."""

    def __init__(self, spec: NodeSpec, folder: str, building: Building) -> None:
        assert spec.file is not None
        self._spec, self._folder, self._building = spec, folder, building
        self._writer, self._table = building.writer, spec.file.name
        self._rows = 0
        self._dates = False
        self._names = sorted({*(["x"] if spec.features else []), *spec.categories, *spec.arrays})
        self._open: dict[str, ArrayWriter] = {}
        self._codes: dict[str, Codes] = {}
        self._ids: IdColumn | None = None
        if spec.id is not None:
            self._ids = IdColumn(
                self._writer, folder, self._where(spec.id), building.memory // 2, building.threads
            )

    @property
    def wanted(self) -> tuple[Table, list[str], list[str], list[str]]:
        """What is read: the table, its columns, those that are text, and those with fractions."""
        spec = self._spec
        assert spec.file is not None
        found = [one for one in (spec.id, spec.labels, spec.time, spec.split) if one is not None]
        found += [one for one in (*spec.features, *spec.categories) if one not in found]
        text = [one for one in (spec.id,) if one is not None and spec.ids == "text"]
        whole = {spec.id, spec.labels, spec.time}
        numbers = [one for one in spec.features if one not in whole]
        return spec.file, list(dict.fromkeys(found)) or ["1"], text, numbers

    def _where(self, column: str) -> str:
        return f"column {column!r} of {self._table}"

    def _array(self, name: str, dtype: Any, shape: tuple[int, ...] = ()) -> ArrayWriter:
        if name not in self._open:
            self._open[name] = self._writer.array(f"{self._folder}/{name}", dtype, shape)
        return self._open[name]

    def _coded(self, key: str, column: str, most: tuple[int, str] | None = None) -> Codes:
        if key not in self._codes:
            scratch = f"{self._folder}-{len(self._codes)}".replace("/", "-")
            memory = self._building.memory // 8
            more = () if most is None else (most,)
            self._codes[key] = Codes(self._writer, scratch, self._where(column), memory, *more)
        return self._codes[key]

    def add(self, batch: Batch) -> None:
        """Writes the columns of a batch."""
        spec = self._spec
        if self._ids is not None and spec.id is not None:
            self._ids.add(batch[spec.id])
        if spec.time is not None:
            self._dates |= is_date(batch[spec.time])
            times = times_of(batch[spec.time], self._where(spec.time), self._rows)
            check_times(times, "time", self._rows)
            self._array("time", np.int64).append(times)
        if spec.features:
            columns = [
                numbers_of(batch[one], self._where(one), self._rows) for one in spec.features
            ]
            x = self._array(self._feature("x"), np.float32, (len(columns),))
            x.append(np.stack(columns, axis=1))
        for column in spec.categories:
            _check_category(batch[column], self._where(column))
            self._coded(column, column).add(batch[column])
        if spec.labels is not None:
            self._label(batch[spec.labels], spec.labels)
        if spec.split is not None:
            _check_split(batch[spec.split], self._where(spec.split))
            most = (_MOST_SPLITS, "check that it is the right column")
            self._coded("split ", spec.split, most).add(batch[spec.split])
        self._rows += len(next(iter(batch.values())))

    def _feature(self, name: str) -> str:
        return f"features_{self._names.index(name)}"

    def _label(self, column: Any, name: str) -> None:
        if is_text(column):
            self._coded("labels ", name).add(column)
            return
        values = labels_of(column, self._where(name), self._rows)
        self._array("labels", values.dtype).append(values)

    def finish(self) -> TypeFacts:
        """Finishes the arrays."""
        spec, facts = self._spec, {}
        if spec.count is not None and spec.count != self._rows:
            raise InputError(f"count is {spec.count}, but {self._table} has {self._rows} rows")
        for name in self._open:
            self._writer.close(f"{self._folder}/{name}")
        for key, codes in self._codes.items():
            if key == "split ":
                self._splits(codes)
                continue
            name = "labels" if key == "labels " else self._feature(key)
            out = self._writer.array(f"{self._folder}/{name}", np.int64, rows=self._rows)
            for values in codes.rows():
                out.append(values)
            self._writer.close(f"{self._folder}/{name}")
            facts[key] = codes.names
            codes.close()
        index = Index(self._rows, "rows") if self._ids is None else self._ids.finish()
        self._building.keep(spec.name, None, index)
        return TypeFacts(
            self._rows,
            index.kind,
            tuple(one for one in self._names if one not in spec.arrays),
            tuple(self._codes["split "].names) if "split " in self._codes else (),
            tuple(facts["labels "]) if "labels " in facts else None,
            {key: names for key, names in facts.items() if key != "labels "},
            self._dates,
        )

    def _splits(self, codes: Codes) -> None:
        """Writes the rows of each split; one pass over the column for each."""
        for place in range(len(codes.names)):
            name = f"{self._folder}/split_{place}"
            out, start = self._writer.array(name, np.int64), 0
            for values in codes.rows():
                out.append(np.flatnonzero(values == place) + start)
                start += len(values)
            self._writer.close(name)
        codes.close()


def _check_category(column: Any, where: str) -> None:
    kinds = arrow().types
    kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    whole = kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_null(kind)
    if not whole and not is_text(column):
        raise InputError(f"{where} holds {kind}, expected text or whole numbers as categories")


def _check_split(column: Any, where: str) -> None:
    if not is_text(column) and len(column) != column.null_count:
        raise InputError(f"{where} holds {column.type}, expected names such as train, val, test")


def _rows(path: Path, name: str, count: int) -> Array:
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the file names of the description")
    if path.suffix.lower() != ".npy":
        raise FormatError(f"{path.name} is not a .npy file, which the array {name!r} needs")
    values = map_array(path)
    if values.shape[:1] != (count,):
        raise InputError(
            f"the array {name!r} has shape {list(values.shape)}, expected {count} rows, one per "
            "node"
        )
    return values


def naming_columns(spec: Spec, node: NodeSpec) -> list[tuple[Table, str]]:
    """The columns whose values name the nodes of a type without a table."""
    ends: list[tuple[Table, str]] = []
    for one in spec.edges:
        ends += [(one.file, one.source)] if one.type[0] == node.name else []
        ends += [(one.file, one.target)] if one.type[2] == node.name else []
    for other in spec.nodes:
        if other.file is not None:
            ends += [(other.file, key.column) for key in other.foreign if key.type == node.name]
    if spec.triples is not None and spec.triples.type == node.name:
        ends += [(spec.triples.file, one) for one in (spec.triples.head, spec.triples.tail)]
    return ends


def _named(spec: Spec, node: NodeSpec, building: Building) -> Iterator[tuple[Any, str]]:
    """Every batch of ids that edges call the nodes of a type by."""
    for table, column in naming_columns(spec, node):
        text = [column] if node.ids == "text" else []
        for batch in building.reader.batches(table, [column], text):
            yield batch[column], f"column {column!r} of {table.name}"
