"""codes: a column of names as numbers, by the sorted names, without holding the column.

Rows wait in a scratch file with the number that their name got when it first came; when all names
are known, these become the final numbers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import plain
from foregather.graph.on_disk.writer import FolderWriter
from foregather.units import format_bytes

__all__ = ["MOST_NAMES", "Codes"]

MOST_NAMES = 1 << 20  # they are in meta.json
_NAME_BYTES = 200  # of an entry of a dict, besides its text
_I4 = np.dtype("<i4")


class Codes:
    """The names of one column.

    Args:
        writer: the folder being made; the scratch file is next to it.
        scratch: its name.
        where: the words for the column.
        memory: bytes for the names, and for a piece of the rows.
        most: different names that are allowed, and what to do where there are more.
    """

    def __init__(
        self,
        writer: FolderWriter,
        scratch: str,
        where: str,
        memory: int,
        most: tuple[int, str] = (MOST_NAMES, "leave it out"),
    ) -> None:
        self._where, self._memory, self._most = where, memory, most
        self._numbers: dict[str, int] = {}
        self._held = 0
        self._rows = 0
        self._file = Scratch(writer.scratch(scratch))
        writer.defer(self._file.close)

    def add(self, column: Any) -> None:
        """Adds the next rows; nothing, or an empty text, is no name.

        Raises:
            InputError: there are too many different names.
            BudgetError: they take too much memory.
        """
        pa = arrow()
        column = plain(column)
        column = (column if _is_string(column) else column.cast(pa.string())).dictionary_encode()
        codes = [self._number(text) for text in column.dictionary.to_pylist()]
        at = column.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
        self._file.append(np.array([*codes, -1], np.int32)[at].astype(_I4, copy=False))
        self._rows += len(column)
        if len(self._numbers) > self._most[0]:
            raise InputError(
                f"{self._where} holds more than {self._most[0]} different values, the most that "
                f"it may have; {self._most[1]}"
            )
        if self._held > self._memory:
            raise BudgetError(
                f"the different values of {self._where} take more than "
                f"{format_bytes(self._memory)}; raise --memory"
            )

    def _number(self, text: str | None) -> int:
        if not text:
            return -1
        if text not in self._numbers:
            self._numbers[text] = len(self._numbers)
            self._held += _NAME_BYTES + len(text)
        return self._numbers[text]

    @property
    def names(self) -> list[str]:
        """The different names, sorted; a number is a position here."""
        return sorted(self._numbers)

    def rows(self) -> Iterator[npt.NDArray[np.int64]]:
        """The final numbers of all rows in order, piece by piece; -1 where there is no name."""
        final = np.full(len(self._numbers) + 1, -1, np.int64)
        for place, name in enumerate(self.names):
            final[self._numbers[name]] = place
        step = max(1, self._memory // 32)
        for start in range(0, self._rows, step):
            yield final[self._file.read(_I4, start, min(step, self._rows - start))]

    def close(self) -> None:
        """Removes the scratch file."""
        self._file.close()


def _is_string(column: Any) -> bool:
    kinds = arrow().types
    return bool(kinds.is_string(column.type) or kinds.is_large_string(column.type))
