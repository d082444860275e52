"""Layouts: whatever the budget, its parts never sum to more than it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import BatchContents, Graph, Loader, _core
from foregather.errors import BudgetError
from foregather.graph.synthetic import synthesize
from foregather.loader.memory.layout import BatchSize, divide, least_bytes, with_sweep


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


def test_reading_ahead_takes_a_part_of_what_is_free_and_little_where_nothing_is():
    """The minimum has room for two of the longest requests; with 64 MB more there are 16 MiB."""
    geometry = _core.Geometry(160_000, 256, 4096, 4096 + 160_000 * 256, 4096)
    options = {
        "topology": "memory", "topology_share": 0, "geometry": geometry, "flight": 3,
        "batches": 10, "bulk": 1,
    }  # fmt: skip
    size = BatchSize(100, 4_000, 25_600)
    with pytest.raises(BudgetError) as caught:
        divide(1, size, **options)
    staging = [divide(caught.value.least + more, size, **options).staging for more in (0, 72 << 20)]
    assert staging == [2 << 20, 16 << 20]


def test_five_percent_of_ten_million_narrow_rows_is_enough():
    """128 float16 columns, batches of 36,000 rows, 3 at once: 128 MB hold all that is needed."""
    nodes, width = 10_000_000, 256
    geometry = _core.Geometry(nodes, width, 4096, 4096 + nodes * width, 4096)
    size = BatchSize(36_000, 860_000, 12_100_000)
    layout = divide(
        nodes * width // 20, size, topology="disk", topology_share=32 << 20, geometry=geometry,
        flight=3, batches=10_000, checks_share=2_500_000, nodes_share=20_000_000,
    )  # fmt: skip
    assert layout.num_slots >= 1 and layout.steps == 2
    assert layout.shares["planner"] < 2.8 * nodes  # 4 bytes a row and 8 MiB before


@pytest.mark.parametrize("options", [{"disjoint": True}, {"contents": BatchContents(leaves="sum")}])
def test_free_memory_makes_room_for_batches_larger_than_the_first_ones(tmp_path, options):
    """A budget with plenty to spare ends no loop, however unlike the first ones batches are."""
    synthesize(tmp_path / "g", 2000, degree=3, features=64, classes=5, seed=2)
    graph = Graph.open(tmp_path / "g")
    given = {"shuffle": True, "bulk": 2, "seed": 3, **options}
    loader = Loader(graph, [4, 3], "train", 8, memory="1GB", storage="features", **given)
    assert sum(1 for _ in loader) == len(loader)


def test_no_room_is_made_where_none_is_free():
    size = BatchSize(1000, 20_000, 80_000)
    least = least_bytes(size, None, 2, 1)
    options = {"topology": "memory", "topology_share": 0, "geometry": None, "flight": 2}
    tight, wide = (divide(memory, size, **options, batches=9) for memory in (least, 100 * least))
    assert tight.shares["batches"] == 160_000
    assert wide.shares["batches"] == 320_000
