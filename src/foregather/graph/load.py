"""load: reads the arrays of an opened graph into memory, for computation.

Each array is read once per Graph, by calls that can report errors, and shared by all its users; it
is freed when the last of them is gone. Arrays already in memory are used as they are.
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
WALKED = "walked"  # the graph that samplers walk; None: this graph itself
_FIELDS: dict[Part, tuple[str, ...]] = {
    "topology": ("indptr", "indices", "edge_weight"),
    "indptr": ("indptr",),
    "features": ("features",),
    "edge_features": ("edge_features",),
    "labels": ("labels",),
}


def load(graph: AnyGraph, parts: Iterable[Part] = ALL) -> AnyGraph:
    """Returns the same graph with these parts in memory; itself if they already are.

    Raises:
        StorageError: a file cannot be read, or was truncated.
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
    """Like `load`, but returns the graph unchanged if it does not fit in memory."""
    parts = tuple(parts)
    return load(graph, parts) if fits(graph, parts) else graph


def as_mapped(graph: AnyGraph) -> AnyGraph:
    """Returns the same graph whose samplers walk the topology in place, even if it is mapped."""
    if load_bytes(graph, ["topology"]) == 0:
        return graph
    made = _twin(graph, {})
    made._loaded[WALKED] = None
    return made


def load_bytes(graph: GraphValue, parts: Iterable[Part] = ALL) -> int:
    """Bytes of these parts that are not in memory yet."""
    total = 0
    for value in dict(_fields(graph, parts)).values():
        whole = (value.data, value.scale, value.places) if isinstance(value, Features) else ()
        arrays = whole or (value,)
        total += sum(a.nbytes for a in arrays if a is not None and is_mapped(a))
    return total


def fits(graph: GraphValue, parts: Iterable[Part] = ALL) -> bool:
    """Whether these parts fit into the machine's free memory per rank."""
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
    rest = (value.scale, value.places)
    return Features(hold(value.data), *(None if one is None else hold(one) for one in rest))


def _twin(graph: AnyGraph, changes: dict[str, Any]) -> AnyGraph:
    """Returns the same graph with other arrays of equal contents."""
    made = replace(graph, **changes)
    for name in ("path", "checked", "_digest", "_token"):
        object.__setattr__(made, name, getattr(graph, name))
    return made
