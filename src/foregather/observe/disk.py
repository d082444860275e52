"""Disk: measures a disk within seconds, with the reader that will use it.

The test file has no name, so an error, an interrupt or a kill leaves nothing behind; it holds
random bytes, so no layer below can compress it. Time is a budget: a slow disk gets fewer requests,
not more seconds.
"""

import contextlib
import datetime
import fcntl
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, StorageError
from foregather.observe.buffer import PAGE, aligned_buffer
from foregather.observe.calibration import (
    BlockRate,
    Calibration,
    cache_folder,
    calibration_path,
    find_calibration,
    load_calibration,
)
from foregather.observe.machine import describe_machine, describe_place, device_id
from foregather.observe.progress import Progress
from foregather.units import format_bytes

__all__ = [
    "BLOCKS",
    "BlockRate",
    "Calibration",
    "MEMORY_FILESYSTEMS",
    "aligned_buffer",
    "cache_folder",
    "calibrate",
    "calibration_path",
    "find_calibration",
    "first_backend",
    "implausible",
    "load_calibration",
    "repaired",
]

BLOCKS = tuple(kib << 10 for kib in (4, 8, 16, 32, 64, 128, 256))
SIZE = 10**9
_LEAST = 32 << 20  # a smaller file would measure caches rather than the disk
_STEP = 4 << 20  # one sequential write
_STREAM = 1 << 20  # one sequential read
_COPIED = 32 << 20  # bytes of one copy in memory: more than caches hold
_COPIES = 5
_REPEATS = 2  # of block sizes whose rate no disk has
_TRUSTED = 0.8  # of the rate of a larger block, at least, has a smaller one; noise is less
MEMORY_FILESYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")

Bytes = npt.NDArray[np.uint8]


def calibrate(
    folder: str | os.PathLike[str],
    seconds: float = 10.0,
    size: int | None = None,
    backend: str | None = None,
) -> Calibration:
    """Measures the disk that holds `folder`.

    Args:
        folder: where the test file is created; must be writable.
        seconds: approximate total duration.
        size: bytes of the test file; None means 1 GB, or half of what is free if that is less.
        backend: "io_uring", "pread" or "buffered"; None means the first that works.

    Raises:
        InputError: no such folder, or no time.
        StorageError: too little space, not writable, or an I/O error.
    """
    if not seconds > 0:
        raise InputError(f"seconds is {seconds}; give the calibration some time, for example 10")
    place = describe_place(folder)
    size = _file_size(folder, size)
    backend = backend or first_backend(_core.probe_reader(os.fspath(folder))["backends"])
    notes = _cache_notes(backend, place["filesystem"])
    try:
        file = tempfile.TemporaryFile(dir=folder, prefix=".foregather-", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise StorageError(
            f"cannot make a test file: {error.strerror}; choose a folder you may write to"
        ) from error
    with file:
        written, write_rate = _write(file, size, 0.35 * seconds, backend)
        if written < size:
            notes.append(f"the test file stayed at {format_bytes(written)}: writing is slow here")
        bench = _Bench(file, written, backend)
        rates, doubts = repaired(bench.random(seconds))
        notes += doubts
        latency = 1 / bench.rate(PAGE, 1, 0.04 * seconds)
        stream = bench.stream(0.06 * seconds)
    if bench.pin_refusal:
        notes.append(f"buffers were not pinned: {bench.pin_refusal}")
    return Calibration(
        device=device_id(folder),
        filesystem=place["filesystem"],
        backend=backend,
        alignment=bench.alignment,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        file_bytes=written,
        rates=rates,
        latency=latency,
        sequential_read=stream,
        sequential_write=write_rate,
        notes=tuple(notes),
        copying=_copy_rate(),
    )


def _copy_rate() -> float:
    """Bytes per second that a core copies: the best of some, as other programs only slow it."""
    source, target = aligned_buffer(_COPIED), aligned_buffer(_COPIED)
    source[:] = 1
    best = float("inf")
    for _ in range(_COPIES):
        start = time.perf_counter()
        target[:] = source
        best = min(best, time.perf_counter() - start)
    return _COPIED / max(best, 1e-9)


def first_backend(backends: dict[str, str | None]) -> str:
    """Returns the best working backend from a probe's result.

    Raises:
        StorageError: none works.
    """
    for name, reason in backends.items():
        if reason is None:
            return name
    raise StorageError(f"no backend can read from this folder: {backends['buffered']}")


def _file_size(folder: str | os.PathLike[str], size: int | None) -> int:
    facts = describe_machine(folder)
    free = facts["disk"]["free"]
    wanted = min(SIZE, free // 2) if size is None else size
    if facts["disk"]["filesystem"] in MEMORY_FILESYSTEMS:
        # The file itself takes memory there, so keep it small.
        known = [facts["memory"]["available"], facts["memory"]["cgroup_limit"]]
        wanted = min([wanted, 256 << 20, *(amount // 8 for amount in known if amount)])
    wanted = wanted // _STEP * _STEP
    if wanted < _LEAST:
        raise StorageError(
            f"a test file of {format_bytes(wanted)} was possible or requested, but at least "
            f"{format_bytes(_LEAST)} are needed; free some space or choose another folder"
        )
    if free < 2 * wanted:
        raise StorageError(
            f"the test file takes {format_bytes(wanted)}, and twice that should be free, but only "
            f"{format_bytes(free)} are; free some space or choose another folder"
        )
    return wanted


def _cache_notes(backend: str, filesystem: str) -> list[str]:
    if filesystem in MEMORY_FILESYSTEMS:
        return [f"{filesystem} is a memory file system: these figures are for memory, not a disk"]
    if backend == "buffered":
        return [
            "direct reads are refused here: the page cache was dropped before each measurement, "
            "but reads may still look faster than the disk"
        ]
    return [
        "the file was read soon after it was written: the page cache of a host, or a cache in the "
        "drive, may make reads look faster than they are on cold data"
    ]


def _write(file: BinaryIO, size: int, seconds: float, backend: str) -> tuple[int, float]:
    """Fills the file with random bytes.

    Returns bytes written and bytes per second with the sync.
    """
    step = aligned_buffer(_STEP)
    words = step.view(np.uint64)
    random = np.random.SFC64(0x0D15C)
    number = file.fileno()
    if backend != "buffered":  # direct writes leave nothing in the page cache
        with contextlib.suppress(OSError):
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_DIRECT)
    written, taken = 0, 0.0
    try:
        while written < size and (taken < seconds or written < _LEAST):
            words[:] = random.random_raw(words.size)
            start = time.perf_counter()
            if os.pwrite(number, step.data, written) != _STEP:
                raise StorageError("the disk took only part of a write; free some space")
            taken += time.perf_counter() - start
            written += _STEP
        start = time.perf_counter()
        os.fsync(number)
        taken += time.perf_counter() - start
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"writing the test file failed: {error.strerror}") from error
    return written, written / taken


def implausible(rates: Sequence[BlockRate]) -> list[int]:
    """Which rates no disk has: the places of those that something else must have disturbed.

    A read of a larger block contains one of a smaller block, so the smaller one cannot be slower;
    and a larger block does not move far fewer bytes per second than a smaller one.
    """
    found = []
    for place, rate in enumerate(rates):
        slower = any(rate.iops < _TRUSTED * other.iops for other in rates[place + 1 :])
        narrower = any(rate.bandwidth < _TRUSTED / 2 * other.bandwidth for other in rates[:place])
        if slower or narrower:
            found.append(place)
    return found


def repaired(rates: Sequence[BlockRate]) -> tuple[tuple[BlockRate, ...], list[str]]:
    """The rates with those that stayed implausible replaced, and notes that say so."""
    made, notes = list(rates), []
    for place in implausible(rates):
        rate = made[place]
        # what the others imply: at least the rate of every larger block, and at least half of the
        # bytes of every smaller one
        larger = max((other.iops for other in rates[place + 1 :]), default=0.0)
        bytes_ = max((other.bandwidth for other in rates[:place]), default=0.0)
        least = max(rate.iops, larger, _TRUSTED / 2 * bytes_ / rate.block_bytes)
        made[place] = replace(rate, iops=least)
        notes.append(
            f"{rate.iops:,.0f} reads/s of {rate.block_bytes >> 10} KiB are implausible beside the "
            f"other sizes, {1 + _REPEATS} times; {least:,.0f} is used; run doctor again when the "
            "disk is idle"
        )
    return tuple(made), notes


class _Bench:
    """Timed reads of one open test file."""

    def __init__(self, file: BinaryIO, size: int, backend: str) -> None:
        self._number = file.fileno()
        self._path = f"/proc/self/fd/{self._number}"
        self._size = size
        self._backend = backend
        self._buffer = aligned_buffer(32 << 20)
        self._buffer[::PAGE] = 0  # touch it now, not in the first measurement
        self._random = np.random.default_rng(0x5EED)
        self.alignment = 1
        self.pin_refusal = ""

    def _open(self, depth: int) -> _core.BlockReader:
        reader = _core.BlockReader(self._path, self._backend, depth, "the test file")
        reader.attach(self._buffer)
        self.alignment = reader.alignment
        self.pin_refusal = reader.pin_refusal
        return reader

    def _run(self, reader: _core.BlockReader, blocks: npt.NDArray[np.int64], block: int) -> float:
        """Reads those blocks; returns the seconds."""
        count = len(blocks)
        places = np.arange(count, dtype=np.int64) % (self._buffer.size // block) * block
        if self._backend == "buffered":
            os.posix_fadvise(self._number, 0, 0, os.POSIX_FADV_DONTNEED)
        before = reader.counters()["seconds"]
        reader.read(blocks * block, np.full(count, block, np.int64), places, self._buffer)
        return float(max(reader.counters()["seconds"] - before, 1e-9))

    def rate(self, block: int, depth: int, seconds: float) -> float:
        """Measures random reads per second."""
        reader = self._open(depth)
        total = self._size // block
        count = 16
        read = used = 0.0
        while used < seconds / 2:
            count = min(count, total)
            taken = self._run(reader, self._random.permutation(total)[:count], block)
            if taken > seconds / 4 or count == total:
                read, used = read + count, used + taken
            # A shorter run is warm-up: it only shows how many reads a real run needs.
            count = max(count, int(count * min(16.0, 0.5 * seconds / taken)))
        return read / used

    def random(self, seconds: float) -> tuple[BlockRate, ...]:
        """Measures every block size at its best depth: the smallest within 5 % of the best rate."""
        depths = (16, 32, 64, 128) if seconds >= 5 else (32, 128)
        each = 0.5 * seconds / (len(BLOCKS) * len(depths))
        rates = []
        with Progress("testing the disk", len(BLOCKS) * len(depths), "tests") as bar:
            for block in BLOCKS:
                rates.append(self._best_depth(block, depths, each, bar))
            for _ in range(_REPEATS):
                doubted = implausible(rates)
                for place in doubted:  # something else used the disk: the better of two counts
                    again = self._best_depth(rates[place].block_bytes, depths, each, bar)
                    rates[place] = max(again, rates[place], key=lambda rate: rate.iops)
                if not doubted:
                    break
        return tuple(rates)

    def _best_depth(
        self, block: int, depths: Sequence[int], seconds: float, bar: Progress
    ) -> BlockRate:
        found = []
        for depth in depths:
            found.append((self.rate(block, depth, seconds), depth))
            bar.advance(1)
        best = max(found)[0]
        iops, depth = next(pair for pair in found if pair[0] >= 0.95 * best)
        return BlockRate(block, iops, depth)

    def stream(self, seconds: float) -> float:
        """Measures sequential bytes per second."""
        reader = self._open(16)
        total = self._size // _STREAM
        count = max(16, total // 8)
        used, first = 0.0, 0
        while first < total and used < seconds:
            blocks = np.arange(first, min(first + count, total), dtype=np.int64)
            used += self._run(reader, blocks, _STREAM)
            first += len(blocks)
        return first * _STREAM / used
