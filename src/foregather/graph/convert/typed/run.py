"""run: turns the tables of a description into a typed graph folder.

The graph is made in memory: the ids of all types, the tables, and the relations one after the
other. A budget that this exceeds is refused while reading, not after it. The folder appears when it
is complete, or not at all.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, FormatError, InputError, StorageError
from foregather.graph.convert.typed.ids import IdIndex, RowIds, collect_ids, index_ids
from foregather.graph.convert.typed.spec import EdgeSpec, NodeSpec, Spec, read_spec
from foregather.graph.convert.typed.tables import Batch, arrow, read_columns
from foregather.graph.convert.typed.triples import read_triples
from foregather.graph.convert.typed.values import (
    classes_of,
    is_text,
    labels_of,
    numbers_of,
    splits_of,
    times_of,
)
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.on_disk.folder import write_typed
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.on_disk.npy import map_array
from foregather.graph.on_disk.writer import TYPED, FolderWriter
from foregather.observe.progress import peak_memory
from foregather.units import format_bytes, parse_size

__all__ = ["convert_typed"]

Array = npt.NDArray[Any]


def convert_typed(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    memory: str | int = "2GB",
    overwrite: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """Makes a typed graph folder from the tables that a TOML file describes.

    Args:
        src: the TOML file; files in it are named relative to it.
        dst: the folder to make.
        memory: bytes the process may use, such as "2GB".
        overwrite: replace an existing graph folder.
        threads: threads of the kernels, 0 for all; the result does not depend on it.

    Returns:
        Facts about the result: counts, edges dropped, bytes, seconds and peak memory.

    Raises:
        InputError: the description or a table breaks a rule; names where.
        FormatError: a file is damaged.
        BudgetError: the graph does not fit into `memory`.
        StorageError: a file is missing, or `dst` exists.
    """
    started = time.perf_counter()
    spec = read_spec(Path(src))
    reader = _Reader(parse_size(memory))
    with FolderWriter(dst, overwrite, TYPED) as writer:
        nodes, indexes, classes = _nodes(spec, reader)
        edges: dict[EdgeType, Relation] = {}
        dropped: dict[str, int] = {}
        for one in spec.edges:
            with about(f"relation {show_edge_type(one.type)}"):
                made, gone = _relation(one, indexes, reader, threads)
            edges[one.type] = made
            if gone:
                dropped[show_edge_type(one.type)] = gone
        if spec.triples is not None:
            edges |= read_triples(spec.triples, indexes[spec.triples.type], reader.batches, threads)
        provenance: dict[str, Any] = {"source": spec.name}
        facts = {"provenance": provenance} | ({"classes": classes} if classes else {})
        graph = HeteroGraph(nodes, _turned(spec, nodes, edges), facts)
        write_typed(writer, graph)
        size = sum(file.stat().st_size for file in Path(dst).rglob("*") if file.is_file())
    return {
        "graph": Path(dst).name,
        "source": spec.name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "types": {name: table.num_nodes for name, table in graph.nodes.items()},
        "relations": [[*name, one.num_edges] for name, one in graph.edges.items()],
        "dropped": dropped,
        "bytes": size,
        "seconds": time.perf_counter() - started,
        "peak_memory": peak_memory(),
    }


class _Reader:
    """Reads tables, and stops where the process holds more than its budget."""

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def batches(
        self,
        path: Path,
        wanted: Sequence[str],
        text: Sequence[str] = (),
        numbers: Sequence[str] = (),
    ) -> Iterator[Batch]:
        """As `read_columns`."""
        for batch in read_columns(path, wanted, text, numbers):
            with open("/proc/self/statm", encoding="ascii") as file:
                held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            if held > self.memory:
                raise BudgetError(
                    f"the tables up to {path.name} take {format_bytes(held)}, more than --memory "
                    f"{format_bytes(self.memory)}; raise it"
                )
            yield batch


# ---- nodes -------------------------------------------------------------------------------------


def _nodes(
    spec: Spec, reader: _Reader
) -> tuple[dict[str, NodeTable], dict[str, IdIndex], dict[str, list[str]]]:
    tables: dict[str, NodeTable] = {}
    indexes: dict[str, IdIndex] = {}
    classes: dict[str, list[str]] = {}
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
            found = columns.pop("classes", None)
            if found is not None:
                classes[one.name] = found
            count = indexes[one.name].count
            features = columns.pop("features", {})
            for name, path in one.arrays.items():
                features[name] = _rows(path, name, count)
            tables[one.name] = NodeTable.of(
                count, features, ids=indexes[one.name].original(), **columns
            )
    return tables, indexes, classes


def _columns(spec: NodeSpec, reader: _Reader) -> tuple[dict[str, Any], IdIndex]:
    """What the table of a type holds, and the index of its ids."""
    assert spec.file is not None
    wanted = [one for one in (spec.id, spec.labels, spec.time, spec.split) if one is not None]
    wanted += [one for one in spec.features if one not in wanted]
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


def _named(spec: Spec, node: NodeSpec, reader: _Reader) -> Iterator[tuple[Any, str]]:
    """Every batch of ids that edges call the nodes of a type by."""
    ends: list[tuple[Path, str]] = []
    for one in spec.edges:
        ends += [(one.file, one.source)] if one.type[0] == node.name else []
        ends += [(one.file, one.target)] if one.type[2] == node.name else []
    if spec.triples is not None and spec.triples.type == node.name:
        ends += [(spec.triples.file, one) for one in (spec.triples.head, spec.triples.tail)]
    for path, column in ends:
        text = [column] if node.ids == "text" else []
        for batch in reader.batches(path, [column], text):
            yield batch[column], f"column {column!r} of {path.name}"


# ---- edges -------------------------------------------------------------------------------------


def _relation(
    spec: EdgeSpec, indexes: dict[str, IdIndex], reader: _Reader, threads: int
) -> tuple[Relation, int]:
    """A relation, and how many of its rows were dropped because an end is no node."""
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


def _turned(
    spec: Spec, nodes: dict[str, NodeTable], edges: dict[EdgeType, Relation]
) -> dict[EdgeType, Relation]:
    """The relations, with a way back along those that ask for one."""
    asked = {one.type for one in spec.edges if one.reverse}
    if spec.triples is not None and spec.triples.reverse:
        asked |= edges.keys() - {one.type for one in spec.edges}
    for source, name, target in asked:
        if (target, f"rev_{name}", source) in edges:
            raise InputError(
                f"relation {show_edge_type((source, name, target))} asks for its reverse, but "
                f"rev_{name} is there already; leave one of them out"
            )
    both = HeteroGraph(nodes, {name: edges[name] for name in asked}).with_reverse()
    return {**edges, **both.edges}
