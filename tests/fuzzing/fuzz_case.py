"""One reader that the fuzzer feeds, and the good file it damages."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from foregather.errors import ForegatherError
from tests.fuzzing.fuzz_files import Mend, damage


@dataclass
class Case:
    """A reader, and the file it reads.

    Attributes:
        path: the file that is damaged.
        read: reads it.
        weight: its share of all executions.
        good: what is damaged; None: all of the file.
        mend: makes a file of what was damaged.
        how: damages bytes.
    """

    path: Path
    read: Callable[[], object]
    weight: int
    good: bytes | None = None
    mend: Mend = bytes
    how: Callable[[bytes, random.Random], bytes] = damage
    _whole: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._whole = self.path.read_bytes()
        if self.good is None:
            self.good = self._whole

    def execute(self, number: int, name: str) -> bool:
        """One damaged file; whether it was refused.

        A file is written anew, not over the old one: a map of the last one may still be there.
        """
        self.path.unlink(missing_ok=True)
        rng = random.Random(f"{name} {number}")
        self.path.write_bytes(self.mend(self.how(self.good or b"", rng)))
        try:
            self.read()
        except ForegatherError:
            return True
        finally:
            self.path.unlink(missing_ok=True)
            self.path.write_bytes(self._whole)
        return False
