"""ogb_splits: the train, valid and test nodes of an OGB data set.

A split is read from train.csv.gz (one node per line), train.npy or train.npz; split_dict.pt is a
pickle and is never loaded. A split has at most as many entries as the graph has nodes.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, FormatError
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.reading.tables import Layout, read_integers
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import map_array
from foregather.units import format_bytes

__all__ = ["read_splits"]

_NAMES = ("train", "valid", "test")
_ENDINGS = (".csv.gz", ".csv", ".npy", ".npz")
_STEP = 1 << 16

Array = npt.NDArray[Any]


def read_splits(
    folder: Path, chosen: str | None, num_nodes: int, budget: int
) -> dict[str, npt.NDArray[np.int64]]:
    """The splits of one kind, as int64 node ids; ids are not yet checked.

    Args:
        folder: the data set's `split` folder; if it is missing there are no splits.
        chosen: the kind of split (`time`, `sales_ranking`) where there are several.
        num_nodes: N.
        budget: bytes the splits may take.
    """
    if not folder.is_dir():
        if chosen is not None:
            raise FormatError(f"there is no split {chosen!r}: the folder split is missing")
        return {}
    kind = _kind(folder, chosen)
    found: dict[str, npt.NDArray[np.int64]] = {}
    for name in _NAMES:
        path = _file(kind, name)
        if path is not None:
            found[name] = _read(path, num_nodes, budget)
            budget -= found[name].nbytes
    if found:
        return found
    if (kind / "split_dict.pt").exists():
        raise FormatError(
            f"split/{kind.name} holds its splits as split_dict.pt only, and pickles are never "
            "loaded; write the node ids to train.csv.gz, valid.csv.gz and test.csv.gz next to it, "
            "or leave the splits out (--no-splits)"
        )
    raise FormatError(
        f"split/{kind.name} has no train.csv.gz, valid.csv.gz or test.csv.gz; fetch the data set "
        "again, or leave the splits out (--no-splits)"
    )


def _kind(folder: Path, chosen: str | None) -> Path:
    kinds = sorted(child for child in folder.iterdir() if child.is_dir())
    named = {kind.name: kind for kind in kinds}
    listed = ", ".join(named) or "nothing"
    if chosen is not None:
        if chosen not in named:
            raise FormatError(f"there is no split {chosen!r}; the folder split has {listed}")
        return named[chosen]
    if len(kinds) != 1:
        raise FormatError(
            f"the folder split has {listed}, expected one kind of split; name it, or leave the "
            "splits out (--no-splits)"
        )
    return kinds[0]


def _file(kind: Path, name: str) -> Path | None:
    for ending in _ENDINGS:
        if (kind / (name + ending)).is_file():
            return kind / (name + ending)
    return None


def _read(path: Path, num_nodes: int, budget: int) -> npt.NDArray[np.int64]:
    if path.suffix == ".npy":
        return _vector(fetch(map_array(path)), path.name, num_nodes, budget)
    if path.suffix == ".npz":
        with ZipArrays(path) as arrays:
            if len(arrays.names()) != 1:
                raise FormatError(f"{path.name} holds {len(arrays.names())} arrays, expected one")
            return _vector(arrays.whole(arrays.names()[0], budget), path.name, num_nodes, budget)
    parts: list[npt.NDArray[np.int64]] = []
    count = 0
    for chunk in read_integers(path, [0], _STEP, Layout(",")):
        count += chunk.shape[1]
        _check(path.name, count, num_nodes, budget)
        parts.append(chunk[0].copy())
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _vector(values: Array, name: str, num_nodes: int, budget: int) -> npt.NDArray[np.int64]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise FormatError(
            f"{name} is a {values.dtype} array of shape {values.shape}, expected a list of node ids"
        )
    _check(name, len(values), num_nodes, budget)
    return values.astype(np.int64)


def _check(name: str, count: int, num_nodes: int, budget: int) -> None:
    if count > num_nodes:
        raise FormatError(f"{name} lists more than the {num_nodes} nodes of the graph")
    if 8 * count > budget:
        raise BudgetError(
            f"{name} needs more than the {format_bytes(max(budget, 0))} the budget leaves; "
            "raise the memory budget"
        )
