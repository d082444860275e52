"""thread_wire: the links of a column whose ranks are threads of one process."""

from collections.abc import Sequence
from queue import SimpleQueue

import numpy as np

from foregather.dist.transport.ledger import Ledger

__all__ = ["ThreadWire", "thread_wires"]

_PATIENCE = 300

Bytes = np.ndarray
#: By origin and destination: what is sent, with its purpose.
Queues = list[list[SimpleQueue[tuple[str, Bytes]]]]


class ThreadWire:
    """What an executor over ranks uses of a `Wire`; a ledger counts what is sent."""

    def __init__(self, place: int, queues: Queues) -> None:
        self.place, self._queues = place, queues
        self.ledger = Ledger(place)

    @property
    def size(self) -> int:
        return len(self._queues)

    def exchange(self, parts: Sequence[Bytes], purpose: str) -> list[Bytes]:
        for to, part in enumerate(parts):
            if to != self.place:
                self._queues[self.place][to].put((purpose, np.array(part)))
                self.ledger.note(to, purpose, len(part))
        found = []
        for origin in range(self.size):
            if origin == self.place:
                found.append(parts[origin])
                continue
            given, part = self._queues[origin][self.place].get(timeout=_PATIENCE)
            assert given == purpose, f"rank {self.place} is at {purpose}, {origin} at {given}"
            found.append(part)
        return found

    def swap(
        self,
        outgoing: Bytes,
        lengths: Sequence[int],
        incoming: Bytes,
        expected: Sequence[int],
        purpose: str,
    ) -> None:
        assert lengths[self.place] == expected[self.place] == 0
        found = self.exchange(np.split(outgoing, np.cumsum(lengths)[:-1]), purpose)
        assert [len(part) for part in found] == list(expected)
        incoming[...] = np.concatenate(found)

    def share(self, part: Bytes, purpose: str) -> list[Bytes]:
        return self.exchange([part] * self.size, purpose)


def thread_wires(size: int) -> list[ThreadWire]:
    """One for each rank."""
    queues: Queues = [[SimpleQueue() for _ in range(size)] for _ in range(size)]
    return [ThreadWire(place, queues) for place in range(size)]
