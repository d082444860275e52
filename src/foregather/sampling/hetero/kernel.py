"""kernel: the core's kernel for one typed graph and one sampler.

Types and relations are handed over in the order of their sorted names, which numbers them. The
kernel walks relations as `HeteroGraph.relation` gives them: checked, in memory, and with rows by
time where times count.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about, show_edge_type
from foregather.graph.hetero.relation import Level
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.relation_weights import RelationWeights

__all__ = ["Kernel", "make_kernel"]

Array = npt.NDArray[Any]
Kernel: TypeAlias = _core.TypedKernel32 | _core.TypedKernel64


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
    # One width for all ids: that of the widest. Narrower ones are copied, which only graphs with a
    # type of 2^32 nodes and relations between smaller ones see.
    wide = any(relation.indices.dtype == np.int64 for relation in graph.edges.values())
    dtype = np.int64 if wide else np.uint32
    counts = [table.num_nodes for table in graph.nodes.values()]
    kernel: Kernel = (_core.TypedKernel64 if wide else _core.TypedKernel32)(
        counts, fanouts.num_layers, *rule, induced
    )
    number = {name: at for at, name in enumerate(graph.node_types)}
    for edge_type, own in zip(graph.edge_types, fanouts.of(graph.edge_types), strict=True):
        relation = graph.relation(edge_type, time)
        with about(f"relation {show_edge_type(edge_type)}"):
            by = None if weights is None or not any(own) else weights.of(edge_type, relation)
            kernel.add(
                number[edge_type[0]],
                number[edge_type[2]],
                np.ascontiguousarray(relation.indptr),
                np.ascontiguousarray(relation.indices, dtype),
                list(own),
                None if by is None else np.ascontiguousarray(by),
                None if time is None else relation.time,
            )
    return kernel
