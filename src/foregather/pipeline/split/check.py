"""check: compares the layers of a recorded model with the model itself, before anything is trained.

Both run on a small graph and on a subgraph of the user's, the layers in chunks, in double precision
if the model runs in it: in evaluation, and in training with dropout left out. Scores and the
gradients of all weights and of the features must agree; this decides whether a model is taken.
"""

import copy
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import make_chunks
from foregather.pipeline.passes.aggregation import ChunkNear, Exchange
from foregather.pipeline.split.graph_values import call_model, graph_inputs
from foregather.pipeline.split.layers import SplitLayer
from foregather.pipeline.split.sample import feature_rows, induced_graph, small_graph
from foregather.pipeline.whole.adjacency import Lists

__all__ = ["compare", "own_numbers", "run_in_chunks"]

_CHUNKS, _INDUCED = 4, 32
_BOUND = {torch.float64: 1e-7}
_LOOSE = 1e-2
_KEEP = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "dropout1d")
_NOISE = ("rand_like", "randn_like", "rand", "randn", "bernoulli")

Make = Callable[[nn.Module], Sequence[GraphLayer]]


class _Calm(TorchFunctionMode):
    """Leaves dropout out, and draws the same number everywhere."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _KEEP:
            return args[0] if args else (kwargs or {})["input"]
        out = func(*args, **(kwargs or {}))
        return torch.full_like(out, 0.5) if name in _NOISE else out


class _TableNear(ChunkNear):
    """A `Near` that reads rows of others from a table, so that autograd follows them."""

    def __init__(self, place: ChunkTopology, chunk: int, own: Tensor, table: Tensor) -> None:
        others = place.locals[chunk].others
        super().__init__(place, chunk, own, Exchange(None, others))
        self._rows, self._table = torch.cat([own, table[others]]), table

    def moments(self, columns: slice) -> tuple[Tensor, Tensor]:
        """Mean and variance over the table."""
        every = self._table[:, columns]
        return every.mean(0), every.var(0, unbiased=False)

    def sum_along(self, key: Hashable, make: Callable[[], Lists]) -> Tensor | None:
        """Sums over lists, edge by edge."""
        if self._table.device.type != "cpu":
            return None
        lists, span = make(), self._topology.chunks.span(self._chunk)
        ptr = lists.indptr[span.start : span.stop + 1]
        edges = slice(int(ptr[0]), int(ptr[-1]))
        rows = self._table[lists.source[edges].long()]
        if lists.weight is not None:
            rows = rows * lists.weight[edges, None].to(rows.dtype)
        target = torch.repeat_interleave(torch.arange(self.count), ptr.diff())
        out = rows.new_zeros(self.count, rows.shape[1]).index_add(0, target, rows)
        return out / ptr.diff().clamp(min=1)[:, None] if lists.mean else out


def run_in_chunks(layers: Sequence[GraphLayer], place: ChunkTopology, x: Tensor) -> Tensor:
    """Scores of all nodes by id, as an exact pass computes them, with plain autograd."""
    chunks = place.chunks
    order = torch.from_numpy(chunks.order).to(x.device)
    spans = [chunks.span(chunk) for chunk in range(len(chunks))]
    now = [x[order[span]] for span in spans]
    skips: list[dict[str, Tensor]] = [{} for _ in spans]
    for layer in layers:
        messages = [layer.message(rows) if layer.aggregates else rows for rows in now]
        table = torch.cat(messages)
        for chunk, own in enumerate(messages):
            near = _TableNear(place, chunk, own, table)
            now[chunk], given = layer.run(now[chunk], near, skips[chunk])
            skips[chunk] |= given
    return torch.cat(now)[torch.from_numpy(chunks.number).to(x.device)]


def compare(model: nn.Module, make: Make, graph: Graph) -> None:
    """Compares layers with their model.

    Args:
        model: the user's model.
        make: makes the layers of a copy of it.
        graph: the user's graph, of whose rows a small one is made, and of which one is a part.

    Raises:
        InputError: they differ.
    """
    graphs = [small_graph(graph, 31, 90, 7), induced_graph(graph, _INDUCED, 7)]
    for training, small in itertools.product((False, True), graphs):
        for double in (True, False):
            if small is None:  # a graph without edges
                break
            try:
                _compare(model, make, small, training, double)
                break
            except InputError:
                raise
            except Exception as error:  # perhaps it only runs in its own precision
                if not double:
                    raise InputError(
                        f"{type(model).__name__} fails in chunks on a small graph: "
                        f"{type(error).__name__} {error}; use chunks=1"
                    ) from error


def _compare(model: nn.Module, make: Make, graph: Graph, training: bool, double: bool) -> None:
    made = copy.deepcopy(model)
    if double:
        made = made.double()
    _shake(made)
    made.train(training)
    layers = make(made)
    for layer in layers:
        layer.train(training)
    weight = next((p for p in made.parameters()), torch.zeros(1))
    rows = feature_rows(graph, weight)
    inputs = graph_inputs(made, graph, weight.dtype, weight.device)
    chunks = make_chunks(graph, _CHUNKS, np.arange(graph.num_nodes) % _CHUNKS)
    place = ChunkTopology(graph, chunks, weight.dtype, weight.device)
    for layer in layers:
        if isinstance(layer, SplitLayer):
            layer.prepare(place, range(_CHUNKS))
    state = copy.deepcopy(made.state_dict())
    with own_numbers():
        whole = _run(made, rows, lambda x: call_model(made, x, inputs))
        made.load_state_dict(state)  # statistics that a run changes
        parts = _run(made, rows, lambda x: run_in_chunks(layers, place, x))
    _judge(whole, parts, weight.dtype, type(model).__name__, training)


@contextmanager
def own_numbers() -> Iterator[None]:
    """No dropout inside, and the generator is afterwards as it was."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), _Calm():
        yield


def _shake(model: nn.Module) -> None:
    """Moves weights that begin at zero, which would hide differences."""
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.add_(0.1 * torch.randn(weight.shape, generator=source).to(weight))


def _run(model: nn.Module, rows: Tensor, call: Callable[[Tensor], Tensor]) -> list[Tensor]:
    x = rows.clone().requires_grad_()
    out = call(x)
    leaves = [x, *(p for p in model.parameters() if p.requires_grad)]
    score = torch.cos(torch.arange(out.numel(), dtype=torch.float64)).to(out).view_as(out)
    grads = torch.autograd.grad((out * score).sum(), leaves, allow_unused=True)
    zeros = [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, grads, strict=True)
    ]
    return [out.detach(), *zeros]


def _judge(
    whole: list[Tensor], parts: list[Tensor], dtype: torch.dtype, name: str, training: bool
) -> None:
    bound = _BOUND.get(dtype, _LOOSE)
    least = 1e-3 * max((float(g.abs().max()) for g in whole[1:] if g.numel()), default=0.0)
    for place, (true, seen) in enumerate(zip(whole, parts, strict=True)):
        if true.shape == seen.shape and torch.equal(true.isnan(), seen.isnan()):
            true, seen = true.nan_to_num(), seen.nan_to_num()
            size = max(float(true.abs().max()) if true.numel() else 0.0, least if place else 0.0)
            gap = float((true - seen).abs().max()) if true.numel() else 0.0
            if gap <= bound * size:
                continue
        what = "gradients" if place else "scores"
        mode = "training" if training else "evaluation"
        raise InputError(
            f"{name} has other {what} in chunks than on the whole graph in {mode}: it mixes nodes "
            "outside propagate in a way that was not found; use chunks=1"
        )
