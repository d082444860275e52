"""rewrite: writes a graph folder whose feature rows lie in an order.

All other arrays are copied as they are, so nodes keep their ids and samples their bits. The new
folder appears complete or not at all, and the old one is read only; it may be replaced by the new
one at the very end. Features larger than the memory are moved in two passes over a scratch file.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch, take
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.folder import facts_of, link_facts, version_of
from foregather.graph.on_disk.writer import ORDERED, ArrayWriter, FolderWriter
from foregather.graph.order.find import find_order, order_bytes, to_places
from foregather.observe.progress import Progress
from foregather.units import parse_size

__all__ = ["reorder"]

Array = npt.NDArray[Any]

_LEAST = 32 << 20  # bytes of rows that are moved at once, even where memory is less


def reorder(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    order: str = "communities",
    *,
    memory: str | int = "2GB",
    overwrite: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """Writes a graph folder again, with its feature rows in an order.

    Args:
        src: a graph folder.
        dst: the folder to make; `src` itself with `overwrite`.
        order: one of `foregather.graph.order.ORDERS`; "ids" puts rows back where they were.
        memory: bytes that may be held.
        overwrite: replace an existing graph folder, when the new one is complete.
        threads: 0 uses all; the result is the same for any number.

    Returns:
        What was made: folder, order, nodes, feature_bytes, scratch_bytes.

    Raises:
        InputError: there is no such order, the graph has no features, or they are in an order.
        BudgetError: `memory` is too small; the message states what is needed.
        StorageError: the folder cannot be made; `src` is as it was.
    """
    graph = Graph.open(src)
    features, name = graph.features, Path(src).name
    if features is None:
        raise InputError(f"{name} has no features, and an order moves their rows; nothing to do")
    if features.places is not None and order != "ids":
        had = graph.meta.get("order", {}).get("name", "unknown")
        raise InputError(
            f"the rows of {name} are in order {had} already; put them back with order ids first, "
            "or start from the folder they came from"
        )
    if features.places is None and order == "ids":
        raise InputError(f"the rows of {name} lie by id already; nothing to do")
    room = parse_size(memory)
    nodes = find_order(graph, order, room, threads)
    rows = nodes if features.places is None else take(features.places, nodes.astype(np.int64))
    plain = version_of(graph) - (0 if features.places is None else ORDERED)
    version = plain if order == "ids" else plain + ORDERED
    with FolderWriter(dst, overwrite, version) as writer:
        move = _Mover(writer, np.asarray(rows, np.uint32), room - order_bytes(graph, "ids"))
        move.rows(features.data)  # first: where the disk is too full for it, that is seen at once
        for array, values in graph.stored_arrays().items():
            if array not in ("features", "places"):
                writer.put(array, values)
        facts = {key: fact for key, fact in facts_of(graph).items() if key != "order"}
        if order != "ids":
            writer.put("places", to_places(nodes))
            facts["order"] = {"name": order}
        writer.finish(graph.num_nodes, graph.num_edges, **facts, **link_facts(graph))
    return {
        "folder": str(dst),
        "order": order,
        "nodes": graph.num_nodes,
        "feature_bytes": int(features.data.nbytes),
        "scratch_bytes": move.scratch_bytes,
    }


class _Mover:
    """Writes feature rows in another order.

    Args:
        writer: of the folder.
        order: the row that becomes row k, for every k.
        room: bytes of rows that may be held.
    """

    def __init__(self, writer: FolderWriter, order: npt.NDArray[np.uint32], room: int) -> None:
        self._writer, self._order, self._room = writer, order, max(_LEAST, room)
        self.scratch_bytes = 0

    def rows(self, data: Array) -> None:
        """Writes the array `features`."""
        out = self._writer.array("features", data.dtype, data.shape[1:], len(data))
        each = max(1, data[:1].nbytes)
        with Progress("moving rows", len(data), "rows") as bar:
            if data.nbytes <= self._room // 2:
                whole, step = fetch(data), max(1, (16 << 20) // each)
                for start in range(0, len(data), step):
                    out.append(whole[self._order[start : start + step]])
                    bar.advance(min(step, len(data) - start))
            else:
                self._by_buckets(data, out, bar)
        self._writer.close("features")

    def _by_buckets(self, data: Array, out: ArrayWriter, bar: Progress) -> None:
        """Sequential reads only: rows go to the bucket of their place, then buckets are sorted.

        A bucket receives its rows by ascending number, so nothing but the rows is written.
        """
        each = max(1, data[:1].nbytes)
        rows = max(1, self._room // 4 // each)  # of a bucket
        count = -(-len(data) // rows)
        bucket_of = np.empty(len(data), np.uint32)
        bucket_of[self._order] = np.arange(len(data), dtype=np.uint32) // np.uint32(rows)
        filled = np.arange(count, dtype=np.int64) * rows
        try:
            with tempfile.TemporaryFile(dir=self._writer.folder) as scratch:
                descriptor = scratch.fileno()
                self.scratch_bytes = int(data.nbytes)
                os.posix_fallocate(descriptor, 0, self.scratch_bytes)
                for start in range(0, len(data), rows):
                    chunk = np.ascontiguousarray(fetch(data[start : start + rows]))
                    into = bucket_of[start : start + rows]
                    by_bucket = np.argsort(into, kind="stable")
                    ends = np.cumsum(np.bincount(into, minlength=count))
                    for bucket in np.flatnonzero(np.diff(ends, prepend=0)):
                        first = ends[bucket - 1] if bucket else 0
                        some = chunk[by_bucket[first : ends[bucket]]]
                        _write(descriptor, some, int(filled[bucket]) * each)
                        filled[bucket] += len(some)
                for start in range(0, len(data), rows):
                    wanted = self._order[start : start + rows]
                    held = _read(descriptor, len(wanted), data, start * each)
                    out.append(held[np.argsort(np.argsort(wanted))])
                    bar.advance(len(wanted))
        except OSError as error:
            raise storage_error(error, self._writer.dst, "moving rows for") from error


def _write(descriptor: int, rows: Array, at: int) -> None:
    view = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
    while len(view):
        done = os.pwrite(descriptor, view.data, at)
        view, at = view[done:], at + done


def _read(descriptor: int, count: int, like: Array, at: int) -> Array:
    made = np.empty((count, *like.shape[1:]), like.dtype)
    view = made.reshape(-1).view(np.uint8)
    while len(view):
        done = os.preadv(descriptor, [view.data], at)
        if done == 0:
            raise OSError("the scratch file ends early")
        view, at = view[done:], at + done
    return made
