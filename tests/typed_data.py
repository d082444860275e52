"""Real typed graphs for tests: the files of $FOREGATHER_DATA/typed as `HeteroGraph`."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation, TextIds

__all__ = ["load_typed", "typed_folder"]

Array = npt.NDArray[Any]


def typed_folder() -> Path:
    """The folder of the files; skips the test where there is none."""
    folder = os.environ.get("FOREGATHER_DATA")
    if not folder or not (Path(folder) / "typed").is_dir():
        pytest.skip("FOREGATHER_DATA does not name a folder with typed graphs")
    return Path(folder) / "typed"


def load_typed(name: str, split: str = "20") -> HeteroGraph:
    """One of the files, each relation one way; `with_reverse` adds the ways back.

    Args:
        name: acm, dblp, aifb, fb15k237, codex_s, icews14, nycflights13_graph, tennis_graph,
            wikipedia_edits, collegemsg or bitcoin_otc.
        split: which of several splits (acm, dblp): labelled nodes of a class.
    """
    with np.load(typed_folder() / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    if "edge_types" in arrays:
        return _hetero(arrays, split)
    if any(key.startswith("fk_") for key in arrays):
        return _relational(arrays)
    if "src" in arrays:
        return _interactions(arrays)
    return _knowledge(arrays)


def _strings(arrays: dict[str, Array], key: str) -> TextIds:
    return TextIds(arrays[f"{key}_bytes"], arrays[f"{key}_off"])


def _dense(arrays: dict[str, Array], key: str) -> dict[str, Array]:
    """X of a type, dense or from its CSR parts."""
    if key in arrays:
        return {"x": arrays[key]}
    if f"{key}_data" not in arrays:
        return {}
    rows = np.zeros(arrays[f"{key}_shape"], np.float32)
    at = np.repeat(np.arange(len(rows)), np.diff(arrays[f"{key}_indptr"]))
    rows[at, arrays[f"{key}_indices"]] = arrays[f"{key}_data"]
    return {"x": rows}


def _hetero(arrays: dict[str, Array], split: str) -> HeteroGraph:
    target = str(arrays["target_type"])
    sizes = {str(name): int(arrays[f"num_nodes_{name}"]) for name in arrays["node_types"]}
    nodes = {}
    for name, count in sizes.items():
        splits = {}
        if name == target:
            splits = {one: arrays[f"{one}_idx_{split}"] for one in ("train", "val", "test")}
        labels = arrays.get(f"y_{name}")
        nodes[name] = NodeTable.of(count, _dense(arrays, f"x_{name}"), labels=labels, splits=splits)
    edges = {}
    for text in map(str, arrays["edge_types"]):
        source, relation, end = text.split("__")
        pairs = arrays[f"edge_index_{text}"]
        weights = arrays.get(f"edge_weight_{text}")
        edges[source, relation, end] = Relation.of(
            pairs, sizes[source], sizes[end], weights=weights
        )
    return HeteroGraph(nodes, edges)


def _relational(arrays: dict[str, Array]) -> HeteroGraph:
    """A foreign key of A to B is the relation (A, f2p_..., B); -1 is none."""
    sizes = {str(name): int(arrays[f"num_nodes_{name}"]) for name in arrays["node_types"]}
    fact = next(name for name in sizes if f"y_{name}" in arrays)
    nodes = {}
    for name, count in sizes.items():
        mine = name == fact
        splits = {one: arrays[f"{one}_idx"] for one in ("train", "val", "test")} if mine else {}
        nodes[name] = NodeTable.of(
            count,
            _dense(arrays, f"x_{name}"),
            labels=arrays.get(f"y_{name}"),
            time=arrays.get(f"time_{name}"),
            splits=splits,
        )
    edges: dict[EdgeType, Relation] = {}
    for key in arrays:
        if key.startswith("fk_"):
            source, *role, end = key.removeprefix("fk_").split("__")
            there = np.flatnonzero(arrays[key] >= 0)
            pairs = np.stack([there, arrays[key][there]])
            name = f"f2p_{role[0] if role else end}"
            edges[source, name, end] = Relation.of(pairs, sizes[source], sizes[end])
    return HeteroGraph(nodes, edges)


def _interactions(arrays: dict[str, Array]) -> HeteroGraph:
    count = int(arrays["num_nodes"])
    pairs = np.stack([arrays["src"], arrays["dst"]])
    first = int(arrays.get("num_src", np.array(0)))
    columns: dict[str, Any] = {"time": arrays["t"], "weights": arrays.get("w")}
    if first:  # two kinds of nodes, one after the other
        nodes = {
            "user": NodeTable.of(first, ids=arrays["node_id"][:first]),
            "page": NodeTable.of(count - first, ids=arrays["node_id"][first:]),
        }
        pairs = pairs - [[0], [first]]
        relation = Relation.of(pairs, first, count - first, **columns)
        return HeteroGraph(nodes, {("user", "edits", "page"): relation})
    table = NodeTable.of(count, ids=arrays["node_id"])
    return HeteroGraph(
        {"node": table}, {("node", "to", "node"): Relation.of(pairs, count, count, **columns)}
    )


def _knowledge(arrays: dict[str, Array]) -> HeteroGraph:
    """One type of entities, one relation for each predicate; of a split the training part."""
    count, names = int(arrays["num_nodes"]), list(_strings(arrays, "relation"))
    table = NodeTable.of(count, labels=arrays.get("y"), ids=_strings(arrays, "entity"))
    if "edge_index" in arrays:
        (head, tail), kind, time = arrays["edge_index"], arrays["edge_type"], None
        splits = {one: arrays[f"{one}_idx"] for one in ("train", "test")}
        table = NodeTable.of(count, labels=arrays["y"], splits=splits, ids=table.ids)
    else:
        rows = arrays.get("triples_train", arrays.get("quads_train"))
        assert rows is not None
        head, kind, tail = rows[:, 0], rows[:, 1], rows[:, 2]
        time = rows[:, 3] if rows.shape[1] == 4 else None
    edges = {}
    for number, name in enumerate(names):
        mine = kind == number
        edges["entity", name, "entity"] = Relation.of(
            np.stack([head[mine], tail[mine]]),
            count,
            count,
            time=None if time is None else time[mine],
        )
    return HeteroGraph({"entity": table}, edges)
