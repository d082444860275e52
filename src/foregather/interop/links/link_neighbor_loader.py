"""link_neighbor_loader: a drop-in replacement for PyG's LinkNeighborLoader.

It is backed by a `HeteroLinkLoader`, for every kind of data: a Data is a graph of one type and one
relation. Batches hold what PyG's hold, under PyG's names.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import PLAIN_RELATION
from foregather.interop.links.link_seat import LinkSeat
from foregather.interop.seat import kind_of
from foregather.sampling.links.negatives import Negatives

__all__ = ["LinkNeighborLoader"]


class LinkNeighborLoader(LinkSeat, pyg_loader.LinkNeighborLoader):  # type: ignore[misc]
    """`torch_geometric.loader.LinkNeighborLoader` with another engine: change only the import.

    Negatives and samples are pure functions of (seed, epoch, link), so they do not depend on
    workers, and can be had again; the distribution is PyG's. Negatives with times are drawn exactly
    among the nodes of no later time. `seed` defaults to torch's (`torch.manual_seed` before the
    loader is created).

    Args:
        data: a PyG Data, HeteroData or (FeatureStore, GraphStore), whose topology is converted
            once; or a HeteroGraph.
        num_neighbors: fan-outs, one per layer, -1 for all; [] samples no neighbours; for several
            types also a dict from edge types to lists, or PyG's NumNeighbors.
        edge_label_index: the links [2, links], or None for all edges; for several types an edge
            type, or (edge type, links).
        edge_label: one row per link. With binary negatives 0 is theirs, so labels whose smallest is
            0 are raised by 1.
        edge_label_time: with time_attr, and only then: one time per link, whose trees and negatives
            see nothing later.
        replace: sample neighbours with replacement.
        subgraph_type: "directional", "bidirectional" or "induced"; see `NeighborLoader`.
        disjoint: every end of every link and negative has its own tree; `batch.batch` numbers the
            links.
        temporal_strategy: with time_attr: "uniform", or the "last" that a tree may see.
        neg_sampling: PyG's NegativeSampling, its arguments as a dict, "binary" or "triplet"; or a
            `Negatives`, whose exclude="positives" draws no link that exists.
        neg_sampling_ratio: PyG's old name: the amount of binary negatives.
        time_attr: the attribute that holds times, of nodes or of edges.
        weight_attr: the edge attribute to draw neighbours by.
        transform: called with each finished batch.
        transform_sampler_output: called with PyG's SamplerOutput of each batch, before attributes
            are looked up.
        is_sorted: not needed.
        filter_per_worker: not needed.
        neighbor_sampler: PyG's argument; refused, pass `sampler`.
        directed: PyG's old name: False means subgraph_type="induced".
        seed: the random seed for order, negatives and samples; None takes torch's initial seed.
        sampler: a typed sampler of ours, instead of num_neighbors; or one of torch's, which yields
            positions of links.
        batch_sampler: a torch sampler that yields whole batches.
        exclude_seed_edges: see `HeteroLinkLoader`; False, as in PyG, whose batches hold the links
            that are asked about as edges, if the data has them.
        options: other arguments of torch's DataLoader and of `HeteroLinkLoader`; those of workers
            are accepted but not needed.

    Raises:
        InputError: an attribute that cannot be sliced, or an argument that does not fit.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any = None,
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: Any = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        seed: int | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        exclude_seed_edges: Any = False,
        **options: Any,
    ) -> None:
        if isinstance(data, Graph):
            raise InputError(
                "data is a Graph, whose links foregather.LinkLoader loads, also from disk and over "
                "ranks; use it, or HeteroGraph.from_graph(data)"
            )
        self._begin(data, filter_per_worker, options)
        self._index, self.neg_sampling = edge_label_index, neg_sampling
        kind: Any = kind_of(subgraph_type, directed)
        rule = self._take_sampler(sampler, batch_sampler, options)
        self._rule = _negatives(neg_sampling, neg_sampling_ratio)
        if not isinstance(data, HeteroGraph):
            _check_times(edge_label_time, time_attr)
        given = _with_edges(data)
        chosen = self._convert(given, rule, kind, num_neighbors, replace, time_attr, weight_attr)
        if self._from is not None and self._from.plain:
            edge_label_index = (PLAIN_RELATION, edge_label_index)
        self._seeds_only = isinstance(num_neighbors, list | tuple) and len(num_neighbors) == 0
        super().__init__(
            data if self._from is None else self._from.graph,
            [0] if self._seeds_only else num_neighbors,
            edge_label_index,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            negatives=self._rule,
            exclude_seed_edges=exclude_seed_edges,
            sampler=rule,
            replace=replace,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            subgraph_type="directional" if self._back else kind,
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            is_sorted=is_sorted,
            neighbor_sampler=neighbor_sampler,
            **chosen,
            **options,
        )
        self._seated(transform, transform_sampler_output)


def _with_edges(data: Any) -> Any:
    """The data; a Data without any edges has none of them, which links do not need."""
    if not isinstance(data, Data) or any(name in data for name in ("edge_index", "adj_t", "adj")):
        return data
    made = copy.copy(data)
    made.edge_index = torch.empty((2, 0), dtype=torch.int64)
    return made


def _negatives(given: Any, ratio: Any) -> Negatives | None:
    """PyG's two ways to ask for negatives; sources have no weight in triplets, which keep them."""
    if ratio is not None and ratio != 0:
        return Negatives(amount=ratio)
    mode = given.get("mode") if isinstance(given, Mapping) else getattr(given, "mode", None)
    if not isinstance(given, Negatives) and getattr(mode, "value", mode) == "triplet":
        names = ("mode", "amount", "dst_weight", "exclude")
        held = given if isinstance(given, Mapping) else vars(given)
        unknown = set(held) - {*names, "src_weight"}
        given = {name: value for name, value in held.items() if name in names or name in unknown}
    return Negatives.make(given)


def _check_times(edge_label_time: Any, time_attr: Any) -> None:
    """Checks that times of links and of what they see are given together."""
    if (edge_label_time is None) != (time_attr is None):
        said = {True: "not set", False: "set"}
        raise InputError(
            f"'edge_label_time' is {said[edge_label_time is None]} while 'time_attr' is "
            f"{said[time_attr is None]}; links with times need both, others neither"
        )
