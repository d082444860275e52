"""codec: encodes feature rows for the wire and for the cache of remote rows.

"exact" is the stored row, so the result equals indexing bit for bit. "float16" and "int8" (one
scale per row) are smaller; their error is measured when rows are sent.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.features.feature_block import FeatureBlock
from foregather.errors import InputError
from foregather.loader.rank_options import WireFormat

__all__ = ["Codec", "WireError", "WireFormat"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_MOST = 127


@dataclass(frozen=True)
class WireError:
    """The error of the rows that a rank sent.

    Attributes:
        largest: the largest difference of a number.
        relative: root of (sum of squared differences / sum of squares).
        numbers: how many were compared; 0 if rows are sent exactly.
    """

    largest: float
    relative: float
    numbers: int


class Codec:
    """Turns rows into bytes and back.

    Args:
        block: describes the rows.
        wire: the format.
        threads: threads to use.

    Raises:
        InputError: the format is unknown, or the rows are not float32.
    """

    def __init__(self, block: FeatureBlock, wire: WireFormat, threads: int = 1) -> None:
        if wire not in ("exact", "float16", "int8"):
            raise InputError(f"wire is {wire!r}, expected 'exact', 'float16' or 'int8'")
        if wire != "exact" and block.gathered_dtype != np.float32:
            raise InputError(
                f"wire is {wire!r}, which is for float32 rows, but these are "
                f"{block.gathered_dtype}; use 'exact'"
            )
        self.wire, self.width, self.threads = wire, block.width, threads
        self.dtype, self.scale = block.dtype, block.scale
        self._row = {"exact": self.dtype, "float16": np.dtype(np.float16)}.get(wire)
        #: Bytes of a row.
        self.row_bytes = 4 + self.width
        if self._row is not None:
            self.row_bytes = self.width * self._row.itemsize
        self._largest, self._squares, self._errors, self._numbers = 0.0, 0.0, 0.0, 0

    @property
    def error(self) -> WireError:
        """Of everything that was encoded so far."""
        relative = float(np.sqrt(self._errors / self._squares)) if self._squares else 0.0
        return WireError(self._largest, relative, self._numbers)

    def encode(self, rows: Array, out: Bytes) -> None:
        """Writes rows as `FeatureBlock.take` gives them to `out`, uint8 [n, row_bytes].

        Raises:
            InputError: a number is too large for the format, or NaN.
        """
        if not len(rows):
            return
        if self.wire == "exact":
            out[...] = np.ascontiguousarray(rows).view(np.uint8)
            return
        values = rows if self.scale is None else rows.astype(np.float32) * self.scale
        if self.wire == "float16":
            with np.errstate(over="ignore"):
                half = values.astype(np.float16)
            self._refuse(not np.isfinite(half).all())
            out[...] = half.view(np.uint8)
        else:
            largest = np.abs(values).max(axis=1)
            self._refuse(not np.isfinite(largest).all())
            scale = (largest / _MOST).astype(np.float32)
            scale[scale < np.finfo(np.float32).tiny] = 1
            coded = np.clip(np.rint(values / scale[:, None]), -_MOST, _MOST).astype(np.int8)
            out[:, :4] = scale.view(np.uint8).reshape(-1, 4)
            out[:, 4:] = coded.view(np.uint8)
        self._measure(values, out)

    def decode(self, coded: Bytes, ids: Array, out: Array) -> None:
        """Writes rows `ids` of `coded`, uint8 [m, row_bytes], to `out` [n, width] for the user."""
        if not len(ids):
            return
        if self._row is not None:
            scale = self.scale if self.wire == "exact" else None
            _core.gather_rows(coded.view(self._row), ids, out, scale, self.threads)
            return
        taken = coded[ids]
        scales = np.ascontiguousarray(taken[:, :4]).view(np.float32)
        np.multiply(taken[:, 4:].view(np.int8), scales, out=out)

    def _refuse(self, wrong: bool) -> None:
        if wrong:
            raise InputError(
                f"a feature row holds a number that is too large for {self.wire}, or NaN; use "
                "wire='exact'"
            )

    def _measure(self, values: Array, coded: Bytes) -> None:
        back = np.empty(values.shape, np.float32)
        self.decode(coded, np.arange(len(values)), back)
        off = np.abs(back.astype(np.float64) - values)
        self._largest = max(self._largest, float(off.max(initial=0.0)))
        self._errors += float(np.square(off).sum())
        self._squares += float(np.square(values, dtype=np.float64).sum())
        self._numbers += values.size
