"""folder: saves a typed graph as a folder of format version 2, and opens one.

Opening trusts meta.json only where the files agree with it: header, dtype, shape and size of every
array. The same graph always gives the same bytes: no times of day, no paths.
"""

import os
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.files import absolute
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.on_disk.parse import TypeEntry, parse_typed
from foregather.graph.hetero.on_disk.stored import (
    describe_types,
    edge_folder,
    node_folder,
)
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.hetero.value import AnyHetero, HeteroValue
from foregather.graph.links.links import Links
from foregather.graph.links.stored import open_links
from foregather.graph.on_disk.folder import array_entry, map_listed
from foregather.graph.on_disk.meta import Meta
from foregather.graph.on_disk.writer import (
    CHUNK,
    FORMAT,
    LINKED,
    TYPED,
    FolderWriter,
    meta_digest,
)

__all__ = ["compute_digest", "open_typed", "save_typed", "version_of", "write_typed"]

Array = npt.NDArray[Any]
_SPARE = 256  # descriptors that are left for everything else


def open_typed(path: Path, meta: Meta, make: Callable[..., AnyHetero]) -> AnyHetero:
    """Opens a folder of version 2, whose meta.json was read; arrays are memory-mapped.

    Raises:
        FormatError: the folder is not what meta.json says.
        StorageError: a file cannot be opened.
    """
    path = absolute(path)  # files are opened by this path later, after a possible os.chdir
    typed = parse_typed(meta)
    _allow_files(len(meta.arrays))
    arrays = {name: map_listed(path, meta, name) for name in meta.arrays}
    try:
        nodes = {}
        for number, entry in enumerate(typed.nodes):
            with about(f"node type {entry.name!r}"):
                nodes[entry.name] = _table(entry, _inside(arrays, node_folder(number)))
        edges = {}
        for number, one in enumerate(typed.edges):
            found = _inside(arrays, edge_folder(number))
            with about(f"relation {show_edge_type(one.name)}"):
                edges[one.name] = Relation(**found, order=one.order, time_level=one.level)
                if (source := nodes.get(one.name[0])) is not None:
                    edges[one.name].made_for(source.num_nodes)  # checked when they are walked
                if edges[one.name].num_edges != one.num_edges:
                    raise InputError(f"there are {edges[one.name].num_edges} edges")
        links: dict[EdgeType, dict[str, Links]] = {}
        for said, listed in zip(typed.links, open_links(typed.links, arrays), strict=True):
            assert said.relation is not None  # parse_typed has looked it up
            links.setdefault(said.relation, {})[said.name] = listed
        made = make(
            nodes, edges, meta=meta.text, path=path, checked=meta.tables is not None, links=links
        )
    except InputError as error:
        raise FormatError(f"the arrays of {path.name} do not fit together: {error}") from error
    made._opened.append(str(meta.text["digest"]))
    return made


def _inside(arrays: Mapping[str, Array], folder: str) -> dict[str, Array]:
    start = f"{folder}/"
    return {name[len(start) :]: one for name, one in arrays.items() if name.startswith(start)}


def _table(entry: TypeEntry, found: dict[str, Array]) -> NodeTable:
    scales = {
        name: found[f"features_{n}_scale"]
        for n, name in enumerate(entry.features)
        if f"features_{n}_scale" in found
    }
    ids: Any = found.get("ids")
    if "ids_bytes" in found:
        ids = TextIds(found["ids_bytes"], found["ids_offsets"])
    return NodeTable(
        entry.num_nodes,
        {name: found[f"features_{n}"] for n, name in enumerate(entry.features)},
        found.get("labels"),
        found.get("time"),
        {name: found[f"split_{n}"] for n, name in enumerate(entry.splits)},
        ids,
        scales,
    )


def _allow_files(count: int) -> None:
    """Lets the process have a descriptor for each array, where its hard limit allows it.

    Knowledge graphs have hundreds of relations, and the usual soft limit is 1024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(os.listdir("/proc/self/fd")) + count + _SPARE
    if soft != resource.RLIM_INFINITY and wanted > soft:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # then the first file that is too many is an error
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# ---- writing -----------------------------------------------------------------------------------


def version_of(graph: HeteroValue) -> int:
    """The format version of a typed graph's folder."""
    return TYPED + LINKED if graph.links else TYPED


def save_typed(graph: HeteroValue, dst: str | os.PathLike[str], overwrite: bool) -> Path:
    """Writes a folder of version 2; see `HeteroGraph.save`."""
    with FolderWriter(dst, overwrite, version_of(graph)) as writer:
        return write_typed(writer, graph)


def write_typed(writer: FolderWriter, graph: HeteroValue) -> Path:
    """Fills and finishes a folder of version 2."""
    for name, values in graph.stored_arrays().items():
        writer.put(name, values)
    facts = {**graph.facts, **describe_types(graph.nodes, graph.edges, graph.links)}
    return writer.finish(graph.num_nodes, graph.num_edges, **facts)


def compute_digest(graph: HeteroValue) -> str:
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
            **graph.facts,
            **describe_types(graph.nodes, graph.edges, graph.links),
        }
    )
