"""sound: a topology that kernels may walk without looking: rows that ascend, ids that are nodes.

`Graph.open` looks at sizes only. The first sampler of a graph reads its topology once, in order,
so that a damaged file is an error in a sentence and not a crash.
"""

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.graph import EDGE_STEP, Graph

__all__ = ["check_indptr", "check_topology"]

_INDPTR_STEP = 2 << 20


def check_topology(graph: Graph, threads: int = 0) -> None:
    """Checks indptr and the ids in indices, the first time it is called for a graph.

    Raises:
        FormatError: names the array and the position of the first problem.
    """
    if graph._sound:
        return
    check_indptr(graph)
    for start in range(0, graph.num_edges, EDGE_STEP):
        piece = graph.indices[start : start + EDGE_STEP]
        bad = _core.check_ids(piece, graph.num_nodes, threads)
        if bad >= 0:
            raise FormatError(
                f"indices.npy holds node {int(piece[bad])} at position {start + bad}, but the "
                f"graph has {graph.num_nodes} nodes (ids are 0 to N-1); it is damaged, convert it "
                "again"
            )
    graph._sound.append(True)


def check_indptr(graph: Graph) -> None:
    """Checks that the borders of rows never fall.

    Raises:
        FormatError: names the position where they do.
    """
    previous = 0
    for start in range(0, graph.num_nodes + 1, _INDPTR_STEP):
        piece = graph.indptr[start : start + _INDPTR_STEP]
        bad = _core.check_indptr(piece, previous)
        if bad >= 0:
            before = previous if bad == 0 else int(piece[bad - 1])
            raise FormatError(
                f"indptr.npy falls from {before} to {int(piece[bad])} at position {start + bad}, "
                "expected values that never fall"
            )
        previous = int(piece[-1])
