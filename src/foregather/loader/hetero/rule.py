"""rule: the sampler of a HeteroLoader, given or made from PyG's arguments."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.relation import Level
from foregather.sampling.hetero.hetero_bulk import HeteroBulk
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor

__all__ = ["HeteroSampler", "check_rule", "make_rule"]

Array = npt.NDArray[Any]
_USUAL: dict[str, Any] = {
    "replace": False,
    "disjoint": False,
    "temporal_strategy": "uniform",
    "time": None,
    "time_attr": None,
    "subgraph_type": "directional",
    "weight_attr": None,
}


@runtime_checkable
class HeteroSampler(Protocol):
    """Samples typed graphs; `HeteroNeighbor` says what the parts mean."""

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a tree of its own."""

    @property
    def time(self) -> Level | None:
        """Whose times limit trees; positions of edges are those of `graph.relation(name, time)`."""

    def sample_bulk(
        self,
        graph: HeteroGraph,
        seeds: Mapping[str, Sequence[Array]],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        rows: Mapping[str, Sequence[Array]] | None = None,
        times: Mapping[str, Sequence[Array]] | None = None,
    ) -> HeteroBulk:
        """Samples k minibatches at once."""


def make_rule(
    graph: HeteroGraph, num_neighbors: Any, sampler: Any, options: Mapping[str, Any]
) -> HeteroSampler:
    """Returns the given sampler, or a `HeteroNeighbor` with these fan-outs and options.

    Args:
        graph: the graph, whose times `time_attr` is looked up in.
        num_neighbors: fan-outs, or None.
        sampler: the sampler, or None.
        options: replace, disjoint, temporal_strategy, time, time_attr, subgraph_type, weight_attr.

    Raises:
        InputError: both or neither are given, or options that belong to the other.
    """
    plain = {
        name: value.value if isinstance(value, Enum) else value for name, value in options.items()
    }
    if sampler is not None:
        if num_neighbors is not None:
            raise InputError("num_neighbors and sampler are both given; pass one of them")
        if not isinstance(sampler, HeteroSampler):
            raise InputError(
                f"sampler is a {type(sampler).__name__}, which does not sample typed graphs; use "
                "HeteroNeighbor, HeteroLabor, HeteroLadies, HeteroFastGCN or Hgt"
            )
        for name, value in plain.items():
            if value is not _USUAL[name] and value != _USUAL[name]:
                raise InputError(f"{name} is an option of the sampler; set it there")
        return sampler
    if num_neighbors is None:
        raise InputError("neither num_neighbors nor sampler is given; try num_neighbors=[10, 5]")
    return HeteroNeighbor(
        num_neighbors,
        replace=_flag("replace", plain["replace"]),
        subgraph_type=plain["subgraph_type"],
        disjoint=_flag("disjoint", plain["disjoint"]),
        temporal_strategy=plain["temporal_strategy"],
        time=_level(graph, plain["time"], plain["time_attr"]),
        weights=_weights(plain["weight_attr"]),
    )


def check_rule(rule: HeteroSampler, graph: HeteroGraph, node_type: str, threads: int) -> None:
    """Samples nothing, so that what does not fit the graph is said before the first loop.

    Raises:
        InputError: a relation, a time or a weight that the graph does not have.
        FormatError: the graph is damaged.
    """
    nothing = {node_type: [np.empty(0, np.int64)]}
    rule.sample_bulk(
        graph,
        nothing,
        seed=0,
        threads=threads,
        rows=nothing if rule.disjoint else None,
        times=nothing if rule.time is not None else None,
    )


def _flag(name: str, value: Any) -> bool:
    if not any(value is one or value == one for one in (False, True)):
        raise InputError(f"{name} is {value!r:.40}, expected True or False")
    return bool(value)


def _level(graph: HeteroGraph, time: Any, time_attr: Any) -> Any:
    """The level of times: as given, or for time_attr that of the times there are."""
    if time is not None or time_attr is None:
        return time
    if time_attr != "time":
        raise InputError(
            f"time_attr is {time_attr!r:.40}, but the times of a HeteroGraph are called 'time'; "
            "make the graph with them, then pass time='node' or 'edge'"
        )
    of_nodes = any(table.time is not None for table in graph.nodes.values())
    of_edges = any(
        one.time is not None and one.time_level == "edge" for one in graph.edges.values()
    )
    if of_nodes == of_edges:
        found = "nodes and edges have times" if of_nodes else "neither nodes nor edges have times"
        raise InputError(
            f"time_attr is 'time', but {found}; say with time='node' or 'edge' whose times count"
        )
    return "node" if of_nodes else "edge"


def _weights(weight_attr: Any) -> bool:
    if weight_attr not in (None, "edge_weight"):
        raise InputError(
            f"weight_attr is {weight_attr!r:.40}; use 'edge_weight', the weights of the graph's "
            "relations, or sampler=HeteroNeighbor(..., weights={relation: one number per edge})"
        )
    return weight_attr is not None
