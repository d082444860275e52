"""neighbor: GraphSAGE sampling: a fixed number of in-neighbours per node, layer by layer.

`Neighbor` is a matrix program; `sample_bulk` runs it as one C++ kernel that gives the same bits
without building P.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Expand
from foregather.sampling.fused import FusedSampler
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.rows import Picks, Rows
from foregather.sampling.weights import DrawWeights

__all__ = ["Neighbor", "check_expand", "check_fanouts"]

Array = npt.NDArray[Any]
Kernel = _core.NeighborKernel32 | _core.NeighborKernel64


@dataclass(frozen=True)
class Neighbor(FusedSampler):
    """Samples in-neighbours, uniformly or by weight.

    With weights, a node draws one in-edge after the other, each with probability proportional to
    its weight among the remaining ones (or among all, with replacement). An edge of weight 0 is
    never taken. The first bulk of a graph prepares its weights: 8 bytes per edge, kept with the
    kernel; after that a draw costs the same in long rows as in short ones.

    Args:
        num_neighbors: the number per layer, the layer next to the seeds first; -1 takes all.
        replace: draw with replacement (a node with any in-neighbours then gets exactly that
            number); otherwise a node with fewer gets all of them, once.
        expand: "once" as PyG, or "per-layer" as the papers; see `Expand`.
        weights: True for the graph's `edge_weight`, or one number per edge in the order of
            `graph.indices` (NumPy or torch, kept as float32); only ratios inside a row matter.

    Raises:
        InputError: no layers, or a number that is neither positive nor -1; while sampling, weights
            that are negative, not finite, or all 0 in a row.
    """

    num_neighbors: Sequence[int]
    replace: bool = False
    expand: Expand = "once"
    weights: Any = None
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_neighbors", check_fanouts(self.num_neighbors))
        check_expand(self.expand)
        object.__setattr__(self, "weights", DrawWeights.make(self.weights))

    @property
    def layer_sizes(self) -> Sequence[int]:
        """The fan-outs."""
        return self.num_neighbors

    @property
    def _by_number(self) -> bool:
        """Whether picks are uniform."""
        return self.weights is None

    def sample(self, p: Rows) -> Picks:
        """Entries of each row."""
        size = self.num_neighbors[p.layer]
        again = self.replace and size >= 0
        if self.weights is None:
            return p.sample_rows(size, replace=again)
        return p.draw_rows(size, self.weights.at(p), again)

    def _kernel(self, graph: Graph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: Graph) -> Kernel:
            fanouts, once = list(self.num_neighbors), self.expand == "once"
            weights = None if self.weights is None else self.weights.of(graph)
            rule = (fanouts, self.replace, once, weights)
            kernel: Kernel = _core.neighbor_kernel(graph.indptr, graph.indices, *rule)
            return kernel

        return self._kept.get(graph, make)


def check_fanouts(given: Sequence[int]) -> tuple[int, ...]:
    """Fan-outs as whole numbers.

    Raises:
        InputError: no list, no layers, or a number that is neither positive nor -1.
    """
    if hasattr(given, "tolist"):  # an array or a tensor
        given = given.tolist()
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InputError(
            f"num_neighbors is {given!r}, expected fan-outs, one per layer; try "
            "num_neighbors=[10, 5]"
        )
    numbers = tuple(given)
    if not numbers:
        raise InputError("num_neighbors is empty, expected one number per layer")
    for layer, number in enumerate(numbers):
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not whole or (number < 1 and number != -1) or number >= 1 << 31:
            raise InputError(
                f"num_neighbors has {number!r} for layer {layer}, expected a positive number "
                "below 2^31, or -1 for all neighbours"
            )
    return tuple(int(number) for number in numbers)


def check_expand(expand: Any) -> None:
    """Raises InputError unless it is one of the two modes."""
    if expand not in ("once", "per-layer"):
        raise InputError(f"expand is {expand!r}, expected 'once' or 'per-layer'")
