"""dry_run: tries each layer on a small graph, to find all widths and to refuse unfit layers.

Node chunks give a layer the rows of its in-neighbours and nothing else. Whether a layer reads more
is tested, not declared: each layer is run by chunks and on the whole graph at once, as PyG would
run it, and both must agree in values and gradients. The graph is chosen to show differences: it is
directed and several hops deep, with unequal degrees, isolated nodes, a self-loop and parallel
edges, and has edge weights and edge features if the user's graph has them. Copies of the layers are
run, in double precision, so the given layers keep their state; a second run with other weights and
rows reveals what weights that start at zero would hide.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.conv import Conv
from foregather.nn.layer import Dense, GraphLayer
from foregather.pipeline.options import Mode
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import make_chunks
from foregather.pipeline.passes.aggregation import ChunkNear, Exchange
from foregather.pipeline.split.changes import check_calls, untouched
from foregather.units import format_number

__all__ = ["Widths", "check_batch_norm", "probe"]

_NODES = 24  # the last two of them isolated
_EDGES = 64
_CHUNKS = 4
_BOUND = {torch.float64: 1e-7}  # relative; for layers that only run in lower precision:
_LOOSE = 1e-2

Skips = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Widths:
    """Columns of what flows through a model.

    Attributes:
        x: columns before each layer, then of the result: one entry more than there are layers.
        message: columns of each layer's messages; 0 for dense layers.
        skip: columns of each skip tensor.
    """

    x: tuple[int, ...]
    message: tuple[int, ...]
    skip: dict[str, int]


def check_batch_norm(layers: Sequence[nn.Module], mode: Mode, chunks: int) -> None:
    """Refuses BatchNorm if results must be exact; otherwise warns about it.

    In training it takes the mean over one chunk, which has all nodes only if it is the only one.

    Raises:
        InputError: `mode` is exact and there are several chunks.
    """
    if chunks == 1:
        return
    for number, layer in enumerate(layers):
        for part in layer.modules():
            if not type(part).__name__.startswith(("BatchNorm", "SyncBatchNorm", "LazyBatchNorm")):
                continue
            what = (
                f"layer {number} has {type(part).__name__}, which in training computes mean and "
                "variance over one node chunk, not over all nodes, so results depend on the chunks"
            )
            if mode == "exact":
                raise InputError(f"{what} and are not exact; use LayerNorm, or one chunk")
            warnings.warn(f"{what}; use LayerNorm", UserWarning, stacklevel=4)
            break


def probe(
    layers: Sequence[GraphLayer], graph: Graph, chunks: int = _CHUNKS, again: bool = False
) -> Widths:
    """Runs copies of the layers in evaluation mode, by chunks and on the whole graph.

    Args:
        layers: first to last.
        graph: the graph whose features, weights and edge features the layers will see.
        chunks: K of the run; with one chunk, only one chunk has to be right.
        again: whether a layer may be called more than once in an epoch, even with one chunk.

    Raises:
        InputError: a layer fails on rows of the width it gets, or its rows or gradients by chunks
            differ from those on the whole graph, or it changes what it holds from call to call.
    """
    assert graph.features is not None
    if all(hasattr(layer, "user_model") for layer in layers):
        return _known_widths(layers, graph.features.width)
    small = _small_graph(graph)
    x, skips = _table(_NODES, graph.features.width), dict[str, Tensor]()
    x_widths, message_widths = [graph.features.width], []
    with torch.random.fork_rng(devices=[]):
        for number, layer in enumerate(layers):
            taken = {name: skips[name] for name in layer.needs}
            tested = _Layer(number, layer, small, min(chunks, _CHUNKS))
            if again or chunks > 1:  # first: calls that differ look like nodes that mix
                tested.check_calls(x, taken)
            found = tested.run(x, taken)
            message_widths.append(found.message if layer.aggregates else 0)
            x = found.out
            x_widths.append(x.shape[1])
            if layer.gives:
                skips[layer.gives] = x
    widths = {name: rows.shape[1] for name, rows in skips.items()}
    return Widths(tuple(x_widths), tuple(message_widths), widths)


def _known_widths(layers: Sequence[Any], features: int) -> Widths:
    """Those of a model that was recorded, and checked as a whole."""
    skips = {name: width for layer in layers for name, width in layer.skip_widths().items()}
    return Widths(
        (features, *(layer.width_out() for layer in layers)),
        tuple(layer.message_width if layer.aggregates else 0 for layer in layers),
        skips,
    )


def _table(rows: int, width: int) -> Tensor:
    """Returns irregular numbers: no pattern in them survives a mean over some rows."""
    return torch.cos(torch.arange(1, rows * width + 1, dtype=torch.float64) ** 1.5).view(-1, width)


def _small_graph(like: Graph) -> Graph:
    """Makes the test graph, whose edges carry what those of the user's graph carry."""
    random = np.random.default_rng(11)
    some = _NODES - 2
    source = np.floor(some * random.random(_EDGES) ** 2).astype(np.int64)  # a few have many
    target = random.integers(0, some, _EDGES)
    path = np.arange(some)  # as many hops as nodes
    source = np.concatenate([source, path[:-1], [3, 1, 1]])
    target = np.concatenate([target, path[1:], [3, 8, 8]])
    weight = attr = None
    if like.edge_weight is not None:
        weight = (0.5 + random.random(source.size)).astype(np.float32)
    if like.edge_features is not None:
        shape = (source.size, like.edge_features.width)
        attr = random.standard_normal(shape).astype(np.float32)
    pairs = np.stack([source, target])
    return Graph.from_edge_index(pairs, _NODES, edge_attr=attr, edge_weight=weight)


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a layer: its rows, and the width of its messages."""

    out: Tensor
    message: int


class _Layer:
    """One layer under test.

    Args:
        number: its position in the model.
        layer: as the user gave it.
        graph: the small test graph.
        chunks: K.
    """

    def __init__(self, number: int, layer: GraphLayer, graph: Graph, chunks: int) -> None:
        self._number, self._layer, self._graph, self._chunks = number, layer, graph, chunks
        self._name = type(layer.conv if isinstance(layer, Conv) else layer).__name__

    def run(self, x: Tensor, skips: Skips) -> _Found:
        """Compares chunks with the whole graph: with the layer's weights, then with others."""
        try:
            found = self._compare(self._copy(torch.float64), x, skips)
        except InputError:
            raise
        except Exception:  # perhaps it only runs in its own precision
            try:
                found = self._compare(self._copy(None), x, skips)
            except InputError:
                raise
            except Exception as error:
                raise InputError(
                    f"layer {self._number} ({self._name}) fails on rows of width {x.shape[1]}"
                    f"{self._with_edges()}: {str(error) or type(error).__name__}"
                ) from error
        self._compare_others(x, skips)
        return found

    def check_calls(self, x: Tensor, skips: Skips) -> None:
        """Refuses a layer that keeps something between calls, as a whole model is refused."""
        for training in (True, False):
            layer = self._copy(None)
            with untouched(layer):
                weight = next((p for p in layer.parameters() if p.is_floating_point()), x)
                rows = x.to(weight)
                given = {name: value.to(weight) for name, value in skips.items()}
                call = partial(self._on_whole, layer.train(training), rows, given)
                check_calls(layer, call, self._changes)

    def _changes(self, path: str, why: str) -> InputError:
        inner = f": its module {path!r}" if path else ""
        return InputError(
            f"layer {self._number} ({self._name}){inner} {why}; use one chunk in mode 'exact' "
            "without recomputation, or change it there"
        )

    def _with_edges(self) -> str:
        """Says that the layer also got edge features, if it did, and how to leave them out."""
        attr = self._graph.edge_features
        if attr is None or not (isinstance(self._layer, Conv) and self._layer.takes_edge_attr):
            return ""
        return (
            f" and edge features of width {attr.width} (create it for this width, or leave them "
            "out with Conv(..., edge_attr=False))"
        )

    def _copy(self, dtype: torch.dtype | None) -> GraphLayer:
        """Returns a copy that may be changed, or the layer itself if it cannot be copied."""
        try:
            made = copy.deepcopy(self._layer).cpu()
        except (RuntimeError, TypeError, NotImplementedError):
            return self._layer
        return made if dtype is None else made.to(dtype)

    def _compare_others(self, x: Tensor, skips: Skips) -> None:
        """Compares again with other weights and rows; NaN or a failure proves nothing there."""
        made = self._copy(torch.float64)
        if made is self._layer:
            return
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in made.parameters():
                if weight.is_floating_point() and not nn.parameter.is_lazy(weight):
                    weight.add_(0.1 * torch.randn_like(weight))
        rows = {name: _table(*value.shape).flip(0) for name, value in skips.items()}
        try:
            self._compare(made, _table(*x.shape), rows)
        except InputError:
            raise
        except Exception:
            return

    def _compare(self, layer: GraphLayer, x: Tensor, skips: Skips) -> _Found:
        training = layer.training
        weight = next((p for p in layer.parameters() if p.is_floating_point()), x)
        x = x.to(weight.device, weight.dtype)
        skips = {name: value.to(weight.device, weight.dtype) for name, value in skips.items()}
        layer.eval()
        try:
            whole, message = _value_and_gradients(layer, self._whole, x, skips)
            parts, _ = _value_and_gradients(layer, self._by_chunks, x, skips)
        finally:
            layer.train(training)
        bound = _BOUND.get(weight.dtype, _LOOSE)
        # a gradient that is zero except for rounding is compared on the scale of the others
        least = 1e-3 * max((float(g.abs().max()) for g in whole[1:] if g.numel()), default=0.0)
        for place, (true, seen) in enumerate(zip(whole, parts, strict=True)):
            error = _error(true, seen, least if place else 0.0)
            if error > bound:
                raise self._refusal(error, "value" if place == 0 else "gradient")
        return _Found(whole[0].detach().double().cpu(), message)

    def _refusal(self, error: float, what: str) -> InputError:
        where = f"layer {self._number} ({self._name})"
        if isinstance(self._layer, Dense) or not isinstance(self._layer, Conv):
            return InputError(
                f"{where} mixes nodes outside the aggregation, so it cannot run by node chunks; "
                "use row-wise layers, such as LayerNorm"
            )
        size = "infinite" if error == float("inf") else f"{error:.1g}"
        if self._chunks == 1:
            return InputError(
                f"{where} gives different rows than in PyG (relative error of the {what} {size}), "
                "so it cannot be trained here; write it as a GraphLayer"
            )
        return InputError(
            f"{where} gives different rows by node chunks than on the whole graph (relative error "
            f"of the {what} {size}): it reads beyond the in-neighbours of a node, or the degrees "
            "of nodes in other chunks; use one chunk, or layers that propagate once"
        )

    # ---- the two runs ------------------------------------------------------------------------

    def _whole(self, layer: GraphLayer, x: Tensor, skips: Skips) -> tuple[Tensor, int]:
        if not isinstance(layer, Conv) or type(layer).update is not Conv.update:
            return self._chunked(layer, x, skips, 1)
        graph = self._graph
        target = np.repeat(np.arange(_NODES), graph.in_degree())
        pairs = torch.from_numpy(np.stack([graph.indices.astype(np.int64), target]))
        weight, attr = graph.edge_weight, graph.edge_features
        out = layer.whole(
            x,
            pairs.to(x.device),
            None if weight is None else torch.from_numpy(weight).to(x),
            None if attr is None else torch.from_numpy(attr.data).to(x),
            **skips,
        )
        return out, x.shape[1]

    def _on_whole(self, layer: GraphLayer, x: Tensor, skips: Skips) -> Tensor:
        return self._chunked(layer, x, skips, 1)[0]

    def _by_chunks(self, layer: GraphLayer, x: Tensor, skips: Skips) -> tuple[Tensor, int]:
        return self._chunked(layer, x, skips, self._chunks)

    def _chunked(
        self, layer: GraphLayer, x: Tensor, skips: Skips, count: int
    ) -> tuple[Tensor, int]:
        """Runs as exact training does: messages of all chunks, then updates, chunk by chunk."""
        chunks = make_chunks(self._graph, count, np.arange(_NODES) % count)
        place = ChunkTopology(self._graph, chunks, x.dtype, x.device)
        order = torch.from_numpy(chunks.order).to(x.device)
        spans = [chunks.span(chunk) for chunk in range(count)]
        own = [x[order[span]] for span in spans]
        messages = [layer.message(rows) if layer.aggregates else rows for rows in own]
        table, made = torch.cat(messages), []
        for chunk, span in enumerate(spans):
            near = None
            if layer.aggregates:
                others = place.locals[chunk].others
                near = _TableNear(place, chunk, messages[chunk], table[others])
            mine = {name: value[order[span]] for name, value in skips.items()}
            made.append(layer.update(own[chunk], near, **mine))
            if made[-1].shape[0] != own[chunk].shape[0]:
                rows = format_number(made[-1].shape[0], "row")
                raise ValueError(f"it returned {rows} for {own[chunk].shape[0]}")
        back = torch.from_numpy(chunks.number).to(x.device)
        return torch.cat(made)[back], messages[0].shape[1]


class _TableNear(ChunkNear):
    """A `Near` that reads the rows of others from a table, so that autograd follows them."""

    def __init__(self, place: ChunkTopology, chunk: int, own: Tensor, others: Tensor) -> None:
        super().__init__(place, chunk, own, Exchange(None, place.locals[chunk].others))
        self._rows = torch.cat([own, others])


Run = Callable[[GraphLayer, Tensor, Skips], tuple[Tensor, int]]


def _value_and_gradients(
    layer: GraphLayer, run: Run, x: Tensor, skips: Skips
) -> tuple[list[Tensor], int]:
    """Returns rows, and the gradients of a sum over them for input, skip tensors and weights."""
    torch.manual_seed(0)
    leaves = [value.clone().requires_grad_() for value in (x, *skips.values())]
    with torch.enable_grad():
        out, message = run(layer, leaves[0], dict(zip(skips, leaves[1:], strict=True)))
        leaves += [weight for weight in layer.parameters() if weight.requires_grad]
        grads: Sequence[Tensor | None] = [None] * len(leaves)
        if out.requires_grad:
            score = (out * _table(*out.shape).flip(0).to(out)).sum()
            grads = torch.autograd.grad(score, leaves, allow_unused=True)
    zeros = [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, grads, strict=True)
    ]
    return [out.detach(), *zeros], message


def _error(true: Tensor, seen: Tensor, least: float) -> float:
    """Returns the largest difference over the largest value, or `least`; inf if NaNs differ."""
    if true.shape != seen.shape or not torch.equal(true.isnan(), seen.isnan()):
        return float("inf")
    if not true.numel():
        return 0.0
    true, seen = true.nan_to_num(), seen.nan_to_num()
    size = max(float(true.abs().max()), least)
    gap = float((true - seen).abs().max())
    return gap / size if size > 0 else (0.0 if gap == 0 else float("inf"))
