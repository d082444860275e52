"""features: the rows a model reads, in memory or mapped from a file, in their stored dtype.

A `Features` never converts what it stores. int8 with a scale stands for real numbers,
x = q * scale[column], and is the only storage that reading turns into float32. Rows may lie in an
order of their own; who asks by id never sees it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.mapped import fetch, is_mapped, take

__all__ = ["Features", "column_scale", "quantize"]

Array = npt.NDArray[Any]

_MOST = 127  # -128 is not used, so that every q has its -q


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """A matrix with one row per node (or edge).

    Attributes:
        data: [rows, width], any numeric dtype, in memory or memory-mapped.
        scale: float32 [width] with int8 data: row i stands for data[i] * scale. Otherwise None.
        places: uint32 or int64, one per node: the row of node v is data[places[v]]. None where it
            is data[v].
    """

    data: Array
    scale: npt.NDArray[np.float32] | None = None
    places: Array | None = None

    def __post_init__(self) -> None:
        if self.data.ndim != 2 or self.data.dtype.kind not in "biuf":
            raise InputError(
                f"features are {self.data.dtype} of shape {self.data.shape}, "
                "expected numbers of shape [rows, width]"
            )
        if self.data.dtype.itemsize > 8:  # neither a folder nor torch supports such numbers
            raise InputError(
                f"features are {self.data.dtype}, expected numbers of at most 64 bits; cast them, "
                "for example to float32"
            )
        places = self.places
        if places is not None and (places.ndim != 1 or places.dtype not in (np.uint32, np.int64)):
            raise InputError(
                f"places are {places.dtype} of shape {places.shape}, expected uint32 or int64, one "
                "for each node"
            )
        if self.scale is None:
            return
        if self.data.dtype != np.int8:
            raise InputError(
                f"a scale is only valid for int8 features, these are {self.data.dtype}"
            )
        if self.scale.dtype != np.float32 or self.scale.shape != (self.width,):
            raise InputError(
                f"the scale is {self.scale.dtype} of shape {self.scale.shape}, "
                f"expected float32 of shape ({self.width},)"
            )

    @property
    def num_rows(self) -> int:
        """Number of rows that can be asked for."""
        return int((self.data if self.places is None else self.places).shape[0])

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(self.data.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored dtype; `features[ids]` has it too, except for int8 with a scale."""
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        """Stored bytes, the scale and the places included."""
        rest = (one for one in (self.scale, self.places) if one is not None)
        return int(self.data.nbytes) + sum(int(one.nbytes) for one in rest)

    def rows_of(self, ids: Array) -> Array:
        """The rows of `data` that hold these ids, which are whole numbers from 0 to num_rows - 1.

        Raises:
            InputError: an id is out of range.
        """
        if self.places is None:
            return ids
        if is_mapped(self.places) or not self.places.flags.c_contiguous:
            return take(self.places, np.asarray(ids, np.int64))
        rows = np.empty((len(ids), 1), self.places.dtype)
        _core.gather_rows(self.places[:, None], ids, rows, None, 0)
        return rows[:, 0]

    def __len__(self) -> int:
        return self.num_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All rows by id, as `self[:]` gives them, which is a copy.

        Raises:
            ValueError: a copy is refused, as NumPy has it.
        """
        if copy is False:
            raise ValueError("features are copied to an array of their rows; leave copy=False out")
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def __getitem__(self, ids: Any) -> Array:
        """Copies rows: a slice, or a list, array or tensor of ids.

        Raises:
            InputError: an id is not a whole number from 0 to num_rows - 1.
        """
        if isinstance(ids, slice) and self.places is not None:
            ids = np.arange(*ids.indices(self.num_rows), dtype=np.int64)
        if isinstance(ids, slice):
            rows: Array = np.array(fetch(self.data[ids]))
        else:
            wanted = self.rows_of(to_ids(ids, self.num_rows, "ids", "rows"))
            rows = take(self.data, np.asarray(wanted, np.int64))
        if self.scale is None:
            return rows
        scaled: Array = rows.astype(np.float32) * fetch(self.scale)
        return scaled

    @property
    def by_plan(self) -> None:
        """No plan is needed: rows are at hand."""

    @property
    def in_memory(self) -> "Features":
        """These rows."""
        return self

    def take(self, ids: npt.NDArray[np.int64]) -> Array:
        """Copies rows as they are stored, in native byte order, without the scale.

        Raises:
            InputError: an id is out of range.
        """
        dtype = self.data.dtype.newbyteorder("=")
        ids = np.asarray(self.rows_of(ids), np.int64)
        if not (self.data.flags.c_contiguous and self.data.dtype.isnative):
            return self.data[ids].astype(dtype, copy=False)
        out = np.empty((len(ids), self.width), dtype)
        _core.gather_rows(self.data, ids, out, None, 1)
        return out

    def part(self, first: int, last: int) -> "Features":
        """A view of the rows first to last - 1."""
        if self.places is not None:
            return Features(self.data, self.scale, self.places[first:last])
        return Features(self.data[first:last], self.scale)

    def by_id(self) -> Array:
        """`data` with row v for node v: itself, or a copy where rows are in an order."""
        return self.data if self.places is None else self.take(np.arange(self.num_rows))

    def __repr__(self) -> str:
        scaled = ", scaled" if self.scale is not None else ""
        ordered = ", in an order" if self.places is not None else ""
        return f"Features({self.num_rows:,} x {self.width} {self.dtype}{scaled}{ordered})"


def column_scale(largest: Array) -> npt.NDArray[np.float32]:
    """Computes the int8 scale of columns from their largest magnitudes: largest / 127.

    A column of zeros (or of numbers so small that the scale would lose its precision) gets scale
    1, so that its rows come back as zeros.
    """
    scale = (np.asarray(largest, np.float64) / _MOST).astype(np.float32)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return scale


def quantize(chunk: Array, scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Rounds rows to int8: q = round(x / scale), symmetric in -127 to 127, ties to even.

    With the scale of `column_scale` the error is at most half a scale per number.

    Raises:
        InputError: the rows hold NaN or infinity, which int8 cannot.
    """
    if not np.isfinite(chunk).all():
        raise InputError("int8 features cannot hold NaN or infinity; store float16 or float32")
    quotient = np.divide(chunk, scale, dtype=np.float32, casting="unsafe")
    return np.clip(np.rint(quotient), -_MOST, _MOST).astype(np.int8)
