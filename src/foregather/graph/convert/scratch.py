"""scratch: values appended to a temporary file in order, and read back from anywhere in it."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.on_disk.files import discard, read_at, storage_error, write_all

__all__ = ["Scratch"]

Array = npt.NDArray[Any]


class Scratch:
    """Bytes appended in order and read back anywhere; removed with the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed in close()
        except OSError as error:
            raise storage_error(error, path, "making") from error

    def append(self, values: Array) -> None:
        """Writes values after those that are there."""
        write_all(self._file, values, self.path)

    def read(self, dtype: np.dtype[Any], start: int, count: int) -> Array:
        """Values from a position, which is counted in values of that dtype."""
        values = np.empty(count, dtype)
        read_at(self._file.fileno(), values, start * dtype.itemsize, self.path)
        return values

    def close(self) -> None:
        """Closes and removes the file."""
        discard(self._file, self.path)
