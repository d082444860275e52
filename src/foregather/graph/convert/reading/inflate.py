"""inflate: reads gzip data in large pieces, with fewer calls than the standard library's reader.

Consecutive members are joined and zero padding after the last is skipped, as gzip does. zlib checks
each member's CRC and length. A read never returns more than requested.
"""

import zlib
from typing import BinaryIO

__all__ = ["Inflate"]

_GZIP = 31  # wbits: a gzip header and trailer, the largest window
_INPUT = 1 << 17  # compressed bytes read at a time
_OUTPUT = 1 << 20  # bytes requested from zlib at a time


class Inflate:
    """The content of a gzip file.

    Raises (in `read`):
        EOFError: the file ends inside a member.
        zlib.error: the data is corrupt, or something other than gzip follows a member.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zlib = zlib.decompressobj(_GZIP)
        self._input = b""

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts: list[bytes] = []
        while size > 0:
            part = self._some(min(size, _OUTPUT))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> bytes:
        """Returns at least one byte and at most `most`; none at the end."""
        while True:
            if self._zlib.eof and not self._next_member():
                return b""
            ended = not self._input and not self._fill()
            part = self._zlib.decompress(self._input, most)
            self._input = self._zlib.unconsumed_tail
            if part:
                return part
            if ended and not self._zlib.eof:
                raise EOFError("the gzip data ends inside a member")

    def _fill(self) -> bool:
        self._input = self._file.read(_INPUT)
        return bool(self._input)

    def _next_member(self) -> bool:
        self._input = self._zlib.unused_data.lstrip(b"\0")
        while not self._input and self._fill():
            self._input = self._input.lstrip(b"\0")
        if self._input:
            self._zlib = zlib.decompressobj(_GZIP)
        return bool(self._input)
