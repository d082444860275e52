"""writer: a folder is complete or absent, whatever happens on the way."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xxhash

from foregather.errors import InputError, StorageError
from foregather.graph.on_disk import files
from foregather.graph.on_disk import writer as module
from foregather.graph.on_disk.files import exchange
from foregather.graph.on_disk.npy import ALIGN
from foregather.graph.on_disk.writer import FolderWriter, meta_digest


def make(path, overwrite=False, value=1):
    with FolderWriter(path, overwrite) as writer:
        writer.put("indptr", np.array([0, value], np.int64))
        writer.finish(1, value)


def test_bytes_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1000)  # several checksums in a small file
    values = np.arange(700, dtype=np.float32).reshape(350, 2)
    with FolderWriter(tmp_path / "g") as writer:
        out = writer.array("x", np.float32, (2,))
        for start in range(0, 350, 33):  # appends that do not line up with the chunks
            out.append(values[start : start + 33])
        writer.close("x")
        writer.finish(350, 0, note="n")
    data = (tmp_path / "g/x.npy").read_bytes()
    assert len(data) == ALIGN + 4096 and data[ALIGN : ALIGN + 2800] == values.tobytes()
    assert not any(data[ALIGN + 2800 :])
    meta = json.loads((tmp_path / "g/meta.json").read_text())
    payload = values.tobytes()
    expected = [xxhash.xxh64(payload[i : i + 1000]).hexdigest() for i in range(0, 2800, 1000)]
    assert meta["arrays"]["x"]["checksums"] == expected
    assert meta["digest"] == meta_digest(meta) and meta["note"] == "n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g"]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b")
    for name in ("meta.json", "indptr.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_existing_targets(tmp_path):
    make(tmp_path / "g")
    with pytest.raises(StorageError, match="g exists already; pass --overwrite"):
        make(tmp_path / "g")
    make(tmp_path / "g", overwrite=True, value=5)
    assert json.loads((tmp_path / "g/meta.json").read_text())["num_edges"] == 5
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("years of work")
    with pytest.raises(StorageError, match="is not a graph folder, so it is not replaced"):
        make(tmp_path / "precious", overwrite=True)
    assert (tmp_path / "precious/thesis.txt").exists()


@pytest.mark.parametrize("atomic", [True, False])
def test_folders_change_places(tmp_path, monkeypatch, atomic):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    if not atomic:
        monkeypatch.setattr(files.ctypes, "CDLL", lambda *args, **kwargs: object())
    exchange(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert (tmp_path / "a/b").exists() and (tmp_path / "b/a").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_an_error_leaves_nothing_and_the_old_graph_stays(tmp_path):
    make(tmp_path / "g")
    with pytest.raises(RuntimeError), FolderWriter(tmp_path / "g", overwrite=True) as writer:
        writer.put("indptr", np.zeros(5))
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["g"]
    assert json.loads((tmp_path / "g/meta.json").read_text())["num_edges"] == 1


def test_wrong_rows_are_refused(tmp_path):
    with FolderWriter(tmp_path / "g") as writer:
        out = writer.array("x", np.float32, (2,), rows=3)
        with pytest.raises(InputError, match="holds rows of float32"):
            out.append(np.zeros((1, 3), np.float32))
        out.append(np.zeros((1, 2), np.float32))
        with pytest.raises(InputError, match="got 1 rows, expected 3"):
            writer.close("x")
    assert not list(tmp_path.iterdir())


def hold(path, ready):
    with FolderWriter(path) as writer:
        writer.array("x", np.float32).append(np.zeros(10, np.float32))
        ready.set()
        time.sleep(60)


def test_killed_and_concurrent_writers(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=hold, args=(tmp_path / "g", ready))
    child.start()
    assert ready.wait(600)
    with pytest.raises(StorageError, match="is being made by another process"):
        make(tmp_path / "g")
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert not (tmp_path / "g").exists()
    make(tmp_path / "g")  # clears what the killed one left
    assert sorted(p.name for p in (tmp_path / "g").iterdir()) == [
        "checks.json",
        "indptr.crc",
        "indptr.npy",
        "meta.json",
        "splits",
    ]


def test_no_space(tmp_path):
    with (
        FolderWriter(tmp_path / "g") as writer,
        pytest.raises(StorageError, match="no space left on the disk while reserving x.npy"),
    ):
        writer.array("x", np.float32, rows=1 << 50)
    assert not list(tmp_path.iterdir())


def test_read_only_target(tmp_path):
    code = """
import os, sys, numpy as np
from foregather.graph.on_disk.writer import FolderWriter
from foregather.errors import StorageError
if os.getuid() == 0:
    os.setuid(65534)
try:
    with FolderWriter(sys.argv[1]) as writer:
        writer.finish(0, 0)
except StorageError as error:
    print(error)
"""
    tmp_path.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "g")], capture_output=True, text=True
    )
    tmp_path.chmod(0o755)
    assert "cannot write g: Permission denied; choose a target" in done.stdout, done.stderr
