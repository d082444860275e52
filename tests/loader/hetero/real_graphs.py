"""Real typed graphs for training on batches: files of $FOREGATHER_DATA/typed as HeteroGraph."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation

__all__ = ["citation_graph", "flights"]

Array = npt.NDArray[Any]


def _arrays(name: str) -> dict[str, Array]:
    folder = os.environ.get("FOREGATHER_DATA")
    path = Path(folder or "") / "typed" / f"{name}.npz"
    if not folder or not path.is_file():
        pytest.skip(f"FOREGATHER_DATA has no typed/{name}.npz")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _features(arrays: dict[str, Array], name: str, count: int) -> dict[str, Array]:
    """X of a type: as stored, from its CSR parts, or a constant where it has none."""
    if f"x_{name}" in arrays:
        x = np.nan_to_num(arrays[f"x_{name}"].astype(np.float32))
        return {"x": (x - x.mean(0)) / (x.std(0) + 1e-6)}
    if f"x_{name}_data" not in arrays:
        return {"x": np.ones((count, 1), np.float32)}
    x = np.zeros(arrays[f"x_{name}_shape"], np.float32)
    at = np.repeat(np.arange(len(x)), np.diff(arrays[f"x_{name}_indptr"]))
    x[at, arrays[f"x_{name}_indices"]] = arrays[f"x_{name}_data"]
    return {"x": x}


def _both_ways(found: dict[EdgeType, Array], sizes: dict[str, int]) -> dict[EdgeType, Relation]:
    edges = {}
    for (source, name, target), pairs in found.items():
        edges[source, name, target] = Relation.of(pairs, sizes[source], sizes[target])
        back = (target, f"rev_{name}", source)
        edges[back] = Relation.of(pairs[::-1], sizes[target], sizes[source])
    return edges


def citation_graph(name: str) -> tuple[HeteroGraph, str]:
    """The graph acm or dblp with 20 labelled nodes of a class, and its labelled type."""
    arrays = _arrays(name)
    target = str(arrays["target_type"])
    sizes = {str(kind): int(arrays[f"num_nodes_{kind}"]) for kind in arrays["node_types"]}
    nodes = {}
    for kind, count in sizes.items():
        splits = {"train": arrays["train_idx_20"]} if kind == target else {}
        labels = arrays.get(f"y_{kind}")
        nodes[kind] = NodeTable.of(
            count, _features(arrays, kind, count), labels=labels, splits=splits
        )
    found = {}
    for text in map(str, arrays["edge_types"]):
        source, relation, end = text.split("__")
        found[source, relation, end] = arrays[f"edge_index_{text}"]
    return HeteroGraph(nodes, _both_ways(found, sizes)), target


def flights() -> HeteroGraph:
    """The flights of a year: rows of tables, foreign keys, times of flights and of weather."""
    arrays = _arrays("nycflights13_graph")
    sizes = {str(kind): int(arrays[f"num_nodes_{kind}"]) for kind in arrays["node_types"]}
    nodes = {
        kind: NodeTable.of(
            count,
            _features(arrays, kind, count),
            labels=arrays.get(f"y_{kind}"),
            time=arrays.get(f"time_{kind}"),
            splits={"train": arrays["train_idx"]} if kind == "flight" else {},
        )
        for kind, count in sizes.items()
    }
    found = {}
    for key, values in arrays.items():
        if key.startswith("fk_"):
            source, *role, end = key.removeprefix("fk_").split("__")
            there = np.flatnonzero(values >= 0)
            found[source, f"f2p_{role[0] if role else end}", end] = np.stack([there, values[there]])
    return HeteroGraph(nodes, _both_ways(found, sizes))
