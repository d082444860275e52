"""The block reader: every backend gives np.fromfile's bytes, counts them, and names its errors."""

import gc
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import InputError, StorageError
from foregather.observe.buffer import aligned_buffer
from tests.kernel import undisturbed
from tests.some import some

PAGE = 4096
PAGES = 97
BACKENDS = ("io_uring", "pread", "buffered")
NO_RING = "this build was made without io_uring"  # the portable form: no direct reads either


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("reader") / "rows.bin"
    np.random.default_rng(1).integers(0, 256, PAGE * PAGES, dtype=np.uint8).tofile(path)
    return path


@pytest.fixture(params=BACKENDS)
def backend(request, file):
    reason = _core.probe_reader(str(file.parent))["backends"][request.param]
    if reason is not None:
        pytest.skip(f"{request.param}: {reason}")
    return request.param


def arrays(requests):
    table = np.array(requests, np.int64).reshape(-1, 3)
    return tuple(np.ascontiguousarray(column) for column in table.T)


def pack(pieces):
    """Requests (first page, pages) with destinations back to back, and the bytes they take."""
    requests, end = [], 0
    for first, count in pieces:
        requests.append((first * PAGE, count * PAGE, end))
        end += count * PAGE
    return requests, end


pieces = st.lists(
    st.integers(0, PAGES - 1).flatmap(
        lambda first: st.tuples(st.just(first), st.integers(1, min(9, PAGES - first)))
    ),
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(pieces=pieces, depth=st.sampled_from([1, 2, 3, 7, 16, 64, 200]), pin=st.booleans())
def test_equals_numpy(file, pieces, depth, pin):
    whole = np.fromfile(file, np.uint8)
    requests, end = pack(pieces)
    found = _core.probe_reader(str(file.parent))["backends"]
    for backend in some((name for name, reason in found.items() if reason is None)):
        buffer = aligned_buffer(end + PAGE)
        reader = _core.BlockReader(str(file), backend, depth)
        if pin:
            reader.attach(buffer)
        reader.read(*arrays(requests), buffer)
        for offset, length, destination in requests:
            np.testing.assert_array_equal(
                buffer[destination : destination + length], whole[offset : offset + length]
            )
        assert not buffer[end:].any()
        counted = reader.counters()
        assert (counted["requests"], counted["bytes"]) == (len(requests), end)
        assert counted["retries"] == 0
        assert counted["seconds"] >= 0


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_buffered_needs_no_alignment(file, data):
    whole = np.fromfile(file, np.uint8)
    offset = data.draw(st.integers(0, whole.size - 1))
    length = data.draw(st.integers(1, whole.size - offset))
    buffer = np.zeros(length + 3, np.uint8)
    _core.BlockReader(str(file), "buffered", 4).read(*arrays([(offset, length, 3)]), buffer)
    np.testing.assert_array_equal(buffer[3:], whole[offset : offset + length])


def test_submissions_are_batched(file):
    if _core.probe_reader(str(file.parent))["backends"]["io_uring"] is not None:
        pytest.skip("no io_uring here")
    reader = _core.BlockReader(str(file), "io_uring", 64)
    requests, end = pack([(i % PAGES, 1) for i in range(2000)])
    reader.read(*arrays(requests), aligned_buffer(end))
    # At least 16 of 64 go at once after the first 64, until the list runs out.
    assert reader.counters()["submissions"] <= 1 + (2000 - 64) / 16 + 1


def test_kernel_counts_the_same_bytes(file, backend):
    if backend == "buffered":
        pytest.skip("the page cache hides reads from the count")
    requests, end = pack([(i * 7 % (PAGES - 4), 1 + i % 4) for i in range(300)])
    buffer = aligned_buffer(end)
    reader = _core.BlockReader(str(file), backend, 16)
    _, moved, _ = undisturbed(lambda: reader.read(*arrays(requests), buffer))
    assert moved == end


def test_truncated_file_and_recovery(tmp_path, backend):
    path = tmp_path / "short.bin"
    data = np.random.default_rng(2).integers(0, 256, 40 * PAGE, dtype=np.uint8)
    data.tofile(path)
    reader = _core.BlockReader(str(path), backend, 8)
    requests, end = pack([(i, 1) for i in range(40)])
    buffer = aligned_buffer(end)
    os.truncate(path, 20 * PAGE + 1000)
    with pytest.raises(StorageError, match=r"short\.bin ends at byte \d+.*truncated"):
        reader.read(*arrays(requests), buffer)
    reader.read(*arrays(requests[:20]), buffer)  # the reader goes on working
    np.testing.assert_array_equal(buffer[: 20 * PAGE], data[: 20 * PAGE])


def test_end_of_file_is_named_exactly(tmp_path, backend):
    path = tmp_path / "short.bin"
    path.write_bytes(b"x" * (2 * PAGE + 512))
    reader = _core.BlockReader(str(path), backend, 4)
    message = f"short.bin ends at byte {2 * PAGE + 512}, but a request wants its bytes "
    for offset, length in ((2 * PAGE, PAGE), (0, 4 * PAGE)):
        with pytest.raises(StorageError, match=message):
            reader.read(*arrays([(offset, length, 0)]), aligned_buffer(4 * PAGE))
    with pytest.raises(StorageError, match="truncated"):
        reader.read(*arrays([(64 * PAGE, PAGE, 0)]), aligned_buffer(PAGE))


def test_what_cannot_be_opened(tmp_path, backend):
    with pytest.raises(StorageError, match=r"cannot open missing\.bin: No such file"):
        _core.BlockReader(str(tmp_path / "missing.bin"), backend, 4)
    with pytest.raises(StorageError, match="is a folder, expected a file"):
        _core.BlockReader(str(tmp_path), backend, 4)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe is not a regular file"):
        _core.BlockReader(str(tmp_path / "pipe"), backend, 4)


def test_bad_requests(file, backend):
    reader = _core.BlockReader(str(file), backend, 4)
    buffer = aligned_buffer(4 * PAGE)
    for bad in (
        (-PAGE, PAGE, 0),
        (0, 0, 0),
        (0, -PAGE, 0),
        (0, PAGE, -PAGE),
        (0, 1 << 62, PAGE),
        ((1 << 63) - PAGE, PAGE, 0),
    ):
        with pytest.raises(InputError, match="request 1 is"):
            reader.read(*arrays([(0, PAGE, 0), bad]), buffer)
    with pytest.raises(InputError, match="the buffer has 16384 bytes; give a larger one"):
        reader.read(*arrays([(0, 2 * PAGE, 3 * PAGE)]), buffer)
    one = np.zeros(1, np.int64)
    with pytest.raises(InputError, match="as many of each"):
        reader.read(one, one, np.zeros(2, np.int64), buffer)
    with pytest.raises(TypeError):
        reader.read(one.astype(np.float64), one, one, buffer)
    for wrong in (np.zeros(PAGE), np.zeros(2 * PAGE, np.uint8)[::2], bytes(PAGE)):
        with pytest.raises(TypeError):  # never read into a converted copy
            reader.read(one, one + PAGE, one, wrong)
    assert reader.counters()["requests"] == 0


def test_misaligned(file, backend):
    if backend == "buffered":
        pytest.skip("buffered reads need no alignment")
    reader = _core.BlockReader(str(file), backend, 4)
    step = reader.alignment
    assert step >= 1 and step & (step - 1) == 0
    buffer = aligned_buffer(4 * PAGE)
    all_crooked = ((1, PAGE, 0), (0, PAGE - 1, 0), (0, PAGE, 3))
    if step == 1:  # nothing is crooked where reads need not be aligned
        whole = np.fromfile(file, np.uint8)
        for offset, length, place in all_crooked:
            reader.read(*arrays([(offset, length, place)]), buffer[1:])
            got = buffer[1 + place : 1 + place + length]
            np.testing.assert_array_equal(got, whole[offset : offset + length])
        return
    for crooked in all_crooked:
        with pytest.raises(InputError, match=f"direct reads need multiples of {step}"):
            reader.read(*arrays([crooked]), buffer)
    with pytest.raises(InputError, match="does not start at an aligned address"):
        reader.read(*arrays([(0, PAGE, 0)]), buffer[1:])


def test_bad_options(file):
    for depth in (0, -1, 100_000):
        with pytest.raises(InputError, match="depth is"):
            _core.BlockReader(str(file), "buffered", depth)
    with pytest.raises(InputError, match="choose io_uring, pread or buffered"):
        _core.BlockReader(str(file), "libaio", 4)


def test_attached_memory_stays_alive(file, backend):
    reader = _core.BlockReader(str(file), backend, 4)
    buffer = aligned_buffer(8 * PAGE)
    view = buffer[:PAGE]
    reader.attach(buffer)
    del buffer
    gc.collect()
    for page in range(20):
        # A buffer that is not the attached one, possibly at an address used before.
        other = aligned_buffer(8 * PAGE)
        reader.read(*arrays([(page * PAGE, PAGE, 0)]), other)
        reader.read(*arrays([(page * PAGE, PAGE, 0)]), view)
        expected = np.fromfile(file, np.uint8, PAGE, offset=page * PAGE)
        np.testing.assert_array_equal(other[:PAGE], expected)
        np.testing.assert_array_equal(view, expected)
        reader.attach(other)


def test_threads_take_turns(file, backend):
    reader = _core.BlockReader(str(file), backend, 8)
    whole = np.fromfile(file, np.uint8)

    def work(seed):
        pages = np.random.default_rng(seed).permutation(PAGES)
        buffer = aligned_buffer(PAGES * PAGE)
        requests, _ = pack([(int(page), 1) for page in pages])
        reader.read(*arrays(requests), buffer)
        return np.array_equal(buffer.reshape(PAGES, PAGE), whole.reshape(PAGES, PAGE)[pages])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))
    assert reader.counters()["bytes"] == 12 * PAGES * PAGE


def test_probe(tmp_path, file):
    for place in (tmp_path, file):
        found = _core.probe_reader(str(place))
        assert tuple(found["backends"]) == BACKENDS
        assert found["backends"]["buffered"] is None
        assert (found["alignment"] > 0) == (found["backends"]["pread"] is None)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StorageError, match="cannot probe nowhere"):
        _core.probe_reader(str(tmp_path / "nowhere"))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm here")
def test_memory_file_system():
    found = _core.probe_reader("/dev/shm")
    assert found["backends"]["buffered"] is None
    for reason in found["backends"].values():
        assert reason in (None, NO_RING) or "refused" in reason


# A filter on system calls 425 to 427 (x86-64, arm64), as container runtimes install it.
SECCOMP = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = (op(0x20, 0, 0, 0) + op(0x35, 0, 2, 425) + op(0x25, 1, 0, 427)
           + op(0x06, 0, 0, 0x00050000 | {code}) + op(0x06, 0, 0, 0x7FFF0000))
memory = ctypes.create_string_buffer(program)
filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory))
holder = ctypes.create_string_buffer(filter)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, holder, 0, 0):
    sys.exit(77)
"""


@pytest.mark.parametrize(
    ("code", "words"), [(1, "io_uring is refused here"), (38, "this kernel has no io_uring")]
)
def test_refused_by_seccomp(tmp_path, code, words):
    if _core.probe_reader(str(tmp_path))["backends"]["io_uring"] == NO_RING:
        pytest.skip(NO_RING)
    script = SECCOMP.format(code=code) + textwrap.dedent(
        """
        import numpy as np
        from foregather import _core
        from foregather.errors import StorageError
        from foregather.observe.buffer import aligned_buffer
        from foregather.observe.disk import first_backend
        folder = sys.argv[1]
        found = _core.probe_reader(folder)["backends"]
        print(found["io_uring"])
        data = np.arange(8192, dtype=np.uint8); data.tofile(folder + "/rows.bin")
        try:
            _core.BlockReader(folder + "/rows.bin", "io_uring", 4)
        except StorageError as error:
            print("StorageError", error)
        backend = first_backend(found)
        buffer, n = aligned_buffer(8192), lambda v: np.array([v], np.int64)
        _core.BlockReader(folder + "/rows.bin", backend, 4).read(n(0), n(8192), n(0), buffer)
        print(backend, np.array_equal(buffer, data))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    if done.returncode == 77:
        pytest.skip("system call filters are not allowed here")
    assert done.returncode == 0, done.stderr
    reason, error, last = done.stdout.splitlines()
    if "O_DIRECT" not in reason:
        assert words in reason
        assert words in error and error.startswith("StorageError")
    assert last in ("pread True", "buffered True")


def test_locked_memory_refused(file):
    """Without the right to lock memory, reads go on unpinned and say why."""
    if os.geteuid() != 0:
        pytest.skip("needs root to give up rights in a controlled way")
    if _core.probe_reader(str(file.parent))["backends"]["io_uring"] is not None:
        pytest.skip("no io_uring here")
    script = textwrap.dedent(
        """
        import os, resource, sys
        import numpy as np
        from foregather import _core
        from foregather.observe.buffer import aligned_buffer
        number = os.open(sys.argv[1], os.O_RDONLY)
        buffer = aligned_buffer(4 << 20)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        os.setuid(65534)
        try:
            reader = _core.BlockReader(f"/proc/self/fd/{number}", "io_uring", 8, "rows.bin")
        except Exception as error:
            print("closed", error); sys.exit(0)
        print(reader.attach(buffer), reader.pin_refusal)
        n = lambda v: np.array([v], np.int64)
        reader.read(n(4096), n(8192), n(0), buffer)
        print(np.array_equal(buffer[:8192], np.frombuffer(os.pread(number, 8192, 4096), np.uint8)))
        """
    )
    open_file = file.parent / "open.bin"
    open_file.write_bytes(file.read_bytes())
    open_file.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-c", script, str(open_file)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("closed"):
        pytest.skip(f"the file could not be opened again: {done.stdout}")
    assert done.stdout.splitlines() == [
        "False the buffer exceeds the limit on locked memory (ulimit -l)",
        "True",
    ]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_after_fork(file, backend):
    """A child gets its own ring; the parent's goes on working."""
    reader = _core.BlockReader(str(file), backend, 4)
    buffer = aligned_buffer(PAGE)
    reader.attach(buffer)
    expected = np.fromfile(file, np.uint8, PAGE, offset=PAGE)
    child = os.fork()
    if child == 0:
        reader.read(*arrays([(PAGE, PAGE, 0)]), buffer)
        os._exit(0 if np.array_equal(buffer, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    reader.read(*arrays([(PAGE, PAGE, 0)]), buffer)
    np.testing.assert_array_equal(buffer, expected)
