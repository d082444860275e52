"""arrays: converts what callers pass (tensors, arrays, lists) to checked NumPy arrays.

torch is never imported here: a tensor is recognised by its methods, and on the CPU it shares its
memory with the array made from it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError

__all__ = ["id_dtype", "to_array", "to_ids"]

Array = npt.NDArray[Any]


def to_array(value: Any, name: str) -> Array:
    """A NumPy array of numbers from a tensor, an array or nested lists; no copy where possible.

    Raises:
        InputError: it does not hold numbers.
    """
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = _tensor_array(value, name)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} is not an array of numbers") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {array.dtype}, expected numbers")
    return array


def _tensor_array(value: Any, name: str) -> Array:
    """The array of a tensor."""
    layout = str(getattr(value, "layout", "torch.strided"))
    if layout != "torch.strided":
        hint = (
            "pass [2, edges], for example by torch_geometric.utils.to_edge_index"
            if name == "edge_index"
            else f"pass {name}.to_dense() if it has room"
        )
        raise InputError(f"{name} is a sparse tensor ({layout}), expected a dense one; {hint}")
    try:
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such dtype
            value = value.float()
        array: Array = value.numpy()
    except (TypeError, RuntimeError) as error:  # no data, quantized, or a dtype that only torch has
        raise InputError(
            f"{name} is a tensor of {value.dtype} on {value.device}, which holds no plain numbers; "
            "convert it to float32 on the CPU"
        ) from error
    return array


def to_ids(value: Any, count: int, name: str, what: str = "nodes") -> Array:
    """Integer ids in [0, count), one dimension.

    Args:
        value: a tensor, array or list; a boolean mask of `count` entries is accepted too.
        count: the number of valid ids.
        name: the argument's name, for the message.
        what: what the ids stand for, for the message.

    Raises:
        InputError: not whole numbers, wrong shape, or an id out of range.
    """
    array = to_array(value, name)
    if array.dtype == np.bool_ and array.shape == (count,):
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim <= 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} is {array.dtype} of shape {array.shape}, expected a list of whole numbers"
        )
    ids = np.ascontiguousarray(array, dtype=np.int64)
    bad = _core.check_ids(ids, count)
    if bad >= 0:
        raise InputError(
            f"{name} holds {int(array[bad])} at position {bad}, but there are {count} {what} "
            "(ids are 0 to N-1)"
        )
    return ids


def id_dtype(num_nodes: int) -> np.dtype[Any]:
    """The dtype of ids of a graph of that size: uint32 if they fit, otherwise int64."""
    return np.dtype(np.uint32 if num_nodes < 1 << 32 else np.int64)
