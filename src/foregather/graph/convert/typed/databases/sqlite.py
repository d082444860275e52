"""sqlite: reads the catalogue and the tables of a SQLite file, without ever writing to it.

The file is opened as one that cannot change: SQLite takes no lock and makes no file next to it.
One that a program is writing to, or left half-written, is refused.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, StorageError
from foregather.graph.convert.typed.databases.catalogue import (
    Catalogue,
    Column,
    ForeignKey,
    TableEntry,
    distinct_texts,
    listed,
    quoted,
)

__all__ = ["read_catalogue", "read_rows"]

_DATES = ("DATE", "TIME")
_AT_ONCE = 200  # columns; SQLite counts at most 2000 things at once
_ROW_NAMES = ("rowid", "_rowid_", "oid")


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """An open file, with SQLite's errors turned into ours."""
    if not path.exists():
        raise StorageError(f"{path.name} does not exist")
    for end in ("-wal", "-journal"):
        beside = path.with_name(path.name + end)
        if beside.exists() and os.path.getsize(beside):
            raise StorageError(
                f"{beside.name} shows that {path.name} is being written or was left half-written; "
                "close the program that writes it, or open it once with sqlite3, and try again"
            )
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -4096")  # KiB
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise FormatError(f"{path.name} cannot be read as a database: {error}") from error


def read_catalogue(path: Path, most_distinct: int) -> Catalogue:
    """The tables of a file, whose columns are counted in one pass over each table.

    Args:
        path: the file.
        most_distinct: different texts are counted up to one more than this.

    Raises:
        FormatError: the file is no database, or damaged.
        StorageError: it cannot be read, or is being written.
    """
    with _open(path) as database:
        found = database.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY name"
        ).fetchall()
        views = tuple(name for kind, name, _ in found if kind == "view")
        virtual = [name for _, name, sql in found if "VIRTUAL TABLE" in (sql or "").upper()[:30]]
        tables = [
            name
            for kind, name, _ in found
            if kind == "table" and not any(name == v or name.startswith(f"{v}_") for v in virtual)
        ]
        return Catalogue(
            tuple(_table(database, name, most_distinct) for name in tables),
            (*views, *virtual),
        )


def _table(database: sqlite3.Connection, name: str, most: int) -> TableEntry:
    described = database.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    described = [row for row in described if row[6] != 1]  # hidden columns of virtual tables
    keys = sorted((row[5], row[1]) for row in described if row[5])
    primary = tuple(column for _, column in keys)
    foreign: dict[int, list[tuple[int, str, str | None, str]]] = {}
    for number, place, table, own, other, *_ in database.execute(
        f"PRAGMA foreign_key_list({quoted(name)})"
    ):
        foreign.setdefault(number, []).append((place, own, other, table))
    spelled = {row[1].lower(): row[1] for row in described}  # SQLite does not mind the case
    links = []
    for number in sorted(foreign):
        parts = sorted(foreign[number], key=lambda part: part[0])
        others = tuple(other for _, _, other, _ in parts if other is not None)
        own = tuple(spelled.get(own.lower(), own) for _, own, _, _ in parts)
        links.append(ForeignKey(own, parts[0][3], others))
    rows, columns = _columns(database, name, [(row[1], row[2]) for row in described], most)
    order = _order(database, name, [row[1] for row in described], primary)
    collated = _collated(database, name)
    return TableEntry(name, rows, columns, primary, tuple(dict.fromkeys(links)), order, collated)


def _collated(database: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """Columns of unique keys that are compared by NOCASE or RTRIM.

    Only the index of a key says so; a column without one cannot be what a foreign key names.
    Collations that programs bring themselves cannot be used here, so such keys match as they are.
    """
    found: dict[str, None] = {}
    for _, index, unique, _, partial in database.execute(f"PRAGMA index_list({quoted(name)})"):
        if not unique or partial:
            continue
        for _, _, column, _, collation, key in database.execute(
            f"PRAGMA index_xinfo({quoted(index)})"
        ):
            if key and column and collation.upper() in ("NOCASE", "RTRIM"):
                found[column] = None
    return tuple(found)


def _order(
    database: sqlite3.Connection, name: str, columns: Sequence[str], primary: tuple[str, ...]
) -> str:
    """What rows are ordered by: without it SQLite may take the order of an index."""
    taken = {column.lower() for column in columns}
    for row in _ROW_NAMES:
        if row in taken:
            continue
        try:
            database.execute(f"SELECT {row} FROM {quoted(name)} LIMIT 0")
        except sqlite3.OperationalError:  # a table WITHOUT ROWID
            break
        return row
    return listed(primary)


def _columns(
    database: sqlite3.Connection, table: str, described: list[tuple[str, str]], most: int
) -> tuple[int, tuple[Column, ...]]:
    """Rows and columns: a value has a type of its own in SQLite, so every one is looked at."""
    rows, counts = 0, []
    for start in range(0, len(described), _AT_ONCE):
        rows, more = _counted(database, table, described[start : start + _AT_ONCE])
        counts += more
    found = []
    for place, (name, declared) in enumerate(described):
        held = [count or 0 for count in counts[4 * place : 4 * place + 4]]
        kind, stored = _kind(held, declared.upper())
        distinct = 0
        if kind == "text":
            (distinct,) = database.execute(distinct_texts(table, name, most)).fetchone()
        found.append(Column(name, declared, kind, stored, rows - sum(held), distinct))
    return rows, tuple(found)


def _counted(
    database: sqlite3.Connection, table: str, described: list[tuple[str, str]]
) -> tuple[int, list[int | None]]:
    """Rows of a table, and for each column how many values are of each type."""
    asked = ["COUNT(*)"]
    for name, _ in described:
        kinds = ("integer", "real", "text", "blob")
        asked += [f"SUM(typeof({quoted(name)}) = '{kind}')" for kind in kinds]
    rows, *counts = database.execute(f"SELECT {', '.join(asked)} FROM {quoted(table)}").fetchone()
    return rows, counts


def _kind(held: list[int], declared: str) -> tuple[str, str]:
    """What a column holds, and how a date is stored."""
    integers, reals, texts, blobs = held
    if not any(held):
        return "none", ""
    stored = ""
    if not blobs and not texts:
        stored = "number" if reals else "integer"
    elif not blobs and not integers and not reals:
        stored = "text"
    if any(word in declared for word in _DATES) and stored in ("integer", "text"):
        return "date", stored
    return stored or "other", ""


def read_rows(
    path: Path,
    table: TableEntry,
    columns: Sequence[str],
    text: Sequence[str],
    rows: int,
    spelled: Mapping[str, str],
) -> Iterator[list[tuple[Any, ...]]]:
    """Columns of a table, a number of rows at a time; some by an expression, see `spelled`.

    Raises:
        FormatError: the file is damaged.
    """
    asked = [spelled.get(one, quoted(one)) for one in columns]
    asked = [
        f"CAST({said} AS TEXT)" if one in text else said
        for one, said in zip(columns, asked, strict=True)
    ]
    order = f" ORDER BY {table.order}" if table.order else ""
    with _open(path) as database:
        cursor = database.execute(f"SELECT {', '.join(asked)} FROM {quoted(table.name)}{order}")
        while found := cursor.fetchmany(rows):
            yield found
