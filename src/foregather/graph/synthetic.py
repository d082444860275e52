"""synthetic: makes a graph from a recipe, streamed into a folder or as arrays in memory.

The core computes any range of nodes from the recipe alone (csrc/graph/synthetic/synth.hpp says
how), so chunks are made in order, written in the background, and dropped: memory does not grow with
the graph, and neither threads nor chunk sizes change a byte.
"""

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather.graph.on_disk.write_behind import Ring, WriteBehind
from foregather.graph.on_disk.writer import FolderWriter
from foregather.graph.recipe import Recipe
from foregather.observe.progress import Progress, peak_memory

__all__ = ["SPLITS", "SyntheticArrays", "synthesize", "synthetic_arrays"]

Array = npt.NDArray[Any]

SPLITS = ("train", "valid", "test")
_CHUNK = 16 << 20  # bytes made at a time; DEPTH + 2 such buffers exist
_SMALL = 1 << 20  # nodes whose labels and splits are made at a time
# not every compiler has a binary16 type, so the core writes the bits
_STORED = {"float32": np.float32, "float16": np.uint16, "int8": np.int8}


class SyntheticArrays(NamedTuple):
    """A synthetic graph in memory; the same arrays that `synthesize` writes."""

    indptr: npt.NDArray[np.int64]
    indices: Array
    features: Array | None
    features_scale: npt.NDArray[np.float32] | None
    labels: Array
    splits: dict[str, npt.NDArray[np.int64]]


def synthesize(
    dst: str | os.PathLike[str],
    nodes: int,
    *,
    threads: int = 0,
    overwrite: bool = False,
    chunk_bytes: int = _CHUNK,
    **options: Any,
) -> dict[str, Any]:
    """Makes a synthetic graph folder.

    Args:
        dst: the folder to make.
        nodes: number of nodes.
        threads: threads to compute with, 0 for all; the result does not depend on it.
        overwrite: replace an existing graph folder.
        chunk_bytes: bytes made at a time; the result does not depend on it.
        options: further fields of `Recipe` (degree, edges, features, classes, dtype, ids, ...).

    Returns:
        Counts and bytes of the graph, and the seconds and peak memory used.

    Raises:
        InputError: an option is out of its range.
        StorageError: `dst` exists or cannot be written.
    """
    recipe = Recipe(nodes, **options)
    started = time.perf_counter()
    with FolderWriter(dst, overwrite) as folder:
        core = recipe.core()
        with WriteBehind() as behind:
            job = _Job(recipe, core, folder, behind, threads, max(1, chunk_bytes))
            job.topology()
            job.features()
            counts = job.labels_and_splits()
            behind.drain()
        facts: dict[str, Any] = {"features": {"width": recipe.features, "dtype": recipe.dtype}}
        folder.finish(
            recipe.nodes,
            core.edges,
            undirected=False,
            self_loops="kept",
            duplicates="removed",
            labels={"kind": "single", "num_classes": recipe.classes, "missing": 0},
            provenance=recipe.provenance(),
            **(facts if recipe.features else {}),
        )
        size = sum(file.stat().st_size for file in folder.dst.rglob("*") if file.is_file())
    seconds = time.perf_counter() - started
    return {
        "nodes": recipe.nodes,
        "edges": core.edges,
        "edges_capped": recipe.num_edges - core.edges,
        "features": recipe.features,
        "dtype": recipe.dtype,
        "classes": recipe.classes,
        "communities": recipe.communities,
        "ids": recipe.ids,
        "splits": counts,
        "seed": recipe.seed,
        "bytes": size,
        "seconds": seconds,
        "bytes_per_second": size / seconds,
        "peak_memory": peak_memory(),
    }


def synthetic_arrays(nodes: int, *, threads: int = 0, **options: Any) -> SyntheticArrays:
    """Makes a synthetic graph in memory; `options` are further fields of `Recipe`."""
    recipe = Recipe(nodes, **options)
    core = recipe.core()
    indptr = np.zeros(nodes + 1, np.int64)
    core.degrees(0, indptr[1:], threads)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(core.edges, recipe.id_dtype)
    core.rows(0, indptr, indices, threads)
    features = scale = None
    if recipe.features:
        stored = np.empty(nodes * recipe.features, _STORED[recipe.dtype])
        core.features(0, stored, threads)
        features = stored.view(recipe.dtype).reshape(nodes, recipe.features)
        scale = _scale(recipe, core)
    labels = np.empty(nodes, recipe.label_dtype)
    core.labels(0, labels, threads)
    roles = np.empty(nodes, np.uint8)
    core.roles(0, roles, threads)
    splits = {name: np.flatnonzero(roles == role) for role, name in enumerate(SPLITS)}
    return SyntheticArrays(indptr, indices, features, scale, labels, splits)


def _scale(recipe: Recipe, core: Any) -> npt.NDArray[np.float32] | None:
    if recipe.dtype != "int8":
        return None
    scale = np.empty(recipe.features, np.float32)
    core.scale(scale)
    return scale


class _Job:
    """One run of `synthesize`: makes chunks here and writes them in the background."""

    def __init__(
        self,
        recipe: Recipe,
        core: Any,
        folder: FolderWriter,
        behind: WriteBehind,
        threads: int,
        chunk: int,
    ) -> None:
        self.recipe = recipe
        self.core = core
        self.folder = folder
        self.behind = behind
        self.threads = threads
        self.chunk = chunk

    def _ranges(self, row_bytes: int, most: int = _SMALL) -> Iterator[tuple[int, int]]:
        """Consecutive ranges of nodes, about a chunk of bytes each."""
        step = max(1, min(self.chunk // max(1, row_bytes), most))
        for begin in range(0, self.recipe.nodes, step):
            yield begin, min(begin + step, self.recipe.nodes)

    def _close(self, *names: str) -> None:
        for name in names:
            self.behind.submit(partial(self.folder.close, name))

    def topology(self) -> None:
        """Writes indptr and indices."""
        recipe, core, submit = self.recipe, self.core, self.behind.submit
        indptr = self.folder.array("indptr", np.int64, rows=recipe.nodes + 1)
        indices = self.folder.array("indices", recipe.id_dtype, rows=core.edges)
        submit(partial(indptr.append, np.zeros(1, np.int64)))
        ring = Ring(recipe.id_dtype)
        total = 0
        row_bytes = recipe.id_dtype.itemsize * -(-core.edges // recipe.nodes)
        with Progress("topology", core.edges, "edges") as progress:
            for begin, end in self._ranges(row_bytes):
                offsets = np.empty(end - begin + 1, np.int64)
                offsets[0] = total
                core.degrees(begin, offsets[1:], self.threads)
                np.cumsum(offsets, out=offsets)
                rows = ring.take(int(offsets[-1]) - total)
                core.rows(begin, offsets, rows, self.threads)
                submit(partial(_append_both, indptr, offsets[1:], indices, rows))
                total = int(offsets[-1])
                progress.advance(rows.size)
        self._close("indptr", "indices")

    def features(self) -> None:
        """Writes features, and their scale for int8."""
        recipe = self.recipe
        if recipe.features == 0:
            return
        writer = self.folder.array("features", recipe.dtype, (recipe.features,), recipe.nodes)
        stored = np.dtype(_STORED[recipe.dtype])
        ring = Ring(stored)
        row_bytes = recipe.features * stored.itemsize
        with Progress("features", recipe.nodes * row_bytes, "B") as progress:
            for begin, end in self._ranges(row_bytes):
                flat = ring.take((end - begin) * recipe.features)
                self.core.features(begin, flat, self.threads)
                rows = flat.view(recipe.dtype).reshape(end - begin, recipe.features)
                self.behind.submit(partial(writer.append, rows))
                progress.advance(rows.nbytes)
        self._close("features")
        scale = _scale(recipe, self.core)
        if scale is not None:
            self.behind.submit(partial(self.folder.put, "features_scale", scale))

    def labels_and_splits(self) -> dict[str, int]:
        """Writes labels and the ids of each split; returns the sizes of the splits."""
        recipe = self.recipe
        labels = self.folder.array("labels", recipe.label_dtype, rows=recipe.nodes)
        splits = [self.folder.array(f"splits/{name}", np.int64) for name in SPLITS]
        counts = dict.fromkeys(SPLITS, 0)
        for begin, end in self._ranges(8):
            part = np.empty(end - begin, recipe.label_dtype)
            self.core.labels(begin, part, self.threads)
            self.behind.submit(partial(labels.append, part))
            roles = np.empty(end - begin, np.uint8)
            self.core.roles(begin, roles, self.threads)
            for role, name in enumerate(SPLITS):
                ids = np.flatnonzero(roles == role) + begin
                counts[name] += ids.size
                self.behind.submit(partial(splits[role].append, ids))
        self._close("labels", *(f"splits/{name}" for name in SPLITS))
        return counts


def _append_both(first: Any, some: Array, second: Any, others: Array) -> None:
    first.append(some)
    second.append(others)
