"""describe: facts about a graph, for people and for `foregather info`.

Everything is exact and read a chunk at a time; apart from the chunk, memory holds one counter (8
bytes) per node. Whether the graph is symmetric is decided by comparing fingerprints of all edges
and of all reversed edges, which is wrong with a probability of about 2^-64.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.chunks import edge_pieces, row_pieces
from foregather.graph.graph import Graph
from foregather.graph.labels import label_facts
from foregather.graph.links.check import link_facts_of
from foregather.graph.mapped import fetch
from foregather.graph.original_ids import id_facts
from foregather.observe.plots import new_figure, save_figure
from foregather.observe.progress import Progress
from foregather.units import format_number

__all__ = ["degree_facts", "describe", "histogram", "plot_degrees"]

Array = npt.NDArray[Any]

_QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_TOP_CLASSES = 10
_PLOT_POINTS = 200
_INDPTR_STEP = 2 << 20


def describe(graph: Graph) -> dict[str, Any]:
    """Counts, degrees, structure, labels, splits and storage of a graph, as JSON-able values."""
    arrays = graph.stored_arrays()
    incoming = histogram(
        np.diff(fetch(graph.indptr[start : start + _INDPTR_STEP + 1]))
        for start in range(0, graph.num_nodes, _INDPTR_STEP)
    )
    out_degree = graph.out_degree()
    outgoing = histogram(piece for _, piece in row_pieces(out_degree))
    facts: dict[str, Any] = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "ids": graph.indices.dtype.name,
        "original_ids": id_facts(graph),
        "in_degree": degree_facts(*incoming),
        "out_degree": degree_facts(*outgoing),
        "isolated": _isolated(graph, out_degree),
        **_edge_facts(graph),
        "features": _feature_facts(graph),
        "labels": _label_facts(graph),
        "splits": {name: int(ids.size) for name, ids in graph.splits.items()},
        "links": {name: link_facts_of(one) for name, one in graph.links.items()},
        "arrays": {
            name: {
                "dtype": values.dtype.name,
                "shape": list(values.shape),
                "bytes": int(values.nbytes),
            }
            for name, values in sorted(arrays.items())
        },
        "bytes": sum(int(values.nbytes) for values in arrays.values()),
    }
    for name in ("undirected", "self_loops", "duplicates", "provenance"):
        facts.setdefault("made_with", {})[name] = graph.meta.get(name)
    return facts


def histogram(
    pieces: Iterable[npt.NDArray[np.int64]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct degrees, ascending, and how many nodes have each."""
    degrees = np.empty(0, np.int64)
    counts = np.empty(0, np.int64)
    for piece in pieces:
        more, times = np.unique(piece, return_counts=True)
        merged, place = np.unique(np.concatenate([degrees, more]), return_inverse=True)
        total = np.zeros(merged.size, np.int64)
        np.add.at(total, place, np.concatenate([counts, times]))
        degrees, counts = merged, total
    return degrees, counts


def degree_facts(
    degrees: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> dict[str, Any] | None:
    """Least, middle, mean and largest degree, and their distribution; None without nodes."""
    if degrees.size == 0:
        return None
    below = np.cumsum(counts)
    nodes = int(below[-1])
    # the smallest degree that at least the fraction q of nodes does not exceed
    quantiles = {
        name: int(degrees[np.searchsorted(below, np.ceil(q * nodes))])
        for name, q in _QUANTILES.items()
    }
    at_least = nodes - below + counts
    pick = np.unique(np.geomspace(1, degrees.size, _PLOT_POINTS).astype(np.int64) - 1)
    return {
        "min": int(degrees[0]),
        "median": quantiles["p50"],
        "mean": float(np.dot(degrees, counts)) / nodes,
        "max": int(degrees[-1]),
        "zero": int(counts[0]) if degrees[0] == 0 else 0,
        "quantiles": quantiles,
        "ccdf": [[int(degrees[i]), int(at_least[i]) / nodes] for i in pick],
    }


def _isolated(graph: Graph, out_degree: npt.NDArray[np.int64]) -> int:
    count = 0
    for start in range(0, graph.num_nodes, _INDPTR_STEP):
        incoming = np.diff(fetch(graph.indptr[start : start + _INDPTR_STEP + 1]))
        count += int(((incoming == 0) & (out_degree[start : start + incoming.size] == 0)).sum())
    return count


def _edge_facts(graph: Graph) -> dict[str, Any]:
    labels = np.empty(0, np.int64)
    if graph.labels is not None and graph.labels.ndim == 1 and graph.labels.dtype.kind in "iu":
        labels = fetch(graph.labels).astype(np.int64, copy=False)
    sums = [0] * 5
    with Progress("edges", graph.num_edges, "edges") as bar:
        for piece in edge_pieces(graph):
            found = _core.count_edges(
                piece.indptr, piece.first_row, piece.indices, piece.start, piece.skip, labels
            )
            sums = [total + more for total, more in zip(sums, found, strict=True)]
            bar.advance(len(piece.indices) - piece.skip)
    loops, duplicates, labelled, same, skew = sums
    return {
        "self_loops": loops,
        "duplicate_edges": duplicates,
        "symmetric": skew % (1 << 64) == 0,
        "symmetric_by": "fingerprints of all edges",
        "homophily": same / labelled if labelled else None,
        "homophily_edges": labelled,
    }


def _feature_facts(graph: Graph) -> dict[str, Any] | None:
    if graph.features is None:
        return None
    facts: dict[str, Any] = {
        "width": graph.features.width,
        "dtype": graph.features.dtype.name,
        "row_bytes": graph.features.width * graph.features.dtype.itemsize,
    }
    if graph.features.places is not None:
        facts["order"] = graph.meta.get("order", {}).get("name", "unknown")
    stored = graph.meta.get("features")
    if isinstance(stored, Mapping) and "error" in stored:
        facts["error"] = stored["error"]
    return facts


def _label_facts(graph: Graph) -> dict[str, Any] | None:
    if graph.labels is None:
        return None
    labels = fetch(graph.labels)
    facts = label_facts(labels)
    if facts["kind"] == "single":
        classes, counts = histogram(piece for _, piece in row_pieces(labels))
        order = [i for i in np.argsort(-counts, kind="stable") if classes[i] >= 0]
        stored = graph.meta.get("labels")
        names = stored.get("classes") if isinstance(stored, Mapping) else None
        if isinstance(names, list) and len(names) == facts["num_classes"]:
            facts["classes"] = [str(name) for name in names]
        facts["top_classes"] = [[int(classes[i]), int(counts[i])] for i in order[:_TOP_CLASSES]]
    return facts


def plot_degrees(facts_or_graph: Mapping[str, Any] | Graph, path: str | os.PathLike[str]) -> Path:
    """Draws the share of nodes with at least each in- and out-degree, both axes logarithmic.

    Args:
        facts_or_graph: what `describe` returned, or a graph to describe first.
        path: the image to write; its extension chooses the format (png, pdf, svg).

    Raises:
        MissingDependencyError: matplotlib is not installed.
        InputError: matplotlib does not know the extension.
        StorageError: the file cannot be written.
    """
    facts = describe(facts_or_graph) if isinstance(facts_or_graph, Graph) else facts_or_graph
    counts = (format_number(facts[f"num_{one}s"], one) for one in ("node", "edge"))
    title = ", ".join(counts)
    figure, axes = new_figure(title, "degree", "share of nodes with at least this degree")
    for name, style in (("in_degree", "o-"), ("out_degree", "s--")):
        points = [(d, share) for d, share in (facts[name] or {}).get("ccdf", []) if d > 0]
        if points:
            axes.loglog(*zip(*points, strict=True), style, ms=3, label=name.replace("_", "-"))
    axes.grid(alpha=0.3, which="both")
    if axes.lines:
        axes.legend()
    target = Path(path)
    save_figure(figure, target)
    return target
