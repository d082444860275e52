"""text_runs: the distinct texts of many columns in the order of their bytes, beyond memory too.

Texts are collected until memory is used up, sorted, and written as a run; the runs are merged in
blocks: what is not above the smallest last text of the blocks in memory is complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.typed.lookup.keys import packed
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import plain
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["TextRuns"]

_I8, _U1 = np.dtype("<i8"), np.dtype("u1")


class _Runs:
    """Sorted texts, run after run, in one file of bytes and one of where each text begins."""

    def __init__(self, writer: FolderWriter, name: str) -> None:
        self._ends, self._data = (Scratch(writer.scratch(f"{name}-{e}")) for e in ("ends", "text"))
        for file in (self._ends, self._data):
            writer.defer(file.close)
        self._texts = self._bytes = 0
        self.runs: list[_Run] = []

    def add(self, texts: Any) -> None:
        """Writes a run."""
        text = packed(texts)
        self._ends.append(text.offsets + self._bytes)
        self._data.append(text.data)
        mean = text.data.size // max(1, len(texts))
        self.runs.append(_Run(self._texts, self._texts + len(texts), mean))
        self._texts += len(texts) + 1
        self._bytes += int(text.data.size)

    def read(self, run: "_Run", memory: int) -> Any:
        """The next texts of a run, about this many bytes of them; at least one."""
        pa = arrow()
        count = min(run.end - run.next, max(1, memory // (8 + run.mean)))
        ends = self._ends.read(_I8, run.next, count + 1)
        while count > 1 and int(ends[count] - ends[0]) > 2 * memory:  # some are far longer
            count //= 2
        data = self._data.read(_U1, int(ends[0]), int(ends[count] - ends[0]))
        run.next += count
        offsets = np.ascontiguousarray(ends[: count + 1] - ends[0])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, buffers)

    def close(self) -> None:
        """Removes the files."""
        self._ends.close()
        self._data.close()


@dataclass
class _Run:
    """A part of the files: the next text, the end, and the mean of their lengths."""

    next: int
    end: int
    mean: int


class TextRuns:
    """Collects texts; `sorted` gives each distinct one once.

    Args:
        writer: the folder being made; scratch files are next to it.
        name: of the scratch files.
        memory: bytes this may use, about.
    """

    def __init__(self, writer: FolderWriter, name: str, memory: int) -> None:
        self._writer, self._name, self._memory = writer, name, memory
        self._files: _Runs | None = None
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
        if self._files is None:
            self._files = _Runs(self._writer, self._name)
        if len(texts):
            self._files.add(texts)

    def sorted(self) -> Iterator[Any]:
        """Pieces of large_binary, ascending by their bytes."""
        if self._files is None:
            yield _in_order(self._distinct())
            return
        self._spill()
        runs = self._files.runs
        each = self._memory // (8 * len(runs))
        blocks: dict[int, Any] = {}
        while True:
            for number, run in enumerate(runs):
                if number not in blocks and run.next < run.end:
                    blocks[number] = self._files.read(run, each)
            if not blocks:
                break
            more = {number for number in blocks if runs[number].next < runs[number].end}
            yield _complete(blocks, more)
        self._files.close()


def _complete(blocks: dict[int, Any], more: set[int]) -> Any:
    """Takes what is complete out of the blocks; the runs in `more` go on after theirs."""
    pa = arrow()
    border = min((blocks[number][-1].as_py() for number in more), default=None)
    parts = []
    for number, block in list(blocks.items()):
        taken = len(block) if border is None else _up_to(block, border)
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
