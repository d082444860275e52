"""run: turns the tables of a description or of a database into a typed graph folder.

Types first, then relations, each a step that streams its tables within the budget. The folder
depends on the tables and the description, not on memory, threads or batches; it appears when it is
complete, or not at all. After a kill, the same command goes on after the last finished step.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from foregather.errors import StorageError
from foregather.graph.convert.nodes.node_options import SplitRule
from foregather.graph.convert.typed.building import Building, TypeFacts
from foregather.graph.convert.typed.databases.duck import MEMORY
from foregather.graph.convert.typed.databases.table import DatabaseTable
from foregather.graph.convert.typed.description.node_spec import NodeSpec
from foregather.graph.convert.typed.description.spec import Spec, read_spec
from foregather.graph.convert.typed.fact_header import fact_file, fact_notes
from foregather.graph.convert.typed.journal import LEFT, Journal
from foregather.graph.convert.typed.nodes import naming_columns, write_type
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.space import check_space
from foregather.graph.convert.typed.splits import labelled_type, write_splits
from foregather.graph.convert.typed.steps import made_of, relations_of, write_relations
from foregather.graph.convert.typed.table_header import table_headers
from foregather.graph.convert.typed.tables import Table, arrow
from foregather.graph.convert.working_memory import working_memory
from foregather.graph.hetero.names import about, show_edge_type
from foregather.graph.integrity.checks import table_file
from foregather.graph.on_disk.writer import TYPED, FolderWriter
from foregather.observe.progress import peak_memory
from foregather.units import parse_size

__all__ = ["convert_typed"]


def convert_typed(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    memory: str | int = "2GB",
    splits: bool | SplitRule = True,
    strict: bool = False,
    skip_columns: Sequence[str] = (),
    overwrite: bool = False,
    threads: int = 0,
) -> dict[str, Any]:
    """Makes a typed graph folder from tables, in bounded memory.

    Args:
        src: a TOML file that describes tables, which are named relative to it; or a database of
            SQLite or DuckDB.
        dst: the folder to make.
        memory: bytes the process may use, such as "2GB"; at most what the machine has is used.
        splits: False leaves the splits out; a `SplitRule` divides the nodes of the one type that
            has labels.
        strict: refuse foreign keys that point nowhere.
        skip_columns: columns of a database that are left out, each as "table.column".
        overwrite: replace an existing graph folder.
        threads: threads of the kernels, 0 for all; the result does not depend on it.

    Returns:
        Facts about the result: counts, rows left out, bytes, notes, seconds and peak memory.

    Raises:
        InputError: the description or a table breaks a rule; names where.
        FormatError: a file is damaged.
        BudgetError: `memory` is below the least that this needs.
        StorageError: a file is missing, `dst` exists, or the disk is too small.
    """
    started = time.perf_counter()
    arrow()  # before the budget is counted
    budget = parse_size(memory)
    work = working_memory(budget)  # before a database is looked through
    spec = _with_splits(read_spec(Path(src), skip_columns), splits)
    bases = [one.file.engine for one in spec.nodes if isinstance(one.file, DatabaseTable)]
    if "duckdb" in bases:
        work = working_memory(budget, MEMORY)
    _check_files(spec)
    spec = _with_header(replace(spec, strict=spec.strict or strict))
    headers, assumed = table_headers(spec)
    spec = replace(spec, notes=(*spec.notes, *assumed))
    with FolderWriter(dst, overwrite, TYPED, LEFT) as writer:
        check_space(writer.folder, spec)
        known = _types(spec)
        numbers = {name: place for place, name in enumerate(sorted(one.name for one in known))}
        reader = Reader(work // 8)
        for file, header in headers.items():
            reader.take_header(file, header)
        building = Building(writer, reader, Journal(writer), work, threads, numbers)
        relations = relations_of(spec, building)
        for node in known:
            with about(f"node type {node.name!r}"):
                _write_type(spec, node, building, splits)
        edges = write_relations(spec, {one.name: one for one in known}, relations, building)
        building.reader.check()
        counts = [edges[name].edges for name in sorted(edges)]
        types = [building.facts_of(name) for name in numbers]
        writer.keep_only({f for n in writer.arrays for f in (f"{n}.npy", table_file(n))})
        writer.finish(
            sum(facts.count for facts in building.types.values()),
            sum(counts),
            **_facts(spec, splits, building),
            nodes=types,
            edges=[
                {"type": list(name), "num_edges": n, "order": "source", "time_level": "edge"}
                for name, n in zip(sorted(edges), counts, strict=True)
            ],
        )
        size = sum(file.stat().st_size for file in Path(dst).rglob("*") if file.is_file())
    return {
        "graph": Path(dst).name,
        "source": spec.name,
        "num_nodes": sum(facts.count for facts in building.types.values()),
        "num_edges": sum(counts),
        "types": {name: building.types[name].count for name in sorted(numbers)},
        "relations": [[*name, edges[name].edges] for name in sorted(edges)],
        "dropped": {show_edge_type(name): one.lost for name, one in edges.items() if one.lost},
        "reused": building.journal.reused,
        "unnamed": [one.name for one in spec.nodes if one.numbered and not one.by_rows],
        "notes": [*spec.notes, *_notes(spec, building)],
        "bytes": size,
        "seconds": time.perf_counter() - started,
        "peak_memory": peak_memory(),
    }


def _with_splits(spec: Spec, splits: bool | SplitRule) -> Spec:
    """The description without the splits that are not wanted, or that a rule replaces."""
    if splits is True:
        return spec
    gone = {node.name for node in spec.nodes}
    if isinstance(splits, SplitRule):
        gone = {labelled_type(spec, splits).name}
    nodes = (replace(one, split=None) if one.name in gone else one for one in spec.nodes)
    return replace(spec, nodes=tuple(nodes))


def _with_header(spec: Spec) -> Spec:
    """The description, which says of facts whether their first line names columns."""
    if spec.triples is None:
        return spec
    found = fact_file(spec.triples.file, spec.triples)
    notes = (*spec.notes, *fact_notes([found], spec.triples))
    return replace(spec, triples=replace(spec.triples, header=found.header), notes=notes)


def _check_files(spec: Spec) -> None:
    """Refuses files that are not there before hours of work."""
    files: list[Table | None] = [one.file for one in spec.nodes]
    files += [one.file for one in spec.edges]
    files += [path for one in spec.nodes for path in one.arrays.values()]
    files += [] if spec.triples is None else [spec.triples.file]
    for file in files:
        if isinstance(file, Path) and not file.exists():
            raise StorageError(
                f"{file.name} does not exist; check the file names of the description"
            )


def _types(spec: Spec) -> list[NodeSpec]:
    """Every node type; that of triples need not be described."""
    known = list(spec.nodes)
    if spec.triples is not None and spec.triples.type not in {one.name for one in known}:
        known.append(NodeSpec(spec.triples.type))
    return known


def _write_type(spec: Spec, node: NodeSpec, building: Building, splits: bool | SplitRule) -> None:
    """Writes a type, unless that is done."""
    reader = building.reader
    rule = splits if isinstance(splits, SplitRule) and node.labels is not None else None
    tables = [node.file] if node.file is not None else []
    named = [] if tables or node.count is not None else naming_columns(spec, node)
    stamps = [reader.stamp(one) for one in (*tables, *node.arrays.values())]
    stamps += [[column, *reader.stamp(table)] for table, column in named]
    print_ = made_of(node, building.numbers[node.name], stamps, rule)
    building.prints[node.name] = print_
    done = building.journal.done(f"node {node.name}", print_)
    if done is not None:
        building.types[node.name] = _from_json(done)
        return
    before = set(building.writer.arrays)
    facts = write_type(spec, node, building)
    if rule is not None:
        write_splits(node, facts, rule, building)
        facts = replace(facts, splits=("test", "train", "valid"))
    building.types[node.name] = facts
    building.journal.record(f"node {node.name}", print_, before, asdict(facts))


def _from_json(said: Any) -> TypeFacts:
    classes = said["classes"]
    return TypeFacts(
        said["count"],
        said["kind"],
        tuple(said["features"]),
        tuple(said["splits"]),
        None if classes is None else tuple(classes),
        said["categories"],
        said["dates"],
    )


def _facts(spec: Spec, splits: bool | SplitRule, building: Building) -> dict[str, Any]:
    """What meta.json says besides types and relations."""
    provenance: dict[str, Any] = {"source": spec.name}
    if isinstance(splits, SplitRule) and splits.fractions is not None:
        provenance["split"] = {"fractions": list(splits.fractions), "seed": splits.seed}
    elif isinstance(splits, SplitRule) and splits.times is not None:
        provenance["split"] = {"times": [str(one) for one in splits.times]}
    facts: dict[str, Any] = {"provenance": provenance}
    for name, one in building.types.items():
        if one.classes:
            facts.setdefault("classes", {})[name] = list(one.classes)
        if one.categories:
            facts.setdefault("categories", {})[name] = one.categories
    return facts


def _named(spec: Spec) -> set[str]:
    """The types that columns name by their ids."""
    found = {key.type for node in spec.nodes for key in node.foreign if key.key is None}
    found |= {end for edge in spec.edges for end in (edge.type[0], edge.type[2])}
    return found | ({spec.triples.type} if spec.triples is not None else set())


def _notes(spec: Spec, building: Building) -> list[str]:
    """What a user should know, in whole sentences."""
    found = []
    timed = [one.name for one in spec.nodes if one.file is not None and one.time is not None]
    for name, one in building.types.items():
        if one.classes:
            found.append(f"Labels of {name} are {len(one.classes)} classes, by sorted name.")
        for column, names in one.categories.items():
            found.append(f"Feature {column} of {name} is {len(names)} categories, by sorted name.")
        if one.dates:
            found.append(f"Times of {name} are dates, as seconds since 1970.")
    numbered = sorted(one.name for one in spec.nodes if one.numbered and one.name in _named(spec))
    if numbered:
        found.append(f"Nodes of {', '.join(numbered)} are named by row numbers from 0.")
    whole = [name for name in timed if not building.types[name].dates]
    if whole and len(whole) < len(timed):
        found.append(
            f"Times of {', '.join(whole)} are whole numbers, which are compared with these dates "
            "as they are: they must be seconds since 1970 too."
        )
    if building.journal.reused:
        found.append(
            f"{building.journal.reused} finished steps of a conversion that was killed were kept."
        )
    return found
