"""probe: tests, before anything starts, how a step may be split and how much memory it needs.

On a small graph with a hub, self-loops, parallel edges and isolated nodes, each step is computed at
once, in parts of whole rows, and with rows cut into pieces. A step whose result differs in parts is
refused; one that differs only in pieces is never cut; and if all steps together give other scores
than the model's own `forward`, the model is refused. The comparison uses float64 if the model can
be converted to it.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.train.exact.cut import Cut
from foregather.train.exact.deal import Cost, deal
from foregather.train.exact.footprint import footprint
from foregather.train.exact.gather import gathered
from foregather.train.exact.own_forward import (
    check_forward,
    like_edges,
    sentence,
    small_batches,
)
from foregather.train.exact.part import Part, Piece
from foregather.train.exact.room import Room
from foregather.train.exact.steps import Step, layer_steps, whole_degree
from foregather.train.exact.sweep import Edges, sweep

__all__ = ["StepFacts", "dtype_of", "probe"]

_NODES = 24
_ISOLATED = (4, 11, 16, 21)
_ALL = 1e9
_TARGETS = (3, 7)  # of a part, with which whole rows are compared
_SIZES = (
    1.0,
    30.0,
)  # of features, by which steps are compared with forward: others do other things
_PIECES = (3.0, 8.0)  # nodes of a part, with which cut rows are


@dataclass(frozen=True)
class StepFacts:
    """What the probe found.

    Attributes:
        width: columns that the step takes.
        gives: columns that it gives.
        cut: its rows may be cut.
        footprint: bytes per node, edge and target, in addition to the part itself.
    """

    width: int
    gives: int
    cut: bool
    footprint: tuple[float, float, float]


def dtype_of(model: nn.Module) -> torch.dtype:
    """The dtype a model computes in: that of its first weight."""
    kinds = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
    return next(kinds, torch.float32)


def probe(model: nn.Module, graph: Graph, norm: Any = None) -> list[StepFacts]:
    """Probes each step of a model.

    Args:
        model: a model that exposes its steps, in evaluation mode.
        graph: the graph it will be used on.
        norm: "gcn" if edges carry the weights of the loader's norm.

    Raises:
        InputError: the model does not fit the graph, or a step gives other rows for parts of the
            nodes than for all at once, or the steps other scores than `forward`.
    """
    steps = layer_steps(model)
    assert steps is not None and graph.features is not None
    small = _small_graph(graph, graph.features.width)
    random, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)  # in calls this small, threads take most of the time
    try:
        with torch.no_grad():
            compared = _compare(model, steps, small, norm)
            return [
                StepFacts(*facts, _footprint(step, facts, graph, dtype_of(model)))
                for step, facts in zip(steps, compared, strict=True)
            ]
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random)


def _small_graph(graph: Graph, width: int) -> Graph:
    """Makes a directed graph with all difficult cases, with the edge attributes of `graph`."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, _NODES, (2, 90))
    pairs = pairs[:, ~np.isin(pairs, _ISOLATED).any(axis=0)]
    hub = np.stack([np.r_[np.arange(_NODES), 2, 2, 5, 9], np.full(_NODES + 4, 5)])
    loops = np.array([[1, 1, 7, 8], [1, 1, 7, 8]])
    pairs = np.concatenate([pairs, hub[:, ~np.isin(hub[0], _ISOLATED)], loops], axis=1)
    count = pairs.shape[1]
    x = rng.normal(size=(_NODES, width)).astype(np.float32)
    return Graph.from_edge_index(pairs, _NODES, x=x, **like_edges(graph, count, rng))


def _compare(
    model: nn.Module, steps: list[Step], small: Graph, norm: Any
) -> list[tuple[int, int, bool]]:
    """For each step its columns, and whether its rows may be cut."""
    try:
        double = copy.deepcopy(model).double()
        exact = layer_steps(double)
        assert exact is not None
        return _walk(double, exact, small, norm, torch.float64, 1e-9)
    except Exception:  # a model that cannot be copied, needs its own dtype, or is wrong
        return _walk(model, steps, small, norm, dtype_of(model), 1e-4)


def _walk(
    model: nn.Module, steps: list[Step], small: Graph, norm: Any, dtype: torch.dtype, near: float
) -> list[tuple[int, int, bool]]:
    assert small.features is not None
    found: list[tuple[int, int, bool]] = []
    rows = torch.from_numpy(np.array(small.features.data)).to(dtype)
    edges = Edges.of(small, norm)
    for number, step in enumerate(steps):
        run = _Run(step, edges, rows, dtype)
        name = f"layer {number + 1} of {type(model).__name__} ({type(step.module).__name__})"
        try:
            whole = run(_ALL)
            parts = [run(_ALL, targets) for targets in _TARGETS]
        except Exception as error:
            raise InputError(
                f"{name} fails on rows of {rows.shape[1]} columns with the edges of this graph; "
                f"make it for them ({sentence(error.__cause__ or error)})"
            ) from error
        if whole.ndim != 2 or len(whole) != _NODES:
            raise InputError(
                f"{name} gives {list(whole.shape)} for {_NODES} nodes, expected a row for each"
            )
        if not all(_same(part, whole, near) for part in parts):
            raise InputError(
                f"{name} gives other rows for some nodes than for all at once: it looks further "
                "than in-neighbours, or mixes rows of all nodes; compute it on the whole graph"
            )
        cut = step.neighbours and all(_holds(run, whole, near, nodes) for nodes in _PIECES)
        found.append((rows.shape[1], whole.shape[1], cut))
        rows = whole
    hops = sum(step.neighbours for step in steps)
    (batch,) = small_batches(small, max(1, hops), norm, _NODES)
    for size in _SIZES:
        scores = torch.from_numpy(np.array(small.features.data)).to(dtype) * size
        for step in steps:
            scores = _Run(step, edges, scores, dtype)(_ALL)
        large = replace(batch, x=batch.x * size)
        check_forward(model, large, scores, dtype, any(step.edge_attr for step in steps))
    return found


def _holds(run: "_Run", whole: Tensor, near: float, nodes: float) -> bool:
    """Whether rows cut into parts of `nodes` nodes give the same result as at once."""
    try:
        return _same(run(nodes), whole, near)
    except Exception:  # whatever it is, it is not the same
        return False


def _same(one: Tensor, other: Tensor, near: float) -> bool:
    """Whether values are equal up to rounding, relative to nearby values."""
    finite = other[torch.isfinite(other)]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(one, other, rtol=near, atol=near * max(size, 1e-30), equal_nan=True)


@dataclass(frozen=True)
class _Run:
    """A step on the small graph, in parts of at most this many nodes and targets."""

    step: Step
    edges: Edges
    rows: Tensor
    dtype: torch.dtype

    def __call__(self, nodes: float, targets: int | None = None) -> Tensor:
        graph, step = self.edges.graph, self.step
        degree = None if step.norm is None else whole_degree(graph, step.norm)
        shapes = deal(
            graph, Cost(1.0, 1e-6, 0.0), nodes, targets=targets, neighbours=step.neighbours
        )
        parts = gathered(Features(self.rows.numpy()), shapes, Room(nodes), 1, {"bytes": 0})
        return torch.cat(list(sweep(step, parts, self.edges, degree, self.dtype)))


def _footprint(
    step: Step, facts: tuple[int, int, bool], graph: Graph, dtype: torch.dtype
) -> tuple[float, float, float]:
    """Bytes for each node, edge and target that a call makes, whole or cut."""
    width, _, cut = facts

    def part(nodes: int, edges: int, targets: int, piece: Piece | None) -> Part:
        number = torch.arange(edges)  # no self-loops, which some layers take out
        index = torch.stack([(number + 1) % nodes, number % targets])
        weight = None if graph.edge_weight is None else torch.ones(edges)
        attr = graph.edge_features
        given = None if attr is None else torch.ones(edges, attr.width, dtype=dtype)
        x = torch.ones(nodes, width, dtype=dtype)
        return Part(x, targets, index, torch.arange(nodes), weight, given, piece)

    degree = np.ones(1 << 12) if step.norm else None

    def whole(nodes: int, edges: int, targets: int) -> Callable[[], Tensor]:
        given = part(nodes, edges, targets, None)
        return lambda: step.call(given, degree)

    def piece(nodes: int, edges: int, targets: int) -> Callable[[], Tensor]:
        given, once = part(nodes, edges, 1, Piece(True)), Cut(step.module)

        def call() -> Tensor:
            with once:
                once.begin_piece(True)
                return step.call(given, degree)

        return call

    found = footprint(whole)
    if cut:
        again = footprint(piece)
        found = (max(found[0], again[0]), max(found[1], again[1]), found[2])
    return found
