"""volume: bytes that cross between stages in an epoch, as closed forms; the ledger equals them.

N nodes, b bytes a value. A boundary carries the rows of N nodes and the skip tensors that cross
there, once forward and once backward; a sweep carries them forward once more.
"""

from collections.abc import Sequence

__all__ = ["pipeline_bytes", "shared_weight_bytes"]


def pipeline_bytes(nodes: int, widths: Sequence[int], itemsize: int, sweeps: int = 0) -> int:
    """Bytes of all boundaries together: (2 + sweeps) N b times the sum of widths.

    With S - 1 boundaries of one width d and no sweep: 2 (S - 1) N d b.

    Args:
        nodes: N.
        widths: columns that cross each boundary, skip tensors included.
        itemsize: b, of the dtype at the boundaries.
        sweeps: forward passes without gradients.
    """
    return (2 + sweeps) * nodes * sum(widths) * itemsize


def shared_weight_bytes(stages: int, weights: int, itemsize: int) -> int:
    """Bytes for weights that all stages share: the sum goes down the chain and comes back."""
    return 2 * (stages - 1) * weights * itemsize
