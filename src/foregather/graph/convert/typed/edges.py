"""edges: relations from tables of edges, and from the foreign keys of node tables."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.typed.ids import IdIndex
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.spec import EdgeSpec, NodeSpec, foreign_types
from foregather.graph.convert.typed.tables import Batch, arrow
from foregather.graph.convert.typed.values import is_text, numbers_of, plain, times_of
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds

__all__ = ["read_edges", "read_foreign"]

Array = npt.NDArray[Any]


def read_edges(
    spec: EdgeSpec, indexes: dict[str, IdIndex], reader: Reader, threads: int
) -> tuple[Relation, int]:
    """A relation, and how many of its rows were dropped because an end is no node.

    Raises:
        InputError: a row breaks a rule; names the column and the row.
    """
    ends = (spec.source, indexes[spec.type[0]]), (spec.target, indexes[spec.type[2]])
    wanted = [spec.source, spec.target]
    wanted += [one for one in (spec.weight, spec.time) if one is not None]
    wanted += [one for one in spec.features if one not in wanted]
    if spec.source == spec.target:
        raise InputError(f"source and target are both column {spec.source!r}")
    text = [name for name, index in ends if isinstance(index.original(), TextIds)]
    pairs: list[Array] = []
    held: dict[str, list[Array]] = {"time": [], "weights": [], "features": []}
    rows = dropped = 0
    whole = {spec.source, spec.target, spec.time}
    numbers = [one for one in (*spec.features, spec.weight) if one is not None and one not in whole]
    for batch in reader.batches(spec.file, list(dict.fromkeys(wanted)), text, numbers):
        found = [index.find(batch[name], _where(spec, name)) for name, index in ends]
        there = (found[0] >= 0) & (found[1] >= 0)
        if spec.missing == "refuse" and not there.all():
            raise _unknown(spec, batch, found, rows)
        pairs.append(np.stack(found)[:, there])
        if spec.time is not None:
            times = times_of(batch[spec.time], _where(spec, spec.time), rows)
            held["time"].append(times[there])
        if spec.weight is not None:
            weights = numbers_of(batch[spec.weight], _where(spec, spec.weight))
            held["weights"].append(weights[there])
        if spec.features:
            columns = [numbers_of(batch[one], _where(spec, one)) for one in spec.features]
            held["features"].append(np.stack(columns, axis=1)[there])
        rows += there.size
        dropped += int(there.size - there.sum())
    columns_: dict[str, Any] = {key: np.concatenate(parts) for key, parts in held.items() if parts}
    counts = (index.count for _, index in ends)
    made = Relation.of(np.concatenate(pairs, axis=1), *counts, **columns_, threads=threads)
    return made, dropped


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


def read_foreign(
    spec: NodeSpec, indexes: dict[str, IdIndex], reader: Reader, strict: bool, threads: int
) -> dict[EdgeType, tuple[Relation, int]]:
    """The relation of each foreign key of a table, and how many of its keys point nowhere.

    A row is the source, the row that its key names the target. A row without a key has no edge.

    Raises:
        InputError: a key points nowhere and `strict` is on; names the column and the row.
    """
    if spec.file is None:
        return {}
    found: dict[EdgeType, tuple[Relation, int]] = {}
    for edge_type, column in foreign_types(spec).items():
        index = indexes[edge_type[2]]
        text = [column] if isinstance(index.original(), TextIds) else []
        where = f"column {column!r} of {spec.file.name}"
        pairs: list[Array] = []
        rows = lost = 0
        for batch in reader.batches(spec.file, [column], text):
            target = index.find(batch[column], where)
            given = batch[column].is_valid().to_numpy(zero_copy_only=False)
            if is_text(batch[column]):
                filled = arrow().compute.not_equal(plain(batch[column]), "").fill_null(False)
                given &= filled.to_numpy(zero_copy_only=False)
            nowhere = given & (target < 0)
            if strict and nowhere.any():
                row = int(np.argmax(nowhere))
                raise InputError(
                    f"{where} has {batch[column][row].as_py()!r:.80} in row {rows + row + 1}, "
                    f"which is no node of type {edge_type[2]!r}; add the row, or leave strict out"
                )
            source = np.flatnonzero(target >= 0)
            pairs.append(np.stack([source + rows, target[source]]))
            lost += int(nowhere.sum())
            rows += target.size
        ends = np.concatenate(pairs, axis=1)
        found[edge_type] = Relation.of(ends, rows, index.count, threads=threads), lost
    return found
