"""original_ids: from the nodes of a graph to the ids of its source, and back.

Integers come from `mapping`, names from `mapping_bytes` and `mapping_offsets`; a graph without
them has the ids of its source. Names are found by their XXH64 and then compared, so a name that is
not there is never taken for another.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.arrays import to_ids
from foregather.graph.graph_value import GraphValue
from foregather.graph.mapped import fetch, take
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.workspace import Workspace
from foregather.graph.on_disk.writer import FolderWriter
from foregather.targets import check_replaced

__all__ = [
    "MAPPING_ARRAYS",
    "find_nodes",
    "id_facts",
    "id_kind",
    "original_ids",
    "write_id_lines",
    "write_ids",
    "write_original_ids",
]

#: Where a folder holds the ids of its source.
MAPPING_ARRAYS = ("mapping", "mapping_bytes", "mapping_offsets")

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
#: "same": the nodes' own numbers; "integers": others; "text": names.
Kind = Literal["same", "integers", "text"]

_STEP = 1 << 18  # nodes at a time


def id_kind(graph: GraphValue) -> Kind:
    """What the ids of a graph's source are.

    Raises:
        FormatError: the arrays that hold them do not fit the graph.
    """
    nodes = graph.num_nodes
    kind: Kind = "same"
    if "mapping" in graph.extra:
        kind = "integers"
        _check("mapping", graph.extra["mapping"], np.int64, nodes)
    if "mapping_offsets" in graph.extra or "mapping_bytes" in graph.extra:
        kind = "text"
        for name, dtype, size in (("offsets", np.int64, nodes + 1), ("bytes", np.uint8, None)):
            values = graph.extra.get(f"mapping_{name}")
            if values is None:
                raise FormatError(
                    f"the graph has one of its two mapping arrays of names, no {name}"
                )
            _check(f"mapping_{name}", values, dtype, size)
    return kind


def _check(name: str, values: Array, dtype: npt.DTypeLike, size: int | None) -> None:
    if values.dtype != dtype or values.ndim != 1 or (size is not None and len(values) != size):
        raise FormatError(
            f"{name} is {values.dtype} of shape {values.shape}, expected {np.dtype(dtype)}"
            + ("" if size is None else f" of shape ({size},)")
        )


def original_ids(graph: GraphValue, nodes: Any) -> Int | list[str]:
    """The ids that nodes have in the source: int64, or a list of names.

    Args:
        graph: any graph.
        nodes: node ids, or a mask.

    Raises:
        InputError: `nodes` are no nodes of the graph.
        FormatError: the arrays that hold the ids are damaged.
    """
    wanted: Int = np.asarray(to_ids(nodes, graph.num_nodes, "nodes"), np.int64)
    kind = id_kind(graph)
    if kind == "same":
        return np.array(wanted)
    if "mapping" in graph.extra:
        wanted = np.asarray(take(graph.extra["mapping"], wanted), np.int64)
        if kind == "integers":
            return wanted
        # a partition of release 0.1 has names in the order of its source, and this is the order
        wanted = np.asarray(to_ids(wanted, graph.num_nodes, "mapping"), np.int64)
    return _names(graph, wanted)


def _names(graph: GraphValue, places: Int) -> list[str]:
    offsets, data = graph.extra["mapping_offsets"], graph.extra["mapping_bytes"]
    starts, ends = take(offsets, places), take(offsets, places + 1)
    if not len(places):
        return []
    if starts.min() < 0 or (starts > ends).any() or ends.max() > len(data):
        raise FormatError("mapping_offsets does not fit mapping_bytes; the graph folder is damaged")
    low, high = int(starts.min()), int(ends.max())
    lengths = ends - starts
    if high - low <= 4 * int(lengths.sum()) + (1 << 16):  # close together: one read
        text = fetch(data[low:high]).tobytes()
        parts = [text[a - low : b - low] for a, b in zip(starts, ends, strict=True)]
    else:
        parts = [fetch(data[a:b]).tobytes() for a, b in zip(starts, ends, strict=True)]
    try:
        return [part.decode("utf-8") for part in parts]
    except UnicodeDecodeError as error:
        raise FormatError("mapping_bytes is not UTF-8; the graph folder is damaged") from error


def find_nodes(graph: GraphValue, ids: Any) -> Int:
    """The nodes that have these ids in the source.

    Args:
        graph: any graph.
        ids: integers, or names where the source has names.

    Raises:
        InputError: an id is not in the graph, or is of the other kind.
    """
    if isinstance(ids, (str, bytes)):
        raise InputError(f"ids is {ids!r:.40}, expected a list of ids; write [{ids!r:.40}]")
    kind = id_kind(graph)
    asked = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    for one in asked:
        if isinstance(one, bool) or not isinstance(one, str if kind == "text" else int):
            expected = "names" if kind == "text" else "integers"
            raise InputError(f"ids holds {one!r:.40}, expected {expected}, as the source has them")
    if kind == "text":
        nodes, found = _find_names(graph, asked)
    else:
        nodes, found = _find_integers(graph, asked, kind)
    if not found.all():
        raise InputError(f"no node has the id {asked[int(np.argmin(found))]!r:.80}")
    return nodes


def _find_integers(
    graph: GraphValue, asked: Sequence[int], kind: Kind
) -> tuple[Int, npt.NDArray[np.bool_]]:
    fits = [-(1 << 63) <= one < 1 << 63 for one in asked]
    ids = np.array([one if fit else -1 for one, fit in zip(asked, fits, strict=True)], np.int64)
    if kind == "same":
        found = (ids >= 0) & (ids < graph.num_nodes)
        return ids, found & np.array(fits, np.bool_)
    keys, order = _table(graph, kind)
    nodes, found = _search(keys, order, ids)
    return nodes, found & np.array(fits, np.bool_)


def _find_names(graph: GraphValue, asked: list[str]) -> tuple[Int, npt.NDArray[np.bool_]]:
    keys, order = _table(graph, "text")
    encoded = [one.encode("utf-8", "surrogatepass") for one in asked]
    hashes = np.array([_core.xxh64(np.frombuffer(one, np.uint8)) for one in encoded], np.uint64)
    nodes, found = _search(keys, order, hashes)
    there = np.flatnonzero(found)
    names = original_ids(graph, nodes[there])
    for place, name in zip(there, names, strict=True):
        found[place] = name == asked[place]
    return nodes, found


def _search(keys: Array, order: Int | None, asked: Array) -> tuple[Int, npt.NDArray[np.bool_]]:
    if not len(keys):
        return np.zeros(len(asked), np.int64), np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    nodes = at if order is None else order[at]
    return nodes.astype(np.int64), keys[at] == asked


def _table(graph: GraphValue, kind: Kind) -> tuple[Array, Int | None]:
    """Ids or hashes of names, ascending, and their nodes where these do not ascend as well."""
    made: tuple[Array, Int | None] | None = graph._loaded.get(("ids", kind))
    if made is None:
        keys = _hashes(graph) if kind == "text" else fetch(graph.extra["mapping"])
        order = None
        if len(keys) and not (keys[1:] >= keys[:-1]).all():
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
        made = graph._loaded["ids", kind] = (keys, order)
    return made


def _hashes(graph: GraphValue) -> npt.NDArray[np.uint64]:
    """XXH64 of every node's name."""
    offsets, data = graph.extra["mapping_offsets"], graph.extra["mapping_bytes"]
    made = np.empty(graph.num_nodes, np.uint64)
    for start in range(0, graph.num_nodes, _STEP):
        ends = fetch(offsets[start : start + _STEP + 1])
        low, high = int(ends[0]), int(ends[-1])
        try:
            if not 0 <= low <= high <= len(data):
                raise InputError("names lie outside their buffer")
            text = np.ascontiguousarray(fetch(data[low:high]))
            _core.hash_strings(text, ends - low, made[start : start + _STEP])
        except InputError as error:
            raise FormatError(
                f"the names of nodes are damaged ({error}); convert the data again"
            ) from error
    if "mapping" in graph.extra:  # as in original_ids
        places = to_ids(fetch(graph.extra["mapping"]), graph.num_nodes, "mapping")
        made = made[places]
    return made


def _pieces(graph: GraphValue) -> Iterator[list[Any]]:
    """The ids of all nodes in order, a piece at a time."""
    for start in range(0, graph.num_nodes, _STEP):
        ids = original_ids(graph, np.arange(start, min(graph.num_nodes, start + _STEP)))
        yield ids if isinstance(ids, list) else ids.tolist()


def write_original_ids(writer: FolderWriter, graph: GraphValue, order: Int) -> None:
    """Writes the mapping of a graph whose node i is node order[i] of `graph`."""
    if id_kind(graph) != "text":
        writer.put("mapping", np.asarray(original_ids(graph, order), np.int64))
        return
    ends, data = fetch(graph.extra["mapping_offsets"]), fetch(graph.extra["mapping_bytes"])
    if "mapping" in graph.extra:  # as in original_ids
        order = to_ids(fetch(graph.extra["mapping"])[order], graph.num_nodes, "mapping")
    offsets = writer.array("mapping_offsets", np.int64, rows=len(order) + 1)
    offsets.append(np.zeros(1, np.int64))
    out = writer.array("mapping_bytes", np.uint8)
    for start in range(0, len(order), _STEP):
        places = order[start : start + _STEP]
        starts, lengths = ends[places], ends[places + 1] - ends[places]
        try:
            text = np.empty(int(lengths.sum(where=lengths > 0)), np.uint8)
            _core.gather_slices(np.ascontiguousarray(data), starts, lengths, text)
        except InputError as error:
            raise FormatError(
                "mapping_offsets does not fit mapping_bytes; the graph folder is damaged"
            ) from error
        offsets.append(np.cumsum(lengths) + out.rows)
        out.append(text)
    writer.close("mapping_offsets")
    writer.close("mapping_bytes")


def id_facts(graph: GraphValue) -> dict[str, Any]:
    """What `info` says about the ids of the source: their kind, and that of node 0."""
    kind = id_kind(graph)
    facts: dict[str, Any] = {"kind": kind}
    if kind != "same" and graph.num_nodes:
        first = original_ids(graph, [0])[0]
        facts["example"] = first if isinstance(first, str) else int(first)
    return facts


def write_ids(graph: GraphValue, path: Path) -> None:
    """Writes a csv with the ids of the source, one line per node in order, under the header `id`.

    Raises:
        StorageError: the file cannot be written; an older one is kept then.
    """
    write_id_lines(_pieces(graph), path)


def write_id_lines(pieces: Iterable[list[Any]], path: Path) -> None:
    """Writes ids that come in pieces, as `write_ids` does.

    Raises:
        StorageError: the file cannot be written; an older one is kept then.
    """
    try:
        with Workspace(path, ".scratch") as work:
            with open(work.path / path.name, "w", encoding="utf-8", newline="") as file:
                rows = csv.writer(file, lineterminator="\n")
                rows.writerow(["id"])
                for ids in pieces:
                    rows.writerows([one] for one in ids)
                file.flush()
                os.fsync(file.fileno())
            work.commit(path.name, check_replaced)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, path, "writing") from error
