"""ZipArrays against np.load, and against archives made to hurt."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from foregather.errors import BudgetError, ForegatherError, FormatError, InputError, StorageError
from foregather.graph.convert.reading.npz import ZipArrays

DTYPES = st.sampled_from(["<i4", "<i8", ">i8", "<u2", "<f4", ">f4", "<f2", "|b1"])


def archive(folder: Path, compressed: bool = True, **arrays: object) -> Path:
    path = folder / "data.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)  # type: ignore[arg-type]
    return path


def npy(header: str, payload: bytes = b"") -> bytes:
    body = header.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body + payload


def member(folder: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "data.npz"
    with zipfile.ZipFile(path, "w", method) as zipped:
        zipped.writestr("x.npy", content)
    return path


@settings(max_examples=40, deadline=None)
@given(
    values=DTYPES.flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1))
    ),
    step=st.integers(1, 7),
    compressed=st.booleans(),
)
def test_chunks_are_the_rows(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, step: int, compressed: bool
) -> None:
    path = archive(tmp_path_factory.mktemp("z"), compressed, x=values)
    with ZipArrays(path) as arrays:
        parts = list(arrays.chunks("x", step))
        whole = arrays.whole("x", values.nbytes)
    assert all(len(part) <= step for part in parts)
    joined = np.concatenate(parts)
    assert joined.dtype == whole.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(joined, values)
    np.testing.assert_array_equal(whole, values)


@settings(max_examples=30, deadline=None)
@given(
    pairs=hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 40).filter(lambda n: n != 2))),
    step=st.integers(1, 50),
    compressed=st.booleans(),
    columns=st.booleans(),
    fortran=st.booleans(),
)
def test_pairs_are_the_two_rows(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: np.ndarray,
    step: int,
    compressed: bool,
    columns: bool,
    fortran: bool,
) -> None:
    stored = pairs.T if columns else pairs
    stored = np.asfortranarray(stored) if fortran else np.ascontiguousarray(stored)
    path = archive(tmp_path_factory.mktemp("z"), compressed, edge_index=stored)
    with ZipArrays(path) as arrays:
        parts = list(arrays.pair_chunks("edge_index", step))
    source = np.concatenate([np.empty(0, np.int64), *(a for a, _ in parts)])
    target = np.concatenate([np.empty(0, np.int64), *(b for _, b in parts)])
    assert all(len(a) == len(b) <= step for a, b in parts)
    np.testing.assert_array_equal(source, pairs[0])
    np.testing.assert_array_equal(target, pairs[1])


def test_two_by_two_is_read_as_rows(tmp_path: Path) -> None:
    with ZipArrays(archive(tmp_path, e=np.array([[1, 2], [3, 4]]))) as arrays:
        ((source, target),) = arrays.pair_chunks("e", 9)
    assert source.tolist() == [1, 2] and target.tolist() == [3, 4]


def test_names_headers_and_whole_fortran(tmp_path: Path) -> None:
    matrix = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    with ZipArrays(archive(tmp_path, a=matrix, b=np.int64(7))) as arrays:
        assert arrays.names() == ["a", "b"]
        assert arrays.header("a").shape == (3, 4) and arrays.header("a").fortran
        np.testing.assert_array_equal(arrays.whole("a", 1000), matrix)
        assert arrays.whole("b", 8) == 7
        with pytest.raises(FormatError, match="ascontiguousarray"):
            list(arrays.chunks("a", 1))
        with pytest.raises(FormatError, match="one number"):
            list(arrays.chunks("b", 1))
        with pytest.raises(FormatError, match="has no array 'c'; it holds a, b"):
            arrays.header("c")
        with pytest.raises(FormatError, match=r"expected edges as \[2, E\]"):
            list(arrays.pair_chunks("a", 1))
        with pytest.raises(BudgetError, match=r"a in data.npz needs 96 B"):
            arrays.whole("a", 95)
        with pytest.raises(InputError, match="step is 0"):
            list(arrays.chunks("a", 0))


def test_an_iterator_may_be_left_early_and_others_go_on(tmp_path: Path) -> None:
    values = np.arange(1000)
    with ZipArrays(archive(tmp_path, x=values)) as arrays:
        first, second = arrays.chunks("x", 10), arrays.chunks("x", 300)
        next(first)
        next(second)
        first.close()  # type: ignore[attr-defined]
        assert sum(len(part) for part in second) == 700


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    with ZipArrays(archive(tmp_path, x=np.array([Trap()], object))) as arrays:
        for read in (
            arrays.header,
            lambda n: arrays.whole(n, 99),
            lambda n: [*arrays.chunks(n, 1)],
        ):
            with pytest.raises(FormatError, match="pickles are never loaded"):
                read("x")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}", b"\0" * 80),
        npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000, 2)}"),
        npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", b"\0" * 80),  # too much
        npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000, 0)}"),
        npy("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,)}"),
        b"not an array at all",
        b"",
    ],
)
def test_headers_that_lie(tmp_path: Path, content: bytes) -> None:
    with ZipArrays(member(tmp_path, content)) as arrays:
        with pytest.raises(FormatError):
            list(arrays.chunks("x", 1000))
        with pytest.raises(FormatError):
            list(arrays.pair_chunks("x", 1000))


def test_a_directory_that_lies_about_the_size(tmp_path: Path) -> None:
    rows = 10**9
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({rows},)}}"
    path = member(tmp_path, npy(header, b"\0" * 8000))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    claimed = len(npy(header)) + 8 * rows
    data[entry + 24 : entry + 28] = struct.pack("<I", claimed & 0xFFFFFFFF)
    path.write_bytes(data)
    with ZipArrays(path) as arrays, pytest.raises(FormatError):
        arrays.whole("x", 1 << 40)


def test_a_bomb_is_stopped_by_the_budget(tmp_path: Path) -> None:
    with ZipArrays(archive(tmp_path, x=np.zeros(4 << 20, np.uint8))) as arrays:
        with pytest.raises(BudgetError):
            arrays.whole("x", 1 << 20)
        assert max(len(part) for part in arrays.chunks("x", 4096)) == 4096


@settings(max_examples=150, deadline=None)
@given(data=st.data(), compressed=st.booleans())
def test_a_flipped_bit_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, compressed: bool
) -> None:
    values = np.arange(200, dtype=np.int64).reshape(2, 100) * 7919
    path = archive(tmp_path_factory.mktemp("z"), compressed, x=values)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    for read in (
        lambda arrays: np.concatenate([np.stack(p) for p in arrays.pair_chunks("x", 30)], axis=1),
        lambda arrays: np.concatenate(list(arrays.chunks("x", 1))),
        lambda arrays: arrays.whole("x", 10000),
    ):
        try:
            with ZipArrays(path) as arrays:
                got = read(arrays)
        except ForegatherError:
            continue
        np.testing.assert_array_equal(got, values)


def test_truncated_encrypted_missing_and_foreign(tmp_path: Path) -> None:
    path = archive(tmp_path, x=np.arange(100))
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    with pytest.raises(FormatError, match=r"data.npz is a corrupt"):
        ZipArrays(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError):
        ZipArrays(path)
    with pytest.raises(StorageError, match=r"cannot read gone.npz"):
        ZipArrays(tmp_path / "gone.npz")
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4))
    foreign = member(tmp_path, buffer.getvalue(), zipfile.ZIP_LZMA)
    with ZipArrays(foreign) as arrays, pytest.raises(FormatError, match="with method 14"):
        arrays.header("x")
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("x.npy", buffer.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            zipped.writestr("x.npy", buffer.getvalue())
    with pytest.raises(FormatError, match="twice"):
        ZipArrays(path)
