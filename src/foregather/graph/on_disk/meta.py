"""meta: reads meta.json as untrusted text and checks everything in it.

A `Meta` has passed every check that needs no array data: format, version, digest, names, dtypes,
shapes and checksum counts are well formed, and every file is inside the folder.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import FormatError, StorageError
from foregather.files import is_there, read_regular
from foregather.graph.integrity.checks import Table, read_checks
from foregather.graph.on_disk.holdable import DTYPES, MOST_DIMENSIONS, NAMES
from foregather.graph.on_disk.writer import (
    FORMAT,
    LINKED,
    ORDERED,
    TYPED,
    VERSION,
    VERSIONS,
    meta_digest,
)

__all__ = ["ArrayEntry", "Meta", "RESERVED", "read_meta"]

#: Fields with a fixed meaning; everything else in meta.json is a fact.
RESERVED = frozenset(
    {"format", "version", "num_nodes", "num_edges", "checksum", "arrays", "digest", "links"}
)
_MOST_BYTES = 256 << 20
_MOST_COUNT = 1 << 60
_CHECKSUM = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """What meta.json says about one array."""

    name: str
    file: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    checksums: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Payload bytes."""
        count = self.dtype.itemsize
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class Meta:
    """A checked meta.json; what it says about types, relations and links is not."""

    version: int
    num_nodes: int
    num_edges: int
    chunk_bytes: int
    arrays: dict[str, ArrayEntry]
    text: dict[str, Any]  # the whole file, as parsed
    tables: dict[str, Table] | None  # of block checksums, by array; None if there are none

    @property
    def typed(self) -> bool:
        """Whether the graph has node types and relations."""
        return self.version in (TYPED, TYPED + LINKED)

    @property
    def linked(self) -> bool:
        """Whether the graph has links."""
        return self.version in (VERSION + LINKED, TYPED + LINKED, VERSION + LINKED + ORDERED)

    @property
    def ordered(self) -> bool:
        """Whether the feature rows of the graph are in an order of their own."""
        return self.version > ORDERED


def _fail(why: str) -> FormatError:
    return FormatError(f"meta.json {why}; the graph folder is damaged, convert it again")


def _load(folder: Path) -> dict[str, Any]:
    if not is_there(folder) or not folder.is_dir():
        raise StorageError(f"{folder.name or folder} is not a folder; name a graph folder")
    if not is_there(folder / "meta.json"):
        raise FormatError(
            f"{folder.name or folder} has no meta.json; it is not a graph folder, "
            "or was never finished: convert it again"
        )
    data = read_regular(folder / "meta.json", _MOST_BYTES)
    try:
        text = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _fail("is not JSON, or is truncated") from error
    if not isinstance(text, dict):
        raise _fail("is not a JSON object")
    return text


def _count(text: dict[str, Any], key: str) -> int:
    value = text.get(key)
    if type(value) is not int or not 0 <= value < _MOST_COUNT:
        raise _fail(f"has {key} = {value!r:.40}, expected a count")
    return value


def read_meta(folder: Path, with_tables: bool = True) -> Meta:
    """Reads and checks `folder`/meta.json and checks.json.

    Args:
        folder: the graph folder.
        with_tables: read checks.json; without it, the folder counts as one that has none.

    Raises:
        FormatError: it is missing, malformed, of another version, or fails its own digest.
        StorageError: it cannot be read.
    """
    text = _load(folder)
    if text.get("format") != FORMAT:
        raise FormatError(
            f"meta.json has format {text.get('format')!r:.40}, expected {FORMAT!r}; "
            "this is not a graph folder of foregather"
        )
    version = text.get("version")
    if type(version) is not int or version not in VERSIONS:
        raise FormatError(
            f"meta.json has format version {version!r:.40}, this foregather reads "
            f"versions {', '.join(map(str, VERSIONS))}; convert the data again with this version"
        )
    checksum = text.get("checksum")
    if not isinstance(checksum, dict) or checksum.get("algorithm") != "xxh64":
        raise _fail("does not name xxh64 as its checksum algorithm")
    chunk = _count(checksum, "chunk_bytes")
    if not 4096 <= chunk <= 1 << 30:
        raise _fail(f"has chunk_bytes = {chunk}, expected 4 KiB to 1 GiB")
    arrays = text.get("arrays")
    if not isinstance(arrays, dict):
        raise _fail("has no table of arrays")
    entries = {name: _entry(name, entry, chunk, version) for name, entry in arrays.items()}
    nodes, edges = _count(text, "num_nodes"), _count(text, "num_edges")
    try:
        digest = meta_digest(text)
    except (ValueError, RecursionError) as error:
        raise _fail("is nested too deeply") from error
    if text.get("digest") != digest:
        raise _fail("does not match its own digest, so it was changed or corrupted")
    found = {name: (entry.nbytes, entry.checksums) for name, entry in entries.items()}
    tables = read_checks(folder, found) if with_tables else None
    return Meta(version, nodes, edges, chunk, entries, text, tables)


def _entry(name: str, entry: Any, chunk: int, version: int) -> ArrayEntry:
    if NAMES[version].fullmatch(name) is None:
        raise _fail(f"names an array {name!r:.40}, which is not a valid name")
    if not isinstance(entry, dict):
        raise _fail(f"has no entry for array {name}")
    # Each name has one fixed path, so nothing outside the folder can be referred to.
    if entry.get("file") != f"{name}.npy":
        raise _fail(f"puts array {name} in file {entry.get('file')!r:.80}, expected {name}.npy")
    dtype, shape, checksums = entry.get("dtype"), entry.get("shape"), entry.get("checksums")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise _fail(f"gives array {name} the dtype {dtype!r:.40}, which is not a number type")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= MOST_DIMENSIONS[version]
        or not all(type(n) is int and 0 <= n < _MOST_COUNT for n in shape)
    ):
        counts = "one or two counts" if MOST_DIMENSIONS[version] == 2 else "a few counts"
        raise _fail(f"gives array {name} the shape {shape!r:.40}, expected {counts}")
    if not isinstance(checksums, list) or not all(
        isinstance(item, str) and _CHECKSUM.fullmatch(item) for item in checksums
    ):
        raise _fail(f"has malformed checksums for array {name}")
    found = ArrayEntry(
        name, f"{name}.npy", np.dtype(dtype).newbyteorder("<"), tuple(shape), tuple(checksums)
    )
    expected = -(-found.nbytes // chunk)
    if len(checksums) != expected:
        raise _fail(f"has {len(checksums)} checksums for array {name}, expected {expected}")
    return found
