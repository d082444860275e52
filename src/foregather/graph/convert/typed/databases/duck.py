"""duck: reads the catalogue and the tables of a DuckDB file, without ever writing to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, MissingDependencyError, StorageError
from foregather.graph.convert.typed.databases.catalogue import (
    Catalogue,
    Column,
    ForeignKey,
    TableEntry,
    distinct_texts,
    quoted,
)

__all__ = ["MEMORY", "load_duckdb", "read_batches", "read_catalogue"]

_SIGNED = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_INTEGERS = (*_SIGNED, "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT", "UHUGEINT")
MEMORY = 64_000_000  # bytes that DuckDB may use
_TEXTS = ("VARCHAR", "ENUM", "UUID")


def load_duckdb() -> Any:
    """The package.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "reading a DuckDB file needs duckdb; install it with: pip install foregather[duckdb]"
        ) from error
    return duckdb


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """An open file, with DuckDB's errors turned into ours."""
    duckdb = load_duckdb()
    if not path.exists():
        raise StorageError(f"{path.name} does not exist")
    beside = path.with_name(path.name + ".wal")
    if beside.exists():
        raise StorageError(
            f"{beside.name} shows that {path.name} is being written or was left half-written; "
            "close the program that writes it, or open it once with duckdb, and try again"
        )
    options = {"threads": 1, "memory_limit": f"{MEMORY}B", "temp_directory": ""}
    try:
        with duckdb.connect(str(path), read_only=True, config=options) as connection:
            yield connection
    except (duckdb.Error, RuntimeError, UnicodeDecodeError) as error:
        why = (str(error).splitlines() or ["unknown"])[0]
        raise FormatError(f"{path.name} cannot be read as a database: {why:.200}") from error


def read_catalogue(path: Path, most_distinct: int) -> Catalogue:
    """The tables of a file; as that of SQLite."""
    with _open(path) as database:
        here = "database_name = current_database() AND schema_name = current_schema()"
        names = database.execute(
            f"SELECT table_name FROM duckdb_tables() WHERE {here} ORDER BY 1"
        ).fetchall()
        views = database.execute(
            f"SELECT view_name FROM duckdb_views() WHERE {here} AND NOT internal ORDER BY 1"
        ).fetchall()
        tables = tuple(_table(database, name, here, most_distinct) for (name,) in names)
        return Catalogue(tables, tuple(name for (name,) in views))


def _table(database: Any, name: str, here: str, most: int) -> TableEntry:
    described = database.execute(
        f"SELECT column_name, data_type FROM duckdb_columns() WHERE {here} AND table_name = ? "
        "ORDER BY column_index",
        [name],
    ).fetchall()
    primary: tuple[str, ...] = ()
    foreign = []
    for kind, own, table, other in database.execute(
        "SELECT constraint_type, constraint_column_names, referenced_table, "
        f"referenced_column_names FROM duckdb_constraints() WHERE {here} AND table_name = ?",
        [name],
    ).fetchall():
        if kind == "PRIMARY KEY":
            primary = tuple(own)
        elif kind == "FOREIGN KEY":
            foreign.append(ForeignKey(tuple(own), table, tuple(other)))
    counted = ["COUNT(*)", *(f"COUNT({quoted(column)})" for column, _ in described)]
    rows, *there = database.execute(f"SELECT {', '.join(counted)} FROM {quoted(name)}").fetchone()
    columns = []
    for (column, declared), count in zip(described, there, strict=True):
        kind = _kind(declared) if count else "none"
        distinct = 0
        if kind == "text":
            (distinct,) = database.execute(distinct_texts(name, column, most)).fetchone()
        stored = "date" if kind == "date" else ""
        columns.append(Column(column, declared, kind, stored, rows - count, distinct))
    return TableEntry(name, rows, tuple(columns), primary, tuple(dict.fromkeys(foreign)))


def _kind(declared: str) -> str:
    word = declared.split("(")[0].strip()
    if declared.endswith("]"):
        return "other"
    if word in _INTEGERS:
        return "integer"
    if word in _NUMBERS:
        return "number"
    if word in _TEXTS:
        return "text"
    return "date" if word == "DATE" or word.startswith("TIMESTAMP") else "other"


def read_batches(
    path: Path, table: TableEntry, columns: Sequence[str], text: Sequence[str], rows: int
) -> Iterator[Any]:
    """Columns of a table as Arrow record batches; rows are in the order of their insertion.

    Raises:
        FormatError: the file is damaged.
    """
    declared = {one.name: one.declared for one in table.columns}
    asked = [
        f"CAST({quoted(one)} AS VARCHAR) AS {quoted(one)}"
        if one in text or declared[one] == "UUID"
        else quoted(one)
        for one in columns
    ]
    with _open(path) as database:
        found = database.sql(f"SELECT {', '.join(asked)} FROM {quoted(table.name)}")
        yield from found.to_arrow_reader(rows)
