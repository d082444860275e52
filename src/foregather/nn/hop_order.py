"""hop_order: whether counts of sampled nodes and edges by hop are those of given edges.

Counts describe a batch as it was sampled. A transform may have dropped, added or moved edges since,
and layers cut by counts that no longer fit would leave out edges that count.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor

from foregather.loader.batches.hop_counts import recall
from foregather.nn.list_kernels import outlasts_the_call

__all__ = ["fits", "fits_typed", "order_of"]


def order_of(
    index: Tensor, sources: Sequence[int], targets: Sequence[int], edges: Sequence[int]
) -> bool | None:
    """Whether targets ascend, if the edges lie in the hops that counts say; None if they do not.

    Args:
        index: the edges, [2, count].
        sources: nodes of the sources' type up to each hop, the seeds first.
        targets: the same for the targets' type.
        edges: edges up to each hop; the first number is 0.
    """
    sums = sources, targets, edges
    if len({len(one) for one in sums}) != 1 or index.is_floating_point():
        return None
    if edges[-1] != index.shape[1] or any(list(one) != sorted(one) or one[0] < 0 for one in sums):
        return None
    source, target = _as_arrays(index)
    ascending = bool((target[1:] >= target[:-1]).all())
    for hop, (start, end) in enumerate(pairwise(edges)):
        if start == end:
            continue
        low, high = _ends(target[start:end], ascending)
        least, most = int(source[start:end].min()), int(source[start:end].max())
        first = targets[hop - 1] if hop else 0
        if low < first or high >= targets[hop] or least < 0 or most >= sources[hop + 1]:
            return None
    return ascending


def fits(batch: Any) -> bool:
    """Whether a batch still is what its counts say; without counts, too."""
    index, nodes, edges = batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges
    if nodes is None or edges is None or not isinstance(index, Tensor) or index.ndim != 2:
        return True
    nodes, edges = tuple(map(int, nodes)), tuple(map(int, edges))
    if batch.x is not None and batch.x.shape[0] < sum(nodes):
        return getattr(batch, "neighbor_sum", None) is not None  # leaves have sums then
    known = recall(index)
    if known is not None and (known.nodes, known.edges) == (nodes, edges):
        return True  # the very edges that the loader made
    sums = list(accumulate(nodes))
    return order_of(index, sums, sums, [0, *accumulate(edges)]) is not None


def fits_typed(batch: Any) -> bool:
    """Whether every relation of a typed batch still is what its counts say; without counts, too."""
    for edge_type in batch.edge_types:
        store, (source, _, target) = batch[edge_type], edge_type
        edges = store.get("num_sampled_edges")
        nodes = [batch[name].get("num_sampled_nodes") for name in (source, target)]
        if edges is None or any(one is None for one in nodes):
            continue
        first, second = (list(accumulate(map(int, one))) for one in nodes)
        if order_of(store.edge_index, first, second, [0, *accumulate(map(int, edges))]) is None:
            return False
    return True


def _as_arrays(edge_index: Tensor) -> Any:
    """The same memory for one thread: torch would start threads of its own beside the caller's."""
    if edge_index.device.type != "cpu" or not outlasts_the_call(edge_index):
        return edge_index
    return edge_index.numpy()


def _ends(target: Any, ascending: bool) -> tuple[int, int]:
    if ascending:
        return int(target[0]), int(target[-1])
    return int(target.min()), int(target.max())
