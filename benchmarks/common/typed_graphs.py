"""Typed graphs: what typed sampling is measured on: a synthetic graph, and flights with times."""

import numpy as np

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation
from foregather.graph.hetero.synthetic.make import synthetic_typed

from .graphs import data_folder
from .skip import skip

__all__ = ["load_flights", "synthetic_types"]


def synthetic_types(nodes: int, edges: int) -> HeteroGraph:
    """Five types and eight relations, without features."""
    return synthetic_typed(nodes, edges=edges, types=5, relations=8, features=0)


def load_flights() -> HeteroGraph:
    """nycflights13: a row of a table is a node, a foreign key a relation and its reverse.

    Flights and weather have times; airlines, airports and planes have none.
    """
    path = data_folder() / "typed" / "nycflights13_graph.npz"
    if not path.is_file():
        skip(f"{path.name} is not in the folder `typed` of the one that FOREGATHER_DATA names")
    with np.load(path, allow_pickle=False) as file:
        sizes = {str(name): int(file[f"num_nodes_{name}"]) for name in file["node_types"]}
        times = {name: file.get(f"time_{name}") for name in sizes}
        keys = {key: file[key] for key in file.files if key.startswith("fk_")}
        splits = {one: file[f"{one}_idx"] for one in ("train", "val", "test")}
    nodes = {
        name: NodeTable.of(count, time=times[name], splits=splits if name == "flight" else {})
        for name, count in sizes.items()
    }
    edges: dict[EdgeType, Relation] = {}
    for key, rows in keys.items():
        source, *role, target = key.removeprefix("fk_").split("__")
        there = np.flatnonzero(rows >= 0)
        pairs = np.stack([there, rows[there].astype(np.int64)])
        name = f"f2p_{role[0] if role else target}"
        edges[source, name, target] = Relation.of(pairs, sizes[source], sizes[target])
    return HeteroGraph(nodes, edges).with_reverse()
