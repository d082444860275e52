"""folder: saves a Graph to a folder and opens it.

Opening trusts meta.json only where the files agree with it: header, dtype, shape and size of
every array. The same graph always gives the same bytes: no times, no paths.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.files import absolute, is_there
from foregather.graph.features import Features
from foregather.graph.graph_value import AnyGraph, GraphValue
from foregather.graph.integrity.checked_reads import CheckedReads
from foregather.graph.links.links import Links
from foregather.graph.links.stored import describe_links, open_links, parse_links
from foregather.graph.mapped import fetch, owner_of
from foregather.graph.on_disk.meta import RESERVED, Meta, read_meta
from foregather.graph.on_disk.npy import file_bytes, map_array
from foregather.graph.on_disk.writer import (
    CHUNK,
    FORMAT,
    LINKED,
    ORDERED,
    VERSION,
    FolderWriter,
    meta_digest,
)

__all__ = [
    "array_entry",
    "compute_digest",
    "facts_of",
    "link_facts",
    "map_listed",
    "open_graph",
    "save_graph",
    "version_of",
]

Array = npt.NDArray[Any]


def map_listed(folder: Path, meta: Meta, name: str) -> Array:
    """Maps an array that meta.json lists; reads of it are checked where there are block checksums.

    Raises:
        FormatError: the file is missing, or not what meta.json says.
        StorageError: it cannot be opened.
    """
    entry = meta.arrays[name]
    path = folder / entry.file
    if not is_there(path):
        raise FormatError(
            f"{entry.file} is missing, though meta.json lists it; the folder is incomplete"
        )
    values = map_array(path, entry.file, folder)
    if values.dtype != entry.dtype or values.shape != entry.shape:
        raise FormatError(
            f"{entry.file} holds {values.dtype} of shape {list(values.shape)}, but meta.json says "
            f"{entry.dtype} of shape {list(entry.shape)}; the folder is damaged"
        )
    if not values.flags.c_contiguous:
        raise FormatError(f"{entry.file} is in Fortran order, expected C order")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise StorageError(f"cannot open {entry.file}: {error.strerror}") from error
    if size != file_bytes(entry.nbytes):
        raise FormatError(
            f"{entry.file} has {size} bytes, expected {file_bytes(entry.nbytes)}; "
            "it is truncated, has more than it should, or is not padded"
        )
    owner = owner_of(values)
    if owner is not None and meta.tables is not None:
        owner.read_part = CheckedReads(owner, folder, meta, name)
    return values


def _features(arrays: dict[str, Array], name: str, places: Array | None = None) -> Features | None:
    data, scale = arrays.pop(name, None), arrays.pop(f"{name}_scale", None)
    if data is not None:
        return Features(data, scale, places)
    if scale is not None:
        raise InputError(f"{name}_scale is there, but {name} is not")
    return None


def open_graph(path: Path, make: Callable[..., AnyGraph]) -> AnyGraph:
    """Opens a folder and passes the fields of the graph to `make`; see `Graph.open`."""
    path = absolute(path)  # files are opened by this path later, after a possible os.chdir
    meta = read_meta(path)
    if meta.typed:
        raise FormatError(
            f"{path.name} holds a graph with node types and relations, expected a plain one; open "
            "it with HeteroGraph.open"
        )
    for name in ("indptr", "indices"):
        if name not in meta.arrays:
            raise FormatError(f"meta.json lists no array {name}; this is not a whole graph")
    arrays = {name: map_listed(path, meta, name) for name in meta.arrays}
    splits = {
        name.removeprefix("splits/"): arrays.pop(name)
        for name in sorted(arrays)
        if name.startswith("splits/")
    }
    try:
        links = _open_links(meta, arrays)
        made = make(
            num_nodes=meta.num_nodes,
            num_edges=meta.num_edges,
            indptr=arrays.pop("indptr"),
            indices=arrays.pop("indices"),
            features=_features(arrays, "features", _places(meta, arrays)),
            edge_weight=arrays.pop("edge_weight", None),
            edge_features=_features(arrays, "edge_features"),
            labels=arrays.pop("labels", None),
            splits=splits,
            extra=arrays,
            meta=meta.text,
            path=path,
            checked=meta.tables is not None,
            links=links,
        )
        made._token.opened = True
        return made
    except InputError as error:
        raise FormatError(f"the arrays of {path.name} do not fit together: {error}") from error


def _places(meta: Meta, arrays: dict[str, Array]) -> Array | None:
    """Takes the places of ordered feature rows out of the arrays."""
    if not meta.ordered:
        return None
    if "places" not in arrays or "features" not in arrays:
        raise InputError("its feature rows are in an order, but features or places are not there")
    places, rows = arrays.pop("places"), len(arrays["features"])
    if len(places) != rows:
        raise InputError(f"there are {len(places)} places for {rows} feature rows")
    return places


def _open_links(meta: Meta, arrays: dict[str, Array]) -> dict[str, Links]:
    """Takes the links of a plain graph out of its arrays."""
    if not meta.linked:
        return {}
    entries = parse_links(meta.text, meta.arrays)
    found = {name: arrays.pop(name) for name in list(arrays) if name.startswith("links/")}
    if any(entry.relation is not None for entry in entries):
        raise InputError("its links are of relations, which a plain graph does not have")
    opened = open_links(entries, found)
    return {entry.name: one for entry, one in zip(entries, opened, strict=True)}


def facts_of(graph: GraphValue) -> dict[str, Any]:
    """The facts that meta.json holds in addition to the table of arrays."""
    return {key: value for key, value in graph.meta.items() if key not in RESERVED}


def link_facts(graph: GraphValue) -> dict[str, Any]:
    """The field of meta.json that names the links; nothing where there are none."""
    return describe_links((name, None, one.num_links) for name, one in graph.links.items())


def version_of(graph: GraphValue) -> int:
    """The format version of a plain graph's folder."""
    ordered = graph.features is not None and graph.features.places is not None
    return VERSION + (LINKED if graph.links else 0) + (ORDERED if ordered else 0)


def save_graph(graph: GraphValue, dst: str | os.PathLike[str], overwrite: bool) -> Path:
    """Writes a folder; see `Graph.save`."""
    with FolderWriter(dst, overwrite, version_of(graph)) as writer:
        for name, values in graph.stored_arrays().items():
            writer.put(name, values)
        facts = {**facts_of(graph), **link_facts(graph)}
        return writer.finish(graph.num_nodes, graph.num_edges, **facts)


def array_entry(name: str, values: Array) -> Mapping[str, Any]:
    """The entry that FolderWriter would make, without writing."""
    dtype = values.dtype.newbyteorder("<")
    flat = np.ascontiguousarray(values, dtype=dtype).reshape(-1).view(np.uint8)
    checksums = [
        f"{_core.xxh64(fetch(flat[start : start + CHUNK])):016x}"
        for start in range(0, flat.size, CHUNK)
    ]
    shape = list(values.shape)
    return {"file": f"{name}.npy", "dtype": dtype.name, "shape": shape, "checksums": checksums}


def compute_digest(graph: GraphValue) -> str:
    """The digest that the folder of this graph has or would have."""
    arrays = graph.stored_arrays()
    return meta_digest(
        {
            "format": FORMAT,
            "version": version_of(graph),
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "checksum": {"algorithm": "xxh64", "chunk_bytes": CHUNK},
            "arrays": {name: array_entry(name, arrays[name]) for name in sorted(arrays)},
            **facts_of(graph),
            **link_facts(graph),
        }
    )
