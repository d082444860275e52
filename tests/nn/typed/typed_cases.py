"""Typed batches for the tests of `accelerate`, and the comparison with the plain model."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from foregather import HeteroLoader
from foregather.errors import AccelerateWarning
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.nn import Accelerated, accelerate
from foregather.nn.accelerated.plan import Plan
from tests.nn.accelerate_cases import assert_near

BUYS = ("user", "buys", "item")
BOUGHT = ("item", "rev_buys", "user")
LIKES = ("user", "likes", "user")
OF = ("tag", "of", "item")
WIDTHS = {"user": 9, "item": 4, "tag": 3}
TYPES = list(WIDTHS)
RELATIONS = [BUYS, BOUGHT, LIKES, OF]


def shop(seed: int = 0) -> HeteroGraph:
    """Users, items and tags, which no edge leads to; self-loops, weights and edge features."""
    rng = np.random.default_rng(seed)
    bought = np.stack([rng.integers(0, 290, 2000), rng.integers(0, 90, 2000)])
    liked = rng.integers(0, 290, (2, 1200))
    liked[0, :30] = liked[1, :30]
    tagged = np.stack([rng.integers(0, 30, 400), rng.integers(0, 90, 400)])
    counts = {"user": 300, "item": 95, "tag": 30}
    tables = {
        name: NodeTable.of(
            number,
            {"x": rng.normal(size=(number, WIDTHS[name])).astype(np.float32)},
            labels=rng.integers(0, 3, number) if name == "user" else None,
        )
        for name, number in counts.items()
    }
    weights = rng.random(2000).astype(np.float32) + np.float32(0.1)
    return HeteroGraph(
        tables,
        {
            BUYS: Relation.of(bought, 300, 95, weights=weights, time=rng.integers(0, 99, 2000)),
            BOUGHT: Relation.of(bought[::-1], 95, 300, features=rng.random((2000, 2), np.float32)),
            LIKES: Relation.of(liked, 300, 300),
            OF: Relation.of(tagged, 30, 95),
        },
    )


def in_double(batch: Any) -> Any:
    """The same batch with features in float64; its edges are kept."""
    for store in batch.stores:
        for name, value in store.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                store[name] = value.double()
    return batch


def typed_batches(
    graph: HeteroGraph, fanout: Any, rows: Any = "user", size: int = 25, **options: Any
) -> list[Any]:
    """Batches of a HeteroLoader, in float64."""
    loader = HeteroLoader(graph, fanout, rows, size, threads=1, **options)
    try:
        return [in_double(batch) for batch in loader]
    finally:
        loader.close()


def hetero(convs: dict[Any, nn.Module], aggr: str = "sum") -> nn.Module:
    """PyG's HeteroConv, without its warning of types that no edge leads to."""
    from torch_geometric.nn import HeteroConv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made: nn.Module = HeteroConv(convs, aggr)
    return made


class Layers(nn.Module):
    """HeteroConv over HeteroConv, with relu between them; gives the rows of one type."""

    def __init__(
        self,
        make: Callable[[Any, int], nn.Module],
        depth: int = 2,
        relations: Any = RELATIONS,
        read: str | None = "user",
        aggr: str = "sum",
    ) -> None:
        super().__init__()
        self.read = read
        self.convs = nn.ModuleList(
            hetero({name: make(name, 6 if i + 1 < depth else 3) for name in relations}, aggr)
            for i in range(depth)
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, **more: Any) -> Any:
        for place, conv in enumerate(self.convs):
            made = conv(x_dict, edge_index_dict, **more)
            if place + 1 < len(self.convs):
                made = {name: rows.relu() for name, rows in made.items()}
            x_dict = {**x_dict, **made}  # tags keep their rows: no edge leads to them
        return x_dict if self.read is None else x_dict[self.read]


def started(model: nn.Module, batch: Any, *args: Any, **kwargs: Any) -> nn.Module:
    """The model in float64, after one call that gives its parameters their sizes."""
    torch.manual_seed(0)
    model.double()
    with torch.no_grad():
        model(batch.x_dict, batch.edge_index_dict, *args, **kwargs)
    return model


def outcome(
    model: Any, batch: Any, read: str, *args: Any, **kwargs: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """The seeds' rows, and the gradients of a function of them."""
    x_dict = {name: x.detach().clone().requires_grad_() for name, x in batch.x_dict.items()}
    model.zero_grad()
    out = model(x_dict, batch.edge_index_dict, *args, **kwargs)
    rows = (out[read] if isinstance(out, dict) else out)[: batch[read].batch_size]
    factor = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    (rows * factor.to(rows.dtype)).sum().backward()
    named = [(name, part) for name, part in model.named_parameters() if not is_lazy(part)]
    named += [(f"x of {name}", x) for name, x in x_dict.items()]
    return rows.detach(), {name: one.grad.clone() for name, one in named if one.grad is not None}


def assert_same(model: nn.Module, batch: Any, *args: Any, **options: Any) -> Accelerated:
    """Checks that an accelerated model gives the plain one's results and gradients.

    Args:
        model: in float64, with sizes.
        batch: whose rows and edges are used.
        args: further arguments of the model.
        options: its named arguments; `norms`, `plain` (expected), `read` (a type) are not.
    """
    norms, plain = options.pop("norms", "exact"), options.pop("plain", False)
    read = options.pop("read", "user")
    fast = accelerate(copy.deepcopy(model), norms=norms)
    fast.train(model.training)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if any(is_lazy(part) for part in model.parameters()):
            outcome(fast, batch, read, *args, **options)  # is told apart from what is never called
        got, grads = outcome(fast, batch, read, *args, **options)
    told = [str(one.message) for one in said if issubclass(one.category, AccelerateWarning)]
    assert bool(told) == plain, told or fast.explain()
    assert (fast.plain is not None) == plain, fast.plain
    expected, wanted = outcome(model, batch, read, *args, **options)
    assert_near(got, expected, "rows")
    assert grads.keys() == wanted.keys()
    for name, grad in wanted.items():
        assert_near(grads[name], grad, name, 1e-9)
    if not plain:
        assert "accelerated" in fast.explain()
    return fast


def ways(fast: Accelerated) -> set[str]:
    """How convolutions were computed."""
    plans = [verdict for verdict in fast._verdicts.values() if isinstance(verdict, Plan)]
    return {way for plan in plans for way in plan.ways.values()}


def given_rows(fast: Accelerated, batch: Any, *args: Any, **kwargs: Any) -> dict[str, list[int]]:
    """The numbers of rows that each convolution gave in a call, by name."""
    given: dict[str, list[int]] = {}
    handles = []
    model = fast.accelerated_model
    for name, module in model.named_modules():
        if hasattr(module, "propagate"):

            def note(module: Any, args: Any, out: Any, name: str = name) -> None:
                parts = out.values() if isinstance(out, dict) else [out]
                given.setdefault(name, []).extend(part.shape[0] for part in parts)

            handles.append(module.register_forward_hook(note))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccelerateWarning)
            fast(batch.x_dict, batch.edge_index_dict, *args, **kwargs)
            given.clear()
            fast(batch.x_dict, batch.edge_index_dict, *args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return given
