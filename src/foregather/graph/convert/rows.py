"""rows: streams a matrix into an array file, cast to the requested dtype, and measures the error.

float16 and int8 lose precision; the loss is measured while writing and stored in meta.json. int8
uses one scale per column (the largest magnitude maps to 127), which needs a first pass over the
source.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.source import RowStream
from foregather.graph.features import column_scale, quantize
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress

__all__ = ["DTYPES", "write_rows"]

DTYPES = ("auto", "float32", "float16", "int8", "source")
Array = npt.NDArray[Any]
_MOST = {name: float(np.finfo(name).max) for name in ("float16", "float32")}


class _Error:
    """Accumulates the error of the stored values."""

    def __init__(self) -> None:
        self.largest = 0.0
        self.squares = 0.0
        self.power = 0.0
        self.values = 0

    def add(self, given: Array, stored: Array) -> None:
        exact = given.astype(np.float64)
        with np.errstate(invalid="ignore"):  # NaN and inf are counted elsewhere
            difference = np.abs(stored.astype(np.float64) - exact)
        finite = np.isfinite(difference)
        self.largest = max(self.largest, float(difference.max(initial=0.0, where=finite)))
        self.squares += float(np.square(difference).sum(where=finite))
        self.power += float(np.square(exact).sum(where=finite))
        self.values += int(finite.sum())

    def facts(self) -> dict[str, float]:
        return {
            "max_abs": self.largest,
            "rms": math.sqrt(self.squares / max(1, self.values)),
            "relative_rms": math.sqrt(self.squares / self.power) if self.power else 0.0,
        }


def write_rows(
    writer: FolderWriter, name: str, rows: RowStream, dtype: str, buffer_bytes: int
) -> dict[str, Any]:
    """Writes `rows` as the array `name` (and `name`_scale for int8).

    Args:
        writer: the folder being made.
        name: "features".
        rows: the source.
        dtype: "float32", "float16", "int8", "source" to keep what the source has, or "auto":
            float16 is kept, everything else becomes float32.
        buffer_bytes: memory for one chunk and its copies.

    Returns:
        The facts for meta.json: width, dtype, non-finite count, and the error if there is one.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
    target = _target(rows.dtype, dtype)
    # a chunk lives as source, stored copy and float64 for the error: about 24 bytes per value
    step = max(1, buffer_bytes // max(1, 24 * rows.width))
    scale = _scale(rows, step, name) if dtype == "int8" else None
    lossy = not np.can_cast(rows.dtype, target, "safe")
    error, nonfinite = _Error(), 0
    out = writer.array(name, target, (rows.width,), rows.count)
    with Progress(f"writing {name}", rows.count, "rows") as bar:
        for chunk in rows.chunks(step):
            bad = _nonfinite(chunk)
            nonfinite += bad
            stored = _cast(chunk, target, scale, bad, out.rows, name)
            if lossy:
                error.add(chunk, stored * scale if scale is not None else stored)
            out.append(stored)
            bar.advance(len(chunk))
    writer.close(name)
    if scale is not None:
        writer.put(f"{name}_scale", scale)
    facts: dict[str, Any] = {"width": rows.width, "dtype": target.name, "nonfinite": nonfinite}
    return facts | ({"error": error.facts()} if lossy else {})


def _target(given: np.dtype[Any], asked: str) -> np.dtype[Any]:
    if asked == "auto":
        return given if given == np.float16 else np.dtype(np.float32)
    if asked == "source":
        return np.dtype(np.uint8) if given == np.bool_ else given
    return np.dtype(asked)


def _nonfinite(chunk: Array) -> int:
    return int((~np.isfinite(chunk)).sum()) if chunk.dtype.kind == "f" else 0


def _scale(rows: RowStream, step: int, name: str) -> npt.NDArray[np.float32]:
    largest = np.zeros(rows.width, np.float64)
    with Progress(f"scaling {name}", rows.count, "rows") as bar:
        for chunk in rows.chunks(step):
            np.maximum(largest, np.abs(chunk.astype(np.float64)).max(axis=0), out=largest)
            bar.advance(len(chunk))
    beyond = np.flatnonzero(np.isfinite(largest) & (largest > _MOST["float32"]))
    if beyond.size:
        raise InputError(
            f"{name} has {largest[beyond[0]]:g} in column {beyond[0]}, beyond float32 "
            f"({_MOST['float32']:.2g}), the dtype of scales; scale the features"
        )
    if not np.isfinite(largest).all():
        column = int(np.flatnonzero(~np.isfinite(largest))[0])
        raise InputError(
            f"{name} has NaN or infinity in column {column}, which int8 cannot hold; "
            "clean it or choose --dtype float16"
        )
    return column_scale(largest)


def _cast(
    chunk: Array,
    target: np.dtype[Any],
    scale: npt.NDArray[np.float32] | None,
    nonfinite: int,
    row: int,
    name: str,
) -> Array:
    if scale is not None:
        return quantize(chunk, scale)
    with np.errstate(over="ignore"):  # found below, with its place
        stored = chunk.astype(target, copy=False)
    if target.name in _MOST and _nonfinite(stored) != nonfinite:
        at = np.argwhere(np.isinf(stored) & np.isfinite(chunk))[0]
        wider = "float32" if target == np.float16 else "source"
        raise InputError(
            f"{name} has {chunk[at[0], at[1]]:g} in row {row + at[0]}, column {at[1]}, beyond "
            f"{target.name} ({_MOST[target.name]:.5g}); scale the features or choose "
            f"--dtype {wider}"
        )
    return stored
