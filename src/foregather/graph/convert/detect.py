"""detect: finds the source class for a path or object."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.reading.columns import check_ids
from foregather.graph.convert.reading.named_arrays import Arrays, MemoryArrays, NpyArrays
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.reading.scipy_arrays import is_scipy, read_scipy
from foregather.graph.convert.source import Ids, RowStream, Source
from foregather.graph.convert.sources.array_source import (
    ArraysSource,
    check_count,
    find_features,
)
from foregather.graph.links.from_pyg import LINK_KEYS, OTHER_KEYS

__all__ = ["open_features", "open_source"]

_TEXT = (".csv", ".tsv", ".txt", ".edges", ".el", ".edgelist", ".mtx")
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin")
_KEYS = ("edge_index", "x", "y", "edge_weight", "edge_attr")


def open_source(src: Any, asked: ReadOptions, *, splits: bool = True) -> Source:
    """Opens the source for a path, or for a PyG `Data` object or data set of one graph.

    Args:
        src: a path, or an object with `edge_index`.
        asked: how it is to be read.
        splits: False leaves an OGB folder's splits out.

    Raises:
        InputError: an option does not apply to such a source.
    """
    check_ids(asked.ids)
    if not isinstance(src, (str, os.PathLike)):
        return _arrays(_from_data(src, asked.num_nodes is None), asked)
    path = Path(src)
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the path of the source")
    if path.is_dir():
        return _open_folder(path, asked, splits)
    bare = path.name.removesuffix(".gz").lower()
    if bare.endswith(".npz"):
        archive = ZipArrays(path)
        scipy = is_scipy(archive.names())
        return _arrays(read_scipy(archive, 1 << 28) if scipy else archive, asked)
    if bare.endswith(".npy"):
        return _arrays(NpyArrays(path), asked)
    if bare.endswith((".parquet", *_TEXT)):
        return _table(path, asked)
    if bare.endswith(_PICKLES):
        raise FormatError(
            f"{path.name} is a pickle or raw file, and pickles are never loaded; save the arrays "
            "with np.savez, or convert the PyG Data object from Python with foregather.convert"
        )
    raise FormatError(
        f"{path.name} is not a supported source; expected .npz, .npy, .csv, .tsv, .txt, .mtx (or "
        ".gz of "
        "these), .parquet, an OGB folder or a graph folder"
    )


def _open_folder(path: Path, asked: ReadOptions, splits: bool) -> Source:
    if (path / "meta.json").is_file():
        from foregather.graph.convert.sources.folder_source import FolderSource
        from foregather.graph.graph import Graph

        asked.only("a graph folder")
        return FolderSource(Graph.open(path))
    if (path / "edge_index.npy").is_file():
        return _arrays(NpyArrays(path), asked)
    if any(path.glob("*.parquet")):
        return _table(path, asked)
    from foregather.graph.convert.sources.ogb import OgbSource

    source = OgbSource(path, splits=splits)
    asked.only("an OGB folder")
    return source


def _arrays(arrays: Arrays, asked: ReadOptions) -> Source:
    asked.only("arrays", "ids", "num_nodes", "table")
    return ArraysSource(arrays, _array_ids(asked.ids), asked.num_nodes)


def _table(path: Path, asked: ReadOptions) -> Source:
    """Opens a table of edges: Parquet (a file or a folder of parts), otherwise text."""
    from foregather.graph.convert.sources.parquet import ParquetSource
    from foregather.graph.convert.sources.text import TextSource

    source: ParquetSource | TextSource
    if path.is_dir() or path.name.lower().endswith(".parquet"):
        asked.only("Parquet", "ids", "num_nodes", "columns", "weight", "table")
        source = ParquetSource(path, columns=asked.columns, ids=asked.ids, weight=asked.weight)
    else:
        asked.only(
            "an edge list", "ids", "num_nodes", "columns", "weight", "header", "table"
        )  # the others are for several types
        source = TextSource(
            path,
            columns=asked.columns,
            header=asked.header,
            ids=asked.ids,
            weight=asked.weight,
        )
    if asked.num_nodes is not None:
        check_count(asked.num_nodes, source.num_nodes, source.name)
        source.num_nodes = asked.num_nodes
    return source


def _array_ids(ids: str) -> Ids:
    if ids == "string":
        raise InputError("ids are numbers in arrays; string ids need a csv, tsv or Parquet source")
    return "sparse" if ids == "sparse" else "dense"


def _from_data(data: Any, counted: bool) -> MemoryArrays:
    """Returns the arrays of a PyG Data object, or of a data set that holds exactly one.

    `counted` includes the number of nodes, which PyG guesses if it is not set.
    """
    if not hasattr(data, "edge_index") and hasattr(data, "__getitem__"):
        try:
            count = len(data)
        except TypeError:
            count = 0
        if count == 1:
            data = data[0]
    if hasattr(data, "edge_index_dict") and not hasattr(data, "edge_index"):
        raise InputError(
            "the data is heterogeneous (several node or edge types); save it with "
            "HeteroGraph.from_pyg(data).save(...)"
        )
    for name in (*LINK_KEYS, *OTHER_KEYS):
        if getattr(data, name, None) is not None:
            raise InputError(
                f"the data has {name}, links that a conversion would drop; use "
                "Graph.from_pyg(data).save(folder), which keeps them, or leave them out"
            )
    if getattr(data, "edge_index", None) is None:
        raise InputError(
            f"cannot convert a {type(data).__name__}; expected a path or an object with edge_index"
        )
    arrays = {key: _numpy(getattr(data, key)) for key in _KEYS if _has(data, key)}
    if counted and getattr(data, "num_nodes", None) is not None:
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


def open_features(path: str | os.PathLike[str], budget: int) -> RowStream:
    """Opens node features from a separate file: .npy, or .npz with x (or features, or CSR)."""
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
