"""checks: `checks.json`, which lists the block checksums of a folder's arrays.

It is separate from meta.json: a graph keeps its digest whether or not its folder has block
checksums, and a release that does not know them can still read the folder. Each entry is tied to
the contents of its array, so tables of another graph are never accepted.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import FormatError
from foregather.files import read_regular
from foregather.graph.on_disk.digest import json_digest

__all__ = [
    "BLOCK",
    "CHECKED",
    "FILE",
    "REMAKE",
    "UNCHECKED",
    "Table",
    "describe_checks",
    "read_checks",
    "table_file",
    "table_rows",
    "tie",
]

FILE = "checks.json"
FORMAT = "foregather-checks"
VERSION = 1
BLOCK: int = _core.SUM_BLOCK  # payload bytes covered by one block checksum
#: What to do about a damaged table.
REMAKE = "run 'foregather verify --add-checks' on the folder, which makes it again"
#: How a folder with block checksums is described, and one without.
CHECKED = "every byte when it is read"
UNCHECKED = (
    "no block checksums, so bytes are not checked when they are read; "
    "'foregather verify --add-checks' adds them"
)
_MOST_BYTES = 256 << 20
_CHECKSUM = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Table:
    """The file of one array's block checksums and its expected contents."""

    file: str
    rows: int
    chunk_bytes: int  # bytes of the file's payload covered by each checksum
    checksums: tuple[str, ...]


def table_file(name: str) -> str:
    """The file of an array's table; array files end in .npy, so no array can have this name."""
    return f"{name}.crc"


def table_rows(payload: int) -> int:
    """Number of blocks in `nbytes` of payload."""
    return -(-payload // BLOCK)


def tie(checksums: Sequence[str]) -> str:
    """Identifies the contents of an array by its checksums in meta.json."""
    return f"{_core.xxh64(np.frombuffer(''.join(checksums).encode(), np.uint8)):016x}"


def describe_checks(
    arrays: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Sequence[str]], chunk_bytes: int
) -> dict[str, Any]:
    """The contents of checks.json.

    Args:
        arrays: the entries of meta.json.
        tables: checksums of each array's table, by the array's name.
        chunk_bytes: table bytes covered by each of those.
    """
    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "algorithm": "crc32c",
        "block_bytes": BLOCK,
        "checksum": _xxh64(chunk_bytes),
        "arrays": {
            name: {
                "file": table_file(name),
                "array": tie(arrays[name]["checksums"]),
                "checksums": list(tables[name]),
            }
            for name in sorted(arrays)
        },
    }
    return {**body, "digest": json_digest(body)}


def read_checks(
    folder: Path, arrays: Mapping[str, tuple[int, Sequence[str]]]
) -> dict[str, Table] | None:
    """Reads and checks `folder`/checks.json; None where the folder has none.

    Args:
        folder: a graph folder.
        arrays: payload bytes and checksums of each array, from meta.json.

    Raises:
        FormatError: it is malformed, fails its own digest, or belongs to other arrays.
        StorageError: it cannot be read.
    """
    if not os.path.lexists(folder / FILE):
        return None
    text = _load(folder / FILE)
    expected = {
        "format": FORMAT,
        "version": VERSION,
        "algorithm": "crc32c",
        "block_bytes": BLOCK,
    }
    for key, value in expected.items():
        if text.get(key) != value or type(text.get(key)) is not type(value):
            raise _fail(f"has {key} = {text.get(key)!r:.60}, expected {value!r}")
    checksum = text.get("checksum")
    chunk = checksum.get("chunk_bytes") if isinstance(checksum, dict) else None
    if type(chunk) is not int or not 4096 <= chunk <= 1 << 30 or checksum != _xxh64(chunk):
        raise _fail(f"has checksum = {checksum!r:.60}, expected xxh64 of chunks")
    entries = text.get("arrays")
    if not isinstance(entries, dict) or entries.keys() != arrays.keys():
        raise _fail("does not list the arrays that meta.json lists")
    return {
        name: _table(name, entries[name], payload, checksums, chunk)
        for name, (payload, checksums) in arrays.items()
    }


def _xxh64(chunk_bytes: int) -> dict[str, Any]:
    return {"algorithm": "xxh64", "chunk_bytes": chunk_bytes}


def _fail(why: str) -> FormatError:
    return FormatError(f"{FILE} {why}; {REMAKE}")


def _load(path: Path) -> dict[str, Any]:
    data = read_regular(path, _MOST_BYTES)
    try:
        text = json.loads(data)
        if not isinstance(text, dict):
            raise _fail("is not a JSON object")
        digest = json_digest(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise _fail("is not JSON, or is truncated") from error
    if text.get("digest") != digest:
        raise _fail("does not match its own digest, so it was changed or corrupted")
    return text


def _table(name: str, entry: Any, payload: int, array: Sequence[str], chunk_bytes: int) -> Table:
    if not isinstance(entry, dict):
        raise _fail(f"has no entry for array {name}")
    if entry.get("file") != table_file(name):
        raise _fail(
            f"puts the table of {name} in file {entry.get('file')!r:.80}, "
            f"expected {table_file(name)}"
        )
    if entry.get("array") != tie(array):
        raise _fail(f"was made for another array {name} than the one that meta.json lists")
    checksums = entry.get("checksums")
    if not isinstance(checksums, list) or not all(
        isinstance(item, str) and _CHECKSUM.fullmatch(item) for item in checksums
    ):
        raise _fail(f"has malformed checksums for the table of {name}")
    rows = table_rows(payload)
    if len(checksums) != -(-4 * rows // chunk_bytes):
        raise _fail(f"has {len(checksums)} checksums for the table of {name}")
    return Table(table_file(name), rows, chunk_bytes, tuple(checksums))
