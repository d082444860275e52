"""fact_links: facts of a knowledge graph that come divided already: links of every relation.

Files are tables as that of the facts. A fact that names an entity or a relation that the graph does
not have cannot be asked about: it is left out and counted, or refused.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.graph.convert.link_files import LinkFiles
from foregather.graph.convert.typed.description.triple_spec import TripleSpec
from foregather.graph.convert.typed.fact_header import fact_file, fact_notes
from foregather.graph.convert.typed.fact_overlaps import shared_facts
from foregather.graph.convert.typed.link_tables import EACH, ID, Lookup
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.values import times_of
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.links.links import Links
from foregather.units import format_bytes, format_number

__all__ = ["read_fact_links"]

Int = npt.NDArray[np.int64]


def read_fact_links(
    nodes: Mapping[str, NodeTable],
    relations: Mapping[EdgeType, Any],
    spec: TripleSpec,
    files: LinkFiles,
    strict: bool,
    work: int,
) -> tuple[dict[EdgeType, dict[str, Links]], list[str]]:
    """The links of files of facts, by relation and name, and what was left out.

    Args:
        nodes: the node types of the graph.
        relations: its relations; facts are of those of the type of the description.
        spec: which columns hold what, as in the file of the edges.
        files: files by name.
        strict: refuse a fact that names something else than the graph has, or that two files have.
        work: bytes that may be used.

    Raises:
        InputError: a file has no facts that the graph knows, or `strict`.
        BudgetError: the links do not fit.
    """
    kind, table = spec.type, nodes[spec.type]
    names = {name: one for one in relations for (a, name, b) in [one] if (a, b) == (kind, kind)}
    order = sorted(names)
    left = work // 2 - (ID * table.num_nodes if table.ids is not None else 0)
    facts = _Facts(spec, Lookup(table, kind), {name: n for n, name in enumerate(order)}, strict)
    reader = Reader(max(1 << 20, work // 8))
    looked = {path: fact_file(path, spec) for path in files.links.values()}
    for path, one in looked.items():
        if one.header is not None:
            reader.take_header(path, one.header)
    notes = fact_notes([looked[one] for one in looked if not _same(one, spec.file)], spec)
    found: dict[EdgeType, dict[str, Links]] = {}
    for name, path in files.links.items():
        columns = facts.read(path, reader, left)
        if lost := facts.lost(name):
            notes.append(lost)
        left -= EACH * len(columns["relation"])
        by = np.argsort(columns["relation"], kind="stable")
        borders = np.searchsorted(columns["relation"][by], np.arange(len(order) + 1))
        for number, relation in enumerate(order):
            mine = by[borders[number] : borders[number + 1]]
            if len(mine):
                time = columns["time"][mine] if "time" in columns else None
                ends = np.stack([columns["head"][mine], columns["tail"][mine]])
                made = Links.of(ends, table.num_nodes, table.num_nodes, time=time)
                found.setdefault(names[relation], {})[name] = made
    edges = [name for name, path in files.links.items() if _same(path, spec.file)]
    return found, notes + shared_facts(found, edges, strict)


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and os.path.samefile(one, other)


class _Facts:
    """Reads files of facts, and counts what the graph does not know."""

    def __init__(
        self, spec: TripleSpec, lookup: Lookup, numbers: dict[str, int], strict: bool
    ) -> None:
        self._spec, self._lookup, self._numbers, self._strict = spec, lookup, numbers, strict
        self._rows = self._entities = self._relations = 0

    def read(self, path: Path, reader: Reader, left: int) -> dict[str, Int]:
        """Relation (its number), head, tail and, where facts have one, time."""
        spec, text = self._spec, self._lookup.text
        wanted = [spec.head, spec.relation, spec.tail] + ([spec.time] if spec.time else [])
        names = [spec.relation] + ([spec.head, spec.tail] if text else [])
        parts: list[dict[str, Int]] = []
        self._rows = self._entities = self._relations = kept = 0
        for batch in reader.batches(path, wanted, names):
            part = self._part(batch, path)
            kept += len(part["relation"])
            if EACH * kept > left:
                raise BudgetError(
                    f"the links of {path.name} do not fit into the {format_bytes(max(0, left))} "
                    "that are left for them; raise --memory"
                )
            parts.append(part)
        if not kept:
            why = "whose entities and relation the graph has" if self._rows else "at all"
            raise InputError(f"{path.name} holds no facts {why}; leave it out, or mend it")
        return {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}

    def _part(self, batch: Any, path: Path) -> dict[str, Int]:
        spec = self._spec
        column = batch[spec.relation].dictionary_encode()
        known = [self._numbers.get(str(one), -1) for one in column.dictionary.to_pylist()]
        at = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        number = np.array([*known, -1], np.int64)[at]
        ends = {
            side: self._lookup.places(batch[name], f"{path.name}: the {side} of facts")
            for side, name in (("head", spec.head), ("tail", spec.tail))
        }
        no_entity = (ends["head"] < 0) | (ends["tail"] < 0)
        gone = no_entity | (number < 0)
        if self._strict and gone.any():
            self._refuse(batch, path, int(np.argmax(gone)), ends, number)
        found = {"relation": number, **ends}
        if spec.time is not None:
            found["time"] = times_of(
                batch[spec.time], f"column {spec.time!r} of {path.name}", self._rows
            )
        self._entities += int(no_entity.sum())
        self._relations += int((gone & ~no_entity).sum())
        self._rows += len(number)
        return {name: values[~gone] for name, values in found.items()}

    def _refuse(self, batch: Any, path: Path, at: int, ends: dict[str, Int], number: Int) -> None:
        """Raises InputError for what the fact at this place names."""
        columns = {"head": self._spec.head, "tail": self._spec.tail}
        for side, name in columns.items():
            if ends[side][at] < 0:
                raise InputError(
                    f"{path.name}: the {side} of fact {self._rows + at + 1} is "
                    f"{batch[name][at].as_py()!r:.80}, which is no node of type "
                    f"{self._lookup.kind!r}; leave it out, or convert without --strict"
                )
        raise InputError(
            f"{path.name}: the relation of fact {self._rows + at + 1} is "
            f"{batch[self._spec.relation][at].as_py()!r:.80}, which is no relation of the graph; "
            "leave it out, or convert without --strict"
        )

    def lost(self, name: str) -> str:
        """What was left out of the file that was read last, in a sentence; empty: nothing."""
        gone = self._entities + self._relations
        if not gone:
            return ""
        was = "was" if gone == 1 else "were"
        return (
            f"{gone} of {format_number(self._rows, 'fact')} {name} {was} left out: "
            f"{self._entities} with an entity and {self._relations} with a relation that the graph "
            "does not have."
        )
