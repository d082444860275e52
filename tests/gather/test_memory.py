"""Gathering from memory equals NumPy's indexing, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Features, InputError, _core
from foregather.gather.memory import gather

DTYPES = ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]


def rows_of(dtype: str, rows: int, width: int, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).integers(0, 256, rows * width * 8, np.uint8)
    if dtype == "bool":
        return (raw[: rows * width] & 1).astype(bool).reshape(rows, width)
    values = raw.view(dtype)[: rows * width].reshape(rows, width)
    return np.nan_to_num(values) if values.dtype.kind == "f" else values


@settings(max_examples=60)
@given(
    st.sampled_from(DTYPES),
    st.integers(1, 40),
    st.integers(0, 70),
    st.lists(st.integers(0, 39), max_size=60),
    st.sampled_from([np.uint32, np.int64, np.int32]),
    st.sampled_from([1, 2, 8]),
)
def test_equals_numpy(dtype, rows, width, ids, id_dtype, threads):
    data = rows_of(dtype, rows, width)
    ids = np.array([i % rows for i in ids], id_dtype)
    out = gather(Features(data), ids, threads=threads)
    np.testing.assert_array_equal(out.numpy(), data[ids])
    assert out.numpy().dtype == data.dtype


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 70), st.lists(st.integers(0, 29), max_size=40))
def test_int8_with_scale_and_half_to_float(rows, width, ids):
    ids = np.array([i % rows for i in ids], np.uint32)
    q = rows_of("int8", rows, width)
    scale = np.random.default_rng(1).random(width, np.float32)
    features = Features(q, scale)
    np.testing.assert_array_equal(gather(features, ids).numpy(), features[ids])
    half = rows_of("float16", rows, width)
    out = torch.full((len(ids), width), 7.0)
    assert gather(Features(half), ids, out) is out
    np.testing.assert_array_equal(out.numpy(), half[ids].astype(np.float32))


def test_large_and_threaded():
    data = rows_of("float32", 5000, 100)
    ids = np.random.default_rng(2).integers(0, 5000, 20_000)
    for threads in (1, 2, 8):
        np.testing.assert_array_equal(gather(Features(data), ids, threads=threads), data[ids])


def test_lists_tensors_masks_and_views():
    data = rows_of("float32", 10, 6)
    for ids in ([3, 1], torch.tensor([3, 1]), np.array([3, 9, 1])[::2], np.array([3, 1], np.uint8)):
        np.testing.assert_array_equal(gather(Features(data), ids), data[[3, 1]])
    np.testing.assert_array_equal(gather(Features(data[:, ::2]), [2]), data[[2], ::2])
    foreign = Features(data.astype(">f4"))
    np.testing.assert_array_equal(gather(foreign, [2]), data[[2]])
    read_only = data.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(gather(Features(read_only), [2]), data[[2]])
    assert gather(Features(data), [0], pin=True).shape == (1, 6)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_out_of_range_is_named_and_nothing_is_written(dtype):
    features = Features(rows_of("float32", 5, 3))
    out = torch.full((3, 3), 7.0)
    with pytest.raises(InputError, match="5 at position 2, but there are 5 rows"):
        gather(features, np.array([0, 4, 5], dtype), out)
    assert (out == 7).all()
    with pytest.raises(InputError, match="position 1"):
        gather(features, [0, -1])


def test_wrong_out():
    features = Features(rows_of("float32", 5, 3))
    for out in (torch.empty(2, 3), torch.empty(1, 4), torch.empty(3, 1).T):
        if out.shape == (1, 3):
            out = torch.empty(1, 6)[:, ::2]
        with pytest.raises(InputError, match=r"expected a contiguous tensor of shape \[1, 3\]"):
            gather(features, [0], out)
    with pytest.raises(InputError, match="out is float64, expected float32"):
        gather(features, [0], torch.empty(1, 3, dtype=torch.float64))


def test_the_core_checks_its_arguments():
    data, ids = rows_of("float32", 5, 3), np.zeros(2, np.uint32)
    with pytest.raises(InputError, match="one row for each id"):
        _core.gather_rows(data, ids, np.empty((1, 3), np.float32))
    with pytest.raises(InputError, match="dtype of the data"):
        _core.gather_rows(data, ids, np.empty((2, 3), np.float64))
    with pytest.raises(InputError, match="a scale goes with int8"):
        _core.gather_rows(data, ids, np.empty((2, 3), np.float32), np.ones(3, np.float32))
    with pytest.raises(TypeError):  # never converted behind the caller's back
        _core.gather_rows(data, ids.astype(np.int32), np.empty((2, 3), np.float32))


def test_empty():
    assert gather(Features(np.empty((0, 4), np.float32)), []).shape == (0, 4)
    assert gather(Features(np.empty((3, 0), np.float32)), [2, 2]).shape == (2, 0)
    with pytest.raises(InputError):
        gather(Features(np.empty((0, 4), np.float32)), [0])
