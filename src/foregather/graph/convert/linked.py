"""linked: a conversion whose edges, or some files, become links.

The source is first converted as it is, within the budget, next to the target. Then the edges pass
by once more: held-out ones become links, the others the edges of the graph. Arrays that do not
change are moved, not copied.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.link_files import (
    LinkFiles,
    other_names,
    read_link_files,
    repeated_edges,
)
from foregather.graph.convert.linked_folder import LinkedFolder, link_put
from foregather.graph.convert.linked_typed import (
    LOOKED_UP,
    NOT_LOOKED_UP,
    convert_tables,
    divide_typed,
)
from foregather.graph.convert.nodes.node_options import SplitRule
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.typed.description.kind import typed_source
from foregather.graph.convert.typed.description.spec import read_links
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import show_edge_type
from foregather.graph.integrity.check_topology import check_topology
from foregather.graph.links.cut import STEP, decide
from foregather.graph.links.divide import divide_rows, link_columns
from foregather.graph.links.known import known_links
from foregather.graph.links.links import Links, check_alike
from foregather.graph.links.rule import EVERY, NAMES, LinkSplit, check_sides
from foregather.graph.links.split import kept_columns, treated_undirected
from foregather.graph.links.stored import describe_links, link_folder
from foregather.graph.on_disk.folder import facts_of
from foregather.graph.on_disk.writer import LINKED, TYPED, VERSION, FolderWriter

__all__ = ["convert_linked", "link_wishes"]

Array = npt.NDArray[Any]
_SECOND = 1_000_000  # microseconds, in which dates of options are read
_EDGE = 160  # bytes that an edge of a piece needs at most


def link_wishes(
    src: Any, splits: bool | SplitRule | LinkSplit | LinkFiles
) -> tuple[LinkSplit | LinkFiles | None, bool | SplitRule]:
    """Which links are wanted, if any, and the splits of nodes.

    Raises:
        InputError: links are described and asked for as well.
    """
    described = None
    if isinstance(src, (str, os.PathLike)) and Path(src).suffix.lower() == ".toml":
        described = read_links(Path(src))
    if not isinstance(splits, (LinkSplit, LinkFiles)):
        return (None if splits is False else described), splits
    if described is not None:
        raise InputError(
            f"{Path(src).name} has [links], and a division of links is asked for as well; leave "
            "one of them out"
        )
    return splits, True


def convert_linked(
    make: Callable[[Path], dict[str, Any]],
    src: Any,
    dst: str | os.PathLike[str],
    wanted: LinkSplit | LinkFiles,
    reading: ReadOptions,
    work: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Converts, and makes links.

    Args:
        make: makes the graph as the source has it, in the folder it is given; returns its facts.
        src: the source.
        dst: the folder to make.
        wanted: how edges are divided, or files that are divided already.
        reading: how the edges are read.
        work: bytes that may be used.
        overwrite: replace an existing graph folder.

    Returns:
        The facts of `make`, with the number of links by name.
    """
    typed = isinstance(src, (str, os.PathLike)) and typed_source(Path(src)) is not None
    if isinstance(wanted, LinkSplit):
        return _convert_split(make, dst, wanted, typed, work, overwrite)
    if typed:
        return convert_tables(make, src, dst, wanted, reading, work, overwrite)
    return _convert_files(make, dst, wanted, reading, work, overwrite)


def _convert_split(
    make: Callable[[Path], dict[str, Any]],
    dst: str | os.PathLike[str],
    rule: LinkSplit,
    typed: bool,
    work: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Converts, and divides the edges of the result into links."""
    rule = replace(rule, times=None if rule.times is None else _times(rule.times))
    step = max(4096, min(STEP, work // _EDGE))
    version = (TYPED if typed else VERSION) + LINKED
    with FolderWriter(dst, overwrite, version) as writer:
        whole = writer.scratch("whole")
        facts = make(whole)
        folder = LinkedFolder(writer, whole)
        if typed:
            made = divide_typed(HeteroGraph.open(whole), rule, folder, step, work)
        else:
            made = _divide_plain(Graph.open(whole), rule, folder, step)
        facts |= made
        size = sum(path.stat().st_size for path in Path(dst).rglob("*") if path.is_file())
    return facts | {"graph": Path(dst).name, "bytes": size}


def _convert_files(
    make: Callable[[Path], dict[str, Any]],
    dst: str | os.PathLike[str],
    files: LinkFiles,
    reading: ReadOptions,
    work: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Converts, and adds links that come divided already; edges stay as they are."""
    with FolderWriter(dst, overwrite, VERSION + LINKED) as writer:
        whole = writer.scratch("whole")
        facts = make(whole)
        graph = Graph.open(whole)
        links = check_alike(read_link_files(graph, files, reading, work), "the graph")
        folder = LinkedFolder(writer, whole)
        for number, one in enumerate(links.values()):
            for name, values in one.arrays().items():
                folder.put(f"{link_folder(number)}/")(name, values)
        said = describe_links((name, None, one.num_links) for name, one in links.items())
        notes = _repeated(graph, links, work) + other_names(files)
        folder.finish(set(), graph.num_nodes, graph.num_edges, **facts_of(graph), **said)
        size = sum(path.stat().st_size for path in Path(dst).rglob("*") if path.is_file())
    facts |= {"graph": Path(dst).name, "bytes": size, "notes": [*facts["notes"], *notes]}
    return facts | {"links": {name: one.num_links for name, one in links.items()}}


def _repeated(graph: Graph, links: dict[str, Links], work: int) -> list[str]:
    if LOOKED_UP * graph.num_edges > work:
        return [NOT_LOOKED_UP]
    return repeated_edges([(links, lambda: known_links(graph, names=()))])


def _times(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Borders as whole numbers: numbers as they are, dates as seconds since 1970."""
    read = []
    for one in given:
        text = str(one).strip()
        try:
            read.append(int(text))
            continue
        except ValueError:
            found = _core.parse_time(text)
        if found is None:
            raise InputError(
                f"the division of links has the time {text[:40]!r}, expected a whole number or a "
                "date such as 2024-02-29"
            )
        read.append(-(-found // _SECOND))
    return tuple(read)


def _divide_plain(graph: Graph, rule: LinkSplit, out: LinkedFolder, step: int) -> dict[str, Any]:
    if rule.relation is not None:
        named = "'*'" if rule.relation == EVERY else show_edge_type(rule.relation)
        raise InputError(f"a relation is named, {named}, but the graph has no types; leave it out")
    if rule.in_time:
        raise InputError(
            "links are to be divided by time, but a plain graph has no times; describe the table "
            "in a TOML file, with the column of times, and convert that"
        )
    check_topology(graph)
    undirected = treated_undirected(graph, rule)
    cut = decide([(graph, None)], rule, undirected, step)
    rows = graph.edge_features
    data = None if rows is None else rows.data
    own = kept_columns(graph.edge_weight, data)
    nodes = graph.num_nodes
    sizes = link_columns(graph, own, cut, None, nodes, nodes, link_put(out.put()), step)
    check_sides(sizes)
    columns = {"edge_weight": graph.edge_weight, "edge_features": data}
    columns_there = {name: one for name, one in columns.items() if one is not None}
    kept = divide_rows(graph, columns_there, cut, None, out.put(), step)
    said = describe_links((name, None, n) for name, n in sorted(zip(NAMES, sizes, strict=True)))
    facts = {**facts_of(graph), "link_split": rule.facts()}
    out.finish(set(), nodes, kept, **facts, **said)
    return {
        "num_edges": kept,
        "links": dict(zip(NAMES, sizes, strict=True)),
        "links_undirected": undirected,
    }
