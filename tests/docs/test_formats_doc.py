"""formats.md: what the page promises, checked on a folder byte by byte."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from foregather.graph.on_disk.writer import CHUNK, ArrayWriter, FolderWriter

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
INDPTR = np.array([0, 2, 2, 5], np.int64)
INDICES = np.array([1, 2, 0, 0, 2], np.uint32)
FEATURES = np.arange(6, dtype=np.float32).reshape(3, 2)
LABELS = np.array([1, -1, 0], np.int64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with FolderWriter(tmp_path / "graph.fg") as writer:
        writer.put("indptr", INDPTR)
        writer.put("indices", INDICES)
        writer.put("features", FEATURES)
        writer.put("labels", LABELS)
        writer.put("splits/train", np.array([0, 2], np.int64))
        return writer.finish(num_nodes=3, num_edges=5, name="caf\u00e9")


def reader_block() -> str:
    match = re.search(r"<!-- test: reader -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match is not None, "formats.md lost its reader"
    return match[1]


def test_reader_of_the_page_reads_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = reader_block()
    assert len([line for line in code.splitlines() if line]) == 5
    monkeypatch.chdir(folder.parent)
    names: dict[str, Any] = {}
    exec(code, names)
    arrays = names["arrays"]
    assert sorted(arrays) == ["features", "indices", "indptr", "labels", "splits/train"]
    for name, expected in [
        ("indptr", INDPTR),
        ("indices", INDICES),
        ("features", FEATURES),
        ("labels", LABELS),
        ("splits/train", np.array([0, 2])),
    ]:
        np.testing.assert_array_equal(arrays[name], expected)
    row = arrays["indices"][arrays["indptr"][2] : arrays["indptr"][3]]
    np.testing.assert_array_equal(row, [0, 0, 2])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("indptr", b"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"),
        ("indices", b"{'descr': '<u4', 'fortran_order': False, 'shape': (5,), }"),
        ("features", b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"),
    ],
)
def test_header_byte_by_byte(folder: Path, name: str, text: bytes) -> None:
    data = (folder / f"{name}.npy").read_bytes()
    assert data[:6] == b"\x93NUMPY"
    assert data[6:8] == b"\x01\x00"
    assert data[8:10] == b"\xf6\x0f"
    assert data[10 : 10 + len(text)] == text
    assert set(data[10 + len(text) : 4095]) == {0x20}
    assert data[4095:4096] == b"\n"


def test_payload_and_tail(folder: Path) -> None:
    data = (folder / "features.npy").read_bytes()
    assert len(data) == 8192
    assert data[4096 : 4096 + 24] == FEATURES.astype("<f4").tobytes()
    assert set(data[4096 + 24 :]) == {0}


@pytest.mark.parametrize(("count", "size"), [(0, 4096), (4095, 8192), (4096, 8192), (4097, 12288)])
def test_file_size(tmp_path: Path, count: int, size: int) -> None:
    writer = ArrayWriter(tmp_path / "a.npy", np.uint8)
    writer.append(np.zeros(count, np.uint8))
    entry = writer.close()
    assert os.path.getsize(tmp_path / "a.npy") == size
    assert len(entry["checksums"]) == (1 if count else 0)
    assert (tmp_path / "a.npy").read_bytes()[10:25] == b"{'descr': '|u1'"


def test_meta_fields(folder: Path) -> None:
    text = (folder / "meta.json").read_text(encoding="utf-8")
    meta = json.loads(text)
    assert list(meta) == sorted(meta) and text.endswith("}\n")
    assert meta["format"] == "foregather-graph" and meta["version"] == 1
    assert (meta["num_nodes"], meta["num_edges"]) == (3, 5)
    assert meta["checksum"] == {"algorithm": "xxh64", "chunk_bytes": 67108864}
    assert meta["arrays"]["splits/train"]["file"] == "splits/train.npy"
    assert meta["arrays"]["features"] == {
        "file": "features.npy",
        "dtype": "float32",
        "shape": [3, 2],
        "checksums": [xxhash.xxh64_hexdigest(FEATURES.tobytes(), seed=0)],
    }


def test_digest_covers_the_metadata(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    digest = meta.pop("digest")
    body = json.dumps(meta, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert digest == xxhash.xxh64_hexdigest(body.encode("ascii"), seed=0)


def test_checksum_chunks_of_64_mib(tmp_path: Path) -> None:
    assert CHUNK == 64 * 2**20
    data = np.zeros(CHUNK + 3, np.uint8)
    data[-1] = 7
    writer = ArrayWriter(tmp_path / "a.npy", np.uint8)
    writer.append(data)
    entry = writer.close()
    assert entry["checksums"] == [
        xxhash.xxh64_hexdigest(data[:CHUNK], seed=0),
        xxhash.xxh64_hexdigest(data[CHUNK:], seed=0),
    ]


def test_only_complete_folders_have_the_final_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), FolderWriter(tmp_path / "graph.fg") as writer:
        writer.put("indptr", INDPTR)
        assert (tmp_path / "graph.fg.partial" / ".foregather").exists()
        raise RuntimeError("interrupted")
    assert list(tmp_path.iterdir()) == []
