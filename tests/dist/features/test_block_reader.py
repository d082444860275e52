"""A feature block on disk, read round by round: rows are exact, budgets add up, reads go ahead."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import BudgetError, Features, Graph, InputError
from foregather.dist import FeatureBlock
from foregather.dist.features.block_plan import BlockPlanner
from foregather.dist.features.block_reader import FeatureBlockReader
from foregather.dist.features.memory_split import DiskShare, OwnBlock, shares, shares_with_disk
from foregather.gather.feature_file import FeatureFile

ROWS, WIDTH = 3000, 70
STARTS = np.array([0, 900, 2100, ROWS])


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(1)
    return Features(rng.integers(-127, 127, (ROWS, WIDTH), np.int8), rng.random(WIDTH, np.float32))


@pytest.fixture(scope="module")
def graph(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_block") / "graph"
    ptr = np.zeros(ROWS + 1, np.int64)
    Graph(ROWS, 0, ptr, np.empty(0, np.uint32), features=whole).save(folder)
    return Graph.open(folder)


def opened(graph, block, slots, staging=1 << 22):
    made = FeatureBlock.on_disk(graph, len(STARTS) - 1, block, STARTS)
    share = DiskShare(slots, staging)
    planner = BlockPlanner(made.file, made.first_row, slots)
    return planner, FeatureBlockReader(made.file, made.first_row, share, made.num_rows, 1)


bulks = st.lists(
    st.lists(st.lists(st.integers(0, 1199), max_size=40), max_size=5), min_size=1, max_size=4
)


@settings(max_examples=25, deadline=None)
@given(bulks, st.sampled_from([0, 3, 50, 1200]), st.booleans())
def test_rows_of_every_round_are_those_of_memory(whole, graph, bulks, slots, ahead):
    planner, disk = opened(graph, 1, slots)
    for number, bulk in enumerate(bulks):
        rounds = [np.array(ids, np.uint32) + STARTS[1] for ids in bulk]
        later = bulks[number + 1] if ahead and number + 1 < len(bulks) else []
        known = [np.unique(np.array(ids, np.uint32)) + STARTS[1] for ids in later]
        disk.append(planner.plan(rounds, known))
        for ids in rounds:
            disk.step()
            assert np.array_equal(disk.take(ids), whole.data[ids])  # as stored, without the scale
    read = disk.counters()
    assert read.get("bytes", 0) == read["planned_bytes"]
    assert read.get("rows", 0) == sum(len(set(ids)) for bulk in bulks for ids in bulk)
    disk.close()


def test_a_round_reads_each_block_once(graph):
    """All rows of the block are wanted by several ranks in one round, without a cache."""
    planner, disk = opened(graph, 1, 0)
    ids = np.arange(STARTS[1], STARTS[2])
    disk.append(planner.plan([np.concatenate([ids, ids[::-1], ids])]))
    disk.step()
    pages = -(-(4096 + STARTS[2] * WIDTH) // 4096) - (4096 + STARTS[1] * WIDTH) // 4096
    assert disk.counters()["bytes"] <= (pages + 2 * 63) * 4096  # blocks of up to 256 KiB
    assert disk.announced["blocks"] <= pages
    disk.close()


def test_rounds_are_read_before_they_are_asked_for(graph):
    planner, disk = opened(graph, 1, 10)
    rounds = [np.arange(1000, 1100), np.arange(1500, 1600), np.arange(1900, 2000)]
    disk.append(planner.plan(rounds))
    disk.step()
    end = time.monotonic() + 30
    while disk.counters()["bytes"] < disk.announced["bytes"] and time.monotonic() < end:
        time.sleep(0.01)
    assert disk.counters()["bytes"] == disk.announced["bytes"]
    assert disk.counters()["steps"] == 1
    disk.close()


@settings(max_examples=60)
@given(
    st.integers(10, 10**6),
    st.integers(1, 4000),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 7),
    st.integers(0, 10**9),
)
def test_shares_stay_within_the_budget(rows, width, size, peers, extra):
    own = OwnBlock(-(-rows // (peers + 1)), width * 4)
    given = (rows, width * size, peers, own)
    with pytest.raises(BudgetError, match="needs at least") as caught:
        shares_with_disk(1000, *given)
    least = caught.value.least
    assert str(least) in str(caught.value)
    with pytest.raises(BudgetError):
        shares_with_disk(least - 1, *given)
    slots, staging, share = shares_with_disk(least + extra, *given)
    spent = 2 * peers * staging * width * size + (peers + 1) * staging * own.row_bytes
    spent += slots * width * size + share.slots * own.row_bytes + share.staging
    assert spent <= least + extra and staging >= 1 and share.slots <= own.rows
    if extra > 10**8 and peers:
        assert slots > 0 and share.slots > 0
    with pytest.raises(BudgetError) as caught:
        shares(1000, rows, width * size, peers)
    assert shares(caught.value.least, rows, width * size, peers)[1] >= 1


def test_parts_of_a_file(graph, whole):
    file = FeatureFile.of(graph)
    part = file.span(900, 2100).span(100, 200)
    assert (len(part), part.first_row, part.file_bytes) == (100, 1000, file.file_bytes)
    assert part.geometry().payload == 4096 + 1000 * WIDTH
    assert part.stored().scale is None and np.array_equal(part.scale, whole.scale)
    with pytest.raises(InputError, match="expected bounds from 0 to 100"):
        part.span(0, 101)
    with pytest.raises(InputError, match="read by plan"):
        FeatureBlock.on_disk(graph, 3, 1, STARTS).take(np.array([950]))
