"""Readers of typed graph folders, verified or used as they are, for the fuzzer."""

from pathlib import Path

from foregather.graph.hetero import HeteroGraph
from tests.fuzz_case import Case
from tests.fuzz_files import with_digest
from tests.graph.hetero.typed_graphs import typed_graph

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
    }
