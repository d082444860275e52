"""read_range: any range of a file, in pieces and threads, comes whole and checked or not at all."""

import errno
import os

import numpy as np
import pytest

from foregather import FormatError, StorageError, _core
from foregather.errors import InputError

BLOCK, HEAD, PIECE = _core.SUM_BLOCK, 4096, 256 << 10
PAYLOAD = 12 * PIECE + 3 * BLOCK + 1234  # several pieces, and a last block that is shorter


@pytest.fixture(scope="module")
def payload():
    return np.random.default_rng(5).integers(0, 256, PAYLOAD, np.uint8)


@pytest.fixture
def path(tmp_path, payload):
    (tmp_path / "x.npy").write_bytes(bytes(HEAD) + payload.tobytes() + bytes(HEAD))
    return tmp_path / "x.npy"


@pytest.fixture
def descriptor(path):
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


@pytest.fixture(scope="module")
def sums(payload):
    made, summer = _core.BlockSums("x.npy", PAYLOAD, 16, HEAD), _core.Summer()
    made.sums[:] = np.concatenate([summer.update(payload), summer.finish()])
    return made


def read(descriptor, first, last, sums, **more):
    into = np.empty(last - first, np.uint8)
    call = _core.testing.read_range if "faults" in more else _core.read_range
    call(descriptor, "x.npy", HEAD + first, into, sums, **more)
    return into


def ranges():
    rng = np.random.default_rng(1)
    edges = [0, 1, BLOCK - 1, BLOCK, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, PAYLOAD - 1]
    edges += [PAYLOAD // BLOCK * BLOCK, PAYLOAD]
    some = [(a, b) for a in edges for b in edges if a <= b]
    return some + [tuple(sorted(rng.integers(0, PAYLOAD + 1, 2).tolist())) for _ in range(60)]


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_every_range_comes_as_it_is(descriptor, payload, sums, threads, checked):
    for first, last in ranges():
        got = read(descriptor, first, last, sums if checked else None, threads=threads)
        np.testing.assert_array_equal(got, payload[first:last])


@pytest.mark.parametrize("checked", [True, False])
def test_what_passes_is_met_in_every_piece(descriptor, payload, sums, checked):
    """Interrupted, refused for a moment, and cut short, each several times in every piece."""
    faults = _core.testing.Faults()
    for start in range(0, PAYLOAD, PIECE):
        begin, end = HEAD + start, HEAD + min(PAYLOAD, start + PIECE)
        faults.fail(begin, end, errno.EINTR, 3)
        faults.fail(begin, end, errno.EAGAIN, 2)
        faults.shorten(begin, end, 1000, 7)
    got = read(descriptor, 77, PAYLOAD, sums if checked else None, threads=4, faults=faults)
    np.testing.assert_array_equal(got, payload[77:])


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("at", [0, 5 * PIECE + 100, PAYLOAD - 1])
def test_a_disk_that_fails_is_a_sentence(descriptor, sums, at, checked):
    faults = _core.testing.Faults()
    faults.fail(HEAD + at, HEAD + at + 1, errno.EIO, -1)
    with pytest.raises(StorageError, match=r"reading x\.npy at byte \d+ failed: Input/output"):
        read(descriptor, 0, PAYLOAD, sums if checked else None, threads=4, faults=faults)


@pytest.mark.parametrize("checked", [True, False])
def test_a_file_that_ends_early_is_a_sentence(descriptor, path, sums, checked):
    os.truncate(path, HEAD + 7 * PIECE + 5)
    with pytest.raises(StorageError, match="x.npy ends at byte"):
        read(descriptor, 0, PAYLOAD, sums if checked else None, threads=4)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_bit_in_any_place_is_found_by_its_block(descriptor, path, payload, sums, threads):
    blocks = -(-PAYLOAD // BLOCK)
    rng = np.random.default_rng(threads)
    for block in {0, 63, 64, blocks - 2, blocks - 1, *rng.integers(0, blocks, 8).tolist()}:
        at = int(rng.integers(block * BLOCK, min(PAYLOAD, (block + 1) * BLOCK)))
        with open(path, "r+b") as file:
            file.seek(HEAD + at)
            file.write(bytes([payload[at] ^ 1 << int(rng.integers(8))]))
        last_row = (min(PAYLOAD, (block + 1) * BLOCK) - 1) // 16
        said = rf"x\.npy: block {block} \(rows {block * BLOCK // 16} to {last_row}\)"
        spans = [(0, PAYLOAD), (at, at + 1)]  # the whole, and a single byte of the block
        spans.append((block * BLOCK, min(PAYLOAD, block * BLOCK + 1)))
        for first, last in spans:
            with pytest.raises(FormatError, match=said):
                read(descriptor, first, last, sums, threads=threads)
        read(descriptor, 0, block * BLOCK, sums, threads=threads)  # all others are right
        read(descriptor, min(PAYLOAD, (block + 1) * BLOCK), PAYLOAD, sums, threads=threads)
        with open(path, "r+b") as file:
            file.seek(HEAD + at)
            file.write(payload[at].tobytes())


def test_a_range_outside_the_payload_is_refused(descriptor, sums):
    for position, size in [(0, 10), (HEAD - 1, 10), (HEAD + PAYLOAD - 1, 2), (HEAD + PAYLOAD, 1)]:
        with pytest.raises(InputError, match="not all inside its payload"):
            _core.read_range(descriptor, "x.npy", position, np.empty(size, np.uint8), sums)
    for position in (-1, (1 << 63) - 2):
        with pytest.raises(InputError, match="not all inside its payload"):
            _core.read_range(descriptor, "x.npy", position, np.empty(9, np.uint8), None)
    part = _core.BlockSums("x.npy", PAYLOAD, 16, HEAD, 4, 8)  # of a part of the file
    with pytest.raises(InputError, match="not covered"):
        read(descriptor, 0, PAYLOAD, part, threads=1)
    with pytest.raises(TypeError):
        _core.read_range(descriptor, "x.npy", HEAD, np.empty((4, 4), np.uint8).T[::2], None)
