"""typed_loader: the drop-in NeighborLoader for HeteroData and for times, over a HeteroLoader.

`interop.neighbor_loader.NeighborLoader` makes one where its data asks for it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import PLAIN_RELATION
from foregather.interop.drawn import Drawn
from foregather.interop.seat import NOT_NEEDED, Ids, Seat, is_torch, kind_of
from foregather.interop.typed.finish import TimedFinish, TypedFinish
from foregather.interop.typed.raw import RawAssembler
from foregather.interop.typed.topology import typed_topology
from foregather.loader.hetero.hetero_batch import HeteroAssembler
from foregather.loader.hetero.hetero_loader import HeteroLoader

__all__ = ["TypedNeighborLoader"]


class TypedNeighborLoader(Seat, HeteroLoader, pyg_loader.NeighborLoader):  # type: ignore[misc]
    """What `NeighborLoader` is for a HeteroData, a HeteroGraph, or a Data with times.

    Arguments are those of `NeighborLoader`, with PyG's meaning; also: weights and times go
    together, and `subgraph_type="induced"` and disjoint trees do. `seed_time` is what limited the
    trees, also where it was the time of the input nodes themselves.

    Raises:
        InputError: an attribute that cannot be sliced, or an argument that does not fit.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: Any = "uniform",
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
        kind: Any = kind_of(subgraph_type, directed)
        rule = None if is_torch(sampler) else sampler
        self._drawn = Drawn.of(None if rule is sampler else sampler, batch_sampler, options)
        self._data, plain, graph = data, isinstance(data, Data), data
        chosen: dict[str, Any] = {"time_attr": time_attr, "weight_attr": weight_attr}
        if isinstance(input_nodes, str) and plain:
            raise InputError(
                f"input_nodes is {input_nodes!r:.80}, expected node ids, a mask or None: a Data "
                "has one type of nodes"
            )
        if not isinstance(data, HeteroGraph):
            whole = num_neighbors if rule is None and weight_attr and not replace else None
            graph, level = typed_topology(data, time_attr, weight_attr, whole)
            _check_times(input_time, time_attr, level, rule)
            weights = None if weight_attr is None else "edge_weight"  # their name in the graph
            chosen = {"time": level if rule is None else None, "weight_attr": weights}
        # the edges that are added to a Data keep the ids of those they come from
        back = plain and kind == "bidirectional"
        super().__init__(
            graph,
            num_neighbors,
            input_nodes,
            input_time=input_time,
            sampler=rule,
            replace=replace,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            subgraph_type="directional" if back else kind,
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            is_sorted=is_sorted,
            neighbor_sampler=neighbor_sampler,
            **chosen,
            **options,
        )
        if isinstance(data, HeteroGraph):
            self.transform = transform
            if transform_sampler_output is not None:
                raise InputError("transform_sampler_output is for PyG's data; use transform")
            return
        last: dict[str, Any] = {
            "device": self.device,
            "change": transform_sampler_output,
            "transform": transform,
        }
        level = self._maker.sampler.time
        if plain:
            self.transform = TimedFinish(data, graph.relation(PLAIN_RELATION, level), back, **last)
        else:
            self.transform = TypedFinish(data, graph, level, **last)
        self.device = None  # attributes are looked up first, then the whole batch is moved

    def _assembler(self, graph: HeteroGraph, level: Any, pin: bool, threads: int) -> Any:
        if self._data is graph:
            return HeteroAssembler.of(graph, level, pin, threads)
        return RawAssembler()

    def _made_at(self, maker: Any, position: Ids) -> Any:
        rows = maker.at(position)
        number = _core.xxh64(np.ascontiguousarray(rows.nodes).view(np.uint8)) >> 16
        sampled = maker.sample([rows], self.epoch, number)
        return maker.assembler.batch(sampled[0], maker.node_type, rows)

    def _with_threads(self, threads: int) -> Any:
        return self._maker.using(threads)

    def __repr__(self) -> str:
        return "NeighborLoader()" if type(self) is TypedNeighborLoader else super().__repr__()

    @property
    def data(self) -> Any:
        """What the loader was made from."""
        return self._data


def _check_times(input_time: Any, time_attr: Any, level: Any, rule: Any) -> None:
    """Checks that times of seeds and of what they reach are given together."""
    if input_time is not None and time_attr is None:
        raise InputError(
            "input_time was given, but no time_attr; name the attribute of nodes or edges that "
            "holds their times"
        )
    own = getattr(rule, "time", None)
    if rule is not None and own != level:
        raise InputError(
            f"the sampler has time={own!r}, but time_attr={time_attr!r} gives the times of "
            f"{'nothing' if level is None else f'{level}s'}; make the two agree"
        )
