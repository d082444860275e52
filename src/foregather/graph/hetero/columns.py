"""columns: names that features of a type cannot have, and rows of any shape as a matrix."""

import math
from typing import Any

import numpy.typing as npt

from foregather.graph.columns import NO_TIME, check_times, to_rows, to_times

__all__ = ["BATCH_NAMES", "NO_TIME", "as_matrix", "check_times", "to_rows", "to_times"]

Array = npt.NDArray[Any]

#: What a batch or PyG says about a node type itself; a feature should not be called so.
BATCH_NAMES = frozenset(
    [
        *("n_id", "batch", "ptr", "num_nodes", "num_sampled_nodes", "input_id", "seed_id"),
        *("seed_position", "seed_time", "batch_size", "y", "time"),
    ]
)


def as_matrix(rows: Array) -> Array:
    """A view of rows of any shape as [rows, width]."""
    return rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
