"""load: the arrays of an opened graph read into memory, where a run computes on them.

Each array is read once for a Graph, by calls that return errors, and shared by all who loaded it;
it is given back when the last of them is gone. What is in memory already stays as it is.
"""

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy.typing as npt

from foregather.graph.features import Features
from foregather.graph.graph_value import AnyGraph, GraphValue
from foregather.graph.mapped import hold, is_mapped
from foregather.observe.usable_memory import usable_memory

__all__ = ["ALL", "WALKED", "Part", "as_mapped", "fits", "load", "load_bytes", "load_if_fits"]

Array = npt.NDArray[Any]

#: "topology" is indptr, indices and edge weights; "indptr" is that alone.
Part = Literal["topology", "indptr", "features", "edge_features", "labels"]
ALL: tuple[Part, ...] = ("topology", "features", "edge_features", "labels")
WALKED = "walked"  # what samplers walk; None: the graph as it is
_FIELDS: dict[Part, tuple[str, ...]] = {
    "topology": ("indptr", "indices", "edge_weight"),
    "indptr": ("indptr",),
    "features": ("features",),
    "edge_features": ("edge_features",),
    "labels": ("labels",),
}


def load(graph: AnyGraph, parts: Iterable[Part] = ALL) -> AnyGraph:
    """The same graph with these parts in memory; itself where they are.

    Raises:
        StorageError: a file cannot be read, or was cut.
        FormatError: a block does not match its checksum.
    """
    wanted = frozenset(part for part in parts if load_bytes(graph, [part]))
    if not wanted:
        return graph
    kept = graph._loaded.get(wanted)
    made = None if kept is None else kept()
    if made is None:
        made = _twin(graph, {name: _held(value) for name, value in _fields(graph, wanted)})
        graph._loaded[wanted] = weakref.ref(made)
    return made


def load_if_fits(graph: AnyGraph, parts: Iterable[Part] = ALL) -> AnyGraph:
    """The same, of a graph that may be larger than memory: it is then left as it is."""
    parts = tuple(parts)
    return load(graph, parts) if fits(graph, parts) else graph


def as_mapped(graph: AnyGraph) -> AnyGraph:
    """The same graph; samplers walk its topology where it is, also where that is mapped."""
    if load_bytes(graph, ["topology"]) == 0:
        return graph
    made = _twin(graph, {})
    made._loaded[WALKED] = None
    return made


def load_bytes(graph: GraphValue, parts: Iterable[Part] = ALL) -> int:
    """Bytes of these parts that are not in memory yet."""
    total = 0
    for value in dict(_fields(graph, parts)).values():
        arrays = (value.data, value.scale) if isinstance(value, Features) else (value,)
        total += sum(a.nbytes for a in arrays if a is not None and is_mapped(a))
    return total


def fits(graph: GraphValue, parts: Iterable[Part] = ALL) -> bool:
    """Whether these parts go into what the machine has free for each of its ranks."""
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    need = load_bytes(graph, parts)
    return need == 0 or need <= usable_memory() // ranks


def _fields(graph: GraphValue, parts: Iterable[Part]) -> Iterator[tuple[str, Any]]:
    for part in parts:
        for name in _FIELDS[part]:
            value = getattr(graph, name)
            if value is not None:
                yield name, value


def _held(value: Any) -> Any:
    if not isinstance(value, Features):
        return hold(value)
    return Features(hold(value.data), None if value.scale is None else hold(value.scale))


def _twin(graph: AnyGraph, changes: dict[str, Any]) -> AnyGraph:
    """The same graph with other arrays of the same numbers."""
    made = replace(graph, **changes)
    for name in ("path", "checked", "_digest", "_token"):
        object.__setattr__(made, name, getattr(graph, name))
    return made
