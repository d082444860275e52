"""steps: the relations of a description, each written once and in a definite order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import foregather
from foregather.errors import InputError
from foregather.graph.convert.typed.building import Building
from foregather.graph.convert.typed.description.node_spec import NodeSpec, foreign_types
from foregather.graph.convert.typed.description.spec import Spec
from foregather.graph.convert.typed.edges import Ends, add_edges, add_foreign
from foregather.graph.convert.typed.relations import EdgeColumns, RelationOut
from foregather.graph.convert.typed.triples import read_facts, relation_names
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.on_disk.digest import json_digest

__all__ = ["Made", "Relations", "made_of", "relations_of", "write_relations"]


@dataclass(frozen=True)
class Made:
    """A relation that is written: its edges, and rows left out because an end is no node."""

    edges: int
    lost: int = 0


@dataclass(frozen=True)
class Relations:
    """Every relation by its number, and those that have a way back."""

    numbers: dict[EdgeType, int]
    back: dict[EdgeType, EdgeType]
    facts: list[str]  # names of the relations of triples


def made_of(*parts: Any) -> str:
    """A digest of everything a step depends on, of this version."""
    return json_digest({"version": foregather.__version__, "parts": [repr(one) for one in parts]})


def relations_of(spec: Spec, building: Building) -> Relations:
    """Numbers the relations by their sorted names, ways back among them.

    Raises:
        InputError: a way back cannot be added.
    """
    named: list[str] = []
    described = [*(one.type for one in spec.edges)]
    described += [name for node in spec.nodes for name in foreign_types(node)]
    asked = [one.type for one in spec.edges if one.reverse]
    asked += [name for node in spec.nodes for name in foreign_types(node)]
    if spec.triples is not None:
        named = _names(spec, building)
        kind = spec.triples.type
        facts = [(kind, name, kind) for name in named]
        for one in facts:
            if one in described:
                raise InputError(f"the relation {one} is described twice; join the two")
        described += facts
        asked += facts if spec.triples.reverse else []
    back: dict[EdgeType, EdgeType] = {}
    for source, name, target in sorted(asked):
        if name.startswith("rev_"):
            raise InputError(
                f"relation {show_edge_type((source, name, target))} asks for its reverse, but its "
                "name says that it is one; rename it, or leave reverse out"
            )
        if (target, f"rev_{name}", source) in described:
            raise InputError(
                f"relation {show_edge_type((source, name, target))} asks for its reverse, but "
                f"rev_{name} is there already; leave one of them out"
            )
        back[source, name, target] = (target, f"rev_{name}", source)
    every = sorted({*described, *back.values()})
    return Relations({name: place for place, name in enumerate(every)}, back, named)


def _names(spec: Spec, building: Building) -> list[str]:
    assert spec.triples is not None
    print_ = made_of(spec.triples, building.reader.stamp(spec.triples.file))
    done = building.journal.done("names of facts", print_)
    if done is not None:
        return [str(one) for one in done["names"]]
    names = relation_names(spec.triples, building.reader)
    before = set(building.writer.arrays)
    building.journal.record("names of facts", print_, before, {"names": names})
    return names


class _Step:
    """One relation: done before, or being written."""

    def __init__(
        self, name: EdgeType, relations: Relations, building: Building, parts: list[Any]
    ) -> None:
        back = relations.back.get(name)
        self._numbers = (
            relations.numbers[name],
            None if back is None else relations.numbers[back],
        )
        ends = [building.prints[one] for one in (name[0], name[2])]
        self._print = made_of(name, self._numbers, ends, parts)
        self._name, self._building = name, building
        self._before: set[str] = set()
        done = building.journal.done(f"edge {list(name)}", self._print)
        self.made = None if done is None else Made(done["edges"], done["lost"])

    def out(self, columns: EdgeColumns) -> RelationOut:
        """Where the edges go."""
        building = self._building
        self._before = set(building.writer.arrays)
        counts = [building.types[one].count for one in (self._name[0], self._name[2])]
        return RelationOut(
            building.writer,
            *self._numbers,
            (counts[0], counts[1]),
            columns,
            building.memory // 2,
            building.threads,
        )

    def finish(self, out: RelationOut, lost: int) -> Made:
        """Writes the arrays, and that they are written."""
        out.finish()
        made = Made(out.edges, lost)
        facts = {"edges": made.edges, "lost": made.lost}
        self._building.journal.record(f"edge {list(self._name)}", self._print, self._before, facts)
        return made


def write_relations(
    spec: Spec, types: Mapping[str, NodeSpec], relations: Relations, building: Building
) -> dict[EdgeType, Made]:
    """Writes every relation that is not done; returns all of them, ways back too.

    Raises:
        InputError: a table breaks a rule; names the relation, the column and the row.
    """
    found: dict[EdgeType, Made] = {}
    for node in spec.nodes:
        with about(f"node type {node.name!r}"):
            found |= _foreign(spec, node, types, relations, building)
    for one in spec.edges:
        with about(f"relation {show_edge_type(one.type)}"):
            parts = [one, building.reader.stamp(one.file)]
            step = _Step(one.type, relations, building, parts)
            if step.made is None:
                has = (one.time is not None, one.weight is not None, len(one.features))
                asked = ((one.type[0], one.source), (one.type[2], one.target))
                ends = [building.finder(types[end], (one.file, name)) for end, name in asked]
                out = step.out(EdgeColumns(*has))
                lost = add_edges(one, ends, building.reader, out)
                _close(ends)
                step.made = step.finish(out, lost)
            found[one.type] = step.made
    found |= _facts(spec, types, relations, building)
    for name, back in relations.back.items():
        found[back] = Made(found[name].edges)
    return found


def _close(ends: list[Ends]) -> None:
    """Frees what found the nodes, before the edges are sorted."""
    for end in ends:
        end.close()


def _foreign(
    spec: Spec,
    node: NodeSpec,
    types: Mapping[str, NodeSpec],
    relations: Relations,
    building: Building,
) -> dict[EdgeType, Made]:
    found: dict[EdgeType, Made] = {}
    for name, key in foreign_types(node).items():
        assert node.file is not None
        parts = [key, node.file, spec.strict, building.reader.stamp(node.file)]
        step = _Step(name, relations, building, parts)
        if step.made is None:
            end = building.finder(types[key.type], (node.file, key.column), key.key)
            out = step.out(EdgeColumns())
            lost = add_foreign(node, key, end, building.reader, out, spec.strict)
            _close([end])
            step.made = step.finish(out, lost)
        found[name] = step.made
    return found


def _facts(
    spec: Spec, types: Mapping[str, NodeSpec], relations: Relations, building: Building
) -> dict[EdgeType, Made]:
    """The relations of triples; each is a step, but all of them are read together."""
    triples = spec.triples
    if triples is None:
        return {}
    kind, reader = triples.type, building.reader
    parts = [triples, reader.stamp(triples.file)]
    steps = {one: _Step((kind, one, kind), relations, building, parts) for one in relations.facts}
    if any(step.made is None for step in steps.values()):
        ends = [
            building.finder(types[kind], (triples.file, column))
            for column in (triples.head, triples.tail)
        ]
        writer, columns = building.writer, EdgeColumns(time=triples.time is not None)
        out: RelationOut | None = None
        last = ""
        facts = read_facts(
            triples, relations.facts, ends, reader, writer, building.memory, building.threads
        )
        for name, records in facts:
            if name != last and out is not None:
                steps[last].made = steps[last].finish(out, 0)
                out = None
            last = name
            if steps[name].made is not None:
                continue
            if out is None:
                out = steps[name].out(columns)
            time = records["time"] if triples.time is not None else None
            out.add(records["head"], records["tail"], time)
        if out is not None:
            steps[last].made = steps[last].finish(out, 0)
        _close(ends)
    return {(kind, name, kind): step.made for name, step in steps.items() if step.made is not None}
