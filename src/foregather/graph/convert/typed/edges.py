"""edges: relations from tables of edges, and from the foreign keys of node tables."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.topology import check_weights
from foregather.graph.convert.typed.databases.table import DatabaseTable
from foregather.graph.convert.typed.description.node_spec import Foreign, NodeSpec
from foregather.graph.convert.typed.description.spec import EdgeSpec
from foregather.graph.convert.typed.lookup.index import Finder
from foregather.graph.convert.typed.lookup.joined import JoinedColumn
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.relations import RelationOut
from foregather.graph.convert.typed.tables import Batch, arrow
from foregather.graph.convert.typed.values import is_text, numbers_of, plain, times_of
from foregather.graph.hetero.columns import check_times

__all__ = ["Ends", "add_edges", "add_foreign"]

Array = npt.NDArray[Any]
#: What finds the nodes at one end of the edges.
Ends: TypeAlias = Finder | JoinedColumn


def add_edges(spec: EdgeSpec, ends: Sequence[Ends], reader: Reader, out: RelationOut) -> int:
    """Reads a relation; returns how many rows were left out because an end is no node.

    Raises:
        InputError: a row breaks a rule; names the column and the row.
    """
    if spec.source == spec.target:
        raise InputError(f"source and target are both column {spec.source!r}")
    wanted = [spec.source, spec.target]
    wanted += [one for one in (spec.weight, spec.time) if one is not None]
    wanted += [one for one in spec.features if one not in wanted]
    named = (spec.source, spec.target)
    text = [name for name, end in zip(named, ends, strict=True) if end.kind == "text"]
    whole = {spec.source, spec.target, spec.time}
    numbers = [one for one in (*spec.features, spec.weight) if one is not None and one not in whole]
    rows = 0
    for batch in reader.batches(spec.file, list(dict.fromkeys(wanted)), text, numbers):
        found = [
            end.find(batch[name], _where(spec, name)) for name, end in zip(named, ends, strict=True)
        ]
        there = (found[0] >= 0) & (found[1] >= 0)
        if spec.missing == "refuse" and not there.all():
            raise _unknown(spec, batch, found, rows)
        columns = _columns(spec, batch, there, rows, out.edges)
        out.add(found[0][there], found[1][there], *columns)
        rows += there.size
    return rows - out.edges


def _columns(
    spec: EdgeSpec, batch: Batch, there: Array, rows: int, edges: int
) -> tuple[Array | None, Array | None, Array | None]:
    """Time, weight and features of the rows that are edges."""
    time = weight = features = None
    if spec.time is not None:
        time = times_of(batch[spec.time], _where(spec, spec.time), rows)[there]
        check_times(time, "time", edges)
    if spec.weight is not None:
        given = numbers_of(batch[spec.weight], _where(spec, spec.weight), rows)[there]
        weight = check_weights(given, edges)
    if spec.features:
        columns = [numbers_of(batch[one], _where(spec, one), rows) for one in spec.features]
        features = np.stack(columns, axis=1)[there]
    return time, weight, features


def _where(spec: EdgeSpec, column: str) -> str:
    return f"column {column!r} of {spec.file.name}"


def _unknown(spec: EdgeSpec, batch: Batch, found: list[Array], rows: int) -> InputError:
    """The error for the first row with an end that is no node."""
    row = int(np.flatnonzero((found[0] < 0) | (found[1] < 0))[0])
    end = 0 if found[0][row] < 0 else 1
    column = (spec.source, spec.target)[end]
    value = batch[column][row].as_py()
    said = "no id" if value in (None, "") else f"{value!r:.80}"
    return InputError(
        f"{spec.file.name} has {said} in column {column!r} of row {rows + row + 1}, which is no "
        f'node of type {spec.type[2 * end]!r}; add the node, or set missing = "drop" to leave '
        "such rows out"
    )


def add_foreign(
    spec: NodeSpec, key: Foreign, end: Ends, reader: Reader, out: RelationOut, strict: bool
) -> int:
    """Reads a foreign key of a table; returns how many of its values point nowhere.

    A row is the source, the row that its key names the target. A row without a key has no edge; an
    empty text is no key in a file, and one that points nowhere in a database, which has NULL.

    Raises:
        InputError: a key points nowhere and `strict` is on, or all of several keys do; names the
            column and a key.
    """
    assert spec.file is not None
    column = key.column
    text = [column] if end.kind == "text" else []
    where = f"column {column!r} of {spec.file.name}"
    rows = lost = found = 0
    first = None
    for batch in reader.batches(spec.file, [column], text):
        target = end.find(batch[column], where)
        given = batch[column].is_valid().to_numpy(zero_copy_only=False)
        if is_text(batch[column]) and not isinstance(spec.file, DatabaseTable):
            filled = arrow().compute.not_equal(plain(batch[column]), "").fill_null(False)
            given = given & filled.to_numpy(zero_copy_only=False)
        nowhere = given & (target < 0)
        if strict and nowhere.any():
            row = int(np.argmax(nowhere))
            raise InputError(
                f"{where} has {batch[column][row].as_py()!r:.80} in row {rows + row + 1}, "
                f"which is no node of type {key.type!r}; add the row, or leave strict out"
            )
        source = np.flatnonzero(target >= 0)
        out.add(source + rows, target[source])
        if first is None and nowhere.any():
            first = batch[column][int(np.argmax(nowhere))].as_py()
        lost, found = lost + int(nowhere.sum()), found + source.size
        rows += target.size
    if lost > 1 and not found:
        raise InputError(
            f"none of the {lost} keys in {where} is a node of type {key.type!r}, for example "
            f"{first!r:.80}; write them as its ids are written, or leave the key out"
        )
    return lost
