"""nodes: node tables from the tables of a description, and the index of each type's ids."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.convert.typed.ids import IdIndex, RowIds, collect_ids, index_ids
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.spec import NodeSpec, Spec
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import (
    classes_of,
    is_text,
    labels_of,
    numbers_of,
    splits_of,
    times_of,
)
from foregather.graph.hetero.names import about
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.on_disk.npy import map_array

__all__ = ["read_nodes"]

Array = npt.NDArray[Any]

_MOST_CATEGORIES = 1 << 20  # their names are in meta.json


def read_nodes(
    spec: Spec, reader: Reader
) -> tuple[dict[str, NodeTable], dict[str, IdIndex], dict[str, Any]]:
    """The table of each type, the index of its ids, and facts: names of classes and categories.

    Raises:
        InputError: a table breaks a rule; names the type, the column and the row.
    """
    tables: dict[str, NodeTable] = {}
    indexes: dict[str, IdIndex] = {}
    named: dict[str, Any] = {}
    known = list(spec.nodes)
    if spec.triples is not None and spec.triples.type not in {one.name for one in known}:
        known.append(NodeSpec(spec.triples.type))
    for one in known:
        with about(f"node type {one.name!r}"):
            columns: dict[str, Any] = {}
            if one.file is not None:
                columns, indexes[one.name] = _columns(one, reader)
            elif one.count is not None:
                indexes[one.name] = RowIds(one.count)
            else:
                indexes[one.name] = collect_ids(_named(spec, one, reader), one.name)
            for key in ("classes", "categories"):
                if columns.get(key):
                    named.setdefault(key, {})[one.name] = columns[key]
                columns.pop(key, None)
            count = indexes[one.name].count
            features = columns.pop("features", {})
            for name, path in one.arrays.items():
                features[name] = _rows(path, name, count)
            tables[one.name] = NodeTable.of(
                count, features, ids=indexes[one.name].original(), **columns
            )
    return tables, indexes, named


def _columns(spec: NodeSpec, reader: Reader) -> tuple[dict[str, Any], IdIndex]:
    """What the table of a type holds, and the index of its ids."""
    assert spec.file is not None
    wanted = [one for one in (spec.id, spec.labels, spec.time, spec.split) if one is not None]
    wanted += [one for one in (*spec.features, *spec.categories) if one not in wanted]
    names = spec.file.name
    held: dict[str, list[Any]] = {key: [] for key in ("id", "labels", "time", "split", "x")}
    rows = 0
    text = [one for one in (spec.id,) if one is not None and spec.ids == "text"]
    whole = {spec.id, spec.labels, spec.time}
    numbers = [one for one in spec.features if one not in whole]
    for batch in reader.batches(spec.file, wanted or ["1"], text, numbers):
        for key, column in (("id", spec.id), ("labels", spec.labels), ("split", spec.split)):
            if column is not None:
                held[key].append(batch[column])
        for column in spec.categories:
            held.setdefault(f"of {column}", []).append(batch[column])
        if spec.time is not None:
            where = f"column {spec.time!r} of {names}"
            held["time"].append(times_of(batch[spec.time], where, rows))
        if spec.features:
            held["x"].append(
                np.stack(
                    [numbers_of(batch[one], f"column {one!r} of {names}") for one in spec.features],
                    axis=1,
                )
            )
        rows += len(next(iter(batch.values())))
    if spec.count is not None and spec.count != rows:
        raise InputError(f"count is {spec.count}, but {names} has {rows} rows")
    made: dict[str, Any] = {}
    if spec.labels is not None:
        made |= _labels(held["labels"], f"column {spec.labels!r} of {names}")
    if spec.time is not None:
        made["time"] = np.concatenate(held["time"])
    if spec.split is not None:
        made["splits"] = splits_of(_joined(held["split"]), f"column {spec.split!r} of {names}")
    if spec.features:
        made["features"] = {"x": np.concatenate(held["x"])}
    for column in spec.categories:
        where = f"column {column!r} of {names}"
        values, found = _category(_joined(held[f"of {column}"]), where)
        made.setdefault("features", {})[column] = values
        made.setdefault("categories", {})[column] = found
    if spec.id is None:
        return made, RowIds(rows)
    return made, index_ids(held["id"], f"column {spec.id!r} of {names}")


def _joined(columns: list[Any]) -> Any:
    """One array of several batches."""
    pa = arrow()
    plain = [
        one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in columns
    ]
    return pa.concat_arrays(plain)


def _category(column: Any, where: str) -> tuple[Array, list[str]]:
    """Numbers of the distinct texts (or whole numbers) of a column, and those in their order."""
    pa = arrow()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.string())
    elif not is_text(column) and not pa.types.is_null(kind):
        raise InputError(f"{where} holds {kind}, expected text or whole numbers as categories")
    values, names = classes_of(column)
    if len(names) > _MOST_CATEGORIES:
        raise InputError(
            f"{where} holds {len(names)} different values, more than the {_MOST_CATEGORIES} that "
            "categories may have; leave it out"
        )
    return values, names


def _labels(columns: list[Any], where: str) -> dict[str, Any]:
    whole = _joined(columns)
    if is_text(whole):
        values, names = classes_of(whole)
        return {"labels": values, "classes": names}
    return {"labels": labels_of(whole, where)}


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


def _named(spec: Spec, node: NodeSpec, reader: Reader) -> Iterator[tuple[Any, str]]:
    """Every batch of ids that edges call the nodes of a type by."""
    ends: list[tuple[Path, str]] = []
    for one in spec.edges:
        ends += [(one.file, one.source)] if one.type[0] == node.name else []
        ends += [(one.file, one.target)] if one.type[2] == node.name else []
    for other in spec.nodes:
        if other.file is not None:
            ends += [(other.file, key) for key, end in other.foreign.items() if end == node.name]
    if spec.triples is not None and spec.triples.type == node.name:
        ends += [(spec.triples.file, one) for one in (spec.triples.head, spec.triples.tail)]
    for path, column in ends:
        text = [column] if node.ids == "text" else []
        for batch in reader.batches(path, [column], text):
            yield batch[column], f"column {column!r} of {path.name}"
