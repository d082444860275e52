"""text_runs: the distinct texts of many columns in the order of their bytes, beyond memory too.

Texts are collected until memory is used up, sorted, and written as a run; the runs are merged in
blocks: what is not above the smallest last text of the blocks in memory is complete.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.typed.lookup.keys import packed
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import plain
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["TextRuns"]

_I8, _U1 = np.dtype("<i8"), np.dtype("u1")


class _Run:
    """Sorted texts in two scratch files, read block by block."""

    def __init__(self, writer: FolderWriter, name: str, texts: Any) -> None:
        text = packed(texts)
        self.count, self.next = len(texts), 0
        self._ends, self._data = (Scratch(writer.scratch(f"{name}-{e}")) for e in ("ends", "text"))
        for file in (self._ends, self._data):
            writer.defer(file.close)
        self._ends.append(text.offsets)
        self._data.append(text.data)
        self.mean = text.data.size // max(1, self.count)

    def read(self, memory: int) -> Any:
        """The next texts, about this many bytes of them; at least one while there are any."""
        pa = arrow()
        count = min(self.count - self.next, max(1, memory // (8 + self.mean)))
        ends = self._ends.read(_I8, self.next, count + 1)
        while count > 1 and int(ends[count] - ends[0]) > 2 * memory:  # some are far longer
            count //= 2
        data = self._data.read(_U1, int(ends[0]), int(ends[count] - ends[0]))
        self.next += count
        offsets = np.ascontiguousarray(ends[: count + 1] - ends[0])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, buffers)

    def close(self) -> None:
        self._ends.close()
        self._data.close()


class TextRuns:
    """Collects texts; `sorted` gives each distinct one once.

    Args:
        writer: the folder being made; scratch files are next to it.
        name: of the scratch files.
        memory: bytes this may use, about.
    """

    def __init__(self, writer: FolderWriter, name: str, memory: int) -> None:
        self._writer, self._name, self._memory = writer, name, memory
        self._runs: list[_Run] = []
        self._held: list[Any] = []
        self._bytes = 0

    def add(self, column: Any) -> None:
        """Adds texts; missing and empty ones are left out."""
        pa = arrow()
        texts = pa.compute.unique(plain(column).drop_null()).cast(pa.large_binary())
        texts = texts.filter(pa.compute.not_equal(texts, b""))
        self._held.append(texts)
        self._bytes += texts.nbytes
        if self._bytes > self._memory // 8:
            self._held = [self._distinct()]
            self._bytes = self._held[0].nbytes
            if self._bytes > self._memory // 16:
                self._spill()

    def _distinct(self) -> Any:
        pa = arrow()
        if not self._held:
            return pa.array([], pa.large_binary())
        return pa.compute.unique(pa.concat_arrays(self._held))

    def _spill(self) -> None:
        texts = _in_order(self._distinct())
        self._held, self._bytes = [], 0
        if len(texts):
            name = f"{self._name}-run-{len(self._runs)}"
            self._runs.append(_Run(self._writer, name, texts))

    def sorted(self) -> Iterator[Any]:
        """Pieces of large_binary, ascending by their bytes."""
        if not self._runs:
            yield _in_order(self._distinct())
            return
        self._spill()
        each = self._memory // (8 * len(self._runs))
        blocks: dict[int, Any] = {}
        while True:
            for number, run in enumerate(self._runs):
                if number not in blocks and run.next < run.count:
                    blocks[number] = run.read(each)
            if not blocks:
                break
            yield self._complete(blocks)
        for run in self._runs:
            run.close()

    def _complete(self, blocks: dict[int, Any]) -> Any:
        """Takes what is complete out of the blocks."""
        pa = arrow()
        open_ends = [
            block[-1].as_py()
            for number, block in blocks.items()
            if self._runs[number].next < self._runs[number].count
        ]
        if not open_ends:
            found = pa.concat_arrays(list(blocks.values()))
            blocks.clear()
            return _in_order(pa.compute.unique(found))
        border = min(open_ends)
        parts = []
        for number, block in list(blocks.items()):
            taken = _up_to(block, border)
            parts.append(block.slice(0, taken))
            if taken == len(block):
                del blocks[number]
            else:
                blocks[number] = block.slice(taken)
        return _in_order(pa.compute.unique(pa.concat_arrays(parts)))


def _in_order(texts: Any) -> Any:
    return texts.take(arrow().compute.sort_indices(texts))


def _up_to(block: Any, border: bytes) -> int:
    """How many texts of a sorted block are not above a border."""
    low, high = 0, len(block)
    while low < high:
        middle = (low + high) // 2
        if block[middle].as_py() <= border:
            low = middle + 1
        else:
            high = middle
    return low
