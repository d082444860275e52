"""labels: brings labels and splits to the one form the format has.

Classes become the smallest signed integer that holds them, -1 where missing; [N, 1] becomes [N];
several columns of 0 and 1 stay a multi-label matrix; anything else stays float.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError

__all__ = ["normalize_labels", "normalize_split"]

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
        return _multi(labels)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
        whole = np.where(missing, 0, labels)
        if not (np.isfinite(whole).all() and (whole == np.floor(whole)).all()):
            facts = {"kind": "float", "num_classes": None, "missing": int(missing.sum())}
            return labels.astype(np.float32), facts
        labels = np.where(missing, -1, whole).astype(np.int64)
    return _single(labels)


def _single(labels: Array) -> tuple[Array, dict[str, Any]]:
    labels = labels.astype(np.int64)
    low, high = int(labels.min(initial=-1)), int(labels.max(initial=-1))
    if low < -1:
        at = int(labels.argmin())
        raise InputError(f"node {at} has label {low}, expected a class >= 0, or -1 for missing")
    dtype = next(d for d in (np.int8, np.int16, np.int32, np.int64) if high <= np.iinfo(d).max)
    missing = int((labels < 0).sum())
    return labels.astype(dtype), {"kind": "single", "num_classes": high + 1, "missing": missing}


def _multi(labels: Array) -> tuple[Array, dict[str, Any]]:
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
        if missing.any() or not np.isin(labels, (0, 1)).all():
            facts = {"kind": "float", "num_classes": None, "missing": int(missing.sum())}
            return labels.astype(np.float32), facts
    if not np.isin(labels, (0, 1)).all():
        return labels.astype(np.float32), {"kind": "float", "num_classes": None, "missing": 0}
    facts = {"kind": "multi", "num_classes": labels.shape[1], "missing": 0}
    return labels.astype(np.uint8), facts


def normalize_split(name: str, ids: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """A split as int64 node ids (a boolean mask of N entries is accepted).

    Raises:
        InputError: wrong dtype, or an id outside the graph.
    """
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise InputError(f"split name {name!r} is not letters, digits, - and _; rename it")
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1:
        raise InputError(f"split {name} has shape {ids.shape}, expected a list of node ids")
    if ids.dtype == np.bool_:
        if len(ids) != num_nodes:
            raise InputError(
                f"split {name} is a mask of {len(ids)} entries, but the graph has {num_nodes} nodes"
            )
        return np.flatnonzero(ids).astype(np.int64)
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise InputError(f"split {name} has dtype {ids.dtype}, expected integer node ids")
    ids = ids.astype(np.int64)
    bad = np.flatnonzero((ids < 0) | (ids >= num_nodes))
    if bad.size:
        raise InputError(
            f"split {name} holds node {ids[bad[0]]}, but the graph has {num_nodes} nodes "
            "(ids are 0 to N-1)"
        )
    return ids
