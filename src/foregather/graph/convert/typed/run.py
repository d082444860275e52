"""run: turns the tables of a description into a typed graph folder.

The graph is made in memory: the ids of all types, the tables, and the relations one after the
other. A budget that this exceeds is refused while reading, not after it. The folder appears when it
is complete, or not at all.
"""

import os
import time
from pathlib import Path
from typing import Any

from foregather.errors import InputError
from foregather.graph.convert.typed.edges import read_edges, read_foreign
from foregather.graph.convert.typed.nodes import read_nodes
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.spec import Spec, foreign_types, read_spec
from foregather.graph.convert.typed.triples import read_triples
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.on_disk.folder import write_typed
from foregather.graph.hetero.relation import Relation
from foregather.graph.on_disk.writer import TYPED, FolderWriter
from foregather.observe.progress import peak_memory
from foregather.units import parse_size

__all__ = ["convert_typed"]


def convert_typed(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    memory: str | int = "2GB",
    overwrite: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """Makes a typed graph folder from the tables that a TOML file describes.

    Args:
        src: the TOML file; files in it are named relative to it.
        dst: the folder to make.
        memory: bytes the process may use, such as "2GB".
        overwrite: replace an existing graph folder.
        threads: threads of the kernels, 0 for all; the result does not depend on it.

    Returns:
        Facts about the result: counts, edges dropped, bytes, seconds and peak memory.

    Raises:
        InputError: the description or a table breaks a rule; names where.
        FormatError: a file is damaged.
        BudgetError: the graph does not fit into `memory`.
        StorageError: a file is missing, or `dst` exists.
    """
    started = time.perf_counter()
    spec = read_spec(Path(src))
    reader = Reader(parse_size(memory))
    with FolderWriter(dst, overwrite, TYPED) as writer:
        nodes, indexes, named = read_nodes(spec, reader)
        edges: dict[EdgeType, Relation] = {}
        dropped: dict[str, int] = {}
        for node in spec.nodes:
            with about(f"node type {node.name!r}"):
                keys = read_foreign(node, indexes, reader, spec.strict, threads)
            for name, (relation, lost) in keys.items():
                edges[name], dropped[show_edge_type(name)] = relation, lost
        for one in spec.edges:
            with about(f"relation {show_edge_type(one.type)}"):
                edges[one.type], lost = read_edges(one, indexes, reader, threads)
            dropped[show_edge_type(one.type)] = lost
        if spec.triples is not None:
            edges |= read_triples(spec.triples, indexes[spec.triples.type], reader.batches, threads)
        facts = {"provenance": {"source": spec.name}, **named}
        graph = HeteroGraph(nodes, _turned(spec, nodes, edges), facts)
        write_typed(writer, graph)
        size = sum(file.stat().st_size for file in Path(dst).rglob("*") if file.is_file())
    return {
        "graph": Path(dst).name,
        "source": spec.name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "types": {name: table.num_nodes for name, table in graph.nodes.items()},
        "relations": [[*name, one.num_edges] for name, one in graph.edges.items()],
        "dropped": {name: lost for name, lost in dropped.items() if lost},
        "bytes": size,
        "seconds": time.perf_counter() - started,
        "peak_memory": peak_memory(),
    }


def _turned(
    spec: Spec, nodes: dict[str, NodeTable], edges: dict[EdgeType, Relation]
) -> dict[EdgeType, Relation]:
    """The relations, with a way back along those that ask for one."""
    described = {one.type for one in spec.edges}
    asked = {one.type for one in spec.edges if one.reverse}
    asked |= {name for node in spec.nodes for name in foreign_types(node)}
    if spec.triples is not None and spec.triples.reverse:
        asked |= {name for name in edges if name[0] == name[2] == spec.triples.type} - described
    for source, name, target in sorted(asked):
        if name.startswith("rev_"):
            raise InputError(
                f"relation {show_edge_type((source, name, target))} asks for its reverse, but its "
                "name says that it is one; rename it, or leave reverse out"
            )
        if (target, f"rev_{name}", source) in edges:
            raise InputError(
                f"relation {show_edge_type((source, name, target))} asks for its reverse, but "
                f"rev_{name} is there already; leave one of them out"
            )
    both = HeteroGraph(nodes, {name: edges[name] for name in asked}).with_reverse()
    return {**edges, **both.edges}
