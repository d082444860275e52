"""subgraph: minibatches that are induced subgraphs, shared by RandomWalk and Saint.

A subgraph minibatch has one layer: all edges of the graph between its nodes, ordered by target. A
model uses all of them in each of its own layers, however many it has, and gets a row for every
node. `num_nodes` is (seeds, nodes) and `num_edges` is (edges,); `expand` is "once".
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.integrity.check_topology import walkable
from foregather.sampling.bulk import Bulk, Expand, to_samples
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import flatten

__all__ = ["induced_subgraphs"]

Array = npt.NDArray[Any]
Kernel = _core.SubgraphKernel32 | _core.SubgraphKernel64
Kind = Literal["given", "walk", "node", "edge"]

_KINDS: tuple[Kind, ...] = ("given", "walk", "node", "edge")  # as in walk.hpp


class SubgraphSampler(Sampler):
    """A sampler whose minibatches are induced subgraphs."""

    @property
    def num_layers(self) -> int:
        """1: the edges of a subgraph are not divided into layers."""
        return 1

    @property
    def expand(self) -> Expand:
        """Always "once"."""
        return "once"


def induced_subgraphs(graph: Graph, nodes: Sequence[Array], *, threads: int = 0) -> Bulk:
    """Returns the induced subgraph of each set of nodes: all edges with both ends in the set.

    Args:
        graph: the graph.
        nodes: node ids of each set; a node given twice appears once, see `seed_position`.
        threads: threads to use, 0 for all.

    Raises:
        InputError: an id is not a node of the graph.
    """
    flat, ptr = flatten(nodes)
    made = make_kernel(walkable(graph, threads), "given").sample(flat, ptr, 0, 0, 0, threads)
    return Bulk(to_samples(made, 0), 0, 0, 0)


def make_kernel(
    graph: Graph, kind: Kind, *, size: int = 0, length: int = 0, walks: int = 1
) -> Kernel:
    """The C++ sampler of one kind of subgraph over one graph."""
    rule = (_KINDS.index(kind), size, length, walks)
    return _core.subgraph_kernel(graph.indptr, graph.indices, *rule)


def whole_number(name: str, value: Any, least: int) -> int:
    """Checks that an option is a whole number of at least `least`.

    Raises:
        InputError: it is not.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value < 1 << 31:
        raise InputError(f"{name} is {value!r}, expected a whole number of at least {least}")
    return int(value)
