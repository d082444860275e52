"""loops: whether every node of a graph has an edge to itself."""

import numpy as np

from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch

__all__ = ["has_loops"]

_ROWS = 1 << 18


def has_loops(graph: Graph) -> bool:
    """Whether every node has a self-loop; looks at rows until one has none."""
    for first in range(0, graph.num_nodes, _ROWS):
        bounds = fetch(graph.indptr[first : first + _ROWS + 1])
        sources = fetch(graph.indices[int(bounds[0]) : int(bounds[-1])])
        target = first + np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        own = np.unique(target[sources == target])
        if len(own) < len(bounds) - 1:
            return False
    return True
