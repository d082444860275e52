"""Dense products of the core: equal to torch's to rounding, the same bits for any threads."""

import copy
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional

from foregather import Loader, _core
from foregather.errors import InputError
from foregather.nn import accelerate, dense
from foregather.nn.accelerated.linears import fast_linears, is_plain_linear, sum_of_maps
from foregather.nn.aggregate import Neighborhoods, aggregate
from foregather.nn.team import join_torch
from tests.nn.accelerate_cases import random_graph
from tests.some import some

ROWS, WIDE, NARROW = 700, 130, 70  # neither is a multiple of a register


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Also small products, and on processors where it does not pay, where sums are slow."""
    monkeypatch.setattr(dense, "_WORTH", 0)
    monkeypatch.setattr(dense, "pays_here", lambda: True)
    monkeypatch.setattr("foregather.nn.accelerated.linears.pays_here", lambda: True)


def random(*shape, seed=0, grad=False):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_(grad)


def gradients(function, given):
    given = [part.clone().requires_grad_() for part in given]
    out = function(*given)
    return out, torch.autograd.grad((out * out.detach().sin()).sum(), given)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("transposed", range(4))
@pytest.mark.parametrize("shape", [(ROWS, WIDE, NARROW), (NARROW, 3000, WIDE), (1,) * 3, (5, 0, 3)])
def test_products_equal_torchs(shape, transposed):
    rows, inner, columns = shape
    a = random(inner, rows).t() if transposed % 2 else random(rows, inner)
    b = random(columns, inner, seed=1).t() if transposed // 2 else random(inner, columns, seed=1)
    close(dense.multiply(a, b), (a.double() @ b.double()).float())
    held = random(rows, columns + 2, seed=2)
    found = held.clone()
    dense.multiply(a, b, found[:, :columns], add=True)
    close(found[:, :columns], (held[:, :columns].double() + a.double() @ b.double()).float())
    assert torch.equal(found[:, columns:], held[:, columns:])


@pytest.mark.parametrize("bias", [True, False])
def test_linear_maps_and_their_gradients(bias):
    given = [random(ROWS, WIDE), random(NARROW, WIDE, seed=1)]
    given += [random(NARROW, seed=2)] if bias else []
    found, found_grads = gradients(dense.linear, given)
    wanted, wanted_grads = gradients(functional.linear, given)
    assert found.grad_fn.name() == "_LinearBackward"
    close(found, wanted)
    for one, other in zip(some(found_grads), wanted_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-2)


def test_sums_of_two_maps_and_their_gradients():
    given = [random(ROWS, WIDE), random(NARROW, WIDE, seed=1), random(ROWS, 33, seed=2)]
    given += [random(NARROW, 33, seed=3), random(NARROW, seed=4)]
    found, found_grads = gradients(dense.linear_sum, given)
    wanted, wanted_grads = gradients(
        lambda x, a, y, b, c: functional.linear(x, a, c) + functional.linear(y, b), given
    )
    assert found.grad_fn.name() == "_LinearSumBackward"
    close(found, wanted)
    for one, other in zip(some(found_grads), wanted_grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-2)


def test_gradients_of_frozen_parts_are_not_formed():
    x, weight = random(ROWS, WIDE), random(NARROW, WIDE, seed=1, grad=True)
    dense.linear(x, weight).sum().backward()
    assert x.grad is None
    close(weight.grad, torch.ones(NARROW, ROWS) @ x)


def test_the_bits_do_not_depend_on_threads():
    given = [random(ROWS, WIDE), random(NARROW, WIDE, seed=1), random(NARROW, seed=2)]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out, grads = gradients(dense.linear, given)
            found.append([out, *grads[:2]])  # a sum over rows, of the bias, is torch's own
    finally:
        torch.set_num_threads(before)
    for other in some(found[1:]):
        for one, two in zip(some(found[0]), other, strict=True):
            assert torch.equal(one, two)


def test_what_it_does_not_take_is_torchs(monkeypatch):
    x, weight = random(ROWS, WIDE), random(NARROW, WIDE, seed=1, grad=True)

    def taken(*given):
        return dense.linear(*given).grad_fn.name() == "_LinearBackward"

    assert taken(x, weight)
    assert not taken(x.double(), weight.double())
    assert not taken(x.bfloat16(), weight.bfloat16())
    assert not taken(x.view(7, 100, WIDE), weight)
    assert not taken(x, weight.to_sparse().to_dense().as_subclass(Strange))
    with torch.autocast("cpu", torch.bfloat16):
        assert not taken(x, weight)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert not taken(x, weight)
    finally:
        torch.set_float32_matmul_precision(precision)
    monkeypatch.setattr(dense, "pays_here", lambda: False)
    assert not taken(x, weight)
    monkeypatch.setattr(dense, "pays_here", lambda: True)
    mapped = torch.func.vmap(lambda row: dense.linear(row.unsqueeze(0), weight.detach()))(x)
    close(mapped.squeeze(1), x @ weight.t())


class Strange(torch.Tensor):
    """A subclass, which may mean anything."""


def test_wrong_shapes_are_torchs_error():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        dense.linear(random(ROWS, WIDE), random(NARROW, WIDE + 1))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        dense.multiply(random(ROWS, WIDE), random(WIDE + 1, NARROW))


def test_one_row_is_broadcast_as_torch_does():
    one, many = random(1, WIDE), random(ROWS, WIDE, seed=1)
    by = random(NARROW, WIDE, seed=2)
    close(dense.linear_sum(one, by, many, by), one @ by.t() + many @ by.t())


def test_a_second_derivative_is_refused():
    x, weight = random(ROWS, WIDE, grad=True), random(NARROW, WIDE, seed=1)
    (grad,) = torch.autograd.grad(dense.linear(x, weight).sum(), x, retain_graph=True)
    with pytest.raises(InputError, match="gradients of gradients"):
        torch.autograd.grad(dense.linear(x, weight).sum(), x, create_graph=True)
    close(grad, torch.ones(ROWS, NARROW) @ weight)


def test_linear_maps_of_a_model_are_replaced_while_a_pass_runs():
    model = nn.Sequential(nn.Linear(WIDE, NARROW), nn.ReLU(), nn.Linear(NARROW, 3))
    own = nn.Linear(3, 3)
    own.forward = own.forward  # the user's
    x = random(ROWS, WIDE)
    seen = []
    hook = model[0].register_forward_hook(lambda *given: seen.append(1))
    with fast_linears([model[0], model[2], own]), fast_linears([model[0]]):
        out = model(x)
        copied = copy.deepcopy(model)
        assert not is_plain_linear(own)
    assert out.grad_fn.name() == "_LinearBackward" and seen
    close(out, model(x))
    assert model(x).grad_fn.name() == "AddmmBackward0"
    assert all("forward" not in part.__dict__ for part in some([model[0], model[2]]))
    assert copied(x).grad_fn.name() == "AddmmBackward0"
    hook.remove()


def test_maps_with_hooks_are_called():
    one, other, seen = nn.Linear(WIDE, NARROW), nn.Linear(WIDE, NARROW, bias=False), []
    x, y = random(ROWS, WIDE), random(ROWS, WIDE, seed=1)
    assert sum_of_maps(one, x, other, y).grad_fn.name() == "_LinearSumBackward"
    hook = other.register_forward_hook(lambda module, given, out: seen.append(1) or out * 2)
    close(sum_of_maps(one, x, other, y), one(x) + 2 * functional.linear(y, other.weight))
    assert seen
    hook.remove()


@pytest.mark.parametrize("kind", ["GraphSAGE", "GCN", "GIN", "GAT"])
def test_models_compute_what_they_did(kind, monkeypatch):
    graph, models = random_graph(), pytest.importorskip("torch_geometric.nn.models")
    torch.manual_seed(0)
    model = getattr(models, kind)(graph.features.width, 32, 3, 5)
    fast = accelerate(model)
    (batch,) = Loader(graph, [5, 4, 3], range(64), 64, shuffle=False)
    results = []
    for used in (True, False):
        monkeypatch.setattr(dense, "pays_here", lambda used=used: used)
        model.zero_grad()
        out = fast(batch)[: batch.batch_size]
        functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        results.append([out.detach(), *(p.grad.clone() for p in model.parameters())])
    assert fast.plain is None
    for one, other in zip(some(results[0]), results[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_torchs_own_threads_give_the_same_bits():
    given = [random(ROWS, WIDE), random(NARROW, WIDE, seed=1)]
    found = []
    try:
        for entry in (True, False):
            if entry:
                assert join_torch() or not list(Path(torch.__file__).parent.glob("lib/libgomp*"))
            else:
                _core.set_team(0)
            found.append(gradients(dense.linear, given))
    finally:
        join_torch()
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(some(found[0][1]), found[1][1], strict=True):
        assert torch.equal(one, other)


class Checkpointed(nn.Module):
    """A network of linear maps, computed again in the backward pass."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv
        self.net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, x, edge_index):
        rows = self.conv(x, edge_index).relu()
        return torch.utils.checkpoint.checkpoint(self.net, rows, use_reentrant=False)


def test_gradients_of_what_a_checkpoint_computes_again():
    nn_ = pytest.importorskip("torch_geometric.nn")
    graph = random_graph()
    torch.manual_seed(0)
    model = Checkpointed(nn_.SAGEConv(graph.features.width, 32))
    fast = accelerate(model)
    (batch,) = Loader(graph, [5], range(64), 64, shuffle=False)
    found = []
    for one in (fast, model):
        model.zero_grad()
        out = one(batch.x, batch.edge_index)[: batch.batch_size]
        (out * out.detach().sin()).sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(some(found[0]), found[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_values_that_lie_in_memory_with_the_other_sign():
    real = random(ROWS, WIDE)
    x = torch.complex(real, 2 * real).conj().imag
    assert x.is_neg()
    weight, bias = random(NARROW, WIDE, seed=1), random(NARROW, seed=2)
    close(dense.linear(x, weight, bias), functional.linear(x, weight, bias))
    turned = torch.complex(bias, bias).conj().imag
    close(dense.linear(real, weight, turned), functional.linear(real, weight, turned))
    close(dense.multiply(x, weight.t()), x @ weight.t())
    near = Neighborhoods.of(torch.tensor([[2, 1, 0], [0, 0, 1]]), ROWS, 2)
    close(aggregate(x, near), aggregate(x.resolve_neg(), near))


def test_batches_of_gradients():
    x, weight = random(40, 8, grad=True), random(6, 8, seed=1, grad=True)
    grads = random(5, 40, 6, seed=2)
    found = torch.autograd.grad(dense.linear(x, weight), (x, weight), grads, is_grads_batched=True)
    wanted = torch.autograd.grad(
        functional.linear(x, weight), (x, weight), grads, is_grads_batched=True
    )
    for one, other in zip(some(found), wanted, strict=True):
        close(one, other)


def test_what_counts_operators_sees_them():
    from torch.utils.flop_counter import FlopCounterMode

    x, weight = random(ROWS, WIDE), random(NARROW, WIDE, seed=1)
    with FlopCounterMode(display=False) as counter:
        dense.linear(x, weight)
    assert counter.get_total_flops() == 2 * ROWS * WIDE * NARROW


def test_global_hooks_see_every_map():
    one, other, seen = nn.Linear(WIDE, NARROW), nn.Linear(WIDE, NARROW, bias=False), []
    handle = nn.modules.module.register_module_forward_hook(lambda *given: seen.append(1))
    try:
        sum_of_maps(one, random(ROWS, WIDE), other, random(ROWS, WIDE, seed=1))
    finally:
        handle.remove()
    assert len(seen) == 2
