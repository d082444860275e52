"""Aggregation as torch's other operators are used: autograd, torch.func, torch.compile, views."""

import numpy as np
import pytest
import torch
from torch import nn

from foregather.errors import InputError
from foregather.nn.aggregate import aggregate, aggregate_heads, edge_softmax
from tests.nn.loops import random_edges
from tests.some import some

EDGES = random_edges(11, 14, 9, 50)
REDUCES = ["sum", "mean", "max"]


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("width", [5, 19])
def test_gradients_are_those_of_differences(reduce, width):
    x, weight = rows(14, width).requires_grad_(), rows(50, seed=1).requires_grad_()
    lists = EDGES.lists()
    assert torch.autograd.gradcheck(lambda x: aggregate(x, lists, reduce), (x,))
    assert torch.autograd.gradcheck(lambda x, w: aggregate(x, lists, reduce, w), (x, weight))
    short = lists.first(5, 14)
    assert torch.autograd.gradcheck(lambda x: aggregate(x, short, reduce), (x,))


def test_gradients_of_heads_and_softmax_are_those_of_differences():
    lists = EDGES.lists()
    x, logits = rows(14, 3, 9).requires_grad_(), rows(50, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: edge_softmax(z, lists), (logits,))
    assert torch.autograd.gradcheck(
        lambda x, z: aggregate_heads(x, lists, edge_softmax(z, lists)), (x, logits)
    )


@pytest.mark.parametrize("reduce", REDUCES)
def test_a_second_derivative_raises(reduce):
    x, weight = rows(14, 9).requires_grad_(), rows(50).requires_grad_()
    out = aggregate(x, EDGES.lists(), reduce, weight)
    with pytest.raises(InputError, match="create_graph=True asks for gradients of gradients"):
        torch.autograd.grad((out**2).sum(), x, create_graph=True)


def test_forward_differentiation_and_vmap_raise():
    x, lists = rows(14, 9), EDGES.lists()
    with pytest.raises(RuntimeError):
        torch.func.jvp(lambda x: aggregate(x, lists), (x,), (x,))
    with pytest.raises(RuntimeError):
        torch.func.vmap(lambda x: aggregate(x, lists))(rows(3, 14, 9))


@pytest.mark.parametrize("reduce", REDUCES)
def test_views_and_slices_are_read_as_they_are(reduce):
    lists = EDGES.lists()
    base = rows(14, 40)
    for view in some([base[:, 3:17], base[:, ::2], base.T.contiguous().T, base[:1].expand(14, 40)]):
        leaf = view.detach().requires_grad_()
        out = aggregate(leaf, lists, reduce)
        assert torch.equal(out, aggregate(view.contiguous(), lists, reduce))
        given = rows(1, out.shape[1], seed=2).expand_as(out)
        (got,) = torch.autograd.grad(out, leaf, given)
        whole = view.contiguous().requires_grad_()
        (want,) = torch.autograd.grad(aggregate(whole, lists, reduce), whole, given.contiguous())
        assert torch.equal(got, want)


def test_rows_changed_after_they_were_used_are_noticed():
    x, weight = rows(14, 9), rows(50).requires_grad_()
    out = aggregate(x, EDGES.lists(), "sum", weight)
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


class Attention(nn.Module):
    """Every kernel once."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(12, 3)
        self.norm = nn.Parameter(rows(50, seed=5, dtype=torch.float32))

    def forward(self, x, lists):
        weight = edge_softmax(self.score(x).index_select(0, lists.source), lists)
        heads = aggregate_heads(x.view(-1, 3, 4), lists, weight).flatten(1)
        summed = aggregate(x, lists, "mean") + aggregate(x, lists, "sum", self.norm)
        return torch.relu(heads) * summed + aggregate(x, lists, "max", self.norm)


def outcome(model, call, x, lists):
    """Result and gradients."""
    out = call(x, lists)
    leaves = [x, *model.parameters()]
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


def test_functional_calls_and_gradients():
    torch.manual_seed(0)
    model, lists = Attention(), EDGES.lists()
    x = rows(14, 12, dtype=torch.float32)
    given = dict(model.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x, lists)).square().sum()

    got, to_x = torch.func.grad(loss, argnums=(0, 1))(given, x)
    want = outcome(model, model, x.clone().requires_grad_(), lists)
    assert torch.allclose(to_x, want[1])
    for name, expected in some(zip(given, want[2:], strict=True)):
        assert torch.allclose(got[name], expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("prepared", [True, False])
def test_compiled_equals_eager(prepared):
    """In one graph; batches of other sizes, prefixes, and with and without gradients."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Attention()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for seed, targets in some([(11, 9), (12, 9), (13, 6)]):
        edges = random_edges(seed, 14 + seed, targets, 50)
        lists, fresh = edges.lists(), edges.lists()
        if prepared:
            assert lists.by_source.ptr[-1] == 50
        x = rows(14 + seed, 12, dtype=torch.float32).requires_grad_()
        want = outcome(model, model, x, fresh)
        for ours, expected in some(zip(outcome(model, compiled, x, lists), want, strict=True)):
            torch.testing.assert_close(ours, expected)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, lists), want[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_to_code_equals_eager():
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, lists = Attention(), EDGES.lists()
    x = rows(14, 12, dtype=torch.float32).requires_grad_()
    compiled = torch.compile(model, fullgraph=True)
    want = outcome(model, model, x, lists)
    for ours, expected in some(zip(outcome(model, compiled, x, lists), want, strict=True)):
        torch.testing.assert_close(ours, expected)


def test_operators_describe_their_results():
    """Shapes and dtypes of fake tensors are those of true ones, for every operator."""
    lists = EDGES.lists()
    by_source = lists.by_source
    x, grad = rows(14, 6), rows(9, 6)
    out, winner = torch.ops.foregather.max_lists(x, lists.indptr, lists.source, None)
    heads = rows(14, 2, 3)
    calls = [
        ("lists_by_source", (lists.indptr, lists.source, 14)),
        ("sum_lists", (x, lists.indptr, lists.source, None, 14, rows(50), None, True)),
        ("sum_lists", (heads, lists.indptr, lists.source, None, 14, rows(50, 2), None, False)),
        ("edge_dots", (x, grad, lists.indptr, lists.source, True, winner)),
        ("edge_dots", (heads, rows(9, 2, 3), lists.indptr, lists.source, False, None)),
        ("max_lists", (x, lists.indptr, lists.source, rows(50))),
        (
            "max_lists_gradient",
            (grad, winner, lists.indptr, by_source.ptr, by_source.edge, by_source.target, None),
        ),
        ("edge_softmax", (rows(50, 2), lists.indptr)),
        ("edge_softmax_gradient", (rows(50, 2), rows(50, 2), lists.indptr)),
    ]
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    for name, given in some(calls):
        operator = getattr(torch.ops.foregather, name).default
        report = torch.library.opcheck(operator, given, test_utils=checks)
        assert set(report.values()) == {"SUCCESS"}, (name, report)
    assert out.shape == (9, 6)
