"""Layouts: whatever the budget, its parts never sum to more than it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import BudgetError
from foregather.loader.memory.layout import BatchSize, divide


@given(
    rows=st.integers(1, 20_000),
    width=st.sampled_from([4, 512, 4096, 6000]),
    nodes=st.integers(1, 200_000),
    batches=st.integers(1, 500),
    more=st.integers(0, 50_000_000),
    bulk=st.none() | st.integers(1, 64),
)
def test_shares_never_exceed_the_budget(rows, width, nodes, batches, more, bulk):
    geometry = _core.Geometry(nodes, width, 4096, 4096 + -(-nodes * width // 4096) * 4096, 4096)
    size = BatchSize(rows, 40 * rows, rows * width)
    options = {
        "topology": "memory", "topology_share": 1000, "geometry": geometry, "flight": 4,
        "batches": batches, "bulk": bulk,
    }  # fmt: skip
    with pytest.raises(BudgetError) as caught:
        divide(1, size, **options)
    layout = divide(caught.value.least + more, size, **options)
    assert sum(layout.shares.values()) <= layout.memory
    assert 1 <= layout.bulk <= 64 and layout.num_slots >= 1
