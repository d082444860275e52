"""Numbers of messages between ranks, bound from C++, against slow Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import InputError, _core
from foregather.dist.transport.varint import Numbers


def slow_bytes(values):
    """7 bits a byte, lowest first; the high bit says that more follow."""
    made = []
    for left in values:
        while left >= 128:
            made.append(left % 128 + 128)
            left //= 128
        made.append(left)
    return made


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300)))
def test_numbers_come_back(values):
    made = _core.encode_varints(np.array(values, np.int64))
    assert made.tolist() == slow_bytes(values)
    numbers = Numbers(made)
    assert numbers.take(len(values) // 2).tolist() == values[: len(values) // 2]
    with pytest.raises(InputError, match="shorter"):
        numbers.take(len(values) - len(values) // 2 + 1)
    assert numbers.take(len(values) - len(values) // 2).tolist() == values[len(values) // 2 :]
    numbers.end()


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    try:
        numbers = Numbers(np.frombuffer(data, np.uint8))
    except InputError as error:
        assert "message between ranks" in str(error)
        return
    count = sum(byte < 128 for byte in data)
    assert (numbers.take(count) >= 0).all()
    numbers.end()


@pytest.mark.parametrize("damaged", [[128], [5, 200], [255] * 9, [255] * 9 + [1], [255] * 12])
def test_damaged_numbers_are_refused(damaged):
    with pytest.raises(InputError, match="a message between ranks"):
        Numbers(np.array(damaged, np.uint8))


def test_a_negative_number_is_refused():
    with pytest.raises(InputError, match="negative"):
        _core.encode_varints(np.array([3, -1]))


def test_numbers_that_are_left_are_refused():
    with pytest.raises(InputError, match="longer"):
        Numbers(_core.encode_varints(np.array([3, 4]))).end()
