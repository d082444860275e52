"""labels: brings labels and splits to the one form a graph has.

[N, 1] becomes [N]. One column of whole numbers from 0 on, integers or floats, is classes: the
smallest signed integer that holds them, -1 where missing. Several columns of 0 and 1 are a
multi-label matrix: uint8, or int8 where some entries are missing (-1). Anything else stays float.
Missing is -1 among integers and NaN among floats; in a multi-label matrix either. Missing labels
never affect how the others are interpreted.
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_ids

__all__ = ["label_facts", "normalize_labels", "normalize_split"]

Array = npt.NDArray[Any]
_EXACT = 2.0**53  # floats represent every whole number below it
_MOST = float(np.finfo(np.float32).max)


def normalize_labels(labels: Array, num_nodes: int) -> tuple[Array, dict[str, Any]]:
    """Labels in the stored form, and their facts for meta.json.

    Raises:
        InputError: one label row per node is expected, or the dtype is not a number.
    """
    if labels.dtype.kind not in "iufb":
        raise InputError(f"labels have dtype {labels.dtype}, expected integers or floats")
    if labels.ndim not in (1, 2) or labels.shape[0] != num_nodes:
        raise InputError(
            f"labels have shape {labels.shape}, expected {num_nodes} rows, one per node"
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2:
        stored = _from_matrix(labels)
    elif labels.dtype.kind == "f":
        stored = _from_floats(labels)
    else:
        stored = _classes(labels)
    return stored, label_facts(stored)


def _from_matrix(labels: Array) -> Array:
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, np.bool_)
    if labels.dtype.kind != "b":
        missing |= labels == -1
    if not (np.isin(labels, (0, 1)) | missing).all():
        return _floats(labels)
    if not missing.any():
        return labels.astype(np.uint8)
    stored = np.where(missing, 0, labels).astype(np.int8)
    stored[missing] = -1
    return stored


def _from_floats(labels: Array) -> Array:
    missing = np.isnan(labels)
    there = labels[~missing]
    # beyond 2^53 every float is whole, so that is no sign of classes
    whole = (there >= 0).all() and (there < _EXACT).all() and (there == np.floor(there)).all()
    if there.size and whole:
        return _classes(np.where(missing, -1, labels).astype(np.int64))
    return _floats(labels)


def _floats(labels: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        stored = labels.astype(np.float32)
    if labels.dtype.kind == "f":
        bad, why = np.isinf(stored) & np.isfinite(labels), f"beyond float32 ({_MOST:.2g})"
    else:
        bad, why = stored.astype(np.float64) != labels, "which float32 does not hold exactly"
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        raise InputError(f"node {at[0]} has label {labels[at]}, {why}; scale the labels")
    return stored


def _classes(labels: Array) -> Array:
    low, high = (int(labels.min()), int(labels.max())) if labels.size else (-1, -1)
    for value, at in ((low, labels.argmin), (high, labels.argmax)):
        if not -1 <= value < 1 << 63:
            raise InputError(
                f"node {int(at())} has label {value}, expected a class from 0 on, or -1 for missing"
            )
    dtypes = (np.int8, np.int16, np.int32, np.int64)
    return labels.astype(next(d for d in dtypes if high <= np.iinfo(d).max))


def label_facts(labels: Array) -> dict[str, Any]:
    """What meta.json says about stored labels: kind, number of classes, how many are missing."""
    if labels.dtype.kind == "f":
        return {"kind": "float", "num_classes": None, "missing": int(np.isnan(labels).sum())}
    if labels.ndim == 2:
        missing = int((labels < 0).sum())
        return {"kind": "multi", "num_classes": int(labels.shape[1]), "missing": missing}
    classes = int(labels.max(initial=-1)) + 1
    return {"kind": "single", "num_classes": classes, "missing": int((labels < 0).sum())}


def normalize_split(name: str, ids: Array, num_nodes: int) -> npt.NDArray[np.int64]:
    """A split as int64 node ids (a boolean mask of N entries is accepted).

    Raises:
        InputError: wrong dtype or shape, or an id outside the graph.
    """
    if re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]*", name) is None:
        raise InputError(
            f"split name {name!r} is not letters (a to z), digits, - and _, or starts with -; "
            "rename it"
        )
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
        ids = ids.astype(np.int64)
    return to_ids(ids, num_nodes, f"split {name}").astype(np.int64, copy=False)
