"""leaf_sums: the option of batches without rows of leaves, but with the sums that a model needs.

Leaves are the nodes first met in the last layer of sampling. A linear first layer of the model
(SAGE, GCN, GIN, GraphConv) only adds up their rows, so a batch may have these sums in place of the
rows: `x` of the nodes that are targets of edges, and `neighbor_sum`, for each of them the sum over
all its sampled edges. Sums are formed in the order of edges, so that they equal those of a whole
batch bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.gather.memory import gathered_dtype
from foregather.gather.row_sums import can_sum, list_starts
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Sample
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.sampler import Sampler
from foregather.sampling.subgraphs.subgraph import SubgraphSampler

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Leaves", "Scratch", "Summed", "apply", "check_leaves", "num_targets"]

Array = npt.NDArray[Any]

#: "rows": `x` of all nodes. "sum": sums of in-neighbours' rows in place of the rows of leaves.
#: "weighted": sums weighted by `edge_weight`.
Leaves = Literal["rows", "sum", "weighted"]


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """What a model's first layer needs of the rows of a batch.

    Attributes:
        x: rows of the nodes that are targets.
        neighbor_sum: for each of them the sum over its edges.
        weight: of the edges, or None.
    """

    x: "Tensor"
    neighbor_sum: "Tensor"
    weight: "Tensor | None"


def num_targets(sample: Sample) -> int:
    """Nodes of a sample that are targets of edges: all but the leaves."""
    return sample.num_nodes[-2]


def starts_of(sample: Sample) -> npt.NDArray[np.int64]:
    """Where the edges of each target begin.

    Raises:
        InputError: a target was first met in the last layer: layers do not follow each other.
    """
    return list_starts(sample.col, num_targets(sample))


def check_leaves(leaves: Leaves, graph: Graph, sampler: Sampler, norm: str | None) -> None:
    """Checks that sums can take the place of leaf rows.

    Raises:
        InputError: they cannot; the message says why.
    """
    if leaves == "rows":
        return
    given, name = f"leaves is {leaves!r}", type(sampler).__name__
    features = graph.features
    if features is None:
        raise InputError(f"{given}, but the graph has no features to add up; leave it out")
    if not can_sum(gathered_dtype(features)):
        raise InputError(
            f"{given}, but features are {features.dtype}, whose sums are not those of a model; "
            "store them as float16 or float32, or use leaves='rows'"
        )
    if sampler.expand != "once":
        raise InputError(
            f"{given}, but the sampler expands per layer, so a layer's inputs are not the same "
            "nodes; use expand='once', or leaves='rows'"
        )
    if isinstance(sampler, SubgraphSampler):
        raise InputError(
            f"{given}, but {name} does not sample layer by layer, so there are no leaves; use "
            "Neighbor or Labor, or leaves='rows'"
        )
    weighs = norm is not None or graph.edge_weight is not None
    if leaves == "weighted" and not weighs and isinstance(sampler, Neighbor):
        raise _unweighted()


def _unweighted() -> InputError:
    return InputError(
        "leaves is 'weighted', but batches have no edge_weight: neither has the graph weights nor "
        "is there a norm; use norm='gcn', or leaves='sum'"
    )


def sum_weights(leaves: Leaves, weight: "Tensor | None") -> Array | None:
    """The factors of sums.

    Raises:
        InputError: they should be weighted, and there are no weights.
    """
    if leaves == "sum":
        return None
    if weight is None:
        raise _unweighted()
    factors: Array = weight.numpy()
    return factors


class Scratch:
    """Memory for the rows of one batch after the other, owned by a loop.

    Args:
        empty: makes memory for as many rows, for batches that keep theirs.
        shape: for batches whose rows are added up and not kept, the shape of the one matrix they
            share; more rows are made where a batch has more. None: they keep them.
        dtype: its dtype.
    """

    def __init__(
        self,
        empty: "Callable[[int], Tensor | None]",
        shape: tuple[int, int] | None = None,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self._empty, self._shape, self._dtype = empty, shape, dtype
        self._held: Array | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held between batches."""
        return 0 if self._held is None else int(self._held.nbytes)

    def rows(self, count: int) -> "Tensor | None":
        """Memory for the rows of a batch; if they share it, the last batch's are overwritten."""
        if self._shape is None:
            return self._empty(count)
        import torch

        if self._held is None or len(self._held) < count:
            self._held = None  # freed before the next is made
            most, width = self._shape
            self._held = np.empty((max(count, most), width), self._dtype)
        return torch.from_numpy(self._held[:count])


def apply(transform: Callable[[Any], Any], batch: Any) -> Any:
    """Returns the transformed batch.

    Raises:
        InputError: it has sums of rows that the transform changed, or over edges that it changed.
    """
    if getattr(batch, "neighbor_sum", None) is None:
        return transform(batch)
    before = {name: _state(batch, name) for name in ("x", "edge_index", "edge_weight")}
    changed = transform(batch)
    if getattr(changed, "neighbor_sum", None) is None:
        return changed
    for name, state in before.items():
        if not _unchanged(state, getattr(changed, name, None)):
            raise InputError(
                f"transform changed {name} of a batch, but neighbor_sum was added up before; use "
                "leaves='rows' with this transform, or apply it to the graph"
            )
    return changed


def _state(batch: Any, name: str) -> "tuple[Tensor, int] | None":
    tensor = getattr(batch, name, None)
    return None if tensor is None else (tensor, tensor._version)


def _unchanged(state: "tuple[Tensor, int] | None", now: "Tensor | None") -> bool:
    if state is None or now is None:
        return now is None  # what was taken out misleads nobody
    before, version = state
    if before._version != version or before.shape != now.shape:
        return False
    # the same tensor, or the same numbers elsewhere or in another dtype
    return now is before or bool((now.to(before) == before).all())
