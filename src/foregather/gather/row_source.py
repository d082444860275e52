"""row_source: where feature rows lie, as far as those who take rows by id have to know."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from foregather.gather.feature_file import FeatureFile
from foregather.graph.features import Features

__all__ = ["RowSource"]

Array = npt.NDArray[Any]


@runtime_checkable
class RowSource(Protocol):
    """Rows by id: `Features` in memory, a `Store` with a budget, a `FeatureFile` for plans."""

    def __len__(self) -> int: ...

    @property
    def width(self) -> int:
        """Numbers in a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what `take` gives, in the byte order of the source."""

    @property
    def scale(self) -> npt.NDArray[np.float32] | None:
        """float32 [width] where `take` gives int8 rows that stand for row * scale."""

    @property
    def by_plan(self) -> FeatureFile | None:
        """The file where rows are read by plan alone; None where `take` gives them."""

    @property
    def in_memory(self) -> Features | None:
        """The rows themselves where all are in memory, so that they can be summed in place."""

    def take(self, ids: npt.NDArray[np.int64]) -> Array:
        """Copies rows, as they are stored, in native byte order.

        Raises:
            InputError: an id is out of range, or rows are read by plan alone.
        """

    def part(self, first: int, last: int) -> "RowSource":
        """Rows first to last - 1 alone; all of them where a part would be no smaller."""
