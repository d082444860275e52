"""kind: tells by its name and first bytes whether a source has several node types."""

from pathlib import Path

from foregather.files import is_regular

__all__ = ["database_kind", "typed_source"]

_SQLITE = (".sqlite", ".sqlite3", ".db", ".db3")
_DUCKDB = (".duckdb", ".ddb")


def typed_source(path: Path) -> str | None:
    """The words for a source of several types; None for any other."""
    if path.suffix.lower() == ".toml":
        return "a TOML description"
    return "a database" if database_kind(path) is not None else None


def database_kind(path: Path) -> str | None:
    """The engine of a file, "sqlite" or "duckdb", by its first bytes or its name; or None."""
    if is_regular(path):
        with open(path, "rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            return "sqlite"
        if start[8:12] == b"DUCK":
            return "duckdb"
    suffix = path.suffix.lower()
    return "sqlite" if suffix in _SQLITE else "duckdb" if suffix in _DUCKDB else None
