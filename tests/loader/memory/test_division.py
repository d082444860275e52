"""The rules of division against slow counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.loader.memory.division import CacheNeed, most, refusal, reserved, staging_bytes


@given(st.integers(0, 60), st.integers(-3, 70))
def test_most_is_the_largest_that_fits(count, limit):
    fitting = [n for n in range(1, count + 1) if n <= limit]
    assert most(count, lambda n: n <= limit) == max(fitting, default=0)


@given(
    rows=st.integers(1, 300),
    width=st.sampled_from([4, 100, 5000]),
    seen=st.integers(0, 1000),
    steps=st.integers(0, 20),
    more=st.integers(-5000, 200_000),
)
def test_a_cache_takes_what_fits_and_a_row_more_would_not(rows, width, seen, steps, more):
    geometry = _core.Geometry(rows, width, 4096, 4096 + -(-rows * width // 4096) * 4096, 4096)
    need = CacheNeed(geometry, width, seen, steps)
    assert need.bytes(3) == 3 * width + need.tables(3)
    room = need.bytes(1) + more
    slots = need.slots(room)
    assert 0 <= slots <= rows
    assert slots == 0 or need.bytes(slots) <= room
    assert slots == rows or need.bytes(slots + 1) > room


@pytest.mark.parametrize("row", [4, 512, 1 << 20, 10 << 20])
def test_staging_has_room_for_two_requests_whatever_is_wanted(row):
    least = staging_bytes(row, 0)
    assert least >= 2 * row
    assert staging_bytes(row, least + 1) >= least
    assert staging_bytes(row) == staging_bytes(row, 1 << 40) >= least


def test_reserves_and_refusals():
    assert reserved(1000) == 1250 and reserved(1000, pooled=True) == 1406
    error = refusal("memory is 1 byte, but 7 are needed", 7)
    assert error.least == 7 and "7" in str(error)
