"""Aggregation against loops, for all reductions, storage types, shapes and prefixes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather._core import testing
from foregather.nn.aggregate import aggregate, aggregate_heads, edge_softmax
from foregather.nn.aggregate_plain import plain_aggregate, plain_edge_softmax
from tests.nn.loops import (
    SUMS,
    as_numbers,
    gradients,
    random_edges,
    reduced,
    softmax,
)
from tests.some import some

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
WIDTHS = [0, 1, 3, 7, 8, 9, 16, 31, 40, 64, 65, 100, 136]
REDUCES = ["sum", "mean", "max"]
sizes = st.integers(0, 9)


@pytest.fixture(params=[True, False], ids=["avx2", "any"], autouse=True)
def processor(request):
    """All tests run with the form for this processor and with the one for every processor."""
    testing.allow_avx2(request.param)
    yield
    testing.allow_avx2(True)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros and signs included; few digits, so that a maximum is often shared."""
    return torch.from_numpy(rng.integers(-40, 41, shape) / 8 * rng.integers(0, 2, shape)).to(dtype)


def equal(got: torch.Tensor, want: np.ndarray, dtype: torch.dtype) -> bool:
    """The same bits, once what was added up is rounded to the storage type."""
    rounded = torch.from_numpy(np.ascontiguousarray(want)).to(dtype)
    return got.dtype == dtype and got.shape == rounded.shape and bool((got == rounded).all())


@settings(deadline=None, max_examples=120)
@given(
    st.integers(0, 2**32),
    st.tuples(sizes, sizes, st.integers(0, 40)),
    st.sampled_from(WIDTHS),
    st.sampled_from(DTYPES),
    st.sampled_from(REDUCES),
    st.booleans(),
)
def test_reductions_equal_loops_bit_for_bit(seed, counts, width, dtype, reduce, weighted):
    rng = np.random.default_rng(seed)
    edges = random_edges(seed, *counts)
    x = values(rng, (edges.sources, width), dtype)
    weight = values(rng, (len(edges.source),), dtype) / 3 if weighted else None
    grad = values(rng, (edges.targets, width), dtype) / 3
    leaves = [one.clone().requires_grad_() for one in (x, weight) if one is not None]
    out = aggregate(leaves[0], edges.lists(), reduce, leaves[1] if weighted else None)
    numbers = as_numbers(weight) if weighted else None
    assert equal(out.detach(), reduced(as_numbers(x), edges, reduce, numbers), dtype)
    got = torch.autograd.grad(out, leaves, grad)
    want = gradients(as_numbers(x), edges, reduce, numbers, as_numbers(grad))
    assert equal(got[0], want[0], dtype)
    if weighted:  # products are added up in another order
        assert got[1].dtype == dtype
        step = {torch.bfloat16: 2**-8, torch.float16: 2**-10}.get(dtype, 1e-5)
        np.testing.assert_allclose(as_numbers(got[1]), want[1], rtol=step, atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.tuples(sizes, sizes, st.integers(0, 40)),
    st.integers(0, 5),
    st.sampled_from([0, 1, 5, 8, 12, 64]),
    st.sampled_from(DTYPES),
)
def test_heads_equal_loops_bit_for_bit(seed, counts, heads, width, dtype):
    rng = np.random.default_rng(seed)
    edges = random_edges(seed, *counts)
    x = values(rng, (edges.sources, heads, width), dtype).requires_grad_()
    weight = (values(rng, (len(edges.source), heads), dtype) / 3).requires_grad_()
    grad = values(rng, (edges.targets, heads, width), dtype) / 3
    out = aggregate_heads(x, edges.lists(), weight)
    given = as_numbers(x), edges, "sum", as_numbers(weight)
    assert equal(out.detach(), reduced(*given), dtype)
    to_x, to_weight = torch.autograd.grad(out, [x, weight], grad)
    want = gradients(*given, as_numbers(grad))
    assert equal(to_x, want[0], dtype)
    step = {torch.bfloat16: 2**-8, torch.float16: 2**-10}.get(dtype, 1e-5)
    np.testing.assert_allclose(as_numbers(to_weight), want[1], rtol=step, atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.tuples(sizes, sizes, st.integers(0, 40)),
    st.sampled_from([(), (0,), (1,), (3,), (8,)]),
    st.sampled_from([1.0, 30.0, 3000.0]),
    st.sampled_from(DTYPES),
)
def test_softmax_equals_loops(seed, counts, heads, scale, dtype):
    rng = np.random.default_rng(seed)
    edges = random_edges(seed, *counts)
    shape = (len(edges.source), *heads)
    logits = torch.from_numpy(scale * rng.standard_normal(shape)).to(dtype).requires_grad_()
    grad = torch.from_numpy(rng.standard_normal(shape)).to(dtype)
    out = edge_softmax(logits, edges.lists())
    exact = logits.detach().to(torch.float64).numpy()
    step = {torch.float64: 1e-13, torch.float32: 2e-6}.get(dtype, 2**-7)
    np.testing.assert_allclose(as_numbers(out), softmax(exact, edges), rtol=step, atol=1e-7)
    (got,) = torch.autograd.grad(out, logits, grad)
    y, g = out.detach().double().numpy(), grad.double().numpy()
    mean = np.zeros((edges.targets, *heads))
    np.add.at(mean, edges.target, y * g)
    np.testing.assert_allclose(as_numbers(got), y * (g - mean[edges.target]), rtol=step, atol=step)


def test_softmax_of_extremes():
    edges = random_edges(3, 4, 2, 0)
    edges = type(edges)(np.array([0, 1, 2, 3]), np.array([0, 0, 0, 1]), 4, 2)
    inf = float("inf")
    for dtype in some(DTYPES):
        far = edge_softmax(torch.tensor([0.0, -inf, -1e4, 5.0], dtype=dtype), edges.lists())
        assert far.tolist() == [1, 0, 0, 1]
        for bad in some([[inf, 0.0, 0.0], [float("nan"), 0.0, 0.0], [-inf, -inf, -inf]]):
            out = edge_softmax(torch.tensor([*bad, 2.0], dtype=dtype), edges.lists())
            # what is not a number is not lost, and stays with its target
            assert out[:3].isnan().any() and out[3] == 1


def test_exponential_is_precise():
    """A softmax of two logits is 1 / (1 + exp(-gap)), to the last places of the type."""
    gaps = np.linspace(0, 80, 40_001)
    for dtype, step in some([(torch.float32, 4 * 2**-23), (torch.float64, 4 * 2**-52)]):
        logits = torch.from_numpy(np.stack([np.zeros_like(gaps), -gaps])).to(dtype)
        edges = random_edges(0, 1, 1, 2)
        out = edge_softmax(logits, edges.lists())
        exact = logits[1].double().numpy().astype(np.longdouble)
        want = np.exp(exact) / (1 + np.exp(exact))
        np.testing.assert_allclose(out[1].numpy().astype(np.longdouble), want, rtol=step)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(REDUCES), st.booleans(), st.data())
def test_a_prefix_equals_the_edges_cut_off(seed, reduce, weighted, data):
    """The lists by source of the whole batch serve its prefixes."""
    edges = random_edges(seed, 12, 9, 60)
    whole = edges.lists()
    assert whole.by_source.ptr[-1] == 60
    targets = data.draw(st.integers(0, 9))
    cut = edges.first(targets)
    least = int(cut.source.max()) + 1 if len(cut.source) else 0
    sources = data.draw(st.integers(least, 12))
    cut = type(cut)(cut.source, cut.target, sources, targets)
    rng = np.random.default_rng(seed)
    x = values(rng, (sources, 20), torch.float32).requires_grad_()
    weight = values(rng, (len(cut.source),), torch.float32).requires_grad_() if weighted else None
    grad = values(rng, (targets, 20), torch.float32)
    leaves = [one for one in (x, weight) if one is not None]

    def run(lists):
        out = aggregate(x, lists, reduce, weight)
        return [out, *torch.autograd.grad(out, leaves, grad)]

    for ours, fresh in some(zip(run(whole.first(targets, sources)), run(cut.lists()), strict=True)):
        assert torch.equal(ours, fresh)


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_torch_gives_the_same(dtype):
    """What runs where there is no kernel: other devices."""
    edges = random_edges(5, 30, 20, 200)
    rng = np.random.default_rng(5)
    x = torch.from_numpy(rng.standard_normal((30, 12))).to(dtype)
    weight = torch.from_numpy(rng.standard_normal(200)).to(dtype)
    step = {torch.bfloat16: 2**-6, torch.float16: 2**-8}.get(dtype, 1e-5)

    def near(a, b):
        return a.dtype == b.dtype and torch.allclose(a, b, rtol=step, atol=step)

    for reduce in some(REDUCES):
        for factors in (None, weight):
            ours = aggregate(x, edges.lists(), reduce, factors)
            assert near(ours, plain_aggregate(x, edges.lists(), reduce, factors))
    heads, weights = x.view(30, 3, 4), weight[:, None].expand(-1, 3)
    ours = aggregate_heads(heads, edges.lists(), weights)
    assert near(ours, plain_aggregate(heads, edges.lists(), "sum", weights))
    assert near(edge_softmax(weights, edges.lists()), plain_edge_softmax(weights, edges.lists()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_threads_or_processor(dtype):
    """Enough work for several blocks; lists of very unequal length."""
    rng = np.random.default_rng(1)
    count = 30_000
    ends = np.sort((3000 * rng.random(count) ** 4).astype(np.int64))
    source = (5000 * rng.random(count) ** 3).astype(np.int64)
    lists = type(random_edges(0, 1, 1, 0))(source, ends, 5000, 3000).lists()
    x = torch.from_numpy(rng.standard_normal((5000, 52))).to(dtype).requires_grad_()
    weight = torch.from_numpy(rng.standard_normal((count, 4))).to(dtype).requires_grad_()
    grad = torch.from_numpy(rng.standard_normal((3000, 52))).to(dtype)

    def run():
        found = []
        for reduce in some(REDUCES):
            one = weight[:, 1]
            out = aggregate(x, lists, reduce, one)
            found += [out, *torch.autograd.grad(out, [x, weight], grad)]
        soft = edge_softmax(weight, lists)
        out = aggregate_heads(x.view(-1, 4, 13), lists, soft)
        return [*found, out, *torch.autograd.grad(out, [x, weight], grad.view(-1, 4, 13))]

    before = torch.get_num_threads()
    try:
        runs = []
        for threads, lanes in ((1, True), (2, True), (3, True), (2, False)):
            torch.set_num_threads(threads)
            testing.allow_avx2(lanes)
            runs.append(run())
    finally:
        torch.set_num_threads(before)
    for other in some(runs[1:]):
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other, strict=True))


def test_half_rows_are_added_up_in_float32():
    """65504 is the largest float16: the way to a mean of it leads beyond."""
    edges = random_edges(0, 3, 1, 3)
    x = torch.full((3, 20), 65504.0, dtype=torch.float16, requires_grad=True)
    mean = aggregate(x, edges.lists(), "mean")
    assert (mean == 65504).all()
    assert aggregate(x, edges.lists(), "sum").isinf().all()
    turned = aggregate(x, edges.lists(), "sum", torch.tensor([1.0, 1.0, -1.0]))
    assert (turned == 65504).all()
    many = random_edges(0, 1, 1, 4096)  # beyond 256 ones bfloat16 counts no further
    ones = torch.ones(1, 20, dtype=torch.bfloat16)
    assert (aggregate(ones, many.lists()) == 4096).all()
    assert SUMS[torch.float16] is np.float32


def test_infinite_and_missing_numbers_are_not_lost():
    edges = random_edges(0, 1, 1, 0)
    edges = type(edges)(np.array([0, 1, 2]), np.array([0, 0, 0]), 3, 1)
    for dtype in some(DTYPES):
        for place in some(range(3)):
            x = torch.ones(3, 11, dtype=dtype)
            x[place, 3], x[place, 5], x[place, 10] = float("nan"), float("inf"), -float("inf")
            for reduce in some(REDUCES):
                out = aggregate(x, edges.lists(), reduce)[0]
                assert out[3].isnan() and out[5] == float("inf")
                assert out[10] == (1 if reduce == "max" else -float("inf"))
