"""first_sums: ties the sums of a batch to its `edge_index`, for a model called with tensors.

A batch without rows of leaves has `x` of the nodes that are targets, and `neighbor_sum`. A model
that is called with `batch.x, batch.edge_index` finds the sums here, and whether they are what its
first aggregation would give: of these very rows, over all edges, with these weights.
"""

from typing import TYPE_CHECKING, Any
from weakref import ref

from foregather.loader.batches.hop_counts import recall, remember

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["FirstSums", "tie_sums"]


class FirstSums:
    """The sums of one batch; tensors are referred to weakly.

    Args:
        x: the rows that a model is called with.
        neighbor_sum: the sums over their edges.
        weight: the weights of all edges, for weighted sums; None for others.
        origin: the rows of the batch that `x` was made of; None: `x` itself.
    """

    def __init__(
        self,
        x: "Tensor",
        neighbor_sum: "Tensor",
        weight: "Tensor | None",
        origin: "Tensor | None" = None,
    ) -> None:
        self._x, self._sums = ref(x), ref(neighbor_sum)
        self._origin = ref(x if origin is None else origin)
        self._origin_version = _version(x if origin is None else origin)
        self._weight = None if weight is None else ref(weight)
        self._version = _version(x)

    @property
    def weighted(self) -> bool:
        """Whether rows were multiplied by the weights of edges."""
        return self._weight is not None

    def made_of(self, x: "Tensor") -> bool:
        """Whether these are still the rows that the sums were formed of."""
        return self._origin() is x and _version(x) == self._origin_version

    def unfit(self, x: Any) -> str | None:
        """Why these are not the sums of the rows that a model is called with; None if they are."""
        own, sums = self._x(), self._sums()
        if own is None or sums is None or x is not own or _version(own) != self._version:
            return "x is not the tensor of the batch, of which sums were formed"
        if own.requires_grad:
            return "x requires a gradient, which the rows of leaves cannot get"
        if sums.dtype != own.dtype and sums.element_size() <= own.element_size():
            return f"x is {own.dtype}, and sums were formed in {sums.dtype}"
        return None

    def total(
        self,
        rows: "Tensor",
        targets: int,
        reduce: str,
        weight: "Tensor | None",
        given: "Tensor | None",
    ) -> "Tensor | str":
        """The sums of the first targets, for a convolution; why they are not what it needs.

        Args:
            rows: what it aggregates.
            targets: rows that it gives.
            reduce: how it aggregates.
            weight: what it multiplies rows with.
            given: the weights of edges that it was called with.
        """
        x, sums = self._x(), self._sums()
        if x is None or sums is None or rows.data_ptr() != x.data_ptr():
            return "it aggregates other rows than x, and leaves have none"
        if reduce not in ("sum", "mean"):
            return f"it aggregates by {reduce}, which is not made of sums"
        if len(sums) < targets:
            return "it gives rows of leaves; sample a layer more, or use a layer less"
        if self._weight is None:
            if weight is not None:
                return "it weighs rows, and these sums do not; leaves='weighted' does"
        elif weight is None:
            return "it does not weigh rows, as these sums do; leaves='sum' does not either"
        elif given is None or given is not self._weight() or weight.data_ptr() != given.data_ptr():
            return "it uses other edge weights than the batch has; leaves='rows' allows any"
        return sums[:targets]


def tie_sums(batch: Any, x: "Tensor | None" = None) -> None:
    """Lets models find the sums of a batch by its `edge_index`.

    Args:
        batch: with counts; nothing is done for one without sums.
        x: its rows as a model gets them; None: as they are.
    """
    if batch.edge_index is None or getattr(batch, "neighbor_sum", None) is None:
        return
    counts = recall(batch.edge_index)
    if counts is None:
        counts = remember(batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    if counts.sums is not None and not counts.sums.made_of(batch.x):
        return  # x was changed or replaced since: what is tied already says that it does not fit
    weight = batch.edge_weight if batch.leaves == "weighted" else None
    counts.sums = FirstSums(batch.x if x is None else x, batch.neighbor_sum, weight, batch.x)


def _version(tensor: "Tensor") -> int:
    return -1 if tensor.is_inference() else int(tensor._version)
