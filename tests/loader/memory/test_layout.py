"""Layouts: whatever the budget, its parts never sum to more than it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import BudgetError
from foregather.loader.memory.layout import BatchSize, divide, with_sweep


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


@pytest.mark.parametrize("width", [64, 512, 6000])
@pytest.mark.parametrize("memory", [200 << 20, 400 << 20, 4 << 30])
def test_a_sweep_takes_its_buffers_from_the_cache_and_no_more(width, memory):
    nodes = 2_000_000
    geometry = _core.Geometry(nodes, width, 4096, 4096 + -(-nodes * width // 4096) * 4096, 4096)
    layout = divide(
        memory, BatchSize(1000, 40_000, 1000 * width), topology="memory", topology_share=1000,
        geometry=geometry, flight=4, batches=100, bulk=8,
    )  # fmt: skip
    swept = with_sweep(layout, width)
    assert swept is not None and swept.shares["sweep"] > 0
    assert swept.shares["cache"] == swept.num_slots * width
    spent = sum(swept.shares.values())
    assert spent <= memory  # and a row more would be too much, or could not be used
    assert swept.num_slots == layout.num_slots or spent + width > memory


def test_a_sweep_is_refused_where_the_cache_cannot_give_its_buffers():
    geometry = _core.Geometry(1000, 64, 4096, 4096 * 17, 4096)
    options = {
        "topology": "memory", "topology_share": 0, "geometry": geometry, "flight": 4,
        "batches": 10, "bulk": 1,
    }  # fmt: skip
    with pytest.raises(BudgetError) as caught:
        divide(1, BatchSize(10, 400, 640), **options)
    assert with_sweep(divide(caught.value.least, BatchSize(10, 400, 640), **options), 64) is None
