"""describe: facts about a typed graph, for people and for `foregather info`.

Everything is exact and read a piece at a time; apart from the piece, memory holds one counter (8
bytes) per node of the largest type.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.chunks import row_pieces
from foregather.graph.describe import degree_facts, histogram
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.links.check import link_facts_of
from foregather.graph.mapped import fetch

__all__ = ["describe_typed"]

Array = npt.NDArray[Any]
_STEP = 2 << 20


def describe_typed(graph: HeteroValue) -> dict[str, Any]:
    """Counts, degrees, times, labels, splits and bytes of a graph, as JSON-able values.

    Raises:
        FormatError: ids are damaged.
        StorageError: a file cannot be read.
    """
    arrays = graph.stored_arrays()
    return {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "nodes": [{"type": name, **_of_table(table)} for name, table in graph.nodes.items()],
        "edges": [
            {"type": list(name), **_of_relation(relation, graph.nodes[name[0]].num_nodes)}
            for name, relation in graph.edges.items()
        ],
        "links": [
            {"type": list(name), "name": one, **link_facts_of(links)}
            for name, lists in graph.links.items()
            for one, links in lists.items()
        ],
        "arrays": {
            name: {
                "dtype": values.dtype.name,
                "shape": list(values.shape),
                "bytes": int(values.nbytes),
            }
            for name, values in sorted(arrays.items())
        },
        "bytes": sum(int(values.nbytes) for values in arrays.values()),
        "made_with": {"provenance": graph.meta.get("provenance")},
    }


def _of_table(table: NodeTable) -> dict[str, Any]:
    ids = "0 to N-1"
    if table.ids is not None:
        ids = "strings" if isinstance(table.ids, TextIds) else "integers"
    return {
        "num_nodes": table.num_nodes,
        "features": {
            name: {
                "dtype": values.dtype.name,
                "shape": list(values.shape[1:]),
                "scaled": name in table.scales,
            }
            for name, values in table.features.items()
        },
        "labels": None if table.labels is None else _labels(table.labels),
        "time": None if table.time is None else _range(table.time),
        "splits": {name: int(values.size) for name, values in table.splits.items()},
        "ids": ids,
    }


def _labels(labels: Array) -> dict[str, Any]:
    missing, most = 0, -1
    for _, piece in row_pieces(labels):
        if piece.dtype.kind == "f":
            missing += int(np.isnan(piece).sum())
        elif piece.size:
            missing += int((piece < 0).sum())
            most = max(most, int(piece.max()))
    whole = labels.dtype.kind != "f" and labels.ndim == 1
    return {
        "dtype": labels.dtype.name,
        "shape": list(labels.shape[1:]),
        "num_classes": most + 1 if whole else None,
        "missing": missing,
    }


def _range(times: npt.NDArray[np.int64]) -> dict[str, int] | None:
    """First and last time; None where there are none at all."""
    ends = [(int(piece.min()), int(piece.max())) for _, piece in row_pieces(times) if piece.size]
    if not ends:
        return None
    return {"first": min(low for low, _ in ends), "last": max(high for _, high in ends)}


def _of_relation(relation: Relation, num_sources: int) -> dict[str, Any]:
    incoming = histogram(
        np.diff(fetch(relation.indptr[start : start + _STEP + 1]))
        for start in range(0, relation.num_targets, _STEP)
    )
    counts = np.zeros(num_sources, np.int64)
    for _, sources in row_pieces(relation.indices):
        _core.count_ids(sources, counts)
    rows = relation.features
    return {
        "num_edges": relation.num_edges,
        "order": relation.order,
        "in_degree": degree_facts(*incoming),
        "out_degree": degree_facts(*histogram(piece for _, piece in row_pieces(counts))),
        "time": None if relation.time is None else _range(relation.time),
        "time_level": None if relation.time is None else relation.time_level,
        "weights": relation.weights is not None,
        "features": None
        if rows is None
        else {"dtype": rows.dtype.name, "shape": list(rows.shape[1:])},
    }
