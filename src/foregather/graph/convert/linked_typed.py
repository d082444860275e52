"""linked_typed: links of typed graphs: edges of relations that are divided, or tables of links."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.graph.convert.link_files import LinkFiles, other_names, repeated_edges
from foregather.graph.convert.linked_folder import LinkedFolder, link_put
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.typed.description.spec import read_spec
from foregather.graph.convert.typed.description.triple_spec import TripleSpec
from foregather.graph.convert.typed.fact_links import read_fact_links
from foregather.graph.convert.typed.link_tables import link_headers, read_link_tables
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.on_disk.stored import describe_types, edge_folder
from foregather.graph.hetero.relation import Relation, is_identity
from foregather.graph.links.cut import Cut
from foregather.graph.links.divide import Collected, divide_rows, link_columns, renumber
from foregather.graph.links.known import known_links
from foregather.graph.links.links import Links, check_alike
from foregather.graph.links.rule import EVERY, NAMES, LinkSplit
from foregather.graph.links.split import (
    back_of,
    divide_relations,
    divided_relations,
    kept_columns,
)
from foregather.graph.links.stored import describe_links, link_folder
from foregather.graph.on_disk.writer import LINKED, TYPED, FolderWriter
from foregather.units import format_bytes

__all__ = ["LOOKED_UP", "NOT_LOOKED_UP", "convert_tables", "divide_typed"]

Array = npt.NDArray[Any]
LOOKED_UP = 40  # bytes that an edge needs to be looked up
NOT_LOOKED_UP = "Whether held-out links are edges too was not looked up: that needs more memory."
_POSITION = 17  # bytes that an edge needs where positions are kept


def convert_tables(
    make: Callable[[Path], dict[str, Any]],
    src: Any,
    dst: str | os.PathLike[str],
    files: LinkFiles,
    reading: ReadOptions,
    work: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Converts, and adds links of one relation, or facts of all; edges stay as they are."""
    triples, strict = None, reading.strict
    if files.relation == EVERY:
        triples, strict = _facts_of(src, files, strict)
    headers, notes = _headers_of(files, reading.header)
    with FolderWriter(dst, overwrite, TYPED + LINKED) as writer:
        whole = writer.scratch("whole")
        facts = make(whole)
        graph = HeteroGraph.open(whole)
        found: dict[EdgeType, dict[str, Links]]
        if triples is None:
            edge_type, links = _one_relation(graph, files, facts["unnamed"], headers, work)
            found = {edge_type: links}
            told: dict[str, Any] = {"links_relation": list(edge_type)}
        else:
            found, notes = read_fact_links(graph.nodes, graph.edges, triples, files, strict, work)
            told = {"links_relations": len(found)}
        folder = LinkedFolder(writer, whole)
        entries = [
            (name, kind, one) for kind in sorted(found) for name, one in sorted(found[kind].items())
        ]
        for number, (_, _, one) in enumerate(entries):
            for name, values in one.arrays().items():
                folder.put(f"{link_folder(number)}/")(name, values)
        said = describe_types(graph.nodes, graph.edges, {})
        said |= describe_links((name, kind, one.num_links) for name, kind, one in entries)
        notes += _also_edges(graph, found, work) + other_names(files)
        folder.finish(set(), graph.num_nodes, graph.num_edges, **graph.facts, **said)
        size = sum(path.stat().st_size for path in Path(dst).rglob("*") if path.is_file())
    facts |= {"graph": Path(dst).name, "bytes": size, "notes": [*facts["notes"], *notes]}
    counts = {name: sum(o.num_links for n, _, o in entries if n == name) for name in files.links}
    return facts | {"links": counts, **told}


def _facts_of(src: Any, files: LinkFiles, strict: bool) -> tuple[TripleSpec, bool]:
    """What a description says of facts, and whether it is strict.

    Raises:
        InputError: it has none, or there are negatives.
    """
    spec = read_spec(Path(src))
    if spec.triples is None:
        raise InputError(
            f"the relation of links is '*', but {spec.name} has no [triples], whose facts name "
            "their relations; name one relation"
        )
    if files.negatives:
        raise InputError(
            f"{min(files.negatives)}_negatives are given, but facts of several relations are "
            "compared with other tails or heads; leave them out, or name one relation"
        )
    return spec.triples, strict or spec.strict


def _headers_of(files: LinkFiles, header: bool | None) -> tuple[dict[Path, bool], list[str]]:
    """Whether the files of one relation have headers; of facts, [triples] says it."""
    if files.relation != EVERY:
        return link_headers((*files.links.values(), *files.negatives.values()), header)
    if header is not None:
        raise InputError(
            "--header does not apply to links of all relations; set header in [triples]"
        )
    return {}, []


def _one_relation(
    graph: HeteroGraph,
    files: LinkFiles,
    unnamed: list[str],
    headers: Mapping[Path, bool],
    work: int,
) -> tuple[EdgeType, dict[str, Links]]:
    """The links of one relation."""
    assert files.relation != EVERY
    edge_type = graph.linked_relation(files.relation)
    shown = show_edge_type(edge_type)
    with about(f"relation {shown}"):
        for end in (one for one in edge_type[::2] if one in unnamed):
            raise InputError(
                f"files of links name nodes of type {end!r}, whose table has no id; set id = "
                f'"column" in [nodes.{end}], or ids = "rows" if they are row numbers from 0'
            )
        given = (graph.nodes, edge_type, files.links, files.negatives)
        return edge_type, check_alike(read_link_tables(*given, headers, work), shown)


def _also_edges(
    graph: HeteroGraph, found: Mapping[EdgeType, Mapping[str, Links]], work: int
) -> list[str]:
    """Says which held-out links are edges too."""
    if LOOKED_UP * max(graph.edges[kind].num_edges for kind in found) > work:
        return [NOT_LOOKED_UP]
    return repeated_edges(
        (links, lambda kind=kind: known_links(graph, kind, names=()))  # type: ignore[misc]
        for kind, links in found.items()
    )


def divide_typed(
    graph: HeteroGraph, rule: LinkSplit, out: LinkedFolder, step: int, work: int
) -> dict[str, Any]:
    """Puts the links of relations, and the edges that stay; returns what was made."""
    relations = divided_relations(graph, rule.relation)
    cut, sizes = divide_relations(graph, relations, rule, step)
    entries: list[tuple[str, EdgeType, int]] = []
    counts = {name: one.num_edges for name, one in graph.edges.items()}
    changed: set[str] = set()
    for edge_type in sorted(relations):
        there = sorted((name, n) for name, n in zip(NAMES, sizes[edge_type], strict=True) if n)
        put = link_put(out.put(), len(entries), [name for name, _ in there])
        entries += [(name, edge_type, n) for name, n in there]
        _put_links(graph, edge_type, cut, put, step)
        for name in (edge_type, back_of(edge_type)):
            if name in graph.edges:
                with about(f"relation {show_edge_type(name)}"):
                    inside = f"{edge_folder(graph.edge_types.index(name))}/"
                    turned = name != edge_type
                    given = (graph.edges[name], cut, turned, out, inside, step, work)
                    counts[name] = _relation(*given)
                    changed |= {one for one in out.meta.arrays if one.startswith(inside)}
    said = describe_types(graph.nodes, graph.edges, {})
    for entry in said["edges"]:
        entry["num_edges"] = counts[tuple(entry["type"])]
    stated = rule if rule.relation == EVERY else replace(rule, relation=relations[0])
    facts = {**graph.facts, "link_split": stated.facts()}
    total = sum(counts.values())
    out.finish(changed, graph.num_nodes, total, **facts, **said, **describe_links(entries))
    every = rule.relation == EVERY
    return {
        "num_edges": total,
        "relations": [[*name, counts[name]] for name in sorted(counts)],
        "links": {name: sum(n for other, _, n in entries if other == name) for name in NAMES},
        **({"links_relations": len(relations)} if every else {"links_relation": [*relations[0]]}),
    }


def _put_links(graph: HeteroGraph, edge_type: EdgeType, cut: Cut, put: Any, step: int) -> None:
    own = graph.edges[edge_type]
    columns = kept_columns(own.weights, own.features)
    columns |= {} if own.time is None else {"time": own.time}
    ends = graph.nodes[edge_type[2]].num_nodes, graph.nodes[edge_type[0]].num_nodes
    link_columns(own, columns, cut, own.time, *ends, put, step)


def _relation(
    relation: Relation, cut: Cut, turned: bool, out: LinkedFolder, inside: str, step: int, work: int
) -> int:
    """Puts a relation without its held-out edges; returns how many stay."""
    if cut.seed is None and relation.time is None:
        raise InputError("the way back of the relation that is divided by time has no times")
    names = ("time", "weights", "features")
    columns = {name: one for name in names if (one := getattr(relation, name)) is not None}
    put, places = out.put(inside), Collected()
    if relation.edge_ids is not None:
        need = _POSITION * relation.num_edges
        if need > work:
            raise BudgetError(
                f"dividing {relation.num_edges} edges into links needs {format_bytes(need)} for "
                f"their positions, and {format_bytes(work)} are left of the budget; raise --memory"
            )
        columns["edge_ids"] = relation.edge_ids

    def take(name: str, rows: Array) -> None:
        (places.put if name == "edge_ids" else put)(name, rows)

    kept = divide_rows(relation, columns, cut, relation.time, take, step, turned=turned)
    if relation.edge_ids is not None:
        ids = renumber(places.arrays()["edge_ids"], relation.num_edges)
        if not is_identity(ids):
            put("edge_ids", ids)
    return kept
