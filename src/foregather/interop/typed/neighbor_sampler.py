"""neighbor_sampler: a drop-in replacement for PyG's NeighborSampler, for PyG's own NodeLoader."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.sampler import NumNeighbors
from torch_geometric.sampler.base import SubgraphType

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import PLAIN_RELATION, EdgeType
from foregather.graph.hetero.time_order import turned
from foregather.interop.sampler import EpochSampler, permutations
from foregather.interop.seat import kind_of
from foregather.interop.topology import drawable
from foregather.interop.typed.asked import sample_typed
from foregather.interop.typed.source import source_of
from foregather.interop.typed.topology import least_fanouts
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor

__all__ = ["NeighborSampler"]


class NeighborSampler(EpochSampler):
    """`torch_geometric.sampler.NeighborSampler` with another engine: change only the import.

    It takes a Data, a HeteroData or a pair of stores, converts the topology once, and gives PyG's
    `NodeLoader` its samples, also in worker processes. A sample is a pure function of (seed, epoch,
    seeds of the batch), a disjoint tree of (seed, epoch, `input_id`); `set_epoch` gives new ones.
    `NeighborLoader` is faster: it knows which batch is next.

    Args:
        data: what to sample.
        num_neighbors: fan-outs: a list, a dict by edge type, or a NumNeighbors.
        subgraph_type: "directional", "bidirectional" or "induced".
        replace: sample neighbours with replacement.
        disjoint: a tree for each seed; always so with times.
        temporal_strategy: "uniform" or "last".
        time_attr: the attribute that holds times, of nodes or of edges.
        weight_attr: the edge attribute to draw neighbours by.
        is_sorted: not needed.
        share_memory: not needed: workers are forked with the topology, or read it.
        directed: PyG's old name: False means subgraph_type="induced".
        sample_direction: "backward" follows edges from their sources to their targets.
        seed: the random seed; None takes torch's initial seed.
        threads: threads per batch, 0 for all.

    Raises:
        InputError: an argument does not fit the data, or is not supported.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: Any = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: Any = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: str = "forward",
        *,
        seed: int | None = None,
        threads: int = 1,
    ) -> None:
        if sample_direction not in ("forward", "backward"):
            raise InputError(
                f"sample_direction is {sample_direction!r:.40}, expected 'forward' or 'backward'"
            )
        self.sample_direction, self.threads = sample_direction, threads
        if self._is_backward and time_attr is not None:
            raise InputError(
                "time_attr does not work with sample_direction='backward', in PyG neither; leave "
                "one of them out"
            )
        kind: Any = kind_of(subgraph_type, directed)
        whole = num_neighbors if weight_attr and not replace else None
        source = source_of(data, time_attr, weight_attr, None if self._is_backward else whole)
        self.is_hetero = not source.plain
        self.graph = source.graph
        if self._is_backward:
            self.graph = _turned(source.graph, None if whole is None else self._fanouts(whole))
        self._given = num_neighbors
        self.subgraph_type = SubgraphType(kind)
        # the edges that are added to a Data keep the ids of those they come from
        self._back = source.plain and kind == "bidirectional"
        self.seed = torch.initial_seed() % (1 << 64) if seed is None else seed
        self.sampler = HeteroNeighbor(
            self._fanouts(num_neighbors),
            replace=bool(replace),
            disjoint=bool(disjoint),
            temporal_strategy=getattr(temporal_strategy, "value", temporal_strategy),
            time=source.level,
            subgraph_type="directional" if self._back else kind,
            weights=None if weight_attr is None else True,
        )
        self._permutation = self._positions()

    @property
    def _is_backward(self) -> bool:
        return self.sample_direction == "backward"

    def _fanouts(self, given: Any) -> Fanouts:
        made = Fanouts.make(given)
        if not self._is_backward:
            return made
        return Fanouts(tuple(sorted((_back(name), own) for name, own in made.named)), made.default)

    @property
    def num_neighbors(self) -> Any:
        """The fan-outs, as PyG's NumNeighbors."""
        given = self._given
        return given if isinstance(given, NumNeighbors) else NumNeighbors(given)

    @property
    def is_temporal(self) -> bool:
        """Whether times limit what a tree reaches."""
        return self.sampler.time is not None

    @property
    def disjoint(self) -> bool:
        """Whether every seed has a tree of its own."""
        return self.sampler.disjoint

    @property
    def edge_permutation(self) -> Any:
        """From the positions of edges in samples to those in the data; by edge type for types."""
        return self._permutation

    def _positions(self) -> Any:
        found = permutations(self.graph, self.sampler.time)
        if not self.is_hetero:
            return found[PLAIN_RELATION]
        return {_back(name): own for name, own in found.items()} if self._is_backward else found

    def sample_from_nodes(self, inputs: Any, **_: Any) -> Any:
        """Samples a batch of seeds.

        Raises:
            InputError: seeds that are not nodes, or times that do not fit.
        """
        keys = (self.seed, self.epoch)
        out = sample_typed(self.sampler, self.graph, inputs, keys, self.threads, self._back)
        if not self._is_backward:
            return out
        if not self.is_hetero:
            out.row, out.col = out.col, out.row
            return out
        out.row, out.col = _renamed(out.col), _renamed(out.row)
        out.edge = None if out.edge is None else _renamed(out.edge)
        if out.num_sampled_edges is not None:
            out.num_sampled_edges = _renamed(out.num_sampled_edges)
        return out


def _back(name: EdgeType) -> EdgeType:
    return name[2], name[1], name[0]


def _renamed(values: Mapping[EdgeType, Any]) -> dict[EdgeType, Any]:
    return {_back(name): own for name, own in values.items()}


def _turned(graph: HeteroGraph, whole: Fanouts | None) -> HeteroGraph:
    """The graph with every edge the other way.

    Args:
        graph: the graph.
        whole: fan-outs of draws by weight: rows that they take whole may have only zeros.
    """
    edges = {}
    least = least_fanouts(whole, [_back(name) for name in graph.edge_types])
    for name in graph.edge_types:
        made = turned(graph.relation(name), graph.nodes[name[0]].num_nodes)
        if made.weights is not None and least[_back(name)]:
            target = np.repeat(np.arange(made.num_targets), np.diff(made.indptr))
            pairs = np.stack([made.indices.astype(np.int64), target])
            weights = drawable(made.weights, pairs, least[_back(name)])
            made = replace(made, weights=np.asarray(weights, np.float32))
        edges[_back(name)] = made
    return HeteroGraph(graph.nodes, edges)
