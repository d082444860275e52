"""find: computes an order of a graph's feature rows by its name.

An order is a permutation, `order[k]` is the node whose row is the k-th; it is a pure function of
the topology and the name, whatever the threads and the memory.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, InputError, MissingDependencyError
from foregather.graph.graph_value import GraphValue
from foregather.graph.load import load, load_bytes
from foregather.graph.order.streams import communities, visits
from foregather.units import format_bytes, parse_size

__all__ = ["HOT_SHARE", "ORDERS", "Order", "find_order", "order_bytes", "to_places"]

Array = npt.NDArray[Any]

#: The orders; ids puts rows back to where they lie without one.
Order = Literal[
    "ids", "communities", "bfs", "rcm", "metis", "hot", "hot+communities", "hot+bfs", "hot+rcm"
]
ORDERS: tuple[str, ...] = Order.__args__  # type: ignore[attr-defined]
#: Rows that are drawn most often and lie first in an order of hot+.
HOT_SHARE = 0.1
_PART = 4096  # nodes of a METIS part
_PIECES = 96 << 20  # pieces of the topology while it is streamed


def find_order(
    graph: GraphValue, name: str, memory: str | int = "2GB", threads: int = 0
) -> npt.NDArray[np.uint32]:
    """Computes an order.

    communities and hot stream the topology and hold 28 bytes per node, orders of hot+ 32. bfs, rcm
    and metis look rows up, so the topology is held as well (metis holds it again in 8 bytes a
    number).

    Args:
        graph: any graph with fewer than 2^32 nodes.
        name: one of `ORDERS`.
        memory: bytes that may be held.
        threads: 0 uses all; the result is the same for any number.

    Raises:
        InputError: there is no such order, or the graph has too many nodes.
        BudgetError: `memory` is too small; the message states what is needed.
        MissingDependencyError: metis was asked for, and pymetis is not installed.
    """
    if name not in ORDERS:
        raise InputError(f"order is {name!r:.40}, expected one of {', '.join(ORDERS)}")
    if graph.num_nodes >= 1 << 32:
        raise InputError(
            f"the graph has {graph.num_nodes} nodes, and orders are found for fewer than 2^32"
        )
    room, need = parse_size(memory), order_bytes(graph, name)
    if need > room:
        other = "" if "communities" in name else "; order communities needs 28 bytes per node"
        raise BudgetError(
            f"order {name} needs {format_bytes(need)} for this graph, and memory is "
            f"{format_bytes(room)}; raise memory{other}"
        )
    hot, _, rest = name.rpartition("+")
    made = _found(graph, rest, threads)
    return _hot_first(graph, made) if hot else made


def order_bytes(graph: GraphValue, name: str) -> int:
    """Bytes that finding an order holds at most."""
    hot, _, rest = name.rpartition("+")
    each = {"ids": 4, "communities": 28, "hot": 28}.get(rest, 16)
    held = graph.num_nodes * (32 if hot else each) + _PIECES
    if rest in ("bfs", "rcm", "metis"):
        held += 8 * graph.num_nodes + int(graph.indices.nbytes)
    if rest == "metis":
        held += 8 * (graph.num_nodes + 2 * graph.num_edges)
    return held


def to_places(order: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The place of each node in an order."""
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    return places


def _found(graph: GraphValue, name: str, threads: int) -> npt.NDArray[np.uint32]:
    if name == "communities":
        fine_last = communities(graph, threads)
        return np.lexsort(fine_last[::-1]).astype(np.uint32)
    if name == "hot":
        score = visits(graph)
        return np.argsort(np.iinfo(np.uint64).max - score, kind="stable").astype(np.uint32)
    if name == "ids":
        return np.arange(graph.num_nodes, dtype=np.uint32)
    held = load(graph, ["topology"]) if load_bytes(graph, ["topology"]) else graph
    part = _metis_parts(held) if name == "metis" else np.empty(0, np.uint32)
    roots = np.argsort(part, kind="stable").astype(np.uint32)
    indptr, indices = np.ascontiguousarray(held.indptr), np.ascontiguousarray(held.indices)
    return _core.breadth_first(indptr, indices, name == "rcm", roots, part)


def _hot_first(graph: GraphValue, order: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Those drawn most often first, each side in the order it has."""
    count = int(graph.num_nodes * HOT_SHARE)
    if count == 0:
        return order
    score = visits(graph)
    hot = np.zeros(graph.num_nodes, np.bool_)
    hot[np.argsort(np.iinfo(np.uint64).max - score, kind="stable")[:count]] = True
    first = hot[order]
    return np.concatenate([order[first], order[~first]])


def _metis_parts(graph: GraphValue) -> npt.NDArray[np.uint32]:
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            "order 'metis' needs pymetis; install foregather[metis], or use order 'communities'"
        ) from error
    parts = max(1, graph.num_nodes // _PART)
    if parts == 1:
        return np.zeros(graph.num_nodes, np.uint32)
    target = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), graph.in_degree())
    source = np.asarray(graph.indices, np.int64)
    both = np.unique(
        np.concatenate([source * graph.num_nodes + target, target * graph.num_nodes + source])
    )
    both = both[both // graph.num_nodes != both % graph.num_nodes]  # METIS takes no self-loops
    degree = np.bincount(both // graph.num_nodes, minlength=graph.num_nodes)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    columns = both % graph.num_nodes
    if hasattr(pymetis, "CSRAdjacency"):
        _, part = pymetis.part_graph(parts, adjacency=pymetis.CSRAdjacency(indptr, columns))
    else:
        _, part = pymetis.part_graph(parts, xadj=indptr, adjncy=columns)
    return np.asarray(part, np.uint32)
