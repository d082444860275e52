"""stream: reads a text file, plain or gzip, in pieces cut at line ends, ahead in a thread.

Memory is bounded: at most `depth` pieces wait, one is being read and one is in use, each no longer
than the step or than one line. The thread ends at the end of the file, on an error (which is passed
to the consumer after the pieces before it), or as soon as the consumer stops.
"""

import os
import re
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from foregather.errors import ForegatherError, FormatError, InputError, StorageError
from foregather.graph.convert.reading.inflate import Inflate

__all__ = ["LONGEST_LINE", "first_lines", "open_lines", "read_ahead"]

#: A longer line is taken as a sign that the file is not text.
LONGEST_LINE = 16 << 20

_GZIP = b"\x1f\x8b"
_FOREIGN = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a NumPy array",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}

Item = TypeVar("Item")
Piece = tuple[npt.NDArray[np.uint8], int]


def open_lines(
    path: str | os.PathLike[str], step_bytes: int, longest: int = LONGEST_LINE
) -> Generator[Piece, None, None]:
    """Reads a text file as (bytes, number of their first line), about `step_bytes` at a time.

    Each piece ends with a line end, except perhaps the last. gzip is recognised by its first bytes.
    Close the iterator to stop early.

    Args:
        path: a text file or a gzip of one.
        step_bytes: bytes of text per piece; a single line may be longer.
        longest: maximum bytes of one line.

    Raises:
        FormatError: not text, not gzip though named so, truncated, a line over `longest`, or a
            carriage return inside a line.
        StorageError: the file cannot be read.
    """
    if step_bytes < 1:
        raise InputError(f"step_bytes is {step_bytes}, expected at least 1")
    return read_ahead(lambda: _pieces(Path(path), step_bytes, longest))


def first_lines(path: str | os.PathLike[str], most_bytes: int = 1 << 16) -> list[bytes]:
    """Returns the complete lines in the first bytes of a text file.

    At least one, unless it is empty.
    """
    text = b""
    with closing(_pieces(Path(path), most_bytes, LONGEST_LINE)) as pieces:
        for piece, _ in pieces:
            if text and len(text) + piece.size > most_bytes:
                break
            text += piece.tobytes()  # the second piece is a last line without a line end
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _pieces(path: Path, step: int, longest: int) -> Generator[Piece, None, None]:
    with _reading(path.name), _opened(path) as file:
        line = 1
        pending: list[bytes] = []  # of an incomplete line
        length = 0
        while True:
            block = file.read(step)
            if not block:
                break
            cut = block.rfind(b"\n") + 1
            if cut == 0:
                _check_ends(block, line, path.name)  # before it is treated as one long line
                pending.append(block)
                length += len(block)
                if length > longest:
                    raise FormatError(
                        f"{path.name} line {line} is longer than {longest} bytes; "
                        "expected lines of text"
                    )
                continue
            text = b"".join((*pending, block[:cut]))
            pending, length = [block[cut:]], len(block) - cut
            _check_ends(text, line, path.name)
            yield np.frombuffer(text, np.uint8), line
            line += text.count(b"\n")
        if length:
            text = b"".join(pending)
            _check_ends(text, line, path.name)
            yield np.frombuffer(text, np.uint8), line


def _check_ends(text: bytes, line: int, name: str) -> None:
    """Refuses a carriage return inside a line: the rest would be lost, or two ids joined."""
    if text.count(b"\r") == text.count(b"\r\n"):
        return
    found = re.search(rb"\r+[^\r\n]", text)
    if found is not None:
        number = line + text.count(b"\n", 0, found.start())
        raise FormatError(
            f"{name} line {number} has a carriage return inside, expected lines that end "
            "with LF or CRLF; convert the file, for example with tr '\\r' '\\n'"
        )


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Converts exceptions of gzip and the operating system to our errors."""
    try:
        yield
    except ForegatherError:
        raise
    except EOFError as error:
        raise FormatError(f"{name} ends inside its gzip data; the file is truncated") from error
    except zlib.error as error:
        raise FormatError(f"{name} has corrupt gzip data: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror}") from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | Inflate]:
    with open(path, "rb") as file:
        start = file.read(8)
        file.seek(0)
        if start.startswith(_GZIP):
            yield Inflate(file)
            return
        if path.suffix == ".gz":
            raise FormatError(f"{path.name} is named .gz but is not gzip data")
        for magic, what in _FOREIGN.items():
            if start.startswith(magic):
                raise FormatError(f"{path.name} is {what}, expected lines of UTF-8 text or gzip")
        yield file


def read_ahead(make: Callable[[], Iterator[Item]], depth: int = 2) -> Generator[Item, None, None]:
    """Runs an iterator in a thread, at most `depth` items ahead of the consumer.

    The thread starts when the first item is requested. Closing the iterator (or dropping it) stops
    the thread and closes what `make` made, in that thread.
    """
    ahead: _Ahead[Item] = _Ahead(depth)
    # A daemon, so that an iterator left open cannot keep the interpreter from ending.
    thread = threading.Thread(target=ahead.run, args=(make,), name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = ahead.take()
            if item is None:
                return
            yield item
            del item  # or it would stay alive while waiting for the next one
    finally:
        ahead.stop()
        thread.join()


class _Ahead(Generic[Item]):
    """The items between the thread and the consumer; all fields are guarded by `_changed`."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._error: BaseException | None = None
        self._ended = False
        self._stopped = False

    def run(self, make: Callable[[], Iterator[Item]]) -> None:
        error: BaseException | None = None
        try:
            with closing(cast(Any, make())) as items:
                for item in items:
                    if not self._put(item):
                        break
        except BaseException as raised:  # every error is raised in the consumer
            error = raised
        with self._changed:
            self._error = error
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._items) < self._depth)
            if not self._stopped:
                self._items.append(item)
            self._changed.notify_all()
            return not self._stopped

    def take(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._ended)
            if self._items:
                self._changed.notify_all()
                return self._items.popleft()
            error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()
