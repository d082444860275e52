"""typed_seat: what the loaders share that sit where PyG's loaders of typed or timed data sat."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.interop.drawn import Drawn
from foregather.interop.seat import NOT_NEEDED, Ids, Seat, is_torch
from foregather.interop.typed.raw import RawAssembler, plain_output, typed_output
from foregather.interop.typed.source import DataSource, source_of
from foregather.loader.hetero.hetero_batch import HeteroAssembler
from foregather.loader.hetero.hetero_loader import HeteroLoader

__all__ = ["TypedSeat"]


class TypedSeat(Seat, HeteroLoader):
    """A HeteroLoader of PyG's data, or of a HeteroGraph, with the face of PyG's loaders."""

    _data: Any
    _from: DataSource | None  # None: a HeteroGraph
    _back: bool = False  # edges of a Data are also added in the other direction
    _class: Any = None  # of batches of stores
    _finish: Any = None

    def _begin(self, data: Any, filter_per_worker: Any, options: dict[str, Any]) -> None:
        """Takes note of the data and of options that are not needed."""
        for name, usual in NOT_NEEDED.items():
            setattr(self, name, options.pop(name, usual))
        self.filter_per_worker = bool(filter_per_worker)
        self._data, self._class = data, options.pop("custom_cls", None)

    def _take_sampler(self, sampler: Any, batch_sampler: Any, options: dict[str, Any]) -> Any:
        """Takes note of what yields positions; returns the sampler if it draws neighbours."""
        yields = is_torch(sampler)
        self._drawn = Drawn.of(sampler if yields else None, batch_sampler, options)
        return None if yields else sampler

    def _convert(
        self,
        data: Any,
        rule: Any,
        kind: str,
        num_neighbors: Any,
        replace: bool,
        time_attr: str | None,
        weight_attr: str | None,
    ) -> dict[str, Any]:
        """Makes the graph of PyG's data, unless it is a HeteroGraph already.

        Returns:
            The arguments by which a loader finds times and weights in the graph.

        Raises:
            InputError: edges, times or weights that cannot be used; names the type or relation.
        """
        self._from = None
        if isinstance(data, HeteroGraph):
            return {"time_attr": time_attr, "weight_attr": weight_attr}
        whole = num_neighbors if rule is None and weight_attr and not replace else None
        self._from = source_of(data, time_attr, weight_attr, whole)
        # the edges that are added to a Data keep the ids of those they come from
        self._back = self._from.plain and kind == "bidirectional"
        return {
            "time": self._from.level if rule is None else None,
            "weight_attr": None if weight_attr is None else "edge_weight",  # its name in the graph
        }

    def _seated(
        self,
        transform: Callable[[Any], Any] | None,
        change: Callable[[Any], Any] | None,
    ) -> None:
        """Takes what is called with batches and with samples; the last step of a constructor.

        Raises:
            InputError: samples of a HeteroGraph are not PyG's.
        """
        if self._class is not None and (self._from is None or self._from.pair is None):
            raise InputError("custom_cls is for stores; batches of a data object have its class")
        if self._from is None:
            self.transform = transform
            if change is not None:
                raise InputError("transform_sampler_output is for PyG's data; use transform")
            return
        self._finish.device, self._finish.change = self.device, change
        self._finish.transform = transform
        self.transform = self._finish
        self.device = None  # attributes are looked up first, then the whole batch is moved

    def _assembler(self, graph: HeteroGraph, level: Any, pin: bool, threads: int) -> Any:
        if self._from is None:
            return HeteroAssembler.of(graph, level, pin, threads)
        self._finish = self._from.finish(level, self._class)
        output: Any = typed_output
        if self._from.plain:
            output = partial(plain_output, back=self._back)
        return RawAssembler(output, self._finish.look, threads)

    def _made_at(self, maker: Any, position: Ids) -> Any:
        rows = maker.at(position)
        number = _core.xxh64(np.ascontiguousarray(rows.nodes).view(np.uint8)) >> 16
        sampled = maker.sample([rows], self.epoch, number)
        return maker.assembler.batch(sampled[0], maker.node_type, rows)

    def _with_threads(self, threads: int) -> Any:
        return self._maker.using(threads)

    @property
    def data(self) -> Any:
        """What the loader was made from."""
        return self._data
