"""The disk executor: what it gathers, reads and counts equals memory and the plan."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Features, InputError, StorageError, _core
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from tests.gather.files import BACKENDS, largest, need, random_rows, working, write_rows
from tests.gather.slow_planner import NONE, SlowPlanner, make_plan, random_batches
from tests.kernel import undisturbed

PAGE = 4096


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    return need(request.param, tmp_path)


def expected(rows, scale, batch, dtype):
    return Features(rows, scale)[batch].astype(dtype)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("disk")


@settings(max_examples=60)
@given(
    form=st.sampled_from(["float32", "float16", "float16 as float32", "int8"]),
    num_rows=st.integers(1, 600),
    width=st.sampled_from([1, 3, 32, 100, 128, 1000, 2500]),
    block=st.sampled_from([1, 2, 4, 16]),
    num_slots=st.sampled_from([0, 1, 7, 100, 1000]),
    depth=st.sampled_from([1, 2, 3, 16, 64, 200]),
    extra=st.sampled_from([0, 1, 5, 1000]),
    seed=st.integers(0, 1 << 30),
)
def test_equals_memory(folder, form, num_rows, width, block, num_slots, depth, extra, seed):
    """Every backend, random feasible plans.

    Rows wider than a block, rows across blocks, one row, fewer rows than reads in flight, staging
    of one request.
    """
    stored = form.split()[0]
    rows = random_rows(stored, num_rows, width, seed)
    scale = None
    if stored == "int8":
        scale = np.random.default_rng(seed).random(width, np.float32)
    file = write_rows(folder / "features.npy", rows, scale)
    dtype = np.dtype("float32") if form.endswith("float32") else file.gathered_dtype
    planner = SlowPlanner(file.geometry(block * PAGE), num_slots, seed)
    bulks = [random_batches(num_rows, 4, 60, seed + i) for i in range(3)]
    plans = [planner.plan(bulk) for bulk in bulks]
    for backend in working(folder):
        with DiskFeatures(
            file,
            num_slots,
            staging=largest(*plans) + extra * PAGE,
            backend=backend,
            depth=depth,
            dtype=dtype,
        ) as disk:
            for plan in plans[:2]:
                disk.append(plan)
            for k, batch in enumerate(b for bulk in bulks for b in bulk):
                if k == 5:
                    disk.append(plans[2])  # while the second is half done
                out = disk.step().numpy()
                assert out.dtype == dtype
                np.testing.assert_array_equal(out, expected(rows, scale, batch, dtype))
            check_counters(disk.counters(), plans)
            assert disk.steps_left == 0


def check_counters(counted, plans):
    assert counted["steps"] == sum(len(plan) for plan in plans)
    assert counted["rows"] == sum(int(plan.num_rows.sum()) for plan in plans)
    assert counted["hits"] == sum(plan.hit_slot.size for plan in plans)
    assert counted["requests"] == sum(plan.request_offset.size for plan in plans)
    assert counted["bytes"] == sum(int(plan.request_length.sum()) for plan in plans)
    riders = sum(
        int(((plan.copy_position == NONE) & (plan.copy_slot != NONE)).sum()) for plan in plans
    )
    assert counted["riders"] == riders
    assert counted["retries"] == 0
    assert counted["waiting"] + counted["copying"] <= counted["seconds"] + 1e-3


def test_kernel_counts_the_bytes_of_the_plan(tmp_path, backend):
    if backend == "buffered":
        pytest.skip("the page cache hides reads from the count")
    rows = random_rows("float32", 5000, 37)
    file = write_rows(tmp_path / "features.npy", rows)
    bulks = [random_batches(5000, 10, 200, i) for i in range(3)]

    def all_steps():
        planner = SlowPlanner(file.geometry(), 500, 1)
        plans = [planner.plan(bulk) for bulk in bulks]
        with DiskFeatures(file, 500, staging=1 << 20, backend=backend) as disk:
            for plan in plans:
                disk.append(plan)
            for _ in range(30):
                disk.step()
            check_counters(disk.counters(), plans)
        return sum(int(plan.request_length.sum()) for plan in plans)

    planned, moved, _ = undisturbed(all_steps)
    assert moved == planned


def sequential(file, batches, num_slots=0):
    return SlowPlanner(file.geometry(), num_slots, 3).plan(batches)


def test_reads_ahead_while_nobody_asks(tmp_path, backend):
    """All requests that staging has room for are made before the first step."""
    file = write_rows(tmp_path / "features.npy", random_rows("float32", 2000, 64))
    plan = sequential(file, random_batches(2000, 6, 100, 5))
    with DiskFeatures(file, 0, staging=4 << 20, backend=backend, depth=8) as disk:
        disk.append(plan)
        total = plan.request_offset.size
        deadline = threading.Event()
        for _ in range(500):
            if disk.counters()["requests"] == total:
                break
            deadline.wait(0.01)
        assert disk.counters()["requests"] == total
        assert disk.counters()["steps"] == 0


def test_several_threads_take_turns(tmp_path, backend):
    rows = random_rows("float32", 500, 16)
    file = write_rows(tmp_path / "features.npy", rows)
    batches = random_batches(500, 40, 50, 2)
    batches = [np.sort(batch)[: len(batch) // 2 * 2] for batch in batches]
    with DiskFeatures(file, 64, backend=backend, depth=4) as disk:
        disk.append(SlowPlanner(file.geometry(), 64, 0).plan(batches))
        for batch in batches:  # each step from a thread of its own
            got = []
            thread = threading.Thread(target=lambda got=got: got.append(disk.step().numpy()))
            thread.start()
            thread.join()
            np.testing.assert_array_equal(got[0], rows[batch])


def test_closing_and_using_after(tmp_path, backend):
    file = write_rows(tmp_path / "features.npy", random_rows("float32", 100, 4))
    disk = DiskFeatures(file, 10, backend=backend)
    disk.append(sequential(file, [[1, 2]], 10))
    counted = disk.counters()["requests"]
    disk.close()
    disk.close()
    with pytest.raises(StorageError, match=r"the gather from features\.npy is closed"):
        disk.append(sequential(file, [[1]], 10))
    assert disk.counters()["requests"] >= counted
    assert "10 slots" in repr(disk)


def test_out_and_arguments(tmp_path):
    rows = random_rows("float16", 50, 6)
    file = write_rows(tmp_path / "features.npy", rows)
    with DiskFeatures(file, 0, backend="buffered") as disk:
        with pytest.raises(InputError, match="no step is queued"):
            disk.step()
        disk.append(sequential(file, [[3, 1]]))
        for out in (torch.empty(1, 6), torch.empty(2, 12)[:, ::2]):
            with pytest.raises(InputError, match=r"expected a contiguous tensor of shape \[2, 6\]"):
                disk.step(out.half()) if out.shape[0] == 1 else disk.step(out)
        with pytest.raises(InputError, match="out is float32, expected float16"):
            disk.step(torch.empty(2, 6))
        out = torch.empty(2, 6, dtype=torch.float16)
        assert disk.step(out) is out  # what was refused changed nothing
        np.testing.assert_array_equal(out.numpy(), rows[[3, 1]])
        assert disk.memory_bytes == 16 << 20
    with pytest.raises(InputError, match="dtype is float64, but features.npy gives float16 or"):
        DiskFeatures(file, 0, dtype="float64")
    for bad in ({"depth": 0}, {"num_slots": -1}, {"backend": "libaio"}, {"num_slots": 1 << 32}):
        with pytest.raises(InputError):
            DiskFeatures(file, **({"num_slots": 0, "backend": "buffered"} | bad))
    scaled = FeatureFile(file.path, "f", 50, 12, np.dtype("int8"), np.ones(3, np.float32))
    with pytest.raises(InputError, match="scale has 3 numbers, expected one for each of 12"):
        DiskFeatures(scaled, 0, backend="buffered")


def simple(geometry, **changes):
    """One step: two hits and one request with one copy; every part can be spoilt."""
    arrays = {
        "num_rows": [3],
        "hit_ptr": [0, 2],
        "hit_slot": [0, 1],
        "hit_position": [0, 1],
        "request_ptr": [0, 1],
        "request_offset": [4096],
        "request_length": [4096],
        "copy_ptr": [0, 1],
        "copy_row": [5],
        "copy_position": [2],
        "copy_slot": [1],
    } | changes
    return make_plan(geometry, changes.pop("num_slots", 4), **arrays)


HOSTILE = {
    "hit_ptr falls": {"hit_ptr": [0, 1]},
    "hit_ptr short": {"hit_ptr": [0]},
    "slot of a hit": {"hit_slot": [0, 4]},
    "position of a hit": {"hit_position": [0, 3]},
    "position twice": {"hit_position": [0, 2]},
    "row left out": {"copy_position": [NONE]},
    "offset not aligned": {"request_offset": [100]},
    "offset negative": {"request_offset": [-4096]},
    "past the end": {"request_offset": [1 << 20]},
    "length zero": {"request_length": [0]},
    "length absurd": {"request_length": [(1 << 62)]},
    "row not in the request": {"copy_row": [99]},
    "row absurd": {"copy_row": [NONE]},
    "slot of a copy": {"copy_slot": [4]},
    "copies missing": {"copy_ptr": [0, 0]},
    "lengths differ": {"copy_slot": [1, 1]},
    "rows negative": {"num_rows": [-1]},
    "rows absurd": {"num_rows": [1 << 40]},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_hostile_plans_are_refused(tmp_path, changes):
    rows = random_rows("float32", 100, 128)  # 8 rows a block
    file = write_rows(tmp_path / "features.npy", rows)
    with DiskFeatures(file, 4, staging=1 << 16, backend="buffered") as disk:
        with pytest.raises(InputError):
            disk.append(simple(file.geometry(), **changes))
        disk.append(simple(file.geometry()))  # nothing was changed
        out = disk.step().numpy()
        np.testing.assert_array_equal(out[2], rows[5])


def test_plans_for_another_cache_or_file(tmp_path):
    file = write_rows(tmp_path / "features.npy", random_rows("float32", 100, 128))
    other = write_rows(tmp_path / "other.npy", random_rows("float32", 101, 128))
    with DiskFeatures(file, 5, staging=1 << 16, backend="buffered") as disk:
        with pytest.raises(InputError, match="is for 4 slots, but there are 5"):
            disk.append(simple(file.geometry()))
        with pytest.raises(InputError, match="is for another file than features.npy"):
            disk.append(simple(other.geometry()))
        large = SlowPlanner(file.geometry(16 * PAGE), 5).plan([range(100)])
    message = "but staging has 8192 bytes; give at least"
    with (
        DiskFeatures(file, 5, staging=8192, backend="buffered") as disk,
        pytest.raises(InputError, match=message),
    ):
        disk.append(large)


def test_an_empty_plan_and_empty_batches(tmp_path, backend):
    file = write_rows(tmp_path / "features.npy", random_rows("float32", 10, 2))
    with DiskFeatures(file, 1, backend=backend) as disk:
        disk.append(sequential(file, [], 1))
        disk.append(sequential(file, [[], [], [4]], 1))
        assert [tuple(disk.step().shape) for _ in range(3)] == [(0, 2), (0, 2), (1, 2)]


def test_geometry_must_fit_the_file(tmp_path):
    file = write_rows(tmp_path / "features.npy", random_rows("float32", 10, 2))
    wrong = _core.Geometry(10, 8, 4096, 4096 * 9, 4096)
    with pytest.raises(StorageError, match=r"features\.npy has 8192 bytes, expected 36864"):
        _core.DiskGather(str(file.path), "features.npy", wrong, 1, 8192, "buffered")
