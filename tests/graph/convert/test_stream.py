"""open_lines against splitlines, and read_ahead stopped at every moment."""

import gzip
import io
import itertools
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.convert.reading.inflate import Inflate
from foregather.graph.convert.reading.stream import first_lines, open_lines, read_ahead

LINE = st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))
TEXT = st.tuples(st.lists(LINE, max_size=40), st.sampled_from([b"\n", b"\r\n"])).map(
    lambda drawn: drawn[1].join(drawn[0])
)


def threads() -> int:
    return sum(thread.name == "read-ahead" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert threads() == 0


@settings(max_examples=60, deadline=None)
@given(text=TEXT, step=st.integers(1, 100), packed=st.booleans())
def test_pieces_are_the_file_cut_at_line_ends(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, step: int, packed: bool
) -> None:
    text = b"#" + text  # no magic bytes of another format
    path = tmp_path_factory.mktemp("s") / "x.txt"
    path.write_bytes(gzip.compress(text) if packed else text)
    whole = b""
    for piece, line in open_lines(path, step):
        assert line == whole.count(b"\n") + 1
        assert whole == b"" or whole.endswith(b"\n")
        whole += piece.tobytes()
    assert whole == text


def test_members_of_gzip_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n3,") + gzip.compress(b"4\n"))
    assert b"".join(p.tobytes() for p, _ in open_lines(path, 4)) == b"1,2\n3,4\n"
    assert first_lines(path) == [b"1,2", b"3,4"]


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(st.binary(max_size=3000), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 5000), min_size=1),
    padding=st.integers(0, 600),
)
def test_inflate_is_gzip(members: list[bytes], sizes: list[int], padding: int) -> None:
    packed = b"".join(gzip.compress(member) for member in members) + bytes(padding)
    reader = Inflate(io.BytesIO(packed))
    text = b""
    for size in itertools.cycle(sizes):
        part = reader.read(size)
        text += part
        assert len(part) <= size
        if len(part) < size:
            break
    assert text == gzip.decompress(packed) and reader.read(1) == b""


def test_inflate_of_much_from_little() -> None:
    reader = Inflate(io.BytesIO(gzip.compress(bytes(10 << 20), 9)))
    sizes = [len(reader.read(3 << 20)) for _ in range(5)]
    assert sizes == [3 << 20] * 3 + [1 << 20, 0]
    with pytest.raises(zlib.error):
        Inflate(io.BytesIO(gzip.compress(b"x") + b"garbage")).read(10)
    with pytest.raises(EOFError):
        Inflate(io.BytesIO(gzip.compress(b"x") + gzip.compress(b"y")[:-1])).read(10)


def test_first_lines_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfab\n\ncd\nef")
    assert first_lines(path) == [b"ab", b"", b"cd", b"ef"]
    assert first_lines(path, 9) == [b"ab", b""]
    assert first_lines(path, 1) == [b"ab"]
    path.write_bytes(b"")
    assert first_lines(path) == []


def test_broken_gzip(tmp_path: Path) -> None:
    text = bytes(range(256)).replace(b"\r", b"") * 400 + b"\n"
    packed = gzip.compress(text, 1)
    path = tmp_path / "x.csv.gz"
    for cut in (2, 9, 20, len(packed) // 2, len(packed) - 1):
        path.write_bytes(packed[:cut])
        with pytest.raises(FormatError, match=r"x\.csv\.gz (ends inside|has corrupt)"):
            list(open_lines(path, 1000))
    for flip in range(10, len(packed), 37):
        broken = bytearray(packed)
        broken[flip] ^= 0x10
        path.write_bytes(broken)
        try:
            found = b"".join(piece.tobytes() for piece, _ in open_lines(path, 1000))
        except FormatError:
            continue
        assert found == text  # deflate has padding bits that mean nothing
    path.write_bytes(b"1,2\n")
    with pytest.raises(FormatError, match=r"named \.gz but is not gzip"):
        list(open_lines(path, 1000))


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"PAR1", b"\xff\xfe1\x00", b"BZh9"])
def test_other_formats_are_named(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(start + b"1 2\n")
    with pytest.raises(FormatError, match="expected lines of UTF-8 text"):
        list(open_lines(path, 100))


def test_a_line_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress(b"1 2\n" + b"0" * 100_000))
    with pytest.raises(FormatError, match="line 2 is longer than 5000 bytes"):
        list(open_lines(path, 100, longest=5000))
    assert len(list(open_lines(path, 100, longest=200_000))) == 2


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot read gone\.txt: No such file"):
        list(open_lines(tmp_path / "gone.txt", 100))
    with pytest.raises(StorageError):
        list(open_lines(tmp_path, 100))
    with pytest.raises(InputError):
        open_lines(tmp_path, 0)


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
def test_stopping_early_ends_the_thread_and_closes(taken: int) -> None:
    closed = threading.Event()
    made = 0

    def count() -> Iterator[int]:
        nonlocal made
        try:
            while True:
                made += 1
                yield made
        finally:
            closed.set()

    items = read_ahead(count)
    assert [next(items) for _ in range(taken)] == list(range(1, taken + 1))
    if taken:
        deadline = time.monotonic() + 5
        while made < taken + 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert made == taken + 3  # two wait, one is in hand: the thread goes no further
    items.close()
    assert closed.is_set() == (taken > 0)


def test_dropping_the_iterator_ends_the_thread() -> None:
    items = read_ahead(lambda: iter(x for x in range(1000)))
    next(items)
    del items
    assert threads() == 0


def test_an_error_comes_after_what_was_before_it() -> None:
    def fails() -> Iterator[int]:
        yield 1
        yield 2
        raise FormatError("here")

    items = read_ahead(fails)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(FormatError, match="here"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_an_error_in_making_is_raised() -> None:
    def make() -> Iterator[int]:
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(read_ahead(make))
