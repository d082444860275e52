"""check_topology: checks a topology once, so that kernels can walk it unchecked.

`Graph.open` looks at sizes only. The first sampler of a graph reads its topology, so that a damaged
file is an error and not a crash; if there is room, it then stays in memory.
"""

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.graph_value import EDGE_STEP, AnyGraph, GraphValue
from foregather.graph.load import WALKED, fits, load, load_bytes
from foregather.graph.mapped import fetch

__all__ = ["check_indptr", "check_topology", "walkable"]

_INDPTR_STEP = 2 << 20


def walkable(graph: AnyGraph, threads: int = 0) -> AnyGraph:
    """Returns the graph as kernels may walk it: checked, and in memory if it fits.

    The loaded arrays stay with the graph. A topology larger than free memory is walked in its map.

    Raises:
        FormatError: the topology is damaged.
        StorageError: a file cannot be read.
    """
    if WALKED not in graph._loaded and load_bytes(graph, ["topology"]):
        room = fits(graph, ["topology"])
        graph._loaded[WALKED] = load(graph, ["topology"]) if room else None
    found: AnyGraph = graph._loaded.get(WALKED) or graph
    check_topology(found, threads)
    return found


def check_topology(graph: GraphValue, threads: int = 0) -> None:
    """Checks indptr and the ids in indices, the first time it is called for a graph.

    Raises:
        FormatError: names the array and the position of the first problem.
    """
    if graph._sound:
        return
    check_indptr(graph)
    for start in range(0, graph.num_edges, EDGE_STEP):
        piece = fetch(graph.indices[start : start + EDGE_STEP])
        bad = _core.check_ids(piece, graph.num_nodes, threads)
        if bad >= 0:
            raise FormatError(
                f"indices.npy holds node {int(piece[bad])} at position {start + bad}, but the "
                f"graph has {graph.num_nodes} nodes (ids are 0 to N-1); it is damaged, convert it "
                "again"
            )
    graph._sound.append(True)


def check_indptr(graph: GraphValue) -> None:
    """Checks that row boundaries never decrease.

    Raises:
        FormatError: they do; names the position.
    """
    previous = 0
    for start in range(0, graph.num_nodes + 1, _INDPTR_STEP):
        piece = fetch(graph.indptr[start : start + _INDPTR_STEP])
        bad = _core.check_indptr(piece, previous)
        if bad >= 0:
            before = previous if bad == 0 else int(piece[bad - 1])
            raise FormatError(
                f"indptr.npy falls from {before} to {int(piece[bad])} at position {start + bad}, "
                "expected values that never fall"
            )
        previous = int(piece[-1])
