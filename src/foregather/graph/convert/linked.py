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

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, InputError
from foregather.graph.convert.link_files import LinkFiles, read_link_files, repeated_edges
from foregather.graph.convert.nodes.node_options import SplitRule
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.typed.description.kind import typed_source
from foregather.graph.convert.typed.description.spec import read_links
from foregather.graph.convert.typed.link_tables import read_link_tables
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.on_disk.stored import describe_types, edge_folder
from foregather.graph.hetero.relation import Relation, is_identity
from foregather.graph.integrity.check_topology import check_topology
from foregather.graph.integrity.checks import table_file
from foregather.graph.links.cut import STEP, Cut, decide
from foregather.graph.links.divide import Collected, Put, divide_rows, link_columns, renumber
from foregather.graph.links.known import known_links
from foregather.graph.links.links import Links, check_alike
from foregather.graph.links.rule import NAMES, LinkSplit
from foregather.graph.links.split import back_of, both_ways, kept_columns, treated_undirected
from foregather.graph.links.stored import describe_links, link_folder
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.folder import facts_of
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.writer import LINKED, TYPED, VERSION, ArrayWriter, FolderWriter
from foregather.units import format_bytes

__all__ = ["convert_linked", "link_wishes"]

Array = npt.NDArray[Any]
_SECOND = 1_000_000  # microseconds, in which dates of options are read
_EDGE = 160  # bytes that an edge of a piece needs at most
_LOOKED_UP = 40  # bytes that an edge needs to be looked up
_POSITION = 17  # bytes that an edge needs where positions are kept


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
        return _convert_tables(make, dst, wanted, work, overwrite)
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
        folder = _Folder(writer, whole)
        if typed:
            made = _divide_typed(HeteroGraph.open(whole), rule, folder, step, work)
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
        folder = _Folder(writer, whole)
        for number, one in enumerate(links.values()):
            for name, values in one.arrays().items():
                folder.put(f"{link_folder(number)}/")(name, values)
        said = describe_links((name, None, one.num_links) for name, one in links.items())
        notes = _repeated(graph, links, work)
        folder.finish(set(), graph.num_nodes, graph.num_edges, **facts_of(graph), **said)
        size = sum(path.stat().st_size for path in Path(dst).rglob("*") if path.is_file())
    facts |= {"graph": Path(dst).name, "bytes": size, "notes": [*facts["notes"], *notes]}
    return facts | {"links": {name: one.num_links for name, one in links.items()}}


def _convert_tables(
    make: Callable[[Path], dict[str, Any]],
    dst: str | os.PathLike[str],
    files: LinkFiles,
    work: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Converts, and adds links of one relation; edges stay as they are."""
    with FolderWriter(dst, overwrite, TYPED + LINKED) as writer:
        whole = writer.scratch("whole")
        facts = make(whole)
        graph = HeteroGraph.open(whole)
        edge_type = graph.linked_relation(files.relation)
        shown = show_edge_type(edge_type)
        with about(f"relation {shown}"):
            for end in (one for one in edge_type[::2] if one in facts["unnamed"]):
                raise InputError(
                    f"files of links name nodes of type {end!r}, whose table has no id; set id = "
                    f'"column" in [nodes.{end}], or ids = "rows" if they are row numbers from 0'
                )
            given = (graph.nodes, edge_type, files.links, files.negatives)
            links = check_alike(read_link_tables(*given, work), shown)
        folder = _Folder(writer, whole)
        for number, one in enumerate(links.values()):
            for name, values in one.arrays().items():
                folder.put(f"{link_folder(number)}/")(name, values)
        said = describe_types(graph.nodes, graph.edges, {})
        said |= describe_links((name, edge_type, one.num_links) for name, one in links.items())
        notes = ["Whether held-out links are edges too was not looked up: that needs more memory."]
        if _LOOKED_UP * graph.edges[edge_type].num_edges <= work:
            notes = repeated_edges(links, lambda: known_links(graph, edge_type, names=()))
        folder.finish(set(), graph.num_nodes, graph.num_edges, **graph.facts, **said)
        size = sum(path.stat().st_size for path in Path(dst).rglob("*") if path.is_file())
    facts |= {"graph": Path(dst).name, "bytes": size, "notes": [*facts["notes"], *notes]}
    counts = {name: one.num_links for name, one in links.items()}
    return facts | {"links": counts, "links_relation": list(edge_type)}


def _repeated(graph: Graph, links: dict[str, Links], work: int) -> list[str]:
    if _LOOKED_UP * graph.num_edges > work:
        return ["Whether held-out links are edges too was not looked up: that needs more memory."]
    return repeated_edges(links, lambda: known_links(graph, names=()))


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


class _Folder:
    """The folder being made, and the one that it is made of."""

    def __init__(self, writer: FolderWriter, whole: Path) -> None:
        self.writer, self.whole = writer, whole
        self.meta = read_meta(whole)
        self._open: dict[str, ArrayWriter] = {}

    def put(self, inside: str = "") -> Put:
        """Takes rows of arrays whose names begin so."""

        def put(name: str, rows: Array) -> None:
            full = inside + name
            if full not in self._open:
                self._open[full] = self.writer.array(full, rows.dtype, rows.shape[1:])
            self._open[full].append(np.ascontiguousarray(rows))

        return put

    def finish(self, changed: set[str], num_nodes: int, num_edges: int, **facts: Any) -> None:
        """Closes what was put, takes the other arrays over, and finishes the folder."""
        for name in sorted(self._open):
            self.writer.close(name)
        tables = self.meta.tables or {}
        try:
            for name in self.meta.arrays.keys() - changed - self._open.keys():
                for file in (f"{name}.npy", table_file(name)):
                    (self.writer.folder / file).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(self.whole / file, self.writer.folder / file)
                entry = self.meta.text["arrays"][name]
                self.writer.adopt(name, entry, tuple(tables[name].checksums))
        except OSError as error:
            raise storage_error(error, self.writer.dst, "making") from error
        self.writer.finish(num_nodes, num_edges, **facts)


def _link_put(put: Put) -> Put:
    """Puts `train/sources` under the number that links of that name have."""
    numbers = {name: number for number, name in enumerate(sorted(NAMES))}

    def renamed(name: str, rows: Array) -> None:
        part, _, array = name.partition("/")
        put(f"{link_folder(numbers[part])}/{array}", rows)

    return renamed


def _entries(sizes: tuple[int, int, int], relation: EdgeType | None) -> dict[str, Any]:
    found = sorted(zip(NAMES, sizes, strict=True))
    return describe_links((name, relation, size) for name, size in found)


def _divide_plain(graph: Graph, rule: LinkSplit, out: _Folder, step: int) -> dict[str, Any]:
    if rule.relation is not None:
        raise InputError(
            f"a relation is named, {show_edge_type(rule.relation)}, but the graph has no types; "
            "leave it out"
        )
    if rule.in_time:
        raise InputError(
            "links are to be divided by time, but a plain graph has no times; describe the table "
            "in a TOML file, with the column of times, and convert that"
        )
    check_topology(graph)
    undirected = treated_undirected(graph, rule)
    cut = decide(graph, None, rule, undirected, step)
    rows = graph.edge_features
    data = None if rows is None else rows.data
    own = kept_columns(graph.edge_weight, data)
    nodes = graph.num_nodes
    sizes = link_columns(graph, own, cut, None, nodes, nodes, _link_put(out.put()), step)
    columns = {"edge_weight": graph.edge_weight, "edge_features": data}
    columns_there = {name: one for name, one in columns.items() if one is not None}
    kept = divide_rows(graph, columns_there, cut, None, out.put(), step)
    said = _entries(sizes, None)
    facts = {**facts_of(graph), "link_split": rule.facts()}
    out.finish(set(), nodes, kept, **facts, **said)
    return {
        "num_edges": kept,
        "links": dict(zip(NAMES, sizes, strict=True)),
        "links_undirected": undirected,
    }


def _divide_typed(
    graph: HeteroGraph, rule: LinkSplit, out: _Folder, step: int, work: int
) -> dict[str, Any]:
    edge_type = graph.linked_relation(rule.relation)
    own = graph.edges[edge_type]
    sizes_of = {name: table.num_nodes for name, table in graph.nodes.items()}
    with about(f"relation {show_edge_type(edge_type)}"):
        undirected = False
        if edge_type[0] == edge_type[2] and not rule.in_time and rule.undirected is not False:
            undirected = both_ways(own, rule, False)
        cut = decide(own, own.time, rule, undirected, step)
        columns = kept_columns(own.weights, own.features)
        columns |= {} if own.time is None else {"time": own.time}
        ends = sizes_of[edge_type[2]], sizes_of[edge_type[0]]
        sizes = link_columns(own, columns, cut, own.time, *ends, _link_put(out.put()), step)
    counts = {name: one.num_edges for name, one in graph.edges.items()}
    changed: set[str] = set()
    for name in (edge_type, back_of(edge_type)):
        if name in graph.edges:
            with about(f"relation {show_edge_type(name)}"):
                inside = f"{edge_folder(graph.edge_types.index(name))}/"
                turned = name != edge_type
                counts[name] = _relation(graph.edges[name], cut, turned, out, inside, step, work)
                changed |= {one for one in out.meta.arrays if one.startswith(inside)}
    said = describe_types(graph.nodes, graph.edges, {})
    for entry in said["edges"]:
        entry["num_edges"] = counts[tuple(entry["type"])]
    facts = {**graph.facts, "link_split": replace(rule, relation=edge_type).facts()}
    total = sum(counts.values())
    out.finish(changed, graph.num_nodes, total, **facts, **said, **_entries(sizes, edge_type))
    return {
        "num_edges": total,
        "relations": [[*name, counts[name]] for name in sorted(counts)],
        "links": dict(zip(NAMES, sizes, strict=True)),
        "links_relation": list(edge_type),
    }


def _relation(
    relation: Relation, cut: Cut, turned: bool, out: _Folder, inside: str, step: int, work: int
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
