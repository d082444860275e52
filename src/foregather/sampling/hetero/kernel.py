"""kernel: the core's kernels for one typed graph and one sampler.

Types and relations are handed over in the order of their sorted names, which numbers them. The
kernel walks relations as `HeteroGraph.relation` gives them: checked, in memory, and with rows by
time where times count.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.relation import Level, Relation
from foregather.sampling.hetero.checks import DEBIAS
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.relation_weights import RelationWeights
from foregather.sampling.layerwise import Debias

__all__ = [
    "Kernel",
    "make_hgt_kernel",
    "make_kernel",
    "make_labor_kernel",
    "make_layerwise_kernel",
]

Array = npt.NDArray[Any]
_NodeWise: TypeAlias = _core.TypedKernel32 | _core.TypedKernel64
_LayerWise: TypeAlias = _core.TypedLayerwise32 | _core.TypedLayerwise64
_Hgt: TypeAlias = _core.HgtKernel32 | _core.HgtKernel64
Kernel: TypeAlias = _NodeWise | _LayerWise | _Hgt


def make_kernel(
    graph: HeteroGraph,
    fanouts: Fanouts,
    weights: RelationWeights | None,
    time: Level | None,
    rule: tuple[bool, bool, bool],
    induced: bool,
) -> Kernel:
    """Makes the kernel.

    Args:
        graph: the graph.
        fanouts: how many edges of a row are taken.
        weights: by which edges are drawn.
        time: whose times limit trees.
        rule: with replacement; in trees; the last edges.
        induced: all edges between the nodes.

    Raises:
        InputError: the graph has no such relations, times or weights, or weights that cannot be
            drawn by.
        FormatError: the graph is damaged.
        StorageError: it cannot be read.
    """
    if weights is not None:
        weights.check(graph)
    wide = _wide(graph)
    kernel: _NodeWise = (_core.TypedKernel64 if wide else _core.TypedKernel32)(
        _counts(graph), fanouts.num_layers, *rule, induced
    )

    def by(edge_type: EdgeType, relation: Relation, drawn: bool) -> Array | None:
        return None if weights is None or not drawn else weights.of(edge_type, relation)

    _add_relations(kernel, graph, fanouts, wide, time, by)
    return kernel


def make_labor_kernel(
    graph: HeteroGraph,
    fanouts: Fanouts,
    time: Level | None,
    rule: tuple[bool, bool, Debias],
) -> Kernel:
    """Makes the kernel of LABOR; relations with weights have those as their matrix.

    Args:
        graph: the graph.
        fanouts: how many edges of a row are taken on average.
        time: whose times limit trees.
        rule: in trees; the same numbers in all layers; how edges are weighted.

    Raises:
        InputError: the graph has no such relations or times.
        FormatError: the graph is damaged.
        StorageError: it cannot be read.
    """
    trees, same, debias = rule
    wide = _wide(graph)
    kernel: _NodeWise = (_core.TypedKernel64 if wide else _core.TypedKernel32)(
        _counts(graph), fanouts.num_layers, False, trees, False, False
    )
    kernel.use_labor(same, DEBIAS.index(debias))
    _add_relations(kernel, graph, fanouts, wide, time, _own_weights)
    return kernel


def make_layerwise_kernel(
    graph: HeteroGraph, sizes: Fanouts, debias: Debias, all_rows: bool
) -> Kernel:
    """Makes the kernel of LADIES, or of FastGCN with the weights of columns over all rows.

    Raises:
        InputError: the graph has no such relations, or weights that are not finite.
        FormatError: the graph is damaged.
        StorageError: it cannot be read.
    """
    wide = _wide(graph)
    kernel: _LayerWise = (_core.TypedLayerwise64 if wide else _core.TypedLayerwise32)(
        _counts(graph), sizes.num_layers, DEBIAS.index(debias), all_rows
    )
    _add_relations(kernel, graph, sizes, wide, None, _own_weights)
    return kernel


def make_hgt_kernel(graph: HeteroGraph, numbers: Sequence[Sequence[int]]) -> Kernel:
    """Makes the kernel of the Heterogeneous Graph Transformer's sampler.

    Args:
        graph: the graph.
        numbers: nodes of each type, by layer.

    Raises:
        FormatError: the graph is damaged.
        StorageError: it cannot be read.
    """
    wide = _wide(graph)
    kernel: _Hgt = (_core.HgtKernel64 if wide else _core.HgtKernel32)(
        _counts(graph), [list(own) for own in numbers]
    )
    place = {name: at for at, name in enumerate(graph.node_types)}
    for edge_type in graph.edge_types:
        relation = graph.relation(edge_type)
        with about(f"relation {show_edge_type(edge_type)}"):
            kernel.add(
                place[edge_type[0]],
                place[edge_type[2]],
                np.ascontiguousarray(relation.indptr),
                np.ascontiguousarray(relation.indices, np.int64 if wide else np.uint32),
            )
    return kernel


def _own_weights(edge_type: EdgeType, relation: Relation, used: bool) -> Array | None:
    return relation.weights


def _wide(graph: HeteroGraph) -> bool:
    """Whether ids have 64 bits.

    One width for all: that of the widest. Narrower ones are copied, which only graphs with a type
    of 2^32 nodes and relations between smaller ones see.
    """
    return any(relation.indices.dtype == np.int64 for relation in graph.edges.values())


def _counts(graph: HeteroGraph) -> list[int]:
    return [table.num_nodes for table in graph.nodes.values()]


def _add_relations(
    kernel: Any,
    graph: HeteroGraph,
    fanouts: Fanouts,
    wide: bool,
    time: Level | None,
    weights: Callable[[EdgeType, Relation, bool], Array | None],
) -> None:
    """Hands the relations to a kernel, with weights(edge type, relation, whether it is sampled)."""
    number = {name: at for at, name in enumerate(graph.node_types)}
    dtype = np.int64 if wide else np.uint32
    for edge_type, own in zip(graph.edge_types, fanouts.of(graph.edge_types), strict=True):
        relation = graph.relation(edge_type, time)
        with about(f"relation {show_edge_type(edge_type)}"):
            by = weights(edge_type, relation, any(own))
            more = () if time is None else (relation.time,)
            kernel.add(
                number[edge_type[0]],
                number[edge_type[2]],
                np.ascontiguousarray(relation.indptr),
                np.ascontiguousarray(relation.indices, dtype),
                list(own),
                None if by is None else np.ascontiguousarray(by),
                *more,
            )
