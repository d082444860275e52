"""A Loader that reads from disk, when things go wrong: one clear sentence or a clean fall-back."""

import errno
import functools
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader, StorageError, _core
from foregather.errors import FormatError
from foregather.graph.synthetic import synthesize
from foregather.loader.disk import out_of_core
from foregather.loader.prefetch import THREAD_NAME
from tests.gather.faulty import FaultyDisk
from tests.gather.files import BACKENDS, need
from tests.observe.test_reader import SECCOMP

EVER = 1 << 40


@pytest.fixture
def folder(tmp_path):
    synthesize(tmp_path / "g", 12_000, degree=6, features=96, classes=5, seed=3)
    return tmp_path / "g"


def make(folder, **options):
    """Little is read ahead of the loop, and less than half of the rows fit."""
    settings = {"memory": "45MB", "storage": "features", "bulk": 2, "prefetch": 1, "threads": 2}
    return Loader(
        Graph.open(folder),
        [4, 3],
        range(3000),
        64,
        shuffle=True,
        contents=BatchContents(pyg=False),
        **(settings | options),
    )


def plain(folder):
    return Loader(
        Graph.open(folder), [4, 3], range(3000), 64, shuffle=True, contents=BatchContents(pyg=False)
    )


def spoil(monkeypatch, faults=None, backend=None, **options):
    """Makes the reads of every later loader go wrong in this way."""
    made = functools.partial(FaultyDisk, faults=faults)

    def open_features(*arguments, **given):
        return made(*arguments, **(given | options | ({"backend": backend} if backend else {})))

    monkeypatch.setattr(out_of_core, "DiskFeatures", open_features)


def one_sentence(error):
    text = str(error)
    assert "\n" not in text and len(text) < 300 and not text.endswith(".")
    return text


def assert_over():
    """Nothing of a loop that failed is left: no thread, and the next loop can begin."""
    deadline = time.monotonic() + 20
    while any(t.name == THREAD_NAME for t in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread outlived its loop"
        time.sleep(0.01)


def fail_in_loop(loader, change, at=2):
    """Runs the loop, changes the file after some batches; every batch given out was right."""
    expected = [batch.x for batch in itertools.islice(plain(loader.graph.path), 20)]
    with pytest.raises(StorageError) as caught:
        for number, batch in enumerate(loader):
            if number == at:
                change()
            assert torch.equal(batch.x, expected[number])
    assert number < len(loader) - 1
    assert_over()
    return one_sentence(caught.value)


# ---- the file changes ----------------------------------------------------------------------------


def test_truncated(folder):
    file = folder / "features.npy"
    size = file.stat().st_size
    text = fail_in_loop(make(folder), lambda: os.truncate(file, 1 << 20))
    assert re.search(rf"features\.npy (had {size} bytes when .* and has 1048576 now|ends at)", text)


def test_replaced(folder, tmp_path):
    def change():
        other = tmp_path / "other.npy"
        other.write_bytes((folder / "features.npy").read_bytes()[::-1])
        os.replace(other, folder / "features.npy")

    assert "features.npy was replaced by another file" in fail_in_loop(make(folder), change)


def test_a_flipped_bit(folder):
    def change():
        with open(folder / "features.npy", "r+b") as file:
            file.seek(9000)
            byte = file.read(1)[0]
            file.seek(9000)
            file.write(bytes([byte ^ 1]))

    loader = make(folder)
    assert "features.npy was written to since it was opened" in fail_in_loop(loader, change)
    with pytest.raises(FormatError, match=r"features\.npy"):  # the next loop is told as well
        iter(loader)


def test_removed(folder):
    text = fail_in_loop(make(folder), (folder / "features.npy").unlink)
    assert "features.npy was moved or removed" in text


# ---- reads fail ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_io_error(folder, backend, monkeypatch):
    need(backend, folder)
    faults = _core.testing.Faults()
    faults.fail(2 << 20, 3 << 20, errno.EIO)
    spoil(monkeypatch, faults, backend)
    loader = make(folder)
    with pytest.raises(StorageError) as caught:
        for _ in loader:
            pass
    text = one_sentence(caught.value)
    assert re.match(r"reading features\.npy at byte \d+ failed: Input/output error", text)
    assert caught.value.errno == errno.EIO
    assert_over()
    loader.set_epoch(0)  # the disk is well again: so is the loader, with an empty cache
    for ours, theirs in zip(loader, plain(folder), strict=True):
        assert torch.equal(ours.x, theirs.x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_short_and_late_reads_are_continued(folder, backend, monkeypatch):
    need(backend, folder)
    faults = _core.testing.Faults()
    faults.shorten(0, EVER, 4096, 40)
    faults.delay(0, EVER, 2, 20)
    faults.fail(0, EVER, errno.EINTR, 5)
    spoil(monkeypatch, faults, backend)
    loader = make(folder)
    for ours, theirs in zip(loader, plain(folder), strict=True):
        assert torch.equal(ours.x, theirs.x)
    counted, planned = loader.counters()["features"], loader.planned()[0]
    assert counted["retries"] > 5
    assert (counted["requests"], counted["bytes"]) == (planned.requests, planned.bytes)


def test_a_read_that_ends_early(folder, monkeypatch):
    faults = _core.testing.Faults()
    faults.shorten(1 << 20, 2 << 20, 0)
    spoil(monkeypatch, faults)
    with pytest.raises(StorageError) as caught:
        for _ in make(folder):
            pass
    assert "the file is truncated" in one_sentence(caught.value)


# ---- what the system refuses ---------------------------------------------------------------------

CHILD = """
import os, resource, sys, threading, time
import torch
from pathlib import Path
from foregather import BatchContents, Graph, Loader, _core
plain = dict(contents=BatchContents(pyg=False), shuffle=True)
def loader(**options):
    given = dict(memory="45MB", storage="features", bulk=2) | plain | options
    return Loader(Graph.open(sys.argv[1]), [4, 3], range(3000), 64, **given)
def same(ours):
    theirs = Loader(Graph.open(sys.argv[1]), [4, 3], range(3000), 64, **plain)
    return all(torch.equal(a.x, b.x) for a, b in zip(ours, theirs, strict=True))
"""


def child(code, *arguments, before=""):
    return subprocess.Popen(
        [sys.executable, "-c", before + CHILD + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(running):
    out, err = running.communicate(timeout=600)
    if running.returncode == 77:
        pytest.skip("rights cannot be given up here")
    assert running.returncode == 0, err
    return out


def test_io_uring_refused(folder):
    code = """
        for storage in ("features", "disk"):
            print(same(ours := loader(storage=storage)), ours._source._features.backend)
        """
    out = output(child(code, folder, before=SECCOMP.format(code=1)))
    assert out in ("True pread\n" * 2, "True buffered\n" * 2)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm here")
def test_direct_reads_refused():
    import shutil
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        folder = Path(memory) / "g"
        synthesize(folder, 3000, degree=6, features=96, classes=5, seed=3)
        backends = _core.probe_reader(str(folder))["backends"]
        loader = make(folder, storage="disk")
        for ours, theirs in zip(loader, plain(folder), strict=True):
            assert torch.equal(ours.x, theirs.x)
        if backends["pread"] is not None:  # where tmpfs has no direct reads
            assert loader._source._features.backend == "buffered"
        loader.close()
        assert sorted(p.name for p in Path(memory).iterdir()) == ["g"]
        shutil.rmtree(folder)


# Gives up CAP_IPC_LOCK, which lifts the limit for root.
NO_LOCKING = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
if libc.capget(header, data): sys.exit(77)
words = list(struct.unpack("6I", data.raw[:24]))
words[:3] = [word & ~(1 << 14) for word in words[:3]]
if libc.capset(header, struct.pack("6I", *words)): sys.exit(77)
"""


def test_no_locked_memory(folder):
    """Too little for staging: it is not pinned. None at all: no ring, another backend."""
    need("io_uring", folder)
    code = """
        for limit in (1 << 20, 0):
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
            ours = loader(storage="disk")
            print(same(ours), ours._source._features.backend, ours._source._features.pin_refusal)
        """
    first, second = output(child(code, folder, before=NO_LOCKING)).splitlines()
    assert first == "True io_uring staging exceeds the limit on locked memory (ulimit -l)"
    assert second in ("True pread ", "True buffered ")


def test_interrupt_in_the_middle(folder):
    code = """
        ours = loader(storage="disk")
        while True:
            for number, batch in enumerate(ours):
                if number == 3: print("ready", flush=True)
        """
    before = sorted(p.relative_to(folder) for p in folder.rglob("*"))
    running = child(code, folder)
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=600)
    assert running.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt") and "Exception ignored" not in err
    assert sorted(p.relative_to(folder) for p in folder.rglob("*")) == before


# ---- extremes ------------------------------------------------------------------------------------


def rows_of(tmp_path, nodes, width, dtype=np.float32):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, nodes, (2, 5 * nodes)) if nodes > 1 else np.zeros((2, 1), np.int64)
    x = rng.random((nodes, width), np.float32).astype(dtype)
    graph = Graph.from_edge_index(pairs, nodes, x=x, y=np.zeros(nodes, np.int64))
    return graph.save(tmp_path / "g.fg"), x


@pytest.mark.parametrize("storage", ["features", "disk"])
@pytest.mark.parametrize("depth", [1, 64])
@pytest.mark.parametrize(
    ("nodes", "width", "threads"),
    [
        (1, 3, 2),  # one node
        (5, 8, 64),  # more threads and reads in flight than rows
        (300, 1500, 2),  # a row is wider than a block of 4 KiB
        (700, 37, 2),  # 148 bytes do not divide it
        (40, 300_000, 2),  # wider than the longest request
    ],
)
def test_extremes(tmp_path, monkeypatch, nodes, width, threads, depth, storage):
    folder, x = rows_of(tmp_path, nodes, width)
    spoil(monkeypatch, depth=depth)
    options = {
        "memory": "500MB",
        "storage": storage,
        "threads": threads,
        "contents": BatchContents(pyg=False),
    }
    loader = Loader(Graph.open(folder), [3, 2], None, 16, shuffle=True, **options)
    seen = 0
    for _ in range(2):
        for batch in loader:
            np.testing.assert_array_equal(batch.x.numpy(), x[batch.n_id.numpy()])
            seen += batch.batch_size
    assert seen == 2 * nodes
    loader.close()
