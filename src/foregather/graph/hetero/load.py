"""load: a relation with what kernels walk in memory, read by calls that can report errors.

Edge features stay where they are: sampling does not need them, and they may be larger than memory.
"""

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from foregather.graph.hetero.relation import Relation
from foregather.graph.mapped import hold, is_mapped

__all__ = ["held"]

_ARRAYS = ("indptr", "indices", "edge_ids", "time", "weights")


def held(relation: Relation) -> Relation:
    """Returns the relation with its topology, times, weights and edge ids in memory.

    Itself if they are; arrays are shared with other holders.

    Raises:
        StorageError: a file cannot be read.
        FormatError: a block does not match its checksum.
    """
    mapped: dict[str, npt.NDArray[Any]] = {
        name: values
        for name in _ARRAYS
        if (values := getattr(relation, name)) is not None and is_mapped(values)
    }
    if not mapped:
        return relation
    changes: dict[str, Any] = {name: hold(values) for name, values in mapped.items()}
    return replace(relation, **changes)
