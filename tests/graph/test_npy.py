"""npy: array files are what NumPy reads, and hostile headers are refused without being believed."""

import io
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather.errors import FormatError, StorageError
from foregather.graph.on_disk.npy import ALIGN, file_bytes, map_array, pack_header, read_header


@given(
    dtype=st.sampled_from(["<f4", "<f2", "|i1", "<u4", "<i8", "|u1", "<f8"]),
    shape=st.lists(st.integers(0, 2**40), min_size=0, max_size=4).map(tuple),
)
def test_header_round_trip(dtype, shape):
    data = pack_header(dtype, shape)
    assert len(data) == ALIGN
    header = read_header(io.BytesIO(data), "a")
    assert (header.dtype, header.shape, header.offset) == (np.dtype(dtype), shape, ALIGN)
    assert np.lib.format.read_magic(io.BytesIO(data)) == (1, 0)


def test_numpy_reads_our_header_and_we_read_numpys(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    path = tmp_path / "a.npy"
    path.write_bytes(pack_header(values.dtype, values.shape) + values.tobytes() + bytes(100))
    np.testing.assert_array_equal(np.load(path), values)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), values)
    np.save(path, np.asfortranarray(values))
    np.testing.assert_array_equal(map_array(path), values)
    np.save(path, np.empty((0, 3)))
    assert map_array(path).shape == (0, 3)


def test_sizes():
    assert [file_bytes(n) for n in (0, 1, 4096, 4097)] == [4096, 8192, 8192, 12288]


class Evil:
    def __reduce__(self):
        return (open, ("/tmp/foregather-evil", "w"))


def header(text: str, magic: bytes = b"\x93NUMPY\x01\x00") -> bytes:
    return magic + len(text).to_bytes(2, "little") + text.encode("latin1")


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
HOSTILE = {
    "pickle": pickle.dumps(Evil()),
    "zip": b"PK\x03\x04" + bytes(50),
    "empty": b"",
    "magic": b"NUMPY" + bytes(50),
    "version": header(GOOD, b"\x93NUMPY\x09\x00"),
    "truncated": header(GOOD)[:30],
    "object": header(GOOD.replace("<f4", "|O")),
    "structured": header(GOOD.replace("'<f4'", "[('a', '|O')]")),
    "not a dict": header("[1, 2, 3]"),
    "code": header("__import__('os').system('true')"),
    "negative": header(GOOD.replace("(3,)", "(-3,)")),
    "huge": header(GOOD.replace("(3,)", "(99999999999999999999,)")),
    "bool shape": header(GOOD.replace("(3,)", "(True,)")),
    "missing field": header("{'descr': '<f4'}"),
    "nested": header("(" * 5000),
    "long": b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little") + bytes(100),
    "bad dtype": header(GOOD.replace("<f4", "nonsense")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_headers(kind, tmp_path):
    path = tmp_path / "bad.npy"
    path.write_bytes(HOSTILE[kind])
    with pytest.raises(FormatError, match=r"bad\.npy"):
        map_array(path)


def test_truncated_payload_and_missing_file(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(pack_header("<f4", (1000,)) + bytes(100))
    with pytest.raises(FormatError, match="truncated"):
        map_array(path)
    with pytest.raises(StorageError, match="cannot open b.npy"):
        map_array(tmp_path / "b.npy")


@given(st.binary(max_size=300))
def test_random_bytes_never_crash(data):
    with pytest.raises(FormatError):
        read_header(io.BytesIO(b"\x93NUMPY\x01\x00" + data), "x")
