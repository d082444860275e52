"""fact_header: whether the first line of a file of facts names its columns, and what is not read.

No fact is silently lost: a line is skipped only if that is said, if columns are asked for by name,
or if its fields are the usual names of the columns. The summary says what was assumed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from foregather.errors import InputError
from foregather.graph.convert.typed.description.triple_spec import TripleSpec
from foregather.graph.convert.typed.tables import column_names, is_text

__all__ = ["FactFile", "fact_file", "fact_notes"]

_USUAL = (("head", "relation", "tail"), ("subject", "predicate", "object"), ("h", "r", "t"))
_SHOWN = 3  # files that a sentence names


@dataclass(frozen=True)
class FactFile:
    """How a file of facts is read.

    Attributes:
        name: of the file.
        header: whether its first line names the columns; None where that cannot be asked.
        first: the fields of its first line, where it was not said whether they are names.
        columns: how many it has; 0 where that was not looked up.
    """

    name: str
    header: bool | None
    first: tuple[str, ...] = ()
    columns: int = 0


def fact_file(path: Path, spec: TripleSpec) -> FactFile:
    """Looks at the first line of a file of facts.

    Raises:
        InputError: a header is stated, but the file of the description is no text.
        FormatError: the file is empty, or damaged.
    """
    if not is_text(path):
        if spec.header is not None and path == spec.file:
            raise InputError(
                f"[triples] has header, but {path.name} is no text file, and names its columns "
                "itself; leave it out"
            )
        columns = len(column_names(path)) if path.suffix.lower() == ".parquet" else 0
        return FactFile(path.name, None, columns=columns)
    first = column_names(path, header=True)  # of any line
    asked = (spec.head, spec.relation, spec.tail)
    if spec.header is not None or not all(_position(one) for one in asked):
        return FactFile(path.name, spec.header is not False, columns=len(first))
    places = [int(one) - 1 for one in asked]
    fields = tuple(first[at] for at in places if at < len(first))
    named = tuple(one.strip().lower() for one in fields) in _USUAL
    doubtful = named or not all(one.strip().isdecimal() for one in fields)
    return FactFile(path.name, named, fields if doubtful else (), len(first))


def _position(column: str) -> bool:
    return column.isascii() and column.isdigit()


def fact_notes(files: Iterable[FactFile], spec: TripleSpec) -> list[str]:
    """What was assumed of files, and what of them is not read, in whole sentences."""
    found, given = [], list(files)
    for header in (True, False):
        there = [one for one in given if one.first and one.header is header]
        if there:
            line = ", ".join(there[0].first)
            say, other = ("names of columns", "false") if header else ("a fact", "true")
            found.append(
                f"The first line of {_listed(there)} is read as {say} ({line:.80}); if it is not, "
                f"set header = {other} in [triples]."
            )
    wide = [one for one in given if spec.time is None and one.columns > len(_USUAL[0])]
    if wide:
        found.append(
            f"{_listed(wide)} {'have' if len(wide) > 1 else 'has'} {wide[0].columns} columns, of "
            "which head, relation and tail are read; if one holds times, name it by time in "
            "[triples]."
        )
    return found


def _listed(files: list[FactFile]) -> str:
    names = [one.name for one in files]
    if len(names) > _SHOWN:
        names[_SHOWN:] = [f"{len(names) - _SHOWN} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
