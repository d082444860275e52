"""Graphs: the real graphs of the data folder as values, undirected, with or without features."""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from foregather import Graph

from .skip import skip

__all__ = ["NAMES", "data_folder", "load_graph", "narrow"]

NAMES = (
    "cora",
    "citeseer",
    "pubmed",
    "photo",
    "coauthor_cs",
    "coauthor_physics",
    "squirrel",
    "tolokers",
    "musae_facebook",
    "blogcatalog",
    "ogbn_arxiv",
    "cnr2000",
    "actors_collab",
)


def data_folder() -> Path:
    """Where the graphs are: the environment variable FOREGATHER_DATA."""
    folder = os.environ.get("FOREGATHER_DATA")
    if not folder:
        skip("set FOREGATHER_DATA to the folder of the real graphs (NAME.npz)")
    return Path(folder)


def load_graph(name: str, features: bool = True, seed: int = 0, columns: int = 0) -> Graph:
    """One graph; bags of words get rows of sum 1, or are reduced to this number of `columns`.

    Without a split of its own a graph gets a random one, 60/20/20, by `seed`.
    """
    path = data_folder() / f"{name}.npz"
    if not path.is_file():
        skip(f"{path.name} is not in the folder that FOREGATHER_DATA names")
    with np.load(path, allow_pickle=False) as file:
        z = dict(file)
    nodes = int(z["num_nodes"])
    if not features:
        return Graph.from_edge_index(z["edge_index"], nodes, undirected=True)
    splits = {k.removesuffix("_idx").replace("val", "valid"): z[k] for k in z if k[-4:] == "_idx"}
    labels = z["y"].astype("i8")
    if not splits:
        order = np.random.default_rng(seed).permutation(nodes)
        ends = [int(nodes * 0.6), int(nodes * 0.8)]
        splits = dict(zip(("train", "valid", "test"), np.split(order, ends), strict=True))
    return Graph.from_edge_index(
        z["edge_index"],
        nodes,
        x=_features(name, z, columns),
        y=labels,
        splits={k: np.sort(v.astype("i8")) for k, v in splits.items()},
        undirected=True,
    )


def narrow(words: sp.csr_matrix, columns: int) -> np.ndarray:
    """Rows of sum 1; or their projection on the first singular vectors, with unit variance."""
    words = sp.diags(1 / np.maximum(np.asarray(words.sum(1)).ravel(), 1e-9)) @ words
    if not columns:
        return np.asarray(words.toarray(), "f4")
    left, values, _ = svds(words, columns, v0=np.ones(min(words.shape)), solver="arpack")
    x = left * values
    return np.asarray(x / x.std(), "f4")


def _features(name: str, z: dict[str, np.ndarray], columns: int) -> np.ndarray:
    if "x_data" in z:
        parts = (z["x_data"].astype("f4"), z["x_indices"].astype("i4"), z["x_indptr"])
        return narrow(sp.csr_matrix(parts, shape=z["x_shape"]), columns)
    if "x" in z:
        x = z["x"].astype("f4")
        return np.asarray((x - x.mean(0)) / np.maximum(x.std(0), 1e-6))
    surrogate = data_folder() / f"{name}_surrogate_x.npz"
    if not surrogate.exists():
        raise SystemExit(f"{name} has no features")
    x = np.load(surrogate)["x"].astype("f4")
    return np.asarray(x / x.std())
