"""make: makes a typed graph from a recipe, in memory or as a folder.

Every type has the same number of communities, and most sources of a node come from the community of
the same number in their type, so that neighbours of any type tell something about its class. The
core draws rows for the targets; its sources, numbered as the targets are, are stretched or pressed
to the source type, which keeps communities and hubs. Parallel edges are kept. Ids are shuffled.

Memory holds the features of one type, or about 50 bytes for each edge of one pair of relations.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.arrays import id_dtype
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.layout import lay_out, targets_of
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.on_disk.stored import (
    arrays_of_relation,
    arrays_of_table,
    describe_relation,
    describe_table,
    edge_folder,
    node_folder,
)
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.synthetic.recipe import Pair, TypedRecipe
from foregather.graph.on_disk.writer import TYPED, FolderWriter
from foregather.observe.progress import Progress, peak_memory

__all__ = ["synthesize_typed", "synthetic_typed"]

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]

_SPLITS = ("train", "val", "test")
_TIME_BITS = 20
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio
_SHUFFLE, _NODE_TIME, _EDGE_TIME, _WEIGHT, _SPREAD, _ROWS, _LEARN = range(1, 8)


def synthetic_typed(nodes: int, *, threads: int = 0, **options: Any) -> HeteroGraph:
    """Makes a synthetic typed graph in memory; `options` are further fields of `TypedRecipe`.

    Raises:
        InputError: an option is out of its range.
    """
    recipe = TypedRecipe(nodes, **options)
    made = {name: _table(recipe, number, threads) for number, name in enumerate(recipe.type_names)}
    edges = {
        name: relation
        for number in range(len(recipe.pairs))
        for name, relation in _relations(recipe, number, threads)
    }
    return HeteroGraph(made, edges, {"provenance": recipe.provenance()})


def synthesize_typed(
    dst: str | os.PathLike[str],
    nodes: int,
    *,
    threads: int = 0,
    overwrite: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Makes a synthetic typed graph folder, the same graph as `synthetic_typed`.

    Args:
        dst: the folder to make.
        nodes: number of nodes of all types together.
        threads: threads to compute with, 0 for all; the result does not depend on it.
        overwrite: replace an existing graph folder.
        options: further fields of `TypedRecipe`.

    Returns:
        Counts and bytes of the graph, and the seconds and peak memory used.

    Raises:
        InputError: an option is out of its range.
        StorageError: `dst` exists or cannot be written.
    """
    recipe = TypedRecipe(nodes, **options)
    started = time.perf_counter()
    names = sorted(name for pair in recipe.pairs for name in (pair.name, pair.reverse) if name)
    types: list[dict[str, Any]] = []
    relations: dict[EdgeType, dict[str, Any]] = {}
    with FolderWriter(dst, overwrite, TYPED) as folder:
        with Progress("types", recipe.types, "types") as bar:
            for number, name in enumerate(recipe.type_names):
                table = _table(recipe, number, threads)
                for key, values in arrays_of_table(table).items():
                    folder.put(f"{node_folder(number)}/{key}", values)
                types.append(describe_table(name, table))
                bar.advance(1)
        with Progress("relations", len(names), "relations") as bar:
            for pair in range(len(recipe.pairs)):
                for edge_type, relation in _relations(recipe, pair, threads):
                    at = edge_folder(names.index(edge_type))
                    for key, values in arrays_of_relation(relation).items():
                        folder.put(f"{at}/{key}", values)
                    relations[edge_type] = describe_relation(edge_type, relation)
                    bar.advance(1)
        folder.finish(
            sum(recipe.sizes),
            sum(one["num_edges"] for one in relations.values()),
            nodes=types,
            edges=[relations[name] for name in names],
            provenance=recipe.provenance(),
        )
        size = sum(file.stat().st_size for file in folder.dst.rglob("*") if file.is_file())
    seconds = time.perf_counter() - started
    return {
        "nodes": sum(recipe.sizes),
        "edges": sum(one["num_edges"] for one in relations.values()),
        "types": {one["type"]: one["num_nodes"] for one in types},
        "relations": [[*name, relations[name]["num_edges"]] for name in names],
        "features": recipe.features,
        "classes": recipe.classes,
        "times": recipe.times,
        "seed": recipe.seed,
        "bytes": size,
        "seconds": seconds,
        "bytes_per_second": size / seconds,
        "peak_memory": peak_memory(),
    }


def _key(recipe: TypedRecipe, *path: int) -> int:
    """A key for one use of random numbers."""
    key = recipe.seed
    for step in path:
        word = (key + step * _GOLDEN) % (1 << 64)
        key = int(_mix(np.array([word], np.uint64))[0])
    return key


def _mix(words: Words) -> Words:
    """Scrambles 64-bit words, each by itself (the finisher of splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = np.bitwise_xor(words, words >> np.uint64(shift))
        words = np.multiply(words, np.uint64(factor))
    mixed: Words = np.bitwise_xor(words, words >> np.uint64(31))
    return mixed


def _draws(key: int, count: int) -> Words:
    """Random words number 0 to count - 1 of a key."""
    with np.errstate(over="ignore"):
        return _mix(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(key))


def _core_of(recipe: TypedRecipe, nodes: int, edges: int, width: int, seed: int) -> Any:
    return _core.Synth(
        nodes=nodes,
        edges=edges,
        communities=recipe.communities,
        classes=recipe.classes,
        width=width,
        skew=recipe.skew,
        mixing=recipe.mixing,
        label_noise=recipe.label_noise,
        signal=recipe.signal,
        split=recipe.split,
        shuffled=False,
        seed=seed,
    )


def _shuffled(recipe: TypedRecipe, number: int) -> npt.NDArray[np.int64]:
    """The id of each vertex of a type."""
    draws = _draws(_key(recipe, _SHUFFLE, number), recipe.sizes[number])
    return np.argsort(draws, kind="stable")


def _table(recipe: TypedRecipe, number: int, threads: int) -> NodeTable:
    """The nodes of a type; one seed for all types, so that their classes are the same ones."""
    nodes = recipe.sizes[number]
    core = _core_of(recipe, nodes, 0, recipe.features, _key(recipe, _LEARN))
    ids = _shuffled(recipe, number)
    features = {}
    if recipe.features:
        flat = np.empty(nodes * recipe.features, np.float32)
        core.features(0, flat, threads)
        rows = np.empty((nodes, recipe.features), np.float32)
        rows[ids] = flat.reshape(nodes, recipe.features)
        features["x"] = rows
    labels, splits = None, {}
    if number == 0:
        classes = np.empty(nodes, np.int16)
        core.labels(0, classes, threads)
        labels = np.empty(nodes, np.int64)
        labels[ids] = classes
        roles = np.empty(nodes, np.uint8)
        core.roles(0, roles, threads)
        splits = {name: np.sort(ids[roles == role]) for role, name in enumerate(_SPLITS)}
    times = None
    if recipe.times == "node" and number % 2 == 0:
        times = _times(_key(recipe, _NODE_TIME, number), nodes)
    return NodeTable(nodes, features, labels, times, splits)


def _times(key: int, count: int) -> npt.NDArray[np.int64]:
    draws: Words = _draws(key, count) >> np.uint64(64 - _TIME_BITS)
    return draws.astype(np.int64)


def _relations(
    recipe: TypedRecipe, number: int, threads: int
) -> Iterator[tuple[EdgeType, Relation]]:
    """A relation that is drawn, and the one that leads back along its edges."""
    pair = recipe.pairs[number]
    source, target = _ends(recipe, pair, number, threads)
    time = weights = None
    if recipe.times == "edge":
        time = _times(_key(recipe, _EDGE_TIME, number), source.size)
    if recipe.weights:
        draws = _draws(_key(recipe, _WEIGHT, number), source.size) >> np.uint64(40)
        weights = (draws + np.uint64(1)).astype(np.float32) / np.float32(1 << 24)
    sizes = recipe.sizes[pair.source], recipe.sizes[pair.target]
    for name, ends, counts in (
        (pair.name, (source, target), sizes),
        (pair.reverse, (target, source), sizes[::-1]),
    ):
        if name is not None:
            indptr, indices, order = lay_out(*ends, *counts, None, threads)
            yield (
                name,
                Relation(
                    indptr,
                    indices,
                    None,
                    None if time is None else time[order],
                    None if weights is None else weights[order],
                ).made_for(counts[0]),
            )


def _ends(recipe: TypedRecipe, pair: Pair, number: int, threads: int) -> tuple[Array, Array]:
    """Source and target ids of the edges of a pair."""
    sources, targets = recipe.sizes[pair.source], recipe.sizes[pair.target]
    core = _core_of(recipe, targets, pair.edges, 0, _key(recipe, _ROWS, number))
    indptr = np.zeros(targets + 1, np.int64)
    core.degrees(0, indptr[1:], threads)
    np.cumsum(indptr, out=indptr)
    drawn = np.empty(core.edges, id_dtype(targets))
    core.rows(0, indptr, drawn, threads)
    first = np.arange(targets + 1, dtype=np.int64) * sources // targets
    vertex = first[drawn]
    if sources > targets:  # each drawn number stands for several sources
        room = np.diff(first)[drawn]
        draws = _draws(_key(recipe, _SPREAD, number), drawn.size)
        vertex += (draws % room.astype(np.uint64)).astype(np.int64)
    work = id_dtype(max(sources, targets))
    source = _shuffled(recipe, pair.source).astype(work)[vertex]
    target = _shuffled(recipe, pair.target).astype(work)[targets_of(indptr, np.dtype(np.int64))]
    return source, target
