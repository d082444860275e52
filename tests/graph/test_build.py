"""The CSC builder against SciPy, a stable sort, and plain Python."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import InputError, _core

DTYPES = [np.uint32, np.int64]


def build(source: Any, target: Any, nodes: int, dtype: Any, threads: int = 1, **options: Any):
    source, target = np.asarray(source, dtype), np.asarray(target, dtype)
    indptr = np.full(nodes + 1, -9, np.int64)
    indices = np.full(source.size, 9, dtype)
    order = np.full(source.size, -9, np.int64)
    _core.build_csc(source, target, nodes, indptr, indices, order, threads, **options)
    return indptr, indices, order


def naive(source: list[int], target: list[int], nodes: int, sort_rows: bool):
    rows: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for position, (u, v) in enumerate(zip(source, target, strict=True)):
        rows[v].append((u, position))
    if sort_rows:
        rows = [sorted(row) for row in rows]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    flat = [edge for row in rows for edge in row]
    return indptr, [u for u, _ in flat], [position for _, position in flat]


@st.composite
def edge_lists(draw):
    nodes = draw(st.integers(1, 40))
    ids = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ids, ids), max_size=120))
    return nodes, [u for u, _ in edges], [v for _, v in edges]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=60)
@given(case=edge_lists(), sort_rows=st.booleans(), threads=st.sampled_from([1, 2, 8]))
def test_equals_plain_python(case, sort_rows, threads, dtype):
    nodes, source, target = case
    got = build(source, target, nodes, dtype, threads, sort_rows=sort_rows)
    for have, want in zip(got, naive(source, target, nodes, sort_rows), strict=True):
        assert have.tolist() == list(want)
    bare = np.empty(len(source), dtype)
    indptr = np.empty(nodes + 1, np.int64)
    _core.build_csc(
        np.array(source, dtype),
        np.array(target, dtype),
        nodes,
        indptr,
        bare,
        None,
        threads,
        sort_rows,
    )
    assert bare.tolist() == got[1].tolist() and indptr.tolist() == got[0].tolist()


def random_edges(kind: str, dtype: Any):
    rng = np.random.default_rng(3)
    nodes, edges = 200_000, 600_000
    source = rng.integers(0, nodes, edges)
    target = rng.integers(0, nodes, edges)
    if kind == "power law":
        target = rng.permutation(nodes)[(nodes * rng.random(edges) ** 6).astype(np.int64)]
    if kind == "hubs first":
        target = (nodes * rng.random(edges) ** 9).astype(np.int64)
    if kind == "star":
        target[: edges * 4 // 5] = 77
        source[: edges // 2] %= 1000  # many duplicates in one long row
    return source.astype(dtype), target.astype(dtype), nodes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["uniform", "power law", "hubs first", "star"])
def test_equals_stable_sort_for_any_threads(kind, dtype):
    source, target, nodes = random_edges(kind, dtype)
    for sort_rows in (True, False):
        keys = (source, target) if sort_rows else (target,)
        order = np.lexsort(keys)
        for threads in (1, 2, 8):
            got = build(source, target, nodes, dtype, threads, sort_rows=sort_rows)
            np.testing.assert_array_equal(got[2], order)
            np.testing.assert_array_equal(got[1], source[order])
            np.testing.assert_array_equal(np.diff(got[0]), np.bincount(target, minlength=nodes))


def test_equals_scipy_after_dedup():
    source, target, nodes = random_edges("star", np.uint32)
    shape = (nodes, nodes)
    want = sp.coo_matrix((np.ones(source.size), (source, target)), shape=shape).tocsc()
    indptr, indices, _ = build(source, target, nodes, np.uint32, 2)
    keep = np.empty(indices.size, np.uint8)
    removed = _core.dedup_rows(indptr, indices, keep)
    assert removed == source.size - want.nnz > 0
    new = np.empty_like(indptr)
    count = _core.compact_rows(indptr, indices, keep, new)
    np.testing.assert_array_equal(new, want.indptr)
    np.testing.assert_array_equal(indices[:count], want.indices)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nodes", [0, 1, 70_000])
def test_no_edges(nodes, dtype):
    indptr, indices, order = build([], [], nodes, dtype, 2)
    assert indices.size == order.size == 0 and not indptr.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_node(dtype):
    indptr, indices, order = build([0, 0, 0], [0, 0, 0], 1, dtype)
    assert indptr.tolist() == [0, 3]
    assert indices.tolist() == [0, 0, 0] and order.tolist() == [0, 1, 2]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_names_the_first_bad_edge(threads):
    source, target, _ = random_edges("uniform", np.int64)
    source, target = source % 5000, target % 5000
    target[590_000] = 9999
    source[17] = 5000
    message = r"edge 17 has source 5000, but the graph has 5000 nodes \(ids are 0 to N-1\)"
    with pytest.raises(InputError, match=message):
        build(source, target, 5000, np.int64, threads)
    source[17] = 0
    with pytest.raises(InputError, match="edge 590000 has target 9999"):
        build(source, target, 5000, np.int64, threads)
    target[3] = -1
    with pytest.raises(InputError, match="edge 3 has target -1"):
        build(source, target, 5000, np.int64, threads)


def test_refuses_arrays_that_do_not_fit():
    one, two = np.zeros(1, np.uint32), np.zeros(2, np.uint32)
    indptr = np.zeros(2, np.int64)
    with pytest.raises(InputError, match="one for each edge"):
        _core.build_csc(one, two, 1, indptr, one.copy(), None)
    with pytest.raises(InputError, match="order"):
        _core.build_csc(one, one, 1, indptr, one.copy(), np.zeros(0, np.int64))
    with pytest.raises(InputError, match="num_nodes"):
        _core.build_csc(one, one, 0, indptr, one.copy(), None)
    with pytest.raises(InputError, match="0 nodes"):
        _core.build_csc(one, one, 0, indptr[:1].copy(), one.copy(), None)
    with pytest.raises(TypeError):  # never converted: the result would be lost in a copy
        _core.build_csc(one, one, 1, indptr, np.zeros(1, np.int64), None)
    with pytest.raises(TypeError):
        _core.build_csc(one, one, 1, indptr.astype(np.int32), one.copy(), None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_checks_find_the_first_offence(dtype):
    ids = np.arange(200_000).astype(dtype)
    assert _core.check_ids(ids, 200_000) == -1
    assert _core.check_ids(ids, 150_000, 2) == 150_000
    assert _core.check_indptr(np.array([0, 2, 2, 1, 0]), 0) == 3
    assert _core.check_indptr(np.array([0, 2]), 1) == 0
    rows = np.array([0, 3, 3, 6])
    assert _core.check_rows(rows, np.array([1, 1, 5, 0, 2, 3], dtype), 0) == -1
    assert _core.check_rows(rows, np.array([1, 1, 5, 0, 2, 1], dtype), 0) == 5


@given(data=st.data())
def test_a_range_of_rows(data):
    rows, nodes = data.draw(st.integers(1, 40)), data.draw(st.integers(40, 5000))
    count = data.draw(st.integers(0, 300))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    dtype = data.draw(st.sampled_from([np.uint32, np.int64]))
    source, target = rng.integers(0, nodes, count), rng.integers(0, rows, count)
    ascending = data.draw(st.booleans())
    # A guard behind each output: rows beyond the range must not be touched.
    indptr, indices = np.full(rows + 9, -7, np.int64), np.full(count + 8, 7, dtype)
    order = np.empty(count, np.int64) if data.draw(st.booleans()) else None
    _core.build_csc(
        *(ids.astype(dtype) for ids in (source, target)),
        nodes,
        indptr[: rows + 1],
        indices[:count],
        order,
        2,
        ascending,
    )
    expected = np.lexsort((source, target)) if ascending else np.argsort(target, kind="stable")
    np.testing.assert_array_equal(indices[:count], source[expected])
    np.testing.assert_array_equal(np.diff(indptr[: rows + 1]), np.bincount(target, minlength=rows))
    assert (indptr[rows + 1 :] == -7).all() and (indices[count:] == 7).all()
    if order is not None:
        np.testing.assert_array_equal(order, expected)
