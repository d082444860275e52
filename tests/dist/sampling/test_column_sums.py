"""Sums over columns in the fixed point of the core, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.dist.sampling.column_sums import add_by_column

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
