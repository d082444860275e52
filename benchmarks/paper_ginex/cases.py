"""cases: the four graphs, made once in a folder of this process, and traces of their batches.

Beside the graph's own files lie those that PyG maps: `edges.npy`, sorted by target, with ids of 64
bits, and the same with nodes renumbered by Ginex's score, so that the lists which its neighbour
cache holds are the first ones of the file; `original.npy` has the ids of those nodes.
"""

import atexit
import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from common.graphs import load_graph

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.plan.baselines.peers import degree_score
from foregather.sampling import Neighbor

__all__ = [
    "FANOUT",
    "NAMES",
    "Case",
    "get_case",
    "in_degrees",
    "load_trace",
    "named",
    "place",
    "save_trace",
]

FANOUT = [10, 10]
NAMES = ("communities", "plain", "ogbn_arxiv", "cnr2000")
FOLDER = "FOREGATHER_PAPER_FOLDER"  # where graphs are kept; a temporary one without it
SEED = 0


@dataclass(frozen=True)
class Case:
    """A graph folder.

    Args:
        name: as it stands in a table.
        folder: has the graph as `graph`.
        batch: input nodes of a batch.
    """

    name: str
    folder: Path
    batch: int

    @cached_property
    def graph(self) -> Graph:
        """Mapped."""
        return Graph.open(self.folder / "graph")

    @property
    def about(self) -> str:
        """Sizes in one line."""
        graph = self.graph
        assert graph.features is not None
        size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
        return f"{self.name} ({size}, {graph.features.width} columns of float32)"

    def seeds(self, count: int, batch: int = 0) -> list[Any]:
        """Random input nodes, batch by batch; the nodes begin anew where they do not suffice."""
        size = batch or self.batch
        order = np.random.default_rng(SEED).permutation(self.graph.num_nodes)
        order = np.resize(order, count * size)
        return [np.unique(order[k * size : (k + 1) * size]) for k in range(count)]

    def samples(self, count: int, batch: int = 0) -> list[Any]:
        """So many sampled batches."""
        made = []
        seeds = self.seeds(count, batch)
        for k in range(0, count, 32):
            some = seeds[k : k + 32]
            made += list(Neighbor(FANOUT).sample_bulk(self.graph, some, seed=SEED, first_batch=k))
        return made

    def trace(self, count: int, bulk: int, batch: int = 0) -> list[list[Any]]:
        """Node lists of so many batches, in bulks."""
        flat = [sample.node.astype(np.uint32) for sample in self.samples(count, batch)]
        return [flat[k : k + bulk] for k in range(0, count, bulk)]


def save_trace(folder: Path, trace: list[list[Any]]) -> None:
    """Writes a trace beside the graph, for workers."""
    flat = [ids for bulk in trace for ids in bulk]
    np.save(folder / "trace.npy", np.concatenate(flat))
    np.save(folder / "trace_ptr.npy", np.cumsum([0, *map(len, flat)]))
    np.save(folder / "trace_bulks.npy", np.cumsum([0, *map(len, trace)]))


def load_trace(folder: Path) -> list[list[Any]]:
    """The trace that was written beside the graph."""
    ids, ptr, bulks = (np.load(folder / f"trace{name}.npy") for name in ("", "_ptr", "_bulks"))
    flat = [ids[a:b] for a, b in itertools.pairwise(ptr)]
    return [flat[a:b] for a, b in itertools.pairwise(bulks)]


@cache
def place() -> Path:
    """Where graphs lie; removed at the end of the process unless it was named."""
    if folder := os.environ.get(FOLDER):
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(folder).resolve()
    made = tempfile.mkdtemp(prefix=".foregather-paper-", dir=Path())
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made).resolve()


def in_degrees(graph: Graph) -> Any:
    """Length of each list."""
    return np.diff(np.asarray(graph.indptr).astype(np.int64))


def named(graph: Graph) -> Any:
    """How many lists name each node."""
    return np.bincount(np.asarray(graph.indices), minlength=graph.num_nodes)


@cache
def get_case(name: str, quick: bool) -> Case:
    """One of the four graphs, or "communities:WIDTH" for another number of columns."""
    base, _, width = name.partition(":")
    nodes = 100_000 if width else 300_000 if quick else 1_000_000
    folder = place() / f"{base}_{width or 'usual'}_{'quick' if quick else 'whole'}"
    case = Case(base, folder, 32 if quick else 128)
    if not (folder / "original.npy").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if base in ("communities", "plain"):
            mixing = 0.1 if base == "communities" else 1.0
            columns = int(width or 128)
            shape = {"degree": 16, "features": columns, "classes": 16, "seed": 0, "mixing": mixing}
            synthesize(folder / "graph", nodes, **shape)
        else:
            wide = {"ogbn_arxiv": (384, 768), "cnr2000": (192, 384)}[base]
            columns = int(width or wide[not quick])
            widen(base, columns, folder / "graph")
        write_maps(case)
    return case


def widen(name: str, columns: int, path: Path) -> None:
    """A real topology with features whose values do not matter."""
    graph = load_graph(name, features=False)
    x = np.random.default_rng(0).random((graph.num_nodes, columns), np.float32)
    indptr, indices = np.asarray(graph.indptr).astype(np.int64), np.asarray(graph.indices)
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    edges = np.stack([indices.astype(np.int64), targets])
    Graph.from_edge_index(edges, graph.num_nodes, x=x).save(path)


def write_maps(case: Case) -> None:
    """What PyG maps."""
    graph = case.graph
    indptr, indices = np.asarray(graph.indptr).astype(np.int64), np.asarray(graph.indices)
    degree = np.diff(indptr)
    save_edges(case.folder / "edges.npy", indices, degree)
    order = np.argsort(-degree_score(named(graph), degree), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    sizes = degree[order]
    begins = np.repeat(indptr[:-1][order] - (np.cumsum(sizes) - sizes), sizes)
    lists = rank[indices[begins + np.arange(len(indices))]]
    save_edges(case.folder / "edges_by_score.npy", lists, sizes)
    np.save(case.folder / "original.npy", order)


def save_edges(path: Path, sources: Any, degree: Any) -> None:
    targets = np.repeat(np.arange(len(degree)), degree)
    np.save(path, np.stack([np.asarray(sources, np.int64), targets]))
