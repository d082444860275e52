"""graphs: the graphs that systems are compared on, as arrays that every process can map.

Each is written once to a folder of `.npy` files, so that a peer in a process of its own reads the
same numbers: `indptr`, `indices`, `x`, `y`. Weights are made where they are asked for.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from common.graphs import load_graph

from foregather import Graph
from foregather.graph.features import Features
from foregather.graph.synthetic import synthetic_arrays

__all__ = ["CLASSES", "COLUMNS", "Case", "make_case", "real_case"]

COLUMNS, CLASSES = 128, 40
Array = npt.NDArray[np.generic]


@dataclass
class Case:
    """A graph and where its arrays are.

    Args:
        name: as it stands in the table.
        folder: of the arrays.
        features: read them as well, where there are any.
    """

    name: str
    folder: Path
    features: bool = True

    def array(self, name: str) -> Array:
        """One of its arrays, in memory."""
        return np.load(self.folder / f"{name}.npy")

    @cached_property
    def graph(self) -> Graph:
        """Ours, in memory."""
        indptr, indices = self.array("indptr"), self.array("indices")
        there = self.features and (self.folder / "x.npy").exists()
        features = Features(self.array("x")) if there else None
        return Graph(len(indptr) - 1, len(indices), indptr, indices, features, labels=self.labels())

    @cached_property
    def on_disk(self) -> Graph:
        """Ours, as a folder that is read by plan."""
        target = self.folder / "graph"
        if not target.exists():
            self.graph.save(target)
        return Graph.open(target)

    def labels(self) -> Array:
        """A class for every node."""
        indptr = np.load(self.folder / "indptr.npy", mmap_mode="r")
        return (np.arange(len(indptr) - 1) % CLASSES).astype(np.int64)

    @property
    def nodes(self) -> int:
        """Their number."""
        return self.graph.num_nodes

    def seeds(self, count: int, size: int) -> list[npt.NDArray[np.int64]]:
        """Random input nodes, batch by batch; all different where there are enough."""
        order = np.random.default_rng(1).permutation(self.nodes)
        order = np.resize(order, count * size) if count * size > self.nodes else order
        return [order[k * size : (k + 1) * size] for k in range(count)]


def make_case(name: str, folder: Path, nodes: int, edges: int, features: bool = True) -> Case:
    """A synthetic graph; the values of features do not matter, but every page is there."""
    made = synthetic_arrays(nodes, edges=edges, features=0, classes=2)
    return write_case(name, folder, made.indptr, made.indices, features)


def real_case(name: str, folder: Path) -> Case:
    """A graph of the data folder, undirected, with its features; those of cora as rows of sum 1."""
    graph = load_graph(name)
    assert graph.features is not None
    case = write_case(name, folder, graph.indptr, graph.indices, False)
    np.save(case.folder / "x.npy", np.ascontiguousarray(graph.features.data, np.float32))
    return case


def write_case(name: str, folder: Path, indptr: Array, indices: Array, features: bool) -> Case:
    target = folder / "".join(c if c.isalnum() else "_" for c in name)
    os.makedirs(target)
    np.save(target / "indptr.npy", np.asarray(indptr, np.int64))
    np.save(target / "indices.npy", np.asarray(indices))
    if features:
        x = np.random.default_rng(0).random((len(indptr) - 1, COLUMNS), np.float32)
        np.save(target / "x.npy", x)
    return Case(name, target)
