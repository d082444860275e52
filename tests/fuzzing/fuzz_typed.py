"""Readers of typed graph folders, verified or used as they are, for the fuzzer."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foregather import Graph, convert
from foregather.graph.hetero import HeteroGraph
from tests.fuzzing.fuzz_case import Case
from tests.fuzzing.fuzz_files import with_digest
from tests.graph.hetero.typed_graphs import typed_graph
from tests.graph.links.linked_graphs import linked, typed_linked

__all__ = ["typed_cases"]


def _use(folder: Path) -> None:
    graph = HeteroGraph.open(folder)
    for edge_type in graph.edge_types:
        assert graph.relation(edge_type).num_edges >= 0
        graph.relation(edge_type, "node")
    assert graph.info()["num_nodes"] == graph.num_nodes
    for table in graph.nodes.values():
        if table.ids is not None:
            assert len(list(table.ids)) == table.num_nodes


def typed_cases(folder: Path) -> dict[str, Case]:
    """meta.json with and without its digest mended, and every array without block checksums."""
    graph = typed_graph().save(folder / "typed")
    links = _linked_cases(folder)
    (graph / "checks.json").unlink()
    meta = graph / "meta.json"
    files = sorted(path.relative_to(graph) for path in graph.rglob("*.npy"))
    return {
        "typed meta.json": Case(meta, lambda: _use(graph), 10),
        "typed meta.json, mended": Case(meta, lambda: _use(graph), 60, mend=with_digest),
        "typed, verified, mended": Case(
            meta, lambda: HeteroGraph.open(graph).verify(), 20, mend=with_digest
        ),
        **{f"typed, {file}": Case(graph / file, lambda: _use(graph), 6) for file in files},
        **_table_cases(folder / "tables"),
        **links,
    }


def _linked_cases(folder: Path) -> dict[str, Case]:
    """Folders with links, plain and typed: meta.json and every array of links."""
    found = {}
    both: dict[str, Graph | HeteroGraph] = {"plain": linked(), "typed": typed_linked()}
    for name, made in both.items():
        graph = made.save(folder / f"linked-{name}")
        (graph / "checks.json").unlink()

        def read(graph: Path = graph, made: Any = made) -> None:
            made.open(graph).verify()

        meta = graph / "meta.json"
        found[f"links, {name}, meta.json"] = Case(meta, read, 30, mend=with_digest)
        for file in sorted(path.relative_to(graph) for path in (graph / "links").rglob("*.npy")):
            found[f"links, {name}, {file}"] = Case(graph / file, read, 4)
    return found


def _table_cases(folder: Path) -> dict[str, Case]:
    """A description and its tables."""
    folder.mkdir()
    spec = folder / "d.toml"
    spec.write_text(
        '[nodes.a]\nfile = "a.csv"\nid = "id"\ntime = "t"\nfeatures = ["v"]\nlabels = "k"\n'
        'categories = ["k"]\nforeign = { k = "b" }\n[nodes.b]\n[nodes.c]\nfile = "c.npz"\n'
        'id = "i"\n[[edges]]\ntype = ["a", "r", "c"]\nfile = "e.parquet"\nsource = "s"\n'
        'target = "t"\nweight = "w"\nmissing = "drop"\nreverse = true\n'
        '[triples]\nfile = "f.txt"\n'
    )
    (folder / "a.csv").write_text("id,t,v,k\nann,3,0.5,x\nbob,4,,y\n")
    np.savez(folder / "c.npz", i=np.array([7, 8]))
    edges = {"s": ["ann", "bob", "ann"], "t": [7, 7, 8], "w": [1.0, 2.0, 3.0]}
    pq.write_table(pa.table(edges), folder / "e.parquet")
    (folder / "f.txt").write_text("x\tp\ty\ny\tq\tz\n")

    def read() -> None:
        convert(spec, folder / "g", overwrite=True)

    names = ("d.toml", "a.csv", "c.npz", "e.parquet", "f.txt")
    return {f"typed tables, {name}": Case(folder / name, read, 6) for name in names}
