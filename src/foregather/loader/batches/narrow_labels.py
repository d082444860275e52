"""narrow_labels: labels as narrow as their values allow, for batches that look many of them up.

Labels are looked up at random, so they are as fast as the cache that they fit: a million classes
are 8 MB as int64 and 1 MB as int8. The copy is made once as many labels were looked up as there
are, so that it never costs more than what was done before. Values do not change: batches have
classes as int64 in any case. Labels that somebody writes to between two loops are compared when
the next loop begins, so that it has the new ones.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.mapped import is_mapped

__all__ = ["NarrowLabels"]

Array = npt.NDArray[Any]

_WORTH = 1 << 16  # fewer are in a near cache as they are


class NarrowLabels:
    """Holds the copy of a graph's labels, for all threads that make batches of it."""

    def __init__(self) -> None:
        # labels, how many were looked up, and the copy: one tuple, so that no thread ever sees the
        # labels of one graph with the copy of another
        self._known: tuple[Array, int, Array | None] | None = None

    def begin(self) -> None:
        """A loop begins: a copy that the labels no longer equal is forgotten."""
        known = self._known
        if known is not None and known[2] is not None and not np.array_equal(known[2], known[0]):
            self._known = None

    def of(self, labels: Array, rows: int) -> Array:
        """The labels, or their copy.

        Args:
            labels: those of the graph; the same object from call to call.
            rows: how many are about to be looked up.
        """
        if labels.dtype.kind != "i" or labels.itemsize < 4 or len(labels) < _WORTH:
            return labels
        known = self._known
        if known is None or known[0] is not labels:
            known = (labels, 0, None)
        _, seen, copy = known
        if copy is not None:
            return copy
        if seen >= len(labels):
            copy = labels if is_mapped(labels) else _narrowed(labels)
        self._known = (labels, seen + rows, copy)
        return labels if copy is None else copy


def _narrowed(labels: Array) -> Array:
    low, high = int(labels.min()), int(labels.max())
    for kind in (np.int8, np.int16, np.int32):
        bounds = np.iinfo(kind)
        if np.dtype(kind).itemsize < labels.itemsize and bounds.min <= low and high <= bounds.max:
            return labels.astype(kind)
    return labels
