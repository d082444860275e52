"""weights: the weight of each edge in weighted draws by `Neighbor`.

A sampler is a value, so an array of weights is copied, and two arrays are equal if their bytes are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.rows import Rows

__all__ = ["DrawWeights"]

Float = npt.NDArray[np.float32]
_NO_WEIGHT = (
    "weights is True, but the graph has no edge_weight; make the graph with edge_weight= or pass "
    "an array with one weight per edge"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DrawWeights:
    """Weights of edges in the draw.

    Attributes:
        values: float32 [E] in the order of the graph's `indices`, or None for the graph's own
            `edge_weight`.
    """

    values: Float | None

    @staticmethod
    def make(given: Any) -> "DrawWeights | None":
        """Converts the caller's value: None or False, True, or numbers (NumPy or torch).

        Raises:
            InputError: it is none of these.
        """
        if given is None or given is False:
            return None
        if given is True:
            return DrawWeights(None)
        if isinstance(given, DrawWeights):
            return given
        if hasattr(given, "detach"):
            given = given.detach().cpu().numpy()
        values = np.asarray(given)
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise InputError(
                f"weights are {values.dtype} of shape {list(values.shape)}, expected one number "
                "per edge, or True for the graph's edge_weight"
            )
        with np.errstate(over="ignore"):  # the core refuses values too large for float32
            copy = np.array(values, np.float32, order="C")
        copy.setflags(write=False)
        return DrawWeights(copy)

    def of(self, graph: Graph) -> Float:
        """The weights of a graph's edges; the core checks them.

        Raises:
            InputError: the graph has no weights, or a different number of edges.
        """
        if self.values is None:
            if graph.edge_weight is None:
                raise InputError(_NO_WEIGHT)
            return np.ascontiguousarray(graph.edge_weight, np.float32)
        if len(self.values) != graph.num_edges:
            raise InputError(
                f"weights hold {len(self.values)} numbers, but the graph has {graph.num_edges} "
                "edges; pass one per edge, in the order of graph.indices"
            )
        return self.values

    def at(self, p: Rows) -> npt.NDArray[Any]:
        """The weights of the entries of P, whose rows may have come from other ranks.

        Raises:
            InputError: the graph has no weights, or a different number of edges.
        """
        if self.values is not None:
            return self.of(p.graph)[p.edge]
        weight = p.edge_weight
        if weight is None:
            raise InputError(_NO_WEIGHT)
        return weight

    def __repr__(self) -> str:
        if self.values is None:
            return "True"
        state = _core.Xxh64()
        state.update(self.values.view(np.uint8))
        return f"<{len(self.values)} numbers, {state.digest():016x}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DrawWeights):
            return NotImplemented
        if self.values is None or other.values is None:
            return self.values is other.values
        return np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(repr(self))
