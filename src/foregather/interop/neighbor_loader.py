"""neighbor_loader: a drop-in replacement for PyG's NeighborLoader, backed by a foregather Loader.

Batches hold what PyG's hold: every node attribute of the data by `n_id`, every edge attribute by
`e_id`, the rest unchanged; `data.edge_index[:, e_id] == n_id[edge_index]`. Arguments that would
silently change results are refused; those that only say how batches are made (workers) are accepted
but not needed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data, HeteroData

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.interop.drawn import Drawn
from foregather.interop.finish import Finish
from foregather.interop.seat import NOT_NEEDED, Ids, Seat, is_torch, kind_of
from foregather.interop.stores.pair import is_pair
from foregather.interop.topology import topology_of
from foregather.interop.typed.typed_loader import TypedNeighborLoader
from foregather.loader.loader import Loader
from foregather.loader.options import contents_from
from foregather.sampling.sampler import Sampler

__all__ = ["NeighborLoader"]

#: PyG's first arguments, in their order.
_FIRST = (
    *("num_neighbors", "input_nodes", "input_time", "replace", "subgraph_type", "disjoint"),
    *("temporal_strategy", "time_attr"),
)


class _Kind(type):
    """Lets loaders of typed and timed data count as NeighborLoaders, which they are to the user."""

    def __instancecheck__(cls, instance: object) -> bool:
        typed = cls is NeighborLoader and isinstance(instance, TypedNeighborLoader)
        return typed or super().__instancecheck__(instance)


_Pyg: Any = pyg_loader.NeighborLoader


class NeighborLoader(Seat, Loader, _Pyg, metaclass=_Kind):  # type: ignore[misc]
    """`torch_geometric.loader.NeighborLoader` with another engine: change only the import.

    The random numbers differ from PyG's; the distribution of samples is the same. Batches depend
    only on `seed`, which defaults to torch's (`torch.manual_seed` before the loader is created). A
    seed given twice has two rows in its batch, with the same neighbours.

    It is an instance of PyG's class, so PyG's `model.inference(loader)`, `ZipLoader`,
    `CachedLoader` and `PrefetchLoader` accept it. `loader(index)` is the batch of the input nodes
    at these positions; its sample is keyed by them and by the epoch.

    For a HeteroData, for stores, or with `time_attr`, it is a `TypedNeighborLoader` over a
    `HeteroLoader`: see there for what differs from PyG.

    Args:
        data: a PyG Data, HeteroData or (FeatureStore, GraphStore), whose topology is converted
            once; or a Graph or HeteroGraph.
        num_neighbors: fan-outs, one per layer, -1 for all; for several types also a dict from edge
            types to lists, or PyG's NumNeighbors.
        input_nodes: node ids, a boolean mask, the name of a split, or None for all; for several
            types a type, or (type, nodes).
        input_time: with time_attr, one time per input node: its tree sees nothing later.
        replace: sample neighbours with replacement.
        subgraph_type: "directional" edges as drawn; "bidirectional" their reverses too (an edge
            that was not drawn has `e_id` and attributes of its reverse); "induced" all edges
            between the nodes. The last two have no layers and thus no layer counts.
        disjoint: a separate tree for each input node, sharing no nodes; `batch.batch` numbers them.
            The tree of an input node depends on its `input_id` and the epoch alone.
        temporal_strategy: with time_attr: "uniform", or the "last" that a tree may see.
        time_attr: the attribute that holds times, of nodes or of edges.
        weight_attr: the edge attribute to draw neighbours by.
        transform: called with each finished batch.
        transform_sampler_output: called with PyG's SamplerOutput of each batch, before attributes
            are looked up.
        is_sorted: not needed.
        filter_per_worker: not needed.
        neighbor_sampler: PyG's argument; refused, pass `sampler`.
        directed: PyG's old name: False means subgraph_type="induced".
        seed: the random seed for order and samples; None takes torch's initial seed.
        sampler: one of our Samplers, instead of num_neighbors; or one of torch's, which yields
            positions of input nodes (such as ImbalancedSampler).
        batch_sampler: a torch sampler that yields whole batches.
        options: other arguments of torch's DataLoader and of `Loader`. num_workers,
            persistent_workers, prefetch_factor, pin_memory, timeout and worker_init_fn are accepted
            but not needed: there are no worker processes.

    Raises:
        InputError: an attribute that cannot be sliced, or an argument that is not supported.
    """

    def __new__(cls, data: Any = None, *given: Any, **options: Any) -> Any:
        """A loader of the kind that the data asks for."""
        named = {**options, **dict(zip(_FIRST, given, strict=False))}
        timed = named.get("time_attr") is not None or named.get("input_time") is not None
        typed = isinstance(data, HeteroData | HeteroGraph) or is_pair(data)
        if not typed and not (isinstance(data, Data) and timed):
            return object.__new__(cls)
        if cls is not NeighborLoader:
            raise InputError(
                f"{cls.__name__} is made from NeighborLoader, which is for one type and no times; "
                "make it from TypedNeighborLoader for this data"
            )
        return TypedNeighborLoader(data, *given, **options)

    def __init__(
        self,
        data: Any,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
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
        **options: Any,
    ) -> None:
        for name, usual in NOT_NEEDED.items():
            setattr(self, name, options.pop(name, usual))
        self.filter_per_worker = bool(filter_per_worker)
        kind = kind_of(subgraph_type, directed)
        rule = sampler if isinstance(sampler, Sampler) or not is_torch(sampler) else None
        self._drawn = Drawn.of(None if rule is sampler else sampler, batch_sampler, options)
        graph, stored = data, None
        contents = contents_from(options.pop("contents", None), options)
        if contents.pyg is False:
            raise InputError("pyg is False, but these batches are PyG's; use foregather.Loader")
        if contents.leaves != "rows" and not isinstance(data, Graph):
            raise InputError(
                f"leaves is {contents.leaves!r}, but batches of a Data have its attributes of all "
                "nodes; pass Graph.from_pyg(data), or leave it out"
            )
        weights = rule is not None or contents.norm is not None
        if not isinstance(data, Graph):
            whole = 0 if replace else _least_fanout(num_neighbors)
            graph, stored = topology_of(data, weight_attr, weights, whole)
            if weight_attr is not None:
                weight_attr = "edge_weight"  # the column's name in the graph
        _check_kind(kind, data, weights, disjoint, options)
        super().__init__(
            graph,
            _fanouts(num_neighbors),
            input_nodes,
            replace=replace,
            sampler=rule,
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            contents=replaced(contents, pyg=True),
            input_time=input_time,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
            is_sorted=is_sorted,
            neighbor_sampler=neighbor_sampler,
            **options,
        )
        self._data = data
        if isinstance(data, Graph):
            self.transform = transform
            if transform_sampler_output is not None:
                raise InputError("transform_sampler_output is for a Data; use transform")
            return
        self.transform = Finish(
            data,
            graph,
            stored,
            subgraph=kind,
            weights=weights,
            device=self.device,
            threads=int(options.get("threads", 0)),
            change=transform_sampler_output,
            transform=transform,
        )
        self.device = None  # attributes are looked up first; Finish moves the whole batch

    def _made_at(self, maker: Any, position: Ids) -> Any:
        nodes, input_id = maker.seeds.at(position)
        number = _core.xxh64(np.ascontiguousarray(nodes).view(np.uint8)) >> 16
        sampled = maker.sample([(nodes, input_id)], self.epoch, number)
        return maker.finish(maker.assembler.batch(sampled[0], nodes, input_id))

    def _with_threads(self, threads: int) -> Any:
        assembler = replaced(self._maker.assembler, threads=threads)
        return replaced(self._maker, threads=threads, assembler=assembler)

    @property
    def data(self) -> Any:
        """What the loader was made from."""
        return self._data


def _fanouts(num_neighbors: Any) -> Any:
    if isinstance(num_neighbors, dict) or isinstance(getattr(num_neighbors, "values", None), dict):
        raise InputError(
            "num_neighbors is a dict, but the graph has one type of edges; pass a list"
        )
    values = getattr(num_neighbors, "values", num_neighbors)  # PyG's NumNeighbors
    return num_neighbors if callable(values) else values


def _least_fanout(num_neighbors: Any) -> float:
    """Rows of up to this many edges are taken whole in every layer; 0 if there are no fan-outs."""
    fanouts = num_neighbors if isinstance(num_neighbors, (list, tuple)) else ()
    try:
        return min((math.inf if int(one) < 0 else int(one) for one in fanouts), default=0)
    except (TypeError, ValueError):
        return 0


def _check_kind(
    kind: str, data: Any, weights: bool, disjoint: bool, options: Mapping[str, Any]
) -> None:
    if kind == "directional":
        return
    if kind == "induced" and disjoint:
        raise InputError(
            "disjoint=True does not work with subgraph_type='induced', in PyG neither; use "
            "'directional' or 'bidirectional'"
        )
    if not isinstance(data, Data) or options.get("grid") is not None or options.get("memory"):
        raise InputError(
            f"subgraph_type is {kind!r}, which needs a PyG Data in memory; leave out memory= and "
            "grid=, and pass the Data"
        )
    if weights or options.get("expand", "once") != "once":
        raise InputError(
            f"subgraph_type is {kind!r}, which only works with num_neighbors; leave out sampler=, "
            "norm= and expand="
        )
