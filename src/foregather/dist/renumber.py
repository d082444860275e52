"""renumber: writes a graph folder in another node order, so that each rank's block is consecutive.

The new folder is an ordinary graph; `mapping` holds each node's id in the source (or in the
source's own source, if that was renumbered; names stay names), and meta.json the boundaries of the
blocks. Edges and feature rows are written a chunk at a time; arrays over nodes are held in memory.
"""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError, MissingDependencyError
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch, take
from foregather.graph.on_disk.folder import facts_of, link_facts, version_of
from foregather.graph.on_disk.writer import ORDERED, FolderWriter
from foregather.graph.original_ids import write_original_ids
from foregather.sampling.rows import pointer

__all__ = ["Order", "metis_order", "renumber"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Order = Literal["natural", "metis"]
STEP = 4 << 20  # edges, or bytes of features, moved at once


def metis_order(graph: Graph, parts: int) -> tuple[Int, Int]:
    """Nodes ordered by METIS part, and where each part begins.

    METIS gets an undirected graph without self-loops, as it requires.

    Raises:
        MissingDependencyError: pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            "order 'metis' needs pymetis; install foregather[metis], or use order 'natural'"
        ) from error
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    source = fetch(graph.indices)
    both = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1).astype(
        np.int64
    )
    both = both[:, both[0] != both[1]]
    plain = Graph.from_edge_index(both, graph.num_nodes, dedup=True)
    if hasattr(pymetis, "CSRAdjacency"):
        given = {"adjacency": pymetis.CSRAdjacency(plain.indptr, plain.indices)}
    else:
        given = {"xadj": plain.indptr, "adjncy": plain.indices}
    _, part = pymetis.part_graph(parts, **given)
    part = np.asarray(part)
    return np.argsort(part, kind="stable"), pointer(np.bincount(part, minlength=parts))


def renumber(
    graph: Graph,
    order: Int,
    row_starts: Int,
    dst: str | os.PathLike[str],
    *,
    how: str,
    overwrite: bool = False,
) -> Path:
    """Writes the graph with node order[i] as node i.

    Args:
        graph: the source.
        order: a permutation of its nodes.
        row_starts: boundaries of the blocks, for meta.json.
        dst: the folder to make.
        how: name of the order, for meta.json.
        overwrite: replace an existing folder.

    Raises:
        InputError: `order` is not a permutation of the nodes.
        StorageError: the folder cannot be made.
    """
    nodes = graph.num_nodes
    place = np.full(nodes, -1, np.int64)
    if len(order) != nodes or (nodes and (order.min() < 0 or order.max() >= nodes)):
        raise InputError(f"order has {len(order)} entries, expected a permutation of {nodes} nodes")
    place[order] = np.arange(nodes)
    if (place < 0).any():
        raise InputError(f"order lacks node {int(place.argmin())}, expected a permutation")
    places = None if graph.features is None else graph.features.places
    version = version_of(graph) - (0 if places is None else ORDERED)  # rows go by id again
    with FolderWriter(dst, overwrite, version) as writer:
        edges = _write_edges(writer, graph, order, place)
        for name, values in graph.stored_arrays().items():
            if name in ("indptr", "indices", "edge_weight") or name in edges:
                continue
            if name in ("places", "mapping", "mapping_bytes", "mapping_offsets"):
                continue
            if name.startswith("splits/"):
                writer.put(name, np.sort(place[fetch(values)]))
            elif name.startswith("links/"):
                ids = not name.endswith(("/labels", "/time"))
                writer.put(name, place[fetch(values)].astype(values.dtype) if ids else values)
            elif name.endswith("_scale") or len(values) != nodes:
                writer.put(name, fetch(values))
            elif name == "features" and places is not None:
                _write_rows(writer, name, values, np.asarray(take(places, order), np.int64))
            else:
                _write_rows(writer, name, values, order)
        write_original_ids(writer, graph, order)
        facts = {key: fact for key, fact in facts_of(graph).items() if key != "order"}
        facts["partition"] = {
            "order": how,
            "row_starts": row_starts.tolist(),
            "source_digest": graph.digest,
        }
        return writer.finish(nodes, graph.num_edges, **facts, **link_facts(graph))


def _write_rows(writer: FolderWriter, name: str, values: Array, order: Int) -> None:
    out = writer.array(name, values.dtype, values.shape[1:], len(order))
    step = max(1, STEP // max(1, values[:1].nbytes))
    for start in range(0, len(order), step):
        out.append(take(values, order[start : start + step]).astype(out.dtype, copy=False))
    writer.close(name)


def _write_edges(writer: FolderWriter, graph: Graph, order: Int, place: Int) -> set[str]:
    """Rows in the new order, sources renumbered and ascending again; returns the arrays written."""
    begins, degree = fetch(graph.indptr)[order], graph.in_degree()[order]
    indptr = pointer(degree)
    writer.put("indptr", indptr)
    moved: dict[str, Array] = {}
    if graph.edge_weight is not None:
        moved["edge_weight"] = graph.edge_weight
    if graph.edge_features is not None:
        moved["edge_features"] = graph.edge_features.data
    outs = {"indices": writer.array("indices", graph.indices.dtype, (), graph.num_edges)}
    for name, values in moved.items():
        outs[name] = writer.array(name, values.dtype, values.shape[1:], graph.num_edges)
    row = 0
    while row < len(order):
        last = int(np.searchsorted(indptr, indptr[row] + STEP, side="right")) - 1
        last = min(max(last, row + 1), len(order))
        lengths = degree[row:last]
        start = pointer(lengths)
        entry = np.arange(start[-1]) + np.repeat(begins[row:last] - start[:-1], lengths)
        source = place[take(graph.indices, entry)]
        # Stable, so that parallel edges keep their order.
        sort = np.lexsort((source, np.repeat(np.arange(last - row), lengths)))
        outs["indices"].append(source[sort].astype(outs["indices"].dtype))
        for name, values in moved.items():
            outs[name].append(take(values, entry)[sort].astype(outs[name].dtype, copy=False))
        row = last
    for name in outs:
        writer.close(name)
    return set(outs)
