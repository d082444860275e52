"""cut_quality: measures the quality of a cut into blocks: cut edges, halo, balance."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.graph.graph_value import EDGE_STEP
from foregather.graph.mapped import fetch

__all__ = ["measure_cut"]

Int = npt.NDArray[np.int64]


def measure_cut(graph: Graph, part: Int, parts: int) -> dict[str, Any]:
    """Returns facts about a cut.

    Args:
        graph: the graph.
        part: int64 [N]: the block of each node.
        parts: blocks.

    Returns:
        For each block its nodes, edges (rows), cut edges (from a source in another block) and halo
        (distinct sources in other blocks); the shares over all; and balance, the largest block over
        the mean one, of nodes and of edges.
    """
    nodes = np.bincount(part, minlength=parts)
    edges = np.bincount(part, weights=graph.in_degree(), minlength=parts).astype(np.int64)
    cut = np.zeros(parts, np.int64)
    halo = np.zeros(parts, np.int64)
    bounds = fetch(graph.indptr)
    # One block is processed at a time, so memory is N bytes.
    for block in range(parts):
        met = np.zeros(graph.num_nodes, np.bool_)
        for begin, end in _spans(bounds, part, block):
            sources = fetch(graph.indices[begin:end])
            outside = sources[part[sources] != block]
            cut[block] += len(outside)
            met[outside] = True
        halo[block] = int(met.sum())
    total = max(1, graph.num_edges)
    return {
        "parts": parts,
        "nodes": nodes.tolist(),
        "edges": edges.tolist(),
        "cut": cut.tolist(),
        "halo": halo.tolist(),
        "cut_share": float(cut.sum() / total),
        "halo_share": float(halo.sum() / max(1, graph.num_nodes)),
        "balance_nodes": _balance(nodes),
        "balance_edges": _balance(edges),
    }


def _balance(counts: Int) -> float:
    mean = float(counts.mean()) if len(counts) else 0.0
    return float(counts.max() / mean) if mean > 0 else 1.0


def _spans(bounds: Int, part: Int, block: int) -> Any:
    """Edges of the rows of a block, as runs of consecutive rows of at most EDGE_STEP edges."""
    own = np.flatnonzero(part == block)
    if not len(own):
        return
    breaks = np.flatnonzero(np.diff(own) != 1) + 1
    for run in np.split(own, breaks):
        begin, end = int(bounds[run[0]]), int(bounds[run[-1] + 1])
        for start in range(begin, end, EDGE_STEP):
            yield start, min(end, start + EDGE_STEP)
