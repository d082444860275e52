"""reader: reads tables a batch at a time, within a budget, and notices files that change meanwhile.

How many rows a batch has depends on the budget; no result depends on it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from foregather.errors import InputError
from foregather.graph.convert.typed.tables import Batch, Table, arrow, count_rows, read_columns
from foregather.observe.progress import Progress

__all__ = ["Reader"]

_MOST_ROWS = 1 << 18
_VALUE = 64  # bytes a value takes while its batch is converted: as read, decoded, and as numbers

#: Size, times in ns of the last change (of the bytes, and of anything), and inode of a file.
Facts = tuple[int, int, int, int]


class Reader:
    """Reads tables, each file as it was when it was first seen.

    Args:
        memory: bytes that a batch and what is made of it may take.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._seen: dict[str, Facts] = {}
        self._headers: dict[str, bool] = {}

    def take_header(self, table: Table, header: bool) -> None:
        """Says whether the first line of a text file names its columns."""
        self._headers[os.fspath(table)] = header

    def header_of(self, table: Table) -> bool | None:
        """What was said of the first line of a text file; None for nothing."""
        return self._headers.get(os.fspath(table))

    def stamp(self, table: Table) -> list[object]:
        """What the file of a table looked like when it was first seen, for comparison."""
        return [str(table), *self._facts(os.fspath(table))]

    def _facts(self, path: str) -> Facts:
        if path not in self._seen:
            self._seen[path] = _facts(path)
        return self._seen[path]

    def batches(
        self,
        table: Table,
        wanted: Sequence[str],
        text: Sequence[str] = (),
        numbers: Sequence[str] = (),
    ) -> Iterator[Batch]:
        """As `read_columns`, with a bar.

        Raises:
            InputError: the file changed since it was first seen.
        """
        path = os.fspath(table)
        self._facts(path)
        rows = max(1, min(_MOST_ROWS, self.memory // (_VALUE * max(1, len(wanted)))))
        with Progress(f"reading {table.name}", count_rows(table), "rows") as bar:
            header = self.header_of(table)
            for batch in read_columns(table, wanted, text, numbers, rows, header):
                yield batch
                bar.advance(len(next(iter(batch.values()))))
                del batch
                arrow().default_memory_pool().release_unused()
        self.check([path])

    def check(self, paths: Iterable[str] | None = None) -> None:
        """Compares files with what they were when they were first seen.

        Raises:
            InputError: one of them changed.
        """
        for path in list(self._seen) if paths is None else paths:
            if _facts(path) != self._seen[path]:
                raise InputError(
                    f"{os.path.basename(path)} changed while it was read; convert it when nobody "
                    "writes to it"
                )


def _facts(path: str) -> Facts:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1, -1, -1)
    # the second time cannot be set by programs, such as those that copy a file with its times
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
