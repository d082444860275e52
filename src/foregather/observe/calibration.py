"""Calibration: the measured performance of a disk, stored for the planner.

A calibration is a frozen value: random-read rates by block size, latency, sequential rates. Its
cost model is monotone in both arguments, whatever the noise in the measurements. It is stored as
JSON in the user's cache folder, one file per disk, and a damaged file is never trusted.
"""

import bisect
import contextlib
import dataclasses
import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, InputError, StorageError
from foregather.observe.machine import device_id

__all__ = [
    "BlockRate",
    "Calibration",
    "cache_folder",
    "calibration_path",
    "find_calibration",
    "load_calibration",
]

VERSION = 1

#: What a core is supposed to copy where that was not measured: bytes per second.
COPYING = 5e9


@dataclass(frozen=True)
class BlockRate:
    """Random reads of one block size, at the best queue depth."""

    block_bytes: int
    iops: float
    depth: int

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.iops * self.block_bytes


@dataclass(frozen=True)
class Calibration:
    """What was measured on one disk. Rates are in bytes, requests and seconds."""

    device: str
    filesystem: str
    backend: str
    alignment: int
    date: str
    file_bytes: int
    rates: tuple[BlockRate, ...]
    latency: float
    """Seconds for one 4 KiB random read with nothing else in flight."""
    sequential_read: float
    """Bytes per second."""
    sequential_write: float
    """Bytes per second, including the final sync."""
    notes: tuple[str, ...] = ()
    copying: float = COPYING
    """Bytes per second that a core copies in memory."""

    @property
    def iops(self) -> float:
        """The most requests per second, at any block size."""
        return max(rate.iops for rate in self.rates)

    @property
    def bandwidth(self) -> float:
        """The most bytes per second by random reads, at any block size."""
        return max(rate.bandwidth for rate in self.rates)

    @property
    def break_even_bytes(self) -> int:
        """Bandwidth / IOPS: up to this size a request has a constant cost.

        Reading more bytes up to it, or merging two requests across a smaller gap, is free.
        """
        return int(self.bandwidth / self.iops)

    def _times(self) -> list[float]:
        """Seconds per request by block size.

        A larger read never takes less time than a smaller one.
        """
        times = [1 / rate.iops for rate in self.rates]
        for i in range(len(times) - 2, -1, -1):
            # A larger read would also have worked, so noise never makes the small block more
            # expensive.
            times[i] = min(times[i], times[i + 1])
        return times

    def seconds(self, requests: int, block_bytes: int) -> float:
        """Time for `requests` random reads of `block_bytes` each, many in flight.

        It is max(requests / IOPS, bytes / bandwidth) with both taken at that block size: seconds
        per request are interpolated between the measured sizes, constant below the smallest, and
        proportional to the bytes above the largest.

        Raises:
            InputError: `requests` is negative or `block_bytes` not positive.
        """
        if requests < 0 or block_bytes <= 0:
            raise InputError(
                f"{requests} requests of {block_bytes} bytes were given; "
                "expected 0 or more requests of at least 1 byte"
            )
        sizes = [rate.block_bytes for rate in self.rates]
        times = self._times()
        at = bisect.bisect_left(sizes, block_bytes)
        if at == 0:
            each = times[0]
        elif at == len(sizes):
            each = times[-1] * block_bytes / sizes[-1]
        else:
            share = (block_bytes - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
            each = times[at - 1] + share * (times[at] - times[at - 1])
        return requests * each

    def to_json(self) -> dict[str, Any]:
        """The calibration as JSON-able values."""
        facts = dataclasses.asdict(self)
        facts |= {"rates": list(facts["rates"]), "notes": list(facts["notes"])}
        return {"version": VERSION, **facts, "break_even_bytes": self.break_even_bytes}

    @classmethod
    def from_json(cls, facts: Any, name: str = "calibration") -> "Calibration":
        """The reverse of `to_json`; checks every value.

        Raises:
            FormatError: a field is missing, of the wrong type, or not a plausible measurement.
        """
        try:
            if facts["version"] != VERSION:
                raise ValueError("version")
            rates = tuple(
                BlockRate(_whole(rate["block_bytes"]), _rate(rate["iops"]), _whole(rate["depth"]))
                for rate in facts["rates"]
            )
            sizes = [rate.block_bytes for rate in rates]
            if not sizes or sizes != sorted(set(sizes)):
                raise ValueError("rates")
            return cls(
                device=_text(facts["device"]),
                filesystem=_text(facts["filesystem"]),
                backend=_text(facts["backend"]),
                alignment=_whole(facts["alignment"]),
                date=_text(facts["date"]),
                file_bytes=_whole(facts["file_bytes"]),
                rates=rates,
                latency=_rate(facts["latency"]),
                sequential_read=_rate(facts["sequential_read"]),
                sequential_write=_rate(facts["sequential_write"]),
                notes=tuple(_text(note) for note in facts["notes"]),
                copying=_rate(facts.get("copying", COPYING)),  # earlier releases did not measure
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FormatError(
                f"{name} is not a disk calibration of version {VERSION}; run foregather doctor"
            ) from error

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Writes JSON atomically; by default where `load_calibration` looks for it.

        Raises:
            StorageError: the folder cannot be written to.
        """
        target = cache_folder() / f"disk-{self.device}.json" if path is None else Path(path)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
                draft.replace(target)
            finally:
                with contextlib.suppress(OSError):
                    draft.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot store {target.name}: {error.strerror}; "
                "set FOREGATHER_CACHE to a folder you may write to"
            ) from error
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Calibration":
        """Reads what `save` wrote.

        Raises:
            StorageError: the file cannot be read.
            FormatError: it is not a calibration.
        """
        file = Path(path)
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise StorageError(f"cannot read {file.name}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{file.name} is not JSON; run foregather doctor") from error
        return cls.from_json(facts, file.name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value <= 0:
        raise ValueError(value)
    return value


def _rate(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ValueError(value)
    return float(value)


def cache_folder() -> Path:
    """Where calibrations live: $FOREGATHER_CACHE, or foregather/ in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("FOREGATHER_CACHE"):
        return Path(own)
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user) / "foregather"
    try:
        return Path.home() / ".cache" / "foregather"
    except RuntimeError:  # a container's user without a home
        return Path(tempfile.gettempdir()) / f"foregather-{os.getuid()}"


def calibration_path(path: str | os.PathLike[str]) -> Path:
    """The file for the disk that holds `path`, whether it exists or not."""
    return cache_folder() / f"disk-{device_id(path)}.json"


def find_calibration(path: str | os.PathLike[str]) -> tuple[Calibration | None, str]:
    """Returns the stored calibration of the disk of `path`, and a note if one was ignored."""
    file = calibration_path(path)
    if not file.exists():
        return None, ""
    try:
        return Calibration.load(file), ""
    except (FormatError, StorageError) as error:
        return None, f"the stored calibration was ignored: {error}"


def load_calibration(path: str | os.PathLike[str]) -> Calibration | None:
    """The stored calibration of the disk that holds `path`, or None."""
    return find_calibration(path)[0]
