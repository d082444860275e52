"""The order of an epoch: a permutation, the same from any point, different each epoch."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foregather import Graph, InputError, _core
from foregather.loader.seeds import Seeds
from tests.sampling.reference import MASK, SHUFFLE, derive, epoch_key


def graph_of(nodes: int) -> Graph:
    edges = np.zeros((2, 0), np.int64)
    return Graph.from_edge_index(edges, nodes, splits={"train": [5, 3, 8], "val": [1]})


def epoch_of(seeds: Seeds, epoch: int) -> np.ndarray:
    parts = [seeds.batch(epoch, b)[0] for b in range(len(seeds))]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


@given(st.integers(1, 300), st.integers(1, 50), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_an_epoch_is_a_permutation(nodes, batch_size, seed, epoch):
    seeds = Seeds.make(graph_of(max(nodes, 9)), np.arange(nodes) % 9, batch_size, True, seed=seed)
    dealt = epoch_of(seeds, epoch)
    np.testing.assert_array_equal(np.sort(dealt), np.sort(np.arange(nodes) % 9))
    assert [len(seeds.batch(epoch, b)[0]) for b in range(len(seeds) - 1)] == [batch_size] * (
        len(seeds) - 1
    )


@given(st.integers(1, 200), st.integers(1, 200), st.booleans())
def test_drop_last(nodes, batch_size, shuffle):
    seeds = Seeds.make(graph_of(max(nodes, 9)), np.zeros(nodes, int), batch_size, shuffle, True)
    assert len(seeds) == nodes // batch_size
    assert epoch_of(seeds, 0).size == len(seeds) * batch_size


def test_any_piece_of_the_order_is_the_same():
    whole = np.empty(1000, np.int64)
    _core.shuffled(1000, 7, 3, 0, whole)
    for start, size in ((0, 1), (999, 1), (130, 300), (1000, 0)):
        piece = np.empty(size, np.int64)
        _core.shuffled(1000, 7, 3, start, piece)
        np.testing.assert_array_equal(piece, whole[start : start + size])
    for start, size in ((-1, 1), (999, 2), (1001, 0)):
        with pytest.raises(InputError):
            _core.shuffled(1000, 7, 3, start, np.empty(size, np.int64))


def test_epochs_and_seeds_differ_and_look_random():
    graph, count = graph_of(500), 500
    orders = [
        epoch_of(Seeds.make(graph, None, 500, True, seed=s), e) for s in (0, 1) for e in (0, 1)
    ]
    for i, a in enumerate(orders):
        assert not np.array_equal(a, np.arange(count))
        for b in orders[i + 1 :]:
            assert (a == b).sum() < 10  # 1 is expected
    # which nodes share a batch: every pair equally often, neighbours in the list too
    together = np.zeros(50)
    for epoch in range(2000):
        order = np.empty(50, np.int64)
        _core.shuffled(50, 3, epoch, 0, order)
        where = np.argsort(order) // 10
        together += where == where[0]
    expected, spread = 2000 * 9 / 49, (2000 * 9 / 49 * 40 / 49) ** 0.5
    assert np.abs(together[1:] - expected).max() < 4.5 * spread


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_every_order_is_reached_equally_often(count):
    orders, epochs = Counter(), 400 * math.factorial(count)
    for epoch in range(epochs):
        order = np.empty(count, np.int64)
        _core.shuffled(count, 11, epoch, 0, order)
        orders[tuple(order.tolist())] += 1
    assert len(orders) == math.factorial(count)
    chi = sum((seen - 400) ** 2 / 400 for seen in orders.values())
    assert chi < stats.chi2.ppf(1 - 1e-6, max(len(orders) - 1, 1))


def test_orders_beside_the_bound_of_the_table_are_permutations():
    for count in (62, 63, 64, 65, 66):
        order = np.empty(count, np.int64)
        _core.shuffled(count, 5, 2, 0, order)
        assert sorted(order.tolist()) == list(range(count)) != order.tolist()


def permuted(count: int, key: int, position: int) -> int:
    """Where the network sends a position: four half-rounds on a rectangle, again while outside."""
    rows = math.isqrt(count)
    columns = -(-count // rows)

    def offset(number: int, part: int, extent: int) -> int:
        mixed = (part + derive(key, number)) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ mixed >> 32) * 0x94D049BB133111EB & MASK
        return (mixed >> 32) * extent >> 32

    while True:
        left, right = divmod(position, columns)
        for number in (0, 2):
            left = (left + offset(number, right, rows)) % rows
            right = (right + offset(number + 1, left, columns)) % columns
        position = left * columns + right
        if position < count:
            return position


@pytest.mark.parametrize("count", [64, 65, 99, 100, 1000])
def test_the_order_equals_the_reference(count):
    order = np.empty(count, np.int64)
    _core.shuffled(count, 9, 4, 0, order)
    key = epoch_key(9, SHUFFLE, 4)
    assert order.tolist() == [permuted(count, key, k) for k in range(count)]


def test_in_order_without_shuffle():
    np.testing.assert_array_equal(epoch_of(Seeds.make(graph_of(10), None, 4), 5), np.arange(10))


def test_what_input_nodes_may_be():
    graph = graph_of(10)
    mask = np.zeros(10, bool)
    mask[[2, 7]] = True
    cases = [
        ("train", [5, 3, 8], [0, 1, 2]),
        ("valid", [1], [0]),
        ([7, 5, 7], [7, 5, 7], [0, 1, 2]),
        (torch.tensor([9, 0]), [9, 0], [0, 1]),
        (np.array([4], np.uint16), [4], [0]),
        (mask, [2, 7], [2, 7]),
        (torch.from_numpy(mask), [2, 7], [2, 7]),
        (None, list(range(10)), list(range(10))),
        ([], [], []),
    ]
    for given_nodes, nodes, input_id in cases:
        seeds = Seeds.make(graph, given_nodes, 100)
        assert len(seeds) == (1 if nodes else 0)
        if nodes:
            got, ids = seeds.batch(0, 0)
            assert (got.tolist(), ids.tolist()) == (nodes, input_id)


def test_the_list_given_may_change_afterwards():
    given_nodes = np.array([1, 2, 3])
    seeds = Seeds.make(graph_of(10), given_nodes, 3)
    given_nodes[:] = 9
    assert seeds.batch(0, 0)[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", 1), "no split 'nothing'; the graph has: train, val"),
        (([10], 1), "input_nodes holds 10 at position 0, but there are 10 nodes"),
        (([-1], 1), "input_nodes holds -1"),
        ((np.ones(9, bool), 1), r"a mask of shape \[9\], expected \[10\]"),
        (([0.5], 1), "whole numbers"),
        ((None, 0), "batch_size is 0"),
        ((None, 2.5), "batch_size is 2.5"),
        ((None, 1, True, False, -1), "seed is -1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(InputError, match=message):
        Seeds.make(graph_of(10), *arguments)


def test_no_such_batch():
    with pytest.raises(InputError, match="batch is 4, but an epoch has 4"):
        Seeds.make(graph_of(10), None, 3).batch(0, 4)
