"""text_ids: original ids that are strings, as bytes back to back and where each one starts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.mapped import fetch

__all__ = ["TextIds"]


@dataclass(frozen=True, slots=True, eq=False)
class TextIds:
    """The strings that nodes were called by; in memory or mapped from a folder.

    Attributes:
        data: uint8, the UTF-8 bytes of all strings.
        offsets: int64 [n + 1]; string i is data[offsets[i]:offsets[i + 1]].
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.data.dtype != np.uint8 or self.data.ndim != 1:
            raise InputError(f"the bytes of string ids are {self.data.dtype}, expected uint8 [n]")
        if self.offsets.dtype != np.int64 or self.offsets.ndim != 1 or not self.offsets.size:
            raise InputError(
                f"the offsets of string ids are {self.offsets.dtype} of shape "
                f"{self.offsets.shape}, expected int64 [n + 1]"
            )
        first, last = int(fetch(self.offsets[:1])[0]), int(fetch(self.offsets[-1:])[0])
        if first != 0 or last != self.data.size:
            raise InputError(
                f"the offsets of string ids run from {first} to {last}, expected 0 to "
                f"{self.data.size}"
            )

    @staticmethod
    def of(strings: Iterable[str]) -> "TextIds":
        """Packs strings."""
        parts = [text.encode() for text in strings]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return TextIds(np.frombuffer(b"".join(parts), np.uint8), offsets)

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    def __getitem__(self, node: int) -> str:
        """The string of one node.

        Raises:
            FormatError: the bytes there are not text.
        """
        if not 0 <= node < len(self):
            raise InputError(f"node {node} has no id; there are {len(self)} (0 to N-1)")
        begin, end = (int(n) for n in fetch(self.offsets[node : node + 2]))
        if not 0 <= begin <= end <= self.data.size:
            raise FormatError(f"the offsets of string ids decrease at node {node}")
        try:
            return bytes(fetch(self.data[begin:end])).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"the id of node {node} is not UTF-8") from error

    def __iter__(self) -> Iterator[str]:
        return (self[node] for node in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """All strings as an array of objects."""
        return np.array(list(self), dtype=object)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays, read into memory."""
        return TextIds, (fetch(self.data), fetch(self.offsets))

    def __repr__(self) -> str:
        return f"TextIds({len(self):,} strings, {self.data.size:,} bytes)"
