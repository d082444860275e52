"""Feature rows from disk: a flipped bit is an error before a row of its block goes anywhere."""

import numpy as np
import pytest

from foregather import FormatError, Graph, StorageError
from foregather.dist import FeatureBlock
from foregather.dist.features.block_plan import BlockPlanner
from foregather.dist.features.block_reader import FeatureBlockReader
from foregather.dist.features.memory_split import DiskShare
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures
from foregather.gather.store import open_store
from foregather.plan.planner import Planner
from foregather.plan.repack import RepackPlanner
from tests.flip import BLOCK, flip, places
from tests.gather.files import BACKENDS, need

ROWS, WIDTH = 2000, 50  # rows of 200 bytes: some lie in two blocks


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(4)
    graph = Graph.from_edge_index(
        rng.integers(0, ROWS, (2, 3000)), ROWS, x=rng.random((ROWS, WIDTH), np.float32)
    )
    return graph.save(tmp_path / "g")


def rows_of(block):
    """Ids of the rows that have bytes in a block."""
    return np.arange(block * BLOCK // 200, min(ROWS, -(-(block + 1) * BLOCK // 200)))


def others(block):
    """Rows of blocks that no request for them has in common with this one."""
    return np.setdiff1d(np.arange(0, ROWS, 7), rows_of(block))


def gather(file, ids, **options):
    planner = Planner(file.geometry(), 10, merge_gap=0)
    with DiskFeatures(file, 10, **options) as disk:
        disk.append(planner.plan([ids]))
        return disk.step().numpy()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depth", [1, 64])
def test_a_flipped_bit_in_a_block_that_is_read(folder, backend, depth):
    need(backend, folder)
    rows = np.load(folder / "features.npy")
    for block, at, said in places(folder, "features"):
        flip(folder / "features.npy", at, bit=3)
        file = FeatureFile.of(Graph.open(folder))
        with pytest.raises(FormatError, match=said):
            gather(file, rows_of(block)[:1], backend=backend, depth=depth)
        with pytest.raises(FormatError, match=said):
            gather(file, np.arange(ROWS), backend=backend, depth=depth)
        same = gather(file, others(block), backend=backend, depth=depth)  # what is not read
        np.testing.assert_array_equal(same, rows[others(block)])
        flip(folder / "features.npy", at, bit=3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_before_the_bad_block_are_right(folder, backend):
    """All is read ahead; the step that needs the block fails, and those before it do not."""
    need(backend, folder)
    block, at, said = places(folder, "features")[1]
    rows = np.load(folder / "features.npy")
    batches = [others(block)[::2], others(block)[1::2], rows_of(block), others(block)]
    flip(folder / "features.npy", at)
    file = FeatureFile.of(Graph.open(folder))
    planner = Planner(file.geometry(), 0, merge_gap=0)
    with DiskFeatures(file, 0, backend=backend) as disk:
        disk.append(planner.plan(batches))
        for ids in batches[:2]:
            np.testing.assert_array_equal(disk.step().numpy(), rows[ids])
        with pytest.raises(FormatError, match=said):
            disk.step()
        with pytest.raises(StorageError, match=f"ended with an error: {said}"):
            disk.step()


def test_a_store(folder):
    rows = np.load(folder / "features.npy")
    for block, at, said in places(folder, "features"):
        with open_store(Graph.open(folder), "60KB", gap=0) as store:
            np.testing.assert_array_equal(store[others(block)], rows[others(block)])
            flip(folder / "features.npy", at)
            np.testing.assert_array_equal(store[others(block)], rows[others(block)])
            with pytest.raises(FormatError, match=said):
                store[rows_of(block)]
        flip(folder / "features.npy", at)


def swept(file, batches, **options):
    disk = RepackFeatures(file, 5, **options)
    made = RepackPlanner(file.geometry(), 5, merge_gap=0).plan(batches)
    assert made.repack is not None
    return disk, made


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sweep(folder, backend):
    need(backend, folder)
    rng = np.random.default_rng(1)
    rows = np.load(folder / "features.npy")
    for block, at, said in places(folder, "features"):
        flip(folder / "features.npy", at)
        file = FeatureFile.of(Graph.open(folder))
        good = [np.sort(rng.choice(others(block), 60, replace=False)) for _ in range(4)]
        disk, made = swept(file, [*good, rows_of(block)], backend=backend)
        with disk, pytest.raises(FormatError, match=said):
            disk.sweep(made)
        disk, made = swept(file, good, backend=backend)
        with disk:
            disk.append(disk.sweep(made))
            for ids in good:
                np.testing.assert_array_equal(disk.step().numpy(), rows[ids])
        flip(folder / "features.npy", at)


@pytest.mark.parametrize("checked", [True, False])
def test_a_scratch_file_that_was_altered_after_it_was_written(folder, checked):
    """Its sums are taken as it is written, whether the source has any or not."""
    if not checked:
        (folder / "checks.json").unlink()
    file = FeatureFile.of(Graph.open(folder))
    batches = [np.arange(k, ROWS, 9) for k in range(4)]
    disk, made = swept(file, batches)
    with disk:
        ready = disk.sweep(made)
        with open(disk._swept[ready].path, "r+b", buffering=0) as out:
            page = bytearray(out.read(BLOCK))
            page[1000] ^= 1
            out.seek(0)
            out.write(page)
        disk.append(ready)
        with pytest.raises(FormatError, match=r"the scratch file: block 0 \(rows 0 to 20\)"):
            for _ in batches:
                disk.step()


def test_a_rank_has_the_checksums_of_its_block(tmp_path):
    """Rows 4 MB apart: the sums of the whole file are not loaded for a part of it."""
    rows = np.random.default_rng(0).random((12_000, 250), np.float32)
    starts = np.array([0, 3000, 9000, 12_000])
    graph = Graph.from_edge_index(np.zeros((2, 0), np.int64), 12_000, x=rows)
    graph = Graph.open(graph.save(tmp_path / "g"))
    whole = FeatureFile.of(graph)
    assert whole.sums_bytes == 4 * len(np.load(tmp_path / "g/features.crc"))
    flip(tmp_path / "g/features.npy", 4096 + 1000 * 2900)  # of block 0's rows
    flip(tmp_path / "g/features.npy", 4096 + 1000 * 6000)
    for block, error in [(0, "rows 28.. to 29"), (1, "rows (59|60).. to (59|60)"), (2, None)]:
        made = FeatureBlock.on_disk(graph, 3, block, starts)
        assert made.file.sums_bytes <= whole.sums_bytes
        planner = BlockPlanner(made.file, made.first_row, 10)
        disk = FeatureBlockReader(
            made.file, made.first_row, DiskShare(10, 1 << 20), made.num_rows, 1
        )
        ids = np.arange(starts[block], starts[block + 1])
        try:
            disk.append(planner.plan([ids]))
            if error is None:
                disk.step()
                np.testing.assert_array_equal(disk.take(ids), rows[ids])
                continue
            with pytest.raises(FormatError, match=f"features.npy: block .* \\({error}"):
                disk.step()
        finally:
            disk.close()


def test_an_unchecked_file_reads_as_before(folder):
    rows = np.load(folder / "features.npy")
    (folder / "checks.json").unlink()
    file = FeatureFile.of(Graph.open(folder))
    assert file.load_sums() is None and file.sums_bytes == 0
    np.testing.assert_array_equal(gather(file, np.arange(ROWS)), rows)
