"""The disk executor when things go wrong: a clear error or a clean fall-back, never a wrong row."""

import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from foregather import InputError, StorageError, _core
from foregather.gather.disk import DiskFeatures
from tests.gather.faulty import FaultyDisk
from tests.gather.files import BACKENDS, need, random_rows, write_rows
from tests.gather.slow_planner import SlowPlanner, random_batches
from tests.observe.test_reader import SECCOMP

PAGE = 4096
WIDTH = 128  # 512 bytes: 8 rows a page
ROWS = 1600
EVER = 1 << 40


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path):
    return need(request.param, tmp_path)


@pytest.fixture
def rows():
    return random_rows("float32", ROWS, WIDTH)


@pytest.fixture
def file(tmp_path, rows):
    return write_rows(tmp_path / "features.npy", rows)


def page_of(row):
    return PAGE + row * 512 // PAGE * PAGE


def spread(count=5, size=20):
    """Batches whose rows lie in every other page, so that each is a request of its own."""
    return [np.arange(t * size, t * size + size) * 16 for t in range(count)]


def plan_of(file, batches, slots=0):
    return SlowPlanner(file.geometry(), slots, gap=0).plan(batches)


def open_disk(file, backend, faults=None, staging=1 << 20, slots=0, depth=8):
    options = {"staging": staging, "backend": backend, "depth": depth}
    return FaultyDisk(file, slots, faults=faults, **options)


# ---- injected: errors, short reads ---------------------------------------------------------------


def test_io_error_is_named_and_ends_the_executor(file, rows, backend):
    batches = spread()
    faults = _core.testing.Faults()
    bad = page_of(int(batches[3][5]))
    faults.fail(bad, bad + PAGE, errno.EIO)
    with open_disk(file, backend, faults) as disk:
        disk.append(plan_of(file, batches))
        for batch in batches[:3]:  # the error may be known by now; these are right
            np.testing.assert_array_equal(disk.step().numpy(), rows[batch])
        message = rf"reading features\.npy at byte {bad} failed: Input/output error"
        with pytest.raises(StorageError, match=message):
            disk.step()
        for call in (disk.step, lambda: disk.append(plan_of(file, batches))):
            with pytest.raises(StorageError, match=f"ended with an error: {message}"):
                call()
        assert disk.counters()["steps"] == 3


@pytest.mark.parametrize("code", [errno.EINTR, errno.EAGAIN])
def test_refusals_that_pass_are_tried_again(file, rows, backend, code):
    batches = spread()
    faults = _core.testing.Faults()
    faults.fail(0, EVER, code, 7)
    plan = plan_of(file, batches)
    with open_disk(file, backend, faults) as disk:
        disk.append(plan)
        for batch in batches:
            np.testing.assert_array_equal(disk.step().numpy(), rows[batch])
        counted = disk.counters()
    assert counted["retries"] == 7
    assert counted["bytes"] == plan.request_length.sum()


def test_short_reads_are_continued(tmp_path, backend):
    rows = random_rows("float32", 40, 4 * WIDTH * 8)  # a row is four pages
    file = write_rows(tmp_path / "features.npy", rows)
    faults = _core.testing.Faults()
    faults.shorten(0, EVER, PAGE, 25)
    batch = np.arange(0, 40, 2)
    with open_disk(file, backend, faults) as disk:
        disk.append(plan_of(file, [batch]))
        np.testing.assert_array_equal(disk.step().numpy(), rows[batch])
        assert 0 < disk.counters()["retries"] <= 25


@pytest.mark.parametrize("got", [0, 1000])
def test_a_read_that_ends_early_is_the_end_of_the_file(file, backend, got):
    if backend == "buffered" and got:
        pytest.skip("buffered reads may stop anywhere and are continued")
    faults = _core.testing.Faults()
    batch = spread()[0]
    bad = page_of(int(batch[4]))
    faults.shorten(bad, bad + PAGE, got)
    with open_disk(file, backend, faults) as disk:
        disk.append(plan_of(file, [batch]))
        message = f"ends at byte {bad + got}, but a request wants its bytes {bad} to {bad + PAGE}"
        with pytest.raises(StorageError, match=message):
            disk.step()


def test_a_disk_that_never_answers_well_is_given_up(file, backend):
    faults = _core.testing.Faults()
    faults.fail(0, EVER, errno.EINTR, 1 << 40)
    with open_disk(file, backend, faults) as disk:
        disk.append(plan_of(file, spread()[:1]))
        with pytest.raises(StorageError, match="Interrupted system call"):
            disk.step()


# ---- the file changes under a running executor ---------------------------------------------------


def half_way(file, backend, batches):
    disk = open_disk(file, backend, staging=2 * PAGE, depth=2)  # far from all is read ahead
    disk.append(plan_of(file, batches))
    disk.step()
    return disk


def test_truncated(file, backend):
    batches = spread()
    with half_way(file, backend, batches) as disk:
        os.truncate(file.path, 3 * PAGE)
        with pytest.raises(StorageError, match=r"features\.npy (ends at byte|had \d+ bytes when)"):
            for _ in batches[1:]:
                disk.step()
    with pytest.raises(StorageError, match=r"features\.npy has 12288 bytes, expected"):
        open_disk(file, backend)


def test_a_flipped_bit_is_never_given_out(file, backend):
    batches = spread()
    with half_way(file, backend, batches) as disk:
        with open(file.path, "r+b") as writing:
            at = page_of(int(batches[-1][0]))
            writing.seek(at)
            byte = writing.read(1)[0]
            writing.seek(at)
            writing.write(bytes([byte ^ 4]))
        with pytest.raises(StorageError, match=r"features\.npy was written to since it was opened"):
            for _ in batches[1:]:
                disk.step()
        with pytest.raises(StorageError, match="was written to"):
            disk.append(plan_of(file, batches))


def test_replaced_and_removed(file, backend, tmp_path):
    for other, words in ((True, "was replaced by another file"), (False, "was moved or removed")):
        batches = spread()
        with open_disk(file, backend) as disk:
            disk.append(plan_of(file, batches))
            disk.step()
            if other:
                write_rows(tmp_path / "new.npy", random_rows("float32", ROWS, WIDTH, 9))
                os.replace(tmp_path / "new.npy", file.path)
            else:
                file.path.unlink()
            with pytest.raises(StorageError, match=rf"features\.npy {words} since it was opened"):
                disk.append(plan_of(file, batches))
            with pytest.raises(StorageError, match=words):
                disk.step()


# ---- ends ----------------------------------------------------------------------------------------


def test_destroyed_with_reads_in_flight(file, rows, backend):
    batches = random_batches(ROWS, 10, 100, 0)
    plan = plan_of(file, batches, 50)
    for round_ in range(12):
        disk = open_disk(file, backend, depth=64, slots=50)
        disk.append(plan)
        if round_ % 3:
            assert np.array_equal(disk.step(), rows[batches[0]])
        if round_ % 2:
            disk.close()
        del disk  # the last reference: destroyed now


def test_close_ends_a_step_that_waits(file, backend):
    faults = _core.testing.Faults()
    faults.delay(0, EVER, 30, 1 << 40)
    disk = open_disk(file, backend, faults, depth=1)
    disk.append(plan_of(file, [np.arange(0, ROWS, 16)]))  # 100 reads of 30 ms
    failed = []

    def work():
        try:
            disk.step()
        except StorageError as error:
            failed.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    disk.close()
    thread.join(600)
    assert not thread.is_alive()
    assert failed and "closed" in failed[0]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_is_told(file, rows, backend):
    disk = open_disk(file, backend)
    batches = spread()
    disk.append(plan_of(file, batches))
    child = os.fork()
    if child == 0:
        try:
            disk.append(plan_of(file, batches))
        except InputError as error:
            told = "another process" in str(error)
            disk.close()
            del disk
            gc.collect()
            os._exit(0 if told else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    for batch in batches:
        np.testing.assert_array_equal(disk.step().numpy(), rows[batch])
    disk.close()


CHILD = """
import os, sys
import numpy as np
from pathlib import Path
from foregather import _core
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from tests.gather.faulty import FaultyDisk
from tests.gather.slow_planner import SlowPlanner
path, backend = Path(sys.argv[1]), sys.argv[2]
rows = np.load(path)
file = FeatureFile(path, path.name, *rows.shape, rows.dtype)
def plan(batches): return SlowPlanner(file.geometry(), 0, gap=0).plan(batches)
def step(disk, count):
    out = np.empty((count, rows.shape[1]), rows.dtype)
    disk.step_into(out)
    return out
"""


def child(code, *arguments, before=""):
    return subprocess.Popen(
        [sys.executable, "-c", before + CHILD + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_interrupt_in_the_middle(file, backend, tmp_path):
    running = child(
        """
        faults = _core.testing.Faults()
        faults.delay(0, 1 << 40, 20, 1 << 40)
        disk = FaultyDisk(file, 0, backend=backend, depth=1, faults=faults)
        disk.append(plan([np.arange(0, len(rows), 16)] * 50))
        print("ready", flush=True)
        try:
            while True: step(disk, 100)
        except KeyboardInterrupt:
            try: step(disk, 100)
            except Exception as error: print(error)
            disk.close()
            print("interrupted")
        """,
        file.path,
        backend,
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    assert out.endswith("was interrupted in the middle of a step\ninterrupted\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["features.npy"]


# ---- what the system refuses ---------------------------------------------------------------------

GATHER = """
with DiskFeatures(file, 0, backend=None if backend == "any" else backend) as disk:
    batch = np.arange(0, len(rows), 3)
    disk.append(plan([batch]))
    print(disk.backend, np.array_equal(step(disk, len(batch)), rows[batch]), disk.pin_refusal)
"""


def test_io_uring_refused_falls_back(file):
    running = child(
        GATHER
        + textwrap.dedent(
            """
            try: DiskFeatures(file, 0, backend="io_uring")
            except Exception as error: print(type(error).__name__, error)
            """
        ),
        file.path,
        "any",
        before=SECCOMP.format(code=1),
    )
    out, err = running.communicate(timeout=600)
    if running.returncode == 77:
        pytest.skip("system call filters are not allowed here")
    assert running.returncode == 0, err
    first, second = out.splitlines()
    assert first.split()[:2] in (["pread", "True"], ["buffered", "True"])
    assert second.startswith("StorageError") and "refused" in second


def test_locked_memory_refused(tmp_path, file):
    need("io_uring", tmp_path)
    if os.geteuid() != 0:
        pytest.skip("needs root to give up rights in a controlled way")
    file.path.chmod(0o644)
    running = child(
        """
        import resource
        number = os.open(path, os.O_RDONLY)
        file = FeatureFile(Path(f"/proc/self/fd/{number}"), path.name, *rows.shape, rows.dtype)
        made = plan([np.arange(0, len(rows), 3)])
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        os.setuid(65534)
        try:
            disk = DiskFeatures(file, 0, backend="io_uring", staging=8 << 20)
        except Exception as error:
            print("closed", error); sys.exit(0)
        disk.append(made)
        print(np.array_equal(step(disk, len(rows[::3])), rows[::3]), disk.pin_refusal)
        """,
        file.path,
        "io_uring",
    )
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    if out.startswith("closed"):
        pytest.skip(f"the file could not be opened again: {out}")
    assert out == "True staging exceeds the limit on locked memory (ulimit -l)\n"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm here")
def test_memory_file_system():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rows = random_rows("float32", 100, 64)
        file = write_rows(Path(folder) / "features.npy", rows)
        with DiskFeatures(file, 0) as disk:
            disk.append(plan_of(file, [[5, 3]]))
            np.testing.assert_array_equal(disk.step().numpy(), rows[[5, 3]])


def test_what_cannot_be_opened(tmp_path, file, backend):
    file.path.unlink()
    with pytest.raises(StorageError, match=r"cannot open features\.npy: No such file"):
        open_disk(file, backend)
