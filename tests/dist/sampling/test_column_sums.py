"""Sums over columns in the fixed point of the core, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.dist.sampling.column_sums import add_by_batch, add_by_column

NUMBERS = st.floats(0, 1e300) | st.floats(0, 1e-300) | st.floats(0, 2)


@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_units_are_the_nearest_whole_numbers(values):
    fixed = _core.FixedPoint(max(values), len(values))
    unit = Fraction(fixed.unit)
    made = fixed.units(np.array(values))
    for value, units in zip(values, made.tolist(), strict=True):
        exact = Fraction(value) / unit if unit else Fraction(0)
        assert units == 0 if value == 0 else units >= 1
        if unit and exact >= 1:  # a sum of doubles may round to even, so half a unit and a bit
            assert abs(units - exact) <= Fraction(1, 2) + exact / 2**52
    assert sum(made.tolist()) < 2**63


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_columns_add_up(dtype):
    columns = np.array([7, 3, 7, 0, 3, 7], dtype)
    distinct, sums = add_by_column(columns, np.array([1, 2, 4, 8, 16, 32]))
    assert distinct.dtype == dtype
    assert dict(zip(distinct.tolist(), sums.tolist(), strict=True)) == {0: 8, 3: 18, 7: 37}


@given(st.data())
def test_minibatches_add_up_without_rounding(data):
    counts = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    total = sum(counts)
    most = (2**62 - 1) // max(1, total)
    units = data.draw(st.lists(st.integers(0, most), min_size=total, max_size=total))
    columns = data.draw(st.lists(st.integers(0, 5), min_size=total, max_size=total))
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    sizes, ids, sums = add_by_batch(
        ptr, np.array(columns, np.uint32), np.array(units, np.int64), threads=2
    )
    at = 0
    for size, begin, end in zip(sizes.tolist(), ptr[:-1], ptr[1:], strict=True):
        wanted: dict[int, int] = {}
        for column, number in zip(columns[begin:end], units[begin:end], strict=True):
            wanted[column] = wanted.get(column, 0) + number
        made = dict(zip(ids[at : at + size].tolist(), sums[at : at + size].tolist(), strict=True))
        assert made == wanted and list(made) == sorted(made)
        at += size
    assert at == len(ids) == len(sums)
