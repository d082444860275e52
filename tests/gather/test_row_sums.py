"""Sums of rows by target: the bits of gathering first and adding up in order, and of the kernel."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Features, InputError
from foregather.gather.row_sums import list_starts, sum_features, sum_matrix, summed_dtype
from foregather.graph.features import column_scale, quantize
from foregather.nn.aggregate import Neighborhoods, aggregate
from tests.some import some

WIDTHS = (1, 7, 8, 9, 16, 33, 64, 72, 130)


def case(width, seed=0, rows=300, targets=41, edges=500):
    """A matrix, sources and ascending targets, and weights; some targets have no edges."""
    rng = np.random.default_rng([width, seed])
    matrix = rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-3, 4, (rows, 1))
    node = rng.permutation(rows)[: rows // 2].astype(np.uint32)
    place = rng.integers(0, len(node), edges).astype(np.uint32)
    target = np.sort(rng.integers(0, targets, edges)).astype(np.uint32)
    return matrix, node, place, target, rng.standard_normal(edges).astype(np.float32)


def in_order(rows, place, target, weight, targets):
    sums = np.zeros((targets, rows.shape[1]), summed_dtype(rows.dtype))
    for e, (source, to) in enumerate(zip(place, target, strict=True)):
        row = rows[source].astype(sums.dtype)
        sums[to] += row if weight is None else row * weight[e].astype(sums.dtype)
    return sums


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("ids", [np.uint32, np.int64])
def test_equals_adding_up_in_order(dtype, ids):
    for width in some(WIDTHS):
        matrix, node, place, target, weight = case(width)
        node = node.astype(ids)
        if dtype == "int8":
            scale = column_scale(np.abs(matrix).max(axis=0))
            features = Features(quantize(matrix.astype(np.float32), scale), scale)
        else:
            features = Features(matrix.astype(dtype))
        starts, gathered = list_starts(target, 41), features[node]
        for factors in some([None, weight]):
            wanted = in_order(gathered, place, target, factors, 41)
            for threads in some([1, 2, 3]):
                out = np.full_like(wanted, np.nan)
                sum_features(features, node, place, starts, factors, out, threads)
                assert np.array_equal(out, wanted), (width, threads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_kernel_of_models(dtype, weighted):
    for width in some(WIDTHS):
        matrix, _, place, target, weight = case(width)
        x = torch.from_numpy(matrix).clamp(-100, 100).to(dtype)
        edges = torch.from_numpy(np.stack([place, target]).astype(np.int64))
        lists = Neighborhoods.of(edges, len(x), 41)
        factors = torch.from_numpy(weight) if weighted else None
        wide = None if factors is None or dtype != torch.float64 else factors.double()
        wanted = aggregate(x, lists, "sum", factors if wide is None else wide)
        out = np.empty((41, width), summed_dtype(x.numpy().dtype))
        sum_matrix(x.numpy(), place, list_starts(target, 41), weight if weighted else None, out)
        assert torch.equal(torch.from_numpy(out).to(dtype), wanted)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_lists(data):
    width = data.draw(st.integers(0, 20))
    targets, edges = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 30))
    edges = edges if targets else 0
    matrix, _, place, target, weight = case(width, 3, 20, max(1, targets), edges)
    rows = matrix.astype(np.float32)
    starts, out = list_starts(target, targets), np.empty((targets, width), np.float32)
    sum_matrix(rows, place, starts, weight, out)
    assert np.array_equal(out, in_order(rows, place, target, weight, targets))


def test_what_is_out_of_range_is_named_and_nothing_is_written():
    rows, out = np.ones((4, 3), np.float32), np.full((2, 3), 7, np.float32)
    starts = np.array([0, 1, 2])
    with pytest.raises(InputError, match="place holds 4 at position 1, expected 0 to 3"):
        sum_matrix(rows, np.array([0, 4], np.uint32), starts, None, out)
    nodes = np.array([3, 9], np.int64)
    with pytest.raises(InputError, match="node holds 9 at position 1, expected 0 to 3"):
        sum_features(Features(rows), nodes, np.array([0, 1], np.uint32), starts, None, out)
    with pytest.raises(InputError, match="place holds 2 at position 0, expected 0 to 1"):
        sum_features(Features(rows), nodes % 4, np.array([2, 1], np.uint32), starts, None, out)
    for wrong in some([[0, 1, 3], [0, 2, 1], [1, 1, 2]]):
        with pytest.raises(InputError, match="starts do not ascend"):
            sum_matrix(rows, np.array([0, 1], np.uint32), np.array(wrong), None, out)
    with pytest.raises(InputError, match="weight does not have one number"):
        sum_matrix(rows, np.array([0, 1], np.uint32), starts, np.ones(3, np.float32), out)
    with pytest.raises(InputError, match="one row for each target"):
        sum_matrix(rows, np.array([0, 1], np.uint32), starts, None, out[:1])
    with pytest.raises(InputError, match="none of float16"):
        sum_matrix(rows.astype(np.int32), np.array([0, 1], np.uint32), starts, None, out)
    assert (out == 7).all()


def test_targets_that_do_not_ascend_are_refused():
    for target, targets in some([([0, 2, 1], 3), ([0, 1, 3], 3), ([0], 0)]):
        with pytest.raises(InputError, match="ascend by target"):
            list_starts(np.array(target, np.uint32), targets)
    assert list_starts(np.empty(0, np.uint32), 2).tolist() == [0, 0, 0]
