"""neighbor: GraphSAGE's rule: a number of in-neighbours for each vertex, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Expand, to_samples
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import flatten

__all__ = ["Neighbor"]

Array = npt.NDArray[Any]
Kernel = _core.NeighborKernel32 | _core.NeighborKernel64


@dataclass(frozen=True)
class Neighbor(Sampler):
    """Samples in-neighbours uniformly.

    Args:
        num_neighbors: how many in each layer, the layer next to the seeds first; -1 takes all.
        replace: draw with replacement (a vertex with any in-neighbours then gives exactly the
            number asked for); without it, a vertex with fewer gives all it has, once.
        expand: "once" as PyG, or "per-layer" as the papers; see `Expand`.

    Raises:
        InputError: no layers, or a number that is neither positive nor -1.
    """

    num_neighbors: Sequence[int]
    replace: bool = False
    expand: Expand = "once"
    _last: list[tuple[Graph, Kernel]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        numbers = tuple(self.num_neighbors)
        if not numbers:
            raise InputError("num_neighbors is empty, expected a number for each layer")
        for layer, number in enumerate(numbers):
            whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
            if not whole or (number < 1 and number != -1) or number >= 1 << 31:
                raise InputError(
                    f"num_neighbors has {number!r} for layer {layer}, expected a positive number, "
                    "or -1 for all neighbours"
                )
        if self.expand not in ("once", "per-layer"):
            raise InputError(f"expand is {self.expand!r}, expected 'once' or 'per-layer'")
        object.__setattr__(self, "num_neighbors", tuple(int(n) for n in numbers))

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        return len(self.num_neighbors)

    def sample_bulk(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
    ) -> Bulk:
        """Samples len(seeds) minibatches at once; see `Sampler.sample_bulk`."""
        flat, ptr = flatten(seeds)
        made = self._kernel(graph).sample(flat, ptr, seed, epoch, first_batch, threads)
        samples = to_samples(made, first_batch, self.expand)
        return Bulk(samples, seed, epoch, first_batch)

    def _kernel(self, graph: Graph) -> Kernel:
        """The kernel of a graph; that of the graph sampled last is kept, with its tables."""
        if not self._last or self._last[0][0] is not graph:
            narrow = graph.indices.dtype == np.uint32
            make = _core.NeighborKernel32 if narrow else _core.NeighborKernel64
            fanouts, once = list(self.num_neighbors), self.expand == "once"
            kernel = make(graph.indptr, graph.indices, fanouts, self.replace, once)
            self._last[:] = [(graph, kernel)]
        return self._last[0][1]
