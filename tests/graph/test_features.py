"""Features: rows in their stored dtype, int8 with a scale, and hostile ids."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foregather import Features, InputError
from foregather.graph.features import column_scale, quantize


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.uint16])
def test_rows_keep_their_dtype(dtype):
    data = np.arange(12).reshape(4, 3).astype(dtype)
    features = Features(data)
    assert (features.num_rows, features.width, features.nbytes) == (4, 3, data.nbytes)
    for ids in ([2, 0, 2], np.array([2, 0, 2], np.uint32), torch.tensor([2, 0, 2])):
        rows = features[ids]
        assert rows.dtype == dtype
        np.testing.assert_array_equal(rows, data[[2, 0, 2]])
    np.testing.assert_array_equal(features[1:3], data[1:3])
    np.testing.assert_array_equal(features[np.array([True, False, False, True])], data[[0, 3]])
    assert features[[]].shape == (0, 3)


def test_rows_are_copies():
    features = Features(np.zeros((3, 2), np.float32))
    features[0:2][:] = 1
    features[[0]][:] = 1
    assert not features.data.any()


@pytest.mark.parametrize("ids", [[4], [-1], [0.5], [[0, 1]], 1, ["a"], [float("nan")], [2**40]])
def test_refuses_bad_ids(ids):
    with pytest.raises(InputError):
        Features(np.zeros((4, 2), np.float32))[ids]


def test_scale_becomes_float32():
    features = Features(np.array([[127, -5], [0, 3]], np.int8), np.array([0.5, 2], np.float32))
    rows = features[[1, 0]]
    assert rows.dtype == np.float32
    assert rows.tolist() == [[0, 6], [63.5, -10]]
    assert features[0:1].tolist() == [[63.5, -10]]
    assert features.nbytes == 4 + 8 and features.dtype == np.int8


def test_numpy_takes_all_rows_by_id():
    data = np.arange(6, dtype=np.float16).reshape(3, 2)
    ordered = Features(data, places=np.array([2, 0, 1]))
    scaled = Features(np.array([[2, 4]], np.int8), np.array([0.5, 1.0], np.float32))
    for rows in (Features(data), ordered, scaled):
        expected = np.stack([rows[[node]][0] for node in range(len(rows))])
        for made in (np.array(rows), np.asarray(rows), np.array(rows, copy=True)):
            assert made.dtype == expected.dtype and np.array_equal(made, expected)
        wide = np.array(rows, dtype=np.float64)
        assert wide.dtype == np.float64 and np.array_equal(wide, expected)
    np.array(Features(data))[:] = 9
    assert data[0, 0] == 0
    with pytest.raises(ValueError, match="leave copy=False out"):
        np.array(Features(data), copy=False)


def test_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="rows, width"):
        Features(np.zeros(3))
    with pytest.raises(InputError, match="int8"):
        Features(np.zeros((2, 2), np.float32), np.ones(2, np.float32))
    with pytest.raises(InputError, match="scale"):
        Features(np.zeros((2, 2), np.int8), np.ones(3, np.float32))


@settings(deadline=None, max_examples=80)
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 8), st.integers(1, 5)),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_quantize_errs_by_half_a_scale(x):
    scale = column_scale(np.abs(x).max(axis=0))
    q = quantize(x, scale)
    assert q.dtype == np.int8 and scale.dtype == np.float32 and (scale > 0).all()
    assert q.min(initial=0) >= -127
    back = q.astype(np.float64) * scale
    assert (np.abs(back - x) <= 0.5001 * scale).all()
    np.testing.assert_array_equal(quantize(-x, scale), -q)


def test_quantize_extremes_zero_columns_and_nan():
    x = np.array([[0, 1], [0, -2.54]], np.float32)
    scale = column_scale(np.abs(x).max(axis=0))
    assert scale[0] == 1
    assert quantize(x, scale).tolist() == [[0, 50], [0, -127]]
    with pytest.raises(InputError, match="NaN"):
        quantize(np.array([[np.nan]], np.float32), np.ones(1, np.float32))


def test_columns_too_small_for_a_precise_scale_come_back_as_zeros():
    x = np.array([[190 * 2.0**-149]], np.float32)  # largest / 127 would round to one bit
    scale = column_scale(np.abs(x).max(axis=0))
    assert scale.tolist() == [1] and quantize(x, scale).tolist() == [[0]]
