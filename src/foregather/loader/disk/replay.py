"""replay: the rows of one epoch's batches, packed in the order of use, for epochs that repeat it.

A Loader with `replay=E` draws new samples every E epochs. The first epoch of such a group reads by
plan and writes the rows of each batch to a scratch file, one batch behind the other; the others
read that file from front to back. The file has no name, so nothing is left behind, and what is read
back is compared with a checksum. Batches are those of the first epoch, bit for bit, packed or not.
"""

import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregather.errors import FormatError, StorageError
from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import Calibration
from foregather.units import format_bytes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PackedRows", "ReplayPack", "forecast_replay"]

_FLUSH = 64 << 20  # bytes written between two requests to let go of them
_SPARE = 64 << 20  # bytes of the disk that are left to others


def forecast_replay(
    file: FeatureFile, rows: float, batches: int, epochs: int, disk: Calibration
) -> str:
    """What packing an epoch takes, in words, before anything is written.

    Args:
        file: the feature file.
        rows: of a batch, on average.
        batches: of an epoch.
        epochs: that use the same samples.
        disk: its measured rates.
    """
    packed = pack_bytes(file, rows, batches)
    write, read = packed / disk.sequential_write, packed / disk.sequential_read
    return (
        f"replay: {epochs} epochs use the samples of the first, so their gradients are not "
        f"independent; its rows are packed once: {format_bytes(packed)} of scratch, "
        f"{packed / max(1, file.file_bytes):.2f} times the feature file, about {write:.2f} s to "
        f"write and {read:.2f} s to read in each of the {epochs - 1} others"
    )


def pack_bytes(file: FeatureFile, rows: float, batches: int) -> int:
    """Bytes of an epoch's packed rows."""
    return int(rows * batches * file.width * file.gathered_dtype.itemsize)


class ReplayPack:
    """A scratch file of rows by batch, of one epoch of one recipe.

    Args:
        file: the feature file that the rows are of.
        key: which epoch of which batches they are.
        batches: of the epoch.
        expected: bytes that they are expected to take.
    """

    def __init__(self, file: FeatureFile, key: Hashable, batches: int, expected: int) -> None:
        self.key, self._batches = key, batches
        self._file, self._identity = file, _identity(file.path)
        self._places: dict[int, tuple[int, int, int]] = {}  # batch: offset, bytes, checksum
        self._end = self._flushed = 0
        self.written = self.read_bytes = 0
        self.seconds = 0.0
        self.note = ""  # why nothing is packed
        self._descriptor = -1
        free = shutil.disk_usage(file.path.parent).free
        if not os.access(file.path.parent, os.W_OK):
            self._give_up(f"{file.path.parent.name} cannot be written to")
        elif free < expected + _SPARE:
            self._give_up(f"{format_bytes(expected)} are needed and {format_bytes(free)} are free")
        else:
            try:
                self._descriptor = _unnamed(file.path.parent)
            except OSError as error:
                self._give_up(f"no scratch file can be made: {error.strerror}")

    def has(self, first: int) -> bool:
        """Whether the rows of all batches from `first` on are packed."""
        return all(number in self._places for number in range(first, self._batches))

    def check(self) -> None:
        """Refuses rows of a file that changed since they were packed.

        Raises:
            StorageError: it did.
        """
        if _identity(self._file.path) != self._identity:
            raise StorageError(
                f"{self._file.name} was replaced or written to since its rows were packed for "
                "replay; make a new Loader"
            )

    def put(self, number: int, rows: "Tensor") -> None:
        """Packs the rows of a batch; on a full disk what was packed is given up."""
        if self._descriptor < 0 or number in self._places:
            return
        view = _bytes(rows.contiguous())
        place, begin = (self._end, len(view), zlib.crc32(view)), time.perf_counter()
        try:
            done = 0
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], self._end + done)
            self._end += len(view)
            if self._end - self._flushed >= _FLUSH:
                os.fdatasync(self._descriptor)
                self._let_go(self._flushed, self._end - self._flushed)
                self._flushed = self._end
        except OSError as error:
            self._give_up(f"writing failed: {error.strerror}")
            return
        self._places[number] = place
        self.written += len(view)
        self.seconds += time.perf_counter() - begin

    def get(self, number: int, out: "Tensor") -> "Tensor":
        """Reads the rows of a batch back into `out`.

        Raises:
            StorageError: they cannot be read.
            FormatError: they are not what was written.
        """
        offset, size, checksum = self._places[number]
        view = _bytes(out)
        done = 0
        try:
            while done < size:
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
                if count == 0:
                    break
                done += count
            self._let_go(offset, size)
        except OSError as error:
            raise StorageError(f"cannot read packed rows: {error.strerror}") from error
        if done != size or zlib.crc32(view) != checksum:
            raise FormatError(
                f"the packed rows of batch {number} are not those that were written; the disk of "
                f"{self._file.path.parent.name} is damaged"
            )
        self.read_bytes += size
        return out

    def explain(self) -> str:
        """What was packed and read, or why nothing was."""
        if self.note:
            return f"replay: nothing is packed, and every epoch reads by plan: {self.note}"
        return (
            f"replay: {len(self._places):,} of {self._batches:,} batches are packed, "
            f"{format_bytes(self.written)} written in {self.seconds:.2f} s, "
            f"{format_bytes(self.read_bytes)} read back"
        )

    def close(self) -> None:
        """Gives the scratch file back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._places.clear()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()

    def _give_up(self, why: str) -> None:
        self.close()
        self.note = why

    def _let_go(self, offset: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_DONTNEED)


class PackedRows:
    """An executor that takes the rows of batch after batch from a pack; it needs no plan.

    Args:
        pack: has the rows of all batches from `first` on.
        first: the first batch.
    """

    def __init__(self, pack: ReplayPack, first: int) -> None:
        self._pack, self._next = pack, first
        self.memory_bytes = self.steps_left = 0

    def prepare(self, plan: Any) -> Any:
        """Nothing is to be done."""
        return plan

    def append(self, plan: Any) -> None:
        """There is no plan."""

    def step(self, out: "Tensor | None" = None) -> "Tensor":
        """The rows of the next batch, in `out`, which loops always give."""
        assert out is not None
        self._next += 1
        return self._pack.get(self._next - 1, out)

    def counters(self) -> dict[str, Any]:
        """Bytes read back."""
        return {"requests": 0, "bytes": self._pack.read_bytes, "seconds": 0.0, "waiting": 0.0}

    def explain(self) -> list[str]:
        """What was packed."""
        return [self._pack.explain()]

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """The pack stays."""


def _bytes(rows: "Tensor") -> memoryview:
    array: Any = rows.numpy()
    return memoryview(array.reshape(-1).view("u1"))


def _identity(path: Path) -> tuple[int, ...]:
    try:
        facts = os.stat(path)
    except OSError as error:
        raise StorageError(f"{path.name} was removed: {error.strerror}") from error
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _unnamed(folder: Path) -> int:
    """A file that has no name, or loses it before anything is written."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        descriptor, name = tempfile.mkstemp(dir=folder)
        os.unlink(name)
        return descriptor
