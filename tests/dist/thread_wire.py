"""thread_wire: the links of a column whose ranks are threads of one process."""

from queue import SimpleQueue

import numpy as np

from foregather.dist.transport.ledger import Ledger

__all__ = ["ThreadWire", "thread_wires"]

_PATIENCE = 300


class ThreadWire:
    """What an executor over ranks uses of a `Wire`; a ledger counts what is sent."""

    def __init__(self, place, queues):
        self.place, self._queues = place, queues
        self.ledger = Ledger(place)

    @property
    def size(self):
        return len(self._queues)

    def exchange(self, parts, purpose):
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

    def swap(self, outgoing, lengths, incoming, expected, purpose):
        assert lengths[self.place] == expected[self.place] == 0
        found = self.exchange(np.split(outgoing, np.cumsum(lengths)[:-1]), purpose)
        assert [len(part) for part in found] == list(expected)
        incoming[...] = np.concatenate(found)

    def share(self, part, purpose):
        return self.exchange([part] * self.size, purpose)


def thread_wires(size):
    """One for each rank."""
    queues = [[SimpleQueue() for _ in range(size)] for _ in range(size)]
    return [ThreadWire(place, queues) for place in range(size)]
