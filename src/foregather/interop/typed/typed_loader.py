"""typed_loader: the drop-in NeighborLoader for HeteroData and for times, over a HeteroLoader.

`interop.neighbor_loader.NeighborLoader` makes one where its data asks for it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric import loader as pyg_loader

from foregather.errors import InputError
from foregather.interop.seat import kind_of
from foregather.interop.typed.typed_seat import TypedSeat

__all__ = ["TypedNeighborLoader"]


class TypedNeighborLoader(TypedSeat, pyg_loader.NeighborLoader):  # type: ignore[misc]
    """What `NeighborLoader` is for a HeteroData, a HeteroGraph, a pair of stores, or times.

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
        self._begin(data, filter_per_worker, options)
        kind: Any = kind_of(subgraph_type, directed)
        rule = self._take_sampler(sampler, batch_sampler, options)
        chosen = self._convert(data, rule, kind, num_neighbors, replace, time_attr, weight_attr)
        if self._from is not None:
            if isinstance(input_nodes, str) and self._from.plain:
                raise InputError(
                    f"input_nodes is {input_nodes!r:.80}, expected node ids, a mask or None: a "
                    "Data has one type of nodes"
                )
            _check_times(input_time, time_attr, self._from.level, rule)
        super().__init__(
            data if self._from is None else self._from.graph,
            num_neighbors,
            input_nodes,
            input_time=input_time,
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

    def __repr__(self) -> str:
        return "NeighborLoader()" if type(self) is TypedNeighborLoader else super().__repr__()


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
