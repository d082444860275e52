"""reader: reads tables within a budget of memory."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from foregather.errors import BudgetError
from foregather.graph.convert.typed.tables import Batch, read_columns
from foregather.units import format_bytes

__all__ = ["Reader"]


class Reader:
    """Reads tables, and stops where the process holds more than its budget."""

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def batches(
        self,
        path: Path,
        wanted: Sequence[str],
        text: Sequence[str] = (),
        numbers: Sequence[str] = (),
    ) -> Iterator[Batch]:
        """As `read_columns`."""
        for batch in read_columns(path, wanted, text, numbers):
            with open("/proc/self/statm", encoding="ascii") as file:
                held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            if held > self.memory:
                raise BudgetError(
                    f"the tables up to {path.name} take {format_bytes(held)}, more than --memory "
                    f"{format_bytes(self.memory)}; raise it"
                )
            yield batch
