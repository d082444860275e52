"""table_header: whether the first line of a text table names its columns.

No row is silently lost: a line is skipped where that is said, where columns are asked for by names
that it holds, or where it can be nothing else. A line in doubt is refused, and the summary says
what was assumed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foregather.errors import InputError
from foregather.graph.convert.reading.columns import find_edge_names, plain_name
from foregather.graph.convert.reading.first_line import NO_NAME
from foregather.graph.convert.typed.description.spec import Spec
from foregather.graph.convert.typed.tables import Table, arrow, first_rows, is_text, names_itself

__all__ = ["Asked", "find_header", "header_note", "table_headers"]

_USUAL = {"id", "node_id", "nodeid", "label", "class", "split", "time"}
_WORDS = re.compile("true|false", re.IGNORECASE)  # values of a column of yes and no


@dataclass(frozen=True)
class Asked:
    """What is read of a table.

    Attributes:
        file: the table.
        columns: by name or by position from 1; none: its rows are counted.
        header: whether its first line names columns, where that was said.
        yes: what the user writes to say so.
        no: what the user writes to say otherwise.
    """

    file: Table
    columns: tuple[str, ...]
    header: bool | None
    yes: str
    no: str


def table_headers(spec: Spec) -> tuple[dict[Path, bool], list[str]]:
    """Which text files of a description have a header, and what was assumed, in whole sentences.

    Raises:
        InputError: a first line is in doubt, or what is said of it does not fit the file.
    """
    files: dict[Table, list[Asked]] = {}
    for one in _asked_of(spec):
        files.setdefault(one.file, []).append(one)
    facts = spec.triples
    headers: dict[Path, bool] = {}
    notes: list[str] = []
    for file, readings in files.items():
        if facts is not None and facts.header is not None and facts.file == file:
            readings.append(_asked(file, (), facts.header, "[triples]"))
        header = find_header(readings)
        if isinstance(file, Path) and header is not None:
            headers[file] = header
        notes += header_note(readings, header)
    if facts is not None and facts.header is not None:
        headers[facts.file] = facts.header
    return headers, notes


def _asked_of(spec: Spec) -> Iterator[Asked]:
    """What a description reads of each of its tables of nodes and edges; files may come twice."""
    for node in (one for one in spec.nodes if one.file is not None):
        assert node.file is not None
        single = (node.id, node.labels, node.time, node.split)
        columns = [one for one in single if one is not None]
        columns += [*node.features, *node.categories, *(one.column for one in node.foreign)]
        yield _asked(node.file, columns, node.header, f"[nodes.{node.name}]")
    for number, edge in enumerate(spec.edges, 1):
        ends = [edge.source, edge.target]
        columns = [*ends, *(one for one in (edge.weight, edge.time) if one is not None)]
        columns += edge.features
        yield _asked(edge.file, columns, edge.header, f"[[edges]] number {number}")


def _asked(file: Table, columns: Sequence[str], header: bool | None, where: str) -> Asked:
    say = [f"header = {one} in {where}" for one in ("true", "false")]
    return Asked(file, tuple(columns), header, *say)


def find_header(readings: Iterable[Asked]) -> bool | None:
    """Whether the first line of a file names its columns, by all that is read of it.

    Returns:
        None for a file that is no text.

    Raises:
        InputError: the line is in doubt, what was said contradicts itself, or the file is no text.
    """
    given = list(readings)
    file, said = given[0].file, {one.header for one in given} - {None}
    if not is_text(file):
        if said:
            raise InputError(
                f"{file.name} is no text file, and names its columns itself, but has a header "
                "stated; leave it out"
            )
        return None
    assert isinstance(file, Path)
    if len(said) > 1:
        raise InputError(
            f"{file.name} is said to have a header and to have none; leave one of them out"
        )
    if said:
        return said.pop()
    columns = list(dict.fromkeys(one for each in given for one in each.columns))
    fields, _ = first_rows(file)
    names = {one for one in columns if not _is_position(one, len(fields))}
    if names:
        return names_itself(file) or names <= set(fields)
    looks = _looks(file, [int(one) - 1 for one in columns] or [*range(len(fields))])
    if looks is None or looks != names_itself(file):
        raise InputError(
            f"the first line of {file.name} ({', '.join(fields):.80}) could be names of columns or "
            f"a row; set {given[0].yes} to skip it, or {given[0].no} to read it"
        )
    return looks


def _is_position(column: str, count: int) -> bool:
    return column.isascii() and column.isdigit() and int(column) <= count


def _looks(file: Path, places: Sequence[int]) -> bool | None:
    """Whether a line that nobody names columns of is a header; None in doubt, False if surely not.

    It is one only if none of its fields looks like a value, and it has usual names of columns, or
    words above numbers or dates.
    """
    fields, types = first_rows(file)
    read = {at for at in places if at < len(fields)}
    for at, one in enumerate(fields):
        value = NO_NAME.fullmatch(one.strip().encode()) or _WORDS.fullmatch(one.strip())
        if value and (one or at in read):
            return None if names_itself(file) else False
    if find_edge_names(fields) or {plain_name(one) for one in fields} & _USUAL:
        return True
    kinds = arrow().types
    if any(not (kinds.is_string(one) or kinds.is_null(one)) for one in types):
        return True
    return None if names_itself(file) else False


def header_note(readings: Iterable[Asked], header: bool | None) -> list[str]:
    """What was assumed of the first line of a file, where nobody said or showed it."""
    given = list(readings)
    if not header or any(one.header is not None for one in given):
        return []
    file = given[0].file
    assert isinstance(file, Path)
    fields, _ = first_rows(file)
    if any(not _is_position(one, len(fields)) for each in given for one in each.columns):
        return []
    return [
        f"The first line of {file.name} is read as names of columns ({', '.join(fields):.80}); if "
        f"it is a row, set {given[0].no}."
    ]
