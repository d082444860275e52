"""Repacked bulks: the same rows, the bytes of the plan, and nothing left behind, whatever fails."""

import errno
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Features, InputError, StorageError, _core
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.repack import RepackPlanner
from tests.gather.faulty import FaultyRepack
from tests.gather.files import BACKENDS, need, random_rows, working, write_rows
from tests.gather.slow_planner import random_batches
from tests.kernel import undisturbed

PAGE = 4096
EVER = 1 << 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("repack")


LEAST = _core.Sweeper.least_write_bytes(8)


def open_repack(file, slots, **options):
    settings = {"staging": 1 << 20, "sweep_staging": 1 << 20, "write_bytes": LEAST, "depth": 8}
    return FaultyRepack(file, slots, **(settings | options))


def announced(made):
    """Requests and bytes that are read, bytes that are written, and writes."""
    if made.repack is None:
        return 0, 0, 0, 0
    summary, cost = made.summary(), made.cost(ASSUMED_DISK)
    written = made.repack.scratch.geometry.file_bytes
    assert cost.bytes == summary.bytes + written
    return summary.requests, summary.bytes, written, cost.requests - summary.requests


def run(disk, planner, bulks, rows, scale=None):
    """Sweeps each bulk while the one before it is read; returns what the plans announced."""
    made = [planner.plan(bulk, bulks[k + 1] if k + 1 < len(bulks) else []) for k, bulk in
            enumerate(bulks)]  # fmt: skip
    disk.append(disk.sweep(made[0]))
    for k, bulk in enumerate(bulks):
        if k + 1 < len(bulks):
            disk.append(disk.sweep(made[k + 1]))
        for batch in bulk:
            out = disk.step().numpy()
            np.testing.assert_array_equal(out, Features(rows, scale)[batch].astype(out.dtype))
    assert disk.steps_left == 0
    return made


def check_counters(counted, made):
    requests, read, written, writes = (
        sum(column) for column in zip(*map(announced, made), strict=True)
    )
    assert (counted["requests"], counted["bytes"]) == (requests, read)
    assert (counted["written"], counted["writes"]) == (written, writes)
    assert counted["sweeps"] == sum(m.repack is not None for m in made)
    assert counted["rows"] == sum(int(m.rows.num_rows.sum()) for m in made)
    assert counted["hits"] == sum(m.rows.hit_slot.size for m in made)
    assert counted["refused"] == 0 and counted["retries"] == 0


@pytest.mark.slow
@settings(max_examples=40)
@given(
    form=st.sampled_from(["float32", "float16", "float16 as float32", "int8"]),
    num_rows=st.integers(1, 600),
    width=st.sampled_from([1, 3, 32, 100, 128, 1000, 2500, 12_000]),
    num_slots=st.sampled_from([0, 1, 7, 100, 1000]),
    depth=st.sampled_from([1, 3, 64]),
    gap=st.sampled_from([0, PAGE, 1 << 20]),
    seed=st.integers(0, 1 << 30),
)
def test_equals_memory(folder, form, num_rows, width, num_slots, depth, gap, seed):
    """Rows wider than a page and across pages, one row, runs of less than a page, empty batches."""
    stored = form.split()[0]
    rows = random_rows(stored, num_rows, width, seed)
    scale = np.random.default_rng(seed).random(width, np.float32) if stored == "int8" else None
    file = write_rows(folder / "features.npy", rows, scale)
    dtype = np.dtype("float32") if form.endswith("float32") else None
    bulks = [random_batches(num_rows, 5, 60, seed + i) for i in range(3)]
    for backend in working(folder):
        planner = RepackPlanner(file.geometry(), num_slots, merge_gap=gap, write_bytes=LEAST)
        with open_repack(
            file, num_slots, staging=4 << 20, sweep_staging=2 << 20, backend=backend, depth=depth,
            dtype=dtype,
        ) as disk:  # fmt: skip
            made = run(disk, planner, bulks, rows, scale)
            check_counters(disk.counters(), made)
    assert [entry.name for entry in folder.iterdir()] == ["features.npy"]


@pytest.fixture
def file(tmp_path):
    return write_rows(tmp_path / "features.npy", random_rows("float32", 3000, 100))


@pytest.fixture
def bulks():
    return [random_batches(3000, 6, 300, seed) for seed in range(4)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernel_counts_the_bytes_of_the_plan(file, bulks, backend):
    need(backend, file.path.parent)
    if backend == "buffered":
        pytest.skip("the page cache hides reads from the count")
    rows = np.load(file.path)

    def all_bulks():
        planner = RepackPlanner(file.geometry(), 400, write_bytes=LEAST)
        with open_repack(file, 400, backend=backend) as disk:
            made = run(disk, planner, bulks, rows)
            check_counters(disk.counters(), made)
        return made

    made, moved, wrote = undisturbed(all_bulks, lambda found: sum(announced(m)[1] for m in found))
    assert moved == sum(announced(m)[1] for m in made)
    records = wrote - sum(announced(m)[2] for m in made)  # the file system's own
    assert 0 <= records <= 16 * PAGE


# ---- no room -------------------------------------------------------------------------------------


def test_a_full_disk_is_gone_without(file, bulks):
    """Found out at the first write, in the middle, or never; the batches are the same."""
    rows = np.load(file.path)
    for code, times in ((errno.ENOSPC, 1), (errno.EDQUOT, 3), (errno.ENOSPC, EVER)):
        faults = _core.testing.Faults()
        faults.fail(100_000, EVER, code, times)
        planner = RepackPlanner(file.geometry(), 400, write_bytes=LEAST)
        with open_repack(file, 400, write_faults=faults) as disk:
            made = run(disk, planner, bulks, rows)
            counted = disk.counters()
            refused = min(times, len(bulks))
            assert counted["refused"] == refused and counted["sweeps"] == len(bulks) - refused
            read = sum(int(m.rows.request_length.sum()) for m in made[:refused])
            # a sweep that failed has read what nobody asks for any more; it is not counted
            assert counted["bytes"] == read + sum(announced(m)[1] for m in made[refused:])
            assert "No space left" in disk.refusal or "quota" in disk.refusal
    assert [entry.name for entry in file.path.parent.iterdir()] == ["features.npy"]


def test_a_small_disk(file, bulks, tmp_path):
    """A real one: a file system of 64 KiB."""
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        rows = np.load(file.path)
        with open_repack(file, 400, folder=small) as disk:
            run(disk, RepackPlanner(file.geometry(), 400, write_bytes=LEAST), bulks, rows)
            assert disk.counters()["refused"] == len(bulks)
            assert "No space left on device; free space there" in disk.refusal
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_another_folder(file, bulks):
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm here")
    before = set(os.listdir("/dev/shm"))
    rows = np.load(file.path)
    with open_repack(file, 400, folder=Path("/dev/shm")) as disk:
        made = run(disk, RepackPlanner(file.geometry(), 400, write_bytes=LEAST), bulks, rows)
        assert disk.counters()["written"] == sum(announced(m)[2] for m in made)
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "foregather" in name}


def test_no_such_folder(file, bulks, tmp_path):
    with open_repack(file, 0, folder=tmp_path / "gone") as disk:
        made = RepackPlanner(file.geometry(), 0).plan(bulks[0])
        with pytest.raises(StorageError, match="cannot make a scratch file in .*gone: No such"):
            disk.sweep(made)


# ---- other faults --------------------------------------------------------------------------------


def test_reads_that_fail(file, bulks):
    faults = _core.testing.Faults()
    faults.fail(500_000, 510_000, errno.EIO)
    made = RepackPlanner(file.geometry(), 0).plan(bulks[0])
    with open_repack(file, 0, faults=faults) as disk:
        message = r"reading features\.npy at byte \d+ failed: Input/output error"
        with pytest.raises(StorageError, match=message):
            disk.sweep(made)
        disk.append(disk.sweep(made))  # well again
        for batch in bulks[0]:
            np.testing.assert_array_equal(disk.step().numpy(), np.load(file.path)[batch])


def test_writes_that_fail(file, bulks):
    faults = _core.testing.Faults()
    faults.fail(0, EVER, errno.EIO)
    made = RepackPlanner(file.geometry(), 0).plan(bulks[0])
    with (
        open_repack(file, 0, write_faults=faults) as disk,
        pytest.raises(StorageError, match="cannot write to a scratch file in .*: Input/output"),
    ):
        disk.sweep(made)


def test_the_feature_file_changes(file, bulks):
    planner = RepackPlanner(file.geometry(), 0)
    with open_repack(file, 0) as disk:
        disk.append(disk.sweep(planner.plan(bulks[0])))
        os.utime(file.path, ns=(0, 0))
        made = planner.plan(bulks[1])
        with pytest.raises(StorageError, match=r"features\.npy was written to"):
            disk.sweep(made)
        for batch in bulks[0]:  # what was swept before is right
            np.testing.assert_array_equal(disk.step().numpy(), np.load(file.path)[batch])


def test_cancel_ends_a_sweep(file, bulks):
    faults = _core.testing.Faults()
    faults.delay(0, EVER, 50, EVER)
    made = RepackPlanner(file.geometry(), 0).plan(bulks[0])
    disk = open_repack(file, 0, faults=faults, depth=1)
    failed = []

    def work():
        try:
            disk.sweep(made)
        except StorageError as error:
            failed.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    disk.cancel()
    thread.join(600)
    assert not thread.is_alive() and failed == ["the sweep of features.npy was stopped"]
    disk.close()
    disk.close()
    for call in (disk.step, lambda: disk.append(None)):
        with pytest.raises((StorageError, InputError)):
            call()


def test_arguments(file, bulks):
    other = RepackPlanner(_core.Geometry(10, 400, PAGE, 2 * PAGE, PAGE), 0).plan([[1, 2]])
    rows = RepackPlanner(file.geometry(), 0).plan(bulks[0])
    with open_repack(file, 0) as disk:
        with pytest.raises(InputError, match="is for another file than features.npy"):
            disk.sweep(other)
        with pytest.raises(InputError, match="a Plan was given to an executor of repacked"):
            disk.append(rows.rows)
        with pytest.raises(InputError, match="no step is queued"):
            disk.step()
        assert disk.memory_bytes >= 2 << 20 and "0 slots" in repr(disk)
    with (
        open_repack(file, 0, write_bytes=PAGE) as disk,
        pytest.raises(InputError, match=r"a bulk of 6 batches needs \d+ bytes of buffers"),
    ):
        disk.sweep(rows)
