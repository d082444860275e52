"""Batches for the tests of `accelerate`, and the comparison with the plain model."""

import copy
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foregather import BatchContents, Graph, Loader
from foregather.errors import AccelerateWarning
from foregather.nn import Accelerated, accelerate
from foregather.nn.accelerated.plan import Plan

WIDTH = 12
#: Relative to the largest value, in float64.
NEAR = 1e-10


def random_graph(nodes: int = 400, edges: int = 2400, seed: int = 0) -> Graph:
    """Random edges with self-loops, parallel edges, weights, edge features and isolated nodes."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes - 10, (2, edges))
    pairs[0, :40] = pairs[1, :40]
    pairs[:, 40:60] = pairs[:, 60:80]
    return Graph.from_edge_index(
        pairs,
        nodes,
        x=rng.normal(size=(nodes, WIDTH)).astype(np.float32),
        y=rng.integers(0, 3, nodes),
        edge_weight=rng.random(edges).astype(np.float32) + np.float32(0.1),
        edge_attr=rng.random((edges, 3), np.float32),
    )


def batches(
    graph: Graph, fanout: list[int], seeds: Any = None, size: int = 25, **options: Any
) -> list[Any]:
    """Batches of a Loader, in float64."""
    pyg = options.pop("pyg", True)
    contents = BatchContents(pyg=pyg, **options.pop("contents", {}))
    loader = Loader(graph, fanout, seeds, size, contents=contents, threads=1, **options)
    try:
        found = list(loader)
    finally:
        loader.close()
    return found if not pyg else [in_double(batch) for batch in found]


def in_double(batch: Any) -> Any:
    """The same batch with features, weights and edge features in float64; its edges are kept."""
    for name in ("x", "edge_weight", "edge_attr"):
        if getattr(batch, name, None) is not None:
            batch[name] = batch[name].double()
    return batch


def one_batch(fanout: list[int] | None = None, **options: Any) -> Any:
    """One batch of the random graph."""
    return batches(random_graph(), fanout or [5, 4, 3], **options)[0]


def outcome(
    model: nn.Module, seeds: int, x: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """The seeds' rows, and the gradients of a function of them."""
    x = x.detach().clone().requires_grad_()
    model.zero_grad()
    rows = model(x, *args, **kwargs)[:seeds]
    factor = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    (rows * factor.to(rows.dtype)).sum().backward()
    grads = {name: part.grad for name, part in model.named_parameters() if part.grad is not None}
    grads["x"] = x.grad if x.grad is not None else torch.zeros_like(x)
    return rows.detach(), {name: grad.clone() for name, grad in grads.items()}


def assert_near(one: Tensor, other: Tensor, what: str = "", near: float = NEAR) -> None:
    """Equal up to rounding."""
    one, other = one.detach(), other.detach()
    assert one.shape == other.shape, what
    scale = float(other.abs().max()) if other.numel() else 0.0
    gap = float((one - other).abs().max()) if other.numel() else 0.0
    assert gap <= near * scale + 1e-13, f"{what}: {gap} where the largest is {scale}"


def assert_same(model: nn.Module, batch: Any, *args: Any, **options: Any) -> Accelerated:
    """Checks that an accelerated model gives the plain one's results and gradients.

    Args:
        model: in float64.
        batch: whose seeds, rows and edges are used.
        args: further arguments of the model.
        options: its named arguments; `norms`, `plain` (expected) are not.
    """
    norms, plain = options.pop("norms", "exact"), options.pop("plain", False)
    fast = accelerate(copy.deepcopy(model), norms=norms)
    fast.train(model.training)
    seeds = batch.num_sampled_nodes[0]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got, grads = outcome(fast, seeds, batch.x, batch.edge_index, *args, **options)
    told = [one for one in said if issubclass(one.category, AccelerateWarning)]
    assert bool(told) == plain, [str(one.message) for one in told]
    assert (fast.plain is not None) == plain
    expected, wanted = outcome(model, seeds, batch.x, batch.edge_index, *args, **options)
    assert_near(got, expected, "rows")
    assert grads.keys() == wanted.keys()
    for name, grad in wanted.items():
        assert_near(grads[name], grad, name, 1e-9)
    if not plain:
        rows = fast(batch.x, batch.edge_index, *args, **options).shape[0]
        assert rows < batch.num_nodes
    return fast


def ways(fast: Accelerated) -> set[str]:
    """How convolutions were computed."""
    plans = [verdict for verdict in fast._verdicts.values() if isinstance(verdict, Plan)]
    return {way for plan in plans for way in plan.ways.values()}
