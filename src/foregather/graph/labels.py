"""labels: brings labels and splits to the one form a graph has.

Classes become the smallest signed integer that holds them, -1 where missing; [N, 1] becomes [N];
several columns of 0 and 1 stay a multi-label matrix (uint8); anything else stays float. A float
[N] is taken as classes only where it has NaN and otherwise whole numbers (as OGB stores
papers100M): NaN cannot be a regression target, so it means a missing class.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_ids

__all__ = ["label_facts", "normalize_labels", "normalize_split"]

Array = npt.NDArray[Any]


def normalize_labels(labels: Array, num_nodes: int) -> tuple[Array, dict[str, Any]]:
    """Labels in the stored form, and their facts for meta.json.

    Raises:
        InputError: one label row per node is expected, or the dtype is not a number.
    """
    if labels.dtype.kind not in "iufb":
        raise InputError(f"labels have dtype {labels.dtype}, expected integers or floats")
    if labels.ndim not in (1, 2) or labels.shape[0] != num_nodes:
        raise InputError(f"labels have shape {labels.shape}, expected {num_nodes} rows, one a node")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2:
        zeros_and_ones = bool(np.isin(labels, (0, 1)).all())
        stored = labels.astype(np.uint8 if zeros_and_ones else np.float32)
    elif labels.dtype.kind == "f":
        stored = _from_floats(labels)
    else:
        stored = _classes(labels.astype(np.int64))
    return stored, label_facts(stored)


def _from_floats(labels: Array) -> Array:
    missing = np.isnan(labels)
    there = labels[~missing]
    whole = np.isfinite(there).all() and (there >= 0).all() and (there == np.floor(there)).all()
    if missing.any() and there.size and whole:
        return _classes(np.where(missing, -1, labels).astype(np.int64))
    return labels.astype(np.float32)


def _classes(labels: npt.NDArray[np.int64]) -> Array:
    low, high = int(labels.min(initial=-1)), int(labels.max(initial=-1))
    if low < -1:
        at = int(labels.argmin())
        raise InputError(f"node {at} has label {low}, expected a class >= 0, or -1 for missing")
    dtypes = (np.int8, np.int16, np.int32, np.int64)
    return labels.astype(next(d for d in dtypes if high <= np.iinfo(d).max))


def label_facts(labels: Array) -> dict[str, Any]:
    """What meta.json says about stored labels: kind, number of classes, how many are missing."""
    if labels.dtype.kind == "f":
        return {"kind": "float", "num_classes": None, "missing": int(np.isnan(labels).sum())}
    if labels.ndim == 2:
        return {"kind": "multi", "num_classes": int(labels.shape[1]), "missing": 0}
    classes = int(labels.max(initial=-1)) + 1
    return {"kind": "single", "num_classes": classes, "missing": int((labels < 0).sum())}


def normalize_split(name: str, ids: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """A split as int64 node ids (a boolean mask of N entries is accepted).

    Raises:
        InputError: wrong dtype or shape, or an id outside the graph.
    """
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise InputError(f"split name {name!r} is not letters, digits, - and _; rename it")
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
        ids = ids.astype(np.int64)
    return to_ids(ids, num_nodes, f"split {name}").astype(np.int64, copy=False)
