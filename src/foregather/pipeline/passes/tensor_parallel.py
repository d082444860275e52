"""tensor_parallel: dense parts by nodes, aggregations by columns; never stale.

A rank has the rows of its nodes. For an aggregation it trades them for some columns of all rows,
multiplies by the whole matrix, and trades back. Work is balanced for every graph; each aggregation
moves all rows twice forward and twice backward, whatever the cut.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.nn.layer import GraphLayer, Near
from foregather.pipeline.dry_run import Widths
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import Chunks
from foregather.pipeline.passes.aggregation import product
from foregather.pipeline.passes.executor import Executor, run_backward
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.planning.schedule import Schedule, Task

__all__ = ["TensorPass", "column_bounds", "only_sums", "whole_topology"]

_Function: Any = torch.autograd.Function  # untyped in torch


def column_bounds(width: int, ways: int) -> list[int]:
    """Way w has the columns bounds[w] to bounds[w + 1] - 1."""
    return [width * way // ways for way in range(ways + 1)]


def whole_topology(place: ChunkTopology) -> ChunkTopology:
    """All edges as one chunk, nodes numbered as before."""
    chunks = place.chunks
    ends = np.array([0, place.graph.num_nodes])
    one = Chunks(chunks.order, chunks.number, ends, chunks.method)
    return ChunkTopology(place.graph, one, place.dtype, place.device)


class _Trade:
    """Trades rows for columns, and columns for rows, between all ways."""

    def __init__(self, link: Link, bounds: Sequence[int], width: int) -> None:
        self._link, self._rows = link, [int(b) for b in bounds]
        self._columns = column_bounds(width, link.ways)

    def to_columns(self, own: Tensor, purpose: str) -> Tensor:
        """Trades own rows [n, width] for own columns of all rows [N, own columns]."""
        own = own.detach()
        out = own.new_empty(self._rows[-1], self._width(self._link.way))
        parts = [own[:, self._slice(w)] for w in range(self._link.ways)]
        places = [out[self._span(w)] for w in range(self._link.ways)]
        return self._trade(out, parts, places, purpose)

    def to_rows(self, columns: Tensor, purpose: str) -> Tensor:
        """Trades own columns of all rows for own rows."""
        columns, rows = columns.detach(), self._span(self._link.way)
        out = columns.new_empty(rows.stop - rows.start, self._columns[-1])
        parts = [columns[self._span(w)] for w in range(self._link.ways)]
        places = [out[:, self._slice(w)] for w in range(self._link.ways)]
        return self._trade(out, parts, places, purpose)

    def _trade(
        self, out: Tensor, parts: list[Tensor], places: list[Tensor], purpose: str
    ) -> Tensor:
        link, coming = self._link, list[tuple[Tensor, Callable[[int], Tensor]]]()
        others = [w for w in range(link.ways) if w != link.way]
        for way in others:
            if places[way].numel():
                shape = [(0, tuple(places[way].shape))]
                take = link.receiver(link.way_peer(way), purpose, shape, out)
                coming.append((places[way], take))
        for way in others:
            if parts[way].numel():
                link.send(link.way_peer(way), parts[way].contiguous(), purpose)
        places[link.way].copy_(parts[link.way])
        for place, take in coming:
            place.copy_(take(0))
        return out

    def _span(self, way: int) -> slice:
        return slice(self._rows[way], self._rows[way + 1])

    def _slice(self, way: int) -> slice:
        return slice(self._columns[way], self._columns[way + 1])

    def _width(self, way: int) -> int:
        return self._columns[way + 1] - self._columns[way]


class _ToColumns(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, own: Tensor, trade: _Trade) -> Tensor:
        ctx.trade = trade
        return trade.to_columns(own, "exchange")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.trade.to_rows(gradient, "exchange_back"), None


class _ToRows(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, columns: Tensor, trade: _Trade) -> Tensor:
        ctx.trade = trade
        return trade.to_rows(columns, "exchange")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.trade.to_columns(gradient, "exchange_back"), None


class _TensorNear:
    """`Near` of one rank's nodes: sums only, since no rank has whole rows of in-neighbours."""

    def __init__(self, stage: Stage, layer: int, own: Tensor) -> None:
        self.own = own
        self.count = int(own.shape[0])
        self._stage = stage
        self._layer = layer
        self._trade = _Trade(stage.link, [int(b) for b in stage.chunks.bounds], own.shape[1])

    @property
    def rows(self) -> Tensor:
        """Not available."""
        raise self._refusal()

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """Not available."""
        raise self._refusal()

    def edge_attr(self) -> Tensor | None:
        """Not available."""
        raise self._refusal()

    @property
    def place(self) -> tuple[ChunkTopology, int]:
        """Not available: layers of a recorded model ask for it first."""
        raise self._refusal()

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Weighted sums over in-neighbours [own, width]."""
        stage = self._stage
        assert stage.whole is not None
        if stage.reads_features(self._layer):
            bounds = column_bounds(int(self.own.shape[1]), stage.link.ways)
            everyone = torch.arange(stage.topology.graph.num_nodes)
            mine = slice(bounds[stage.link.way], bounds[stage.link.way + 1])
            columns = stage.features.rows(everyone)[:, mine].contiguous()
        else:
            own = self.own
            if torch.is_grad_enabled() and not own.requires_grad:
                own = own.detach().requires_grad_()  # so that all ways trade gradients
            columns = _ToColumns.apply(own, self._trade)
        out: Tensor = _ToRows.apply(product(columns, stage.whole.matrix(0, norm)), self._trade)
        return out

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`."""
        return self._stage.dense(part, *values)

    def _refusal(self) -> InputError:
        return InputError(
            f"layer {self._layer} ({type(self._stage.layers[self._layer]).__name__}) reads rows of "
            "in-neighbours one by one, which split 'columns' cannot give; use split 'nodes', or "
            "layers that only call near.aggregate"
        )


class _Sums:
    """A `Near` of three nodes without in-neighbours that offers only sums."""

    def __init__(self, own: Tensor) -> None:
        self.own, self.count = own, int(own.shape[0])

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Returns zeros: there are no in-neighbours."""
        return torch.zeros_like(self.own)

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`."""
        return part(*values)


def only_sums(layers: Sequence[GraphLayer], widths: Widths) -> bool:
    """Whether no layer reads rows of in-neighbours one by one, so that columns can be split."""
    weight = next((p for layer in layers for p in layer.parameters()), torch.empty(0))
    for number, layer in enumerate(layers):
        if layer.aggregates:
            x = weight.new_zeros(3, widths.x[number])
            skips = {name: weight.new_zeros(3, widths.skip[name]) for name in layer.needs}
            try:
                with torch.no_grad(), torch.random.fork_rng():
                    near: Any = _Sums(layer.message(x))
                    layer.update(x, near, **skips)
            except AttributeError:  # it asked for rows or edges
                return False
    return True


class TensorPass(Executor):
    """One exact forward pass and its backward pass.

    Args:
        stage: the stage; this rank has one chunk of it.
        schedule: a schedule by columns.
        epoch: for random numbers; None for evaluation.
    """

    def __init__(self, stage: Stage, schedule: Schedule, epoch: int | None) -> None:
        super().__init__(stage, schedule, epoch)
        self._root: Tensor | None = None
        self.scores: Tensor | None = None

    def _run_on(self, task: Task) -> None:
        """Runs all layers on this rank's nodes."""
        stage, (chunk,) = self._stage, task.chunks
        with torch.set_grad_enabled(self._schedule.gradients):
            out = stage.run(task.ops, [self._start(chunk)], [chunk], self._nears, self._epoch)[0]
            self._check(chunk, out.x)
            self.scores = out.x.detach()
            if self._epoch is not None:
                self._root = stage.targets.of(chunk, out.x)
                self._loss += float(self._root.detach())

    def _run_back(self, task: Task) -> None:
        """Adds to the gradients of the weights."""
        run_backward([self._root], [None])
        self._root = None

    def _nears(self, layer: int, _: Sequence[int], owns: Sequence[Tensor]) -> list[Near]:
        return [_TensorNear(self._stage, layer, owns[0])]
