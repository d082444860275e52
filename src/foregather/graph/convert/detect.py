"""detect: which source reads what a person pointed at."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.convert.reading.named_arrays import Arrays, MemoryArrays, NpyArrays
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.source import Ids, Rows, Source
from foregather.graph.convert.sources.array_source import ArraysSource, find_features

__all__ = ["open_features", "open_source"]

_TEXT = (".csv", ".tsv", ".txt", ".edges", ".el", ".edgelist")
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin")
_KEYS = ("edge_index", "x", "y", "edge_weight", "edge_attr")


def open_source(
    src: Any,
    *,
    ids: str = "auto",
    num_nodes: int | None = None,
    columns: tuple[str, ...] | None = None,
    weight: str | None = None,
    splits: bool = True,
) -> Source:
    """The source for a path, or for a PyG `Data` object or data set of one graph.

    Args:
        src: a path, or an object with `edge_index`.
        ids: "auto", "dense", "sparse" or "string".
        num_nodes: vertex count, where the source does not say it.
        columns: source and target column of a table, by name or position.
        weight: weight column of a table.
        splits: False leaves an OGB folder's splits out.
    """
    if ids not in ("auto", "dense", "sparse", "string"):
        raise InputError(f"ids is {ids!r}, expected auto, dense, sparse or string")
    if not isinstance(src, (str, os.PathLike)):
        return ArraysSource(_from_data(src), _array_ids(ids), num_nodes)
    path = Path(src)
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the path of the source")
    if path.is_dir():
        return _open_folder(path, ids, num_nodes, columns, weight, splits)
    bare = path.name.removesuffix(".gz").lower()
    if bare.endswith(".npz"):
        return ArraysSource(ZipArrays(path), _array_ids(ids), num_nodes)
    if bare.endswith(".npy"):
        return ArraysSource(NpyArrays(path), _array_ids(ids), num_nodes)
    if bare.endswith((".parquet", *_TEXT)):
        return _table(path, ids, num_nodes, columns, weight)
    if bare.endswith(_PICKLES):
        raise FormatError(
            f"{path.name} is a pickle or raw file, and pickles are never loaded; save the arrays "
            "with np.savez, or convert the PyG Data object from Python with foregather.convert"
        )
    raise FormatError(
        f"{path.name} is of no known kind; expected .npz, .npy, .csv, .tsv, .txt (or .gz of "
        "these), .parquet, an OGB folder or a graph folder"
    )


def _open_folder(
    path: Path,
    ids: str,
    num_nodes: int | None,
    columns: tuple[str, ...] | None,
    weight: str | None,
    splits: bool,
) -> Source:
    if (path / "meta.json").is_file():
        from foregather.graph.convert.sources.folder_source import FolderSource
        from foregather.graph.graph import Graph

        return FolderSource(Graph.open(path))
    if (path / "edge_index.npy").is_file():
        return ArraysSource(NpyArrays(path), _array_ids(ids), num_nodes)
    if any(path.glob("*.parquet")):
        return _table(path, ids, num_nodes, columns, weight)
    from foregather.graph.convert.sources.ogb import OgbSource

    return OgbSource(path, splits=splits)


def _table(
    path: Path,
    ids: str,
    num_nodes: int | None,
    columns: tuple[str, ...] | None,
    weight: str | None,
) -> Source:
    """A table of edges: Parquet (a file or a folder of parts), else text."""
    from foregather.graph.convert.sources.parquet import ParquetSource
    from foregather.graph.convert.sources.text import TextSource

    parquet = path.is_dir() or path.name.lower().endswith(".parquet")
    source: ParquetSource | TextSource = (ParquetSource if parquet else TextSource)(
        path, columns=columns, ids=ids, weight=weight
    )
    if num_nodes is not None:
        source.num_nodes = num_nodes
    return source


def _array_ids(ids: str) -> Ids:
    if ids == "string":
        raise InputError("ids are numbers in arrays; string ids need a csv, tsv or Parquet source")
    return "sparse" if ids == "sparse" else "dense"


def _from_data(data: Any) -> MemoryArrays:
    """The arrays of a PyG Data object, or of a data set that holds exactly one."""
    if not hasattr(data, "edge_index") and hasattr(data, "__getitem__"):
        try:
            count = len(data)
        except TypeError:
            count = 0
        if count == 1:
            data = data[0]
    if hasattr(data, "edge_index_dict") and not hasattr(data, "edge_index"):
        raise InputError(
            "the data is heterogeneous (several node or edge types); convert one type at a time"
        )
    if getattr(data, "edge_index", None) is None:
        raise InputError(
            f"cannot convert a {type(data).__name__}; expected a path or an object with edge_index"
        )
    arrays = {key: _numpy(getattr(data, key)) for key in _KEYS if _has(data, key)}
    if getattr(data, "num_nodes", None) is not None:
        arrays["num_nodes"] = np.array(int(data.num_nodes))
    for key in ("train", "val", "valid", "test"):
        for ending in ("mask", "idx"):
            if _has(data, f"{key}_{ending}"):
                arrays[f"{key}_{ending}"] = _numpy(getattr(data, f"{key}_{ending}"))
    return MemoryArrays(type(data).__name__, arrays)


def _has(data: Any, key: str) -> bool:
    return getattr(data, key, None) is not None


def _numpy(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def open_features(path: str | os.PathLike[str], budget: int) -> Rows:
    """Node features from a file of their own: .npy, or .npz with x (or features, or CSR)."""
    path = Path(path)
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the path given as features")
    arrays: Arrays
    if path.suffix == ".npy":
        whole = NpyArrays(path)
        arrays = _Renamed(whole)
    else:
        arrays = ZipArrays(path)
    rows = find_features(arrays, budget)
    if rows is None:
        raise FormatError(f"{path.name} holds no x, features or x_data; expected node features")
    return rows


class _Renamed(NpyArrays):
    """One .npy file under the name "x"."""

    def __init__(self, single: NpyArrays) -> None:
        self.name = single.name
        self._paths = {"x": single._paths["edge_index"]}
