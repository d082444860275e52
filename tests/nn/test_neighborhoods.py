"""Lists of edges by target and by source, and what is said about wrong ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.nn.aggregate import Neighborhoods, aggregate, aggregate_heads, edge_softmax
from tests.nn.loops import Edges, random_edges
from tests.some import some


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(0, 20), st.integers(0, 80))
def test_lists_hold_every_edge_once_and_ascend(seed, sources, targets, count):
    edges = random_edges(seed, sources, targets, count)
    lists = edges.lists()
    assert lists.source.tolist() == edges.source.tolist()
    assert lists.indptr.diff().tolist() == np.bincount(edges.target, minlength=targets).tolist()
    assert (lists.num_sources, lists.num_targets) == (sources, targets)
    by_source = lists.by_source
    order = np.argsort(edges.source, kind="stable")
    assert by_source.edge.tolist() == order.tolist()
    assert by_source.target.tolist() == edges.target[order].tolist()
    assert by_source.ptr.diff().tolist() == np.bincount(edges.source, minlength=sources).tolist()


def test_lists_of_many_edges_do_not_depend_on_threads():
    edges = random_edges(1, 50_000, 30_000, 400_000)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            lists = edges.lists()
            by_source = lists.by_source
            found.append([lists.indptr, lists.source, *vars_of(by_source)])
    finally:
        torch.set_num_threads(before)
    assert found[0][3].tolist() == np.argsort(edges.source, kind="stable").tolist()
    for other in some(found[1:]):
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def vars_of(by_source):
    return by_source.ptr, by_source.edge, by_source.target


def test_an_edge_index_that_is_a_view_is_read_as_it_is():
    wide = torch.arange(24).reshape(2, 12) % 5
    view = wide.sort(dim=1).values[:, 2:9]
    strided = torch.stack([view, view], dim=2)[:, :, 0]
    assert not strided.is_contiguous()
    lists = Neighborhoods.of(strided, 5, 5)
    assert lists.source.tolist() == view[0].tolist()


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ([0, 5], [0, 1], "edge 1 goes from 5 to 1, but there are 5 sources"),
        ([0, -1], [0, 1], "edge 1 goes from -1 to 1, but there are 5 sources"),
        ([0, 1], [0, 3], "edge 1 goes from 1 to 3, but there are 3 targets"),
        ([0, 1], [-1, 1], "edge 0 goes from 0 to -1, but there are 3 targets"),
        ([0, 1, 2], [0, 2, 1], "edge 2 goes from 2 to 1, but the edge before it to 2; sort"),
    ],
)
def test_wrong_edges_are_named(source, target, said):
    with pytest.raises(InputError, match=said):
        Neighborhoods.of(torch.tensor([source, target]), 5, 3)


def test_the_first_of_many_wrong_edges_is_named_by_any_number_of_threads():
    edges = random_edges(2, 100, 1000, 300_000)
    source = edges.source.copy()
    source[[90_001, 150_000, 299_999]] = 100
    target = edges.target.copy()
    target[[200_000, 299_000]] = 0
    for threads in some([1, 2, 4]):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with pytest.raises(InputError, match="edge 90001 goes from 100"):
                Edges(source, edges.target, 100, 1000).lists()
            with pytest.raises(InputError, match="edge 200000 .*sort the edges by target"):
                Edges(edges.source, target, 100, 1000).lists()
        finally:
            torch.set_num_threads(before)


def test_other_wrong_inputs_are_one_sentence():
    lists = random_edges(3, 6, 4, 10).lists()
    x, weight = torch.ones(6, 8), torch.ones(10)
    wrong = {
        r"edge_index is torch.int32 of shape \[2, 3\]": lambda: Neighborhoods.of(
            torch.zeros(2, 3, dtype=torch.int32), 1, 1
        ),
        r"of shape \[3, 2\]": lambda: Neighborhoods.of(torch.zeros(3, 2).long(), 1, 1),
        "-1 sources": lambda: Neighborhoods.of(torch.zeros(2, 0).long(), -1, 1),
        r"x has shape \[5, 8\], expected \[6, columns\]": lambda: aggregate(x[:5], lists),
        r"x has shape \[6\]": lambda: aggregate(x[:, 0], lists),
        r"x has shape \[6, 8\], expected \[6, heads, columns\]": lambda: aggregate_heads(
            x, lists, weight
        ),
        "x is torch.int64": lambda: aggregate(x.long(), lists),
        "x is on meta and the neighborhoods on cpu": lambda: aggregate(x.to("meta"), lists),
        "reduce is 'min'": lambda: aggregate(x, lists, "min"),
        r"weight has shape \[9\], expected \[10\]": lambda: aggregate(x, lists, "sum", weight[:9]),
        r"weight has shape \[10, 1\]": lambda: aggregate(x, lists, "sum", weight[:, None]),
        "weight is torch.float64": lambda: aggregate(x, lists, "sum", weight.double()),
        "weight is torch.int64": lambda: aggregate(x, lists, "sum", weight.long()),
        "weight is on meta": lambda: aggregate(x, lists, "sum", weight.to("meta")),
        r"logits has shape \[9\]": lambda: edge_softmax(weight[:9], lists),
        r"logits has shape \[10, 1, 1\]": lambda: edge_softmax(weight[:, None, None], lists),
        "logits is torch.int64": lambda: edge_softmax(weight.long(), lists),
        "the first 5 targets": lambda: lists.first(5, 6),
        "and 7 sources were asked for": lambda: lists.first(4, 7),
        "the first -1 targets": lambda: lists.first(-1, 6),
        "reads row 4, beyond the first 4 sources": lambda: lists.first(3, 4),
    }
    assert lists.source[: lists.indptr[3]].max() == 4
    for said, call in some(wrong.items()):
        with pytest.raises(InputError, match=said) as error:
            call()
        assert "\n" not in str(error.value)


def test_lists_by_source_are_made_only_where_a_gradient_of_rows_needs_them():
    lists = random_edges(4, 6, 4, 10).lists()
    x, weight = torch.ones(6, 8), torch.ones(10, requires_grad=True)
    aggregate(x, lists, "sum", weight).sum().backward()
    assert weight.grad is not None and not lists.has_by_source
    with torch.no_grad():
        aggregate(x.requires_grad_(), lists)
    assert not lists.has_by_source
    short = lists.first(2, 6)
    aggregate(x, short, "mean").sum().backward()
    assert lists.has_by_source and lists.by_source.edge is short.by_source.edge


def test_a_prefix_of_everything_is_the_same_object():
    lists = random_edges(4, 6, 4, 10).lists()
    assert lists.first(4, 6) is lists
    assert lists.first(0, 0).num_edges == 0
    assert aggregate(torch.ones(0, 3), lists.first(0, 0)).shape == (0, 3)
