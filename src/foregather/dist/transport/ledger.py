"""ledger: payload bytes and messages sent between ranks, by link and purpose.

Every collective of `foregather.dist` goes through wire.py, which notes here what it sends; so does
the link between stages and ways of `foregather.pipeline`. What a rank hands to itself is not on any
link and is not counted; neither are the headers of the transport. An empty part of an all-to-all is
no message.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foregather.units import format_bytes

__all__ = ["Entry", "Ledger", "added", "show", "total"]

Link = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """The traffic of one link for one purpose.

    Attributes:
        bytes: payload.
        messages: non-empty messages.
    """

    bytes: int
    messages: int


class Ledger:
    """What this rank sent.

    Args:
        rank: the source of everything noted here.
        purposes: those that a snapshot names also before anything was sent for them.
    """

    def __init__(self, rank: int, purposes: Iterable[str] = ()) -> None:
        self.rank = rank
        self._purposes = tuple(purposes)
        self._sent: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])

    def note(self, destination: int, purpose: str, nbytes: int, messages: int = 1) -> None:
        """Adds a message; nothing for one to this rank itself or an empty one."""
        if destination == self.rank or nbytes == 0:
            return
        sent = self._sent[destination, purpose]
        sent[0] += nbytes
        sent[1] += messages

    def clear(self) -> None:
        """Forgets everything."""
        self._sent.clear()

    def snapshot(self) -> dict[str, int]:
        """Bytes sent so far over all links, by purpose."""
        sent = dict.fromkeys(self._purposes, 0)
        for (_, purpose), (nbytes, _) in self._sent.items():
            sent[purpose] = sent.get(purpose, 0) + nbytes
        return sent

    def entries(self) -> dict[Link, Entry]:
        """By (source, destination, purpose), sorted."""
        return {
            (self.rank, destination, purpose): Entry(*sent)
            for (destination, purpose), sent in sorted(self._sent.items())
        }


def total(entries: Mapping[Link, Entry], purposes: Iterable[str] | None = None) -> Entry:
    """The sum over links, of some purposes or of all."""
    wanted = None if purposes is None else set(purposes)
    taken = [entry for (_, _, p), entry in entries.items() if wanted is None or p in wanted]
    return Entry(sum(e.bytes for e in taken), sum(e.messages for e in taken))


def added(one: Mapping[Link, Entry], other: Mapping[Link, Entry]) -> dict[Link, Entry]:
    """Two tables as one; what both have is summed."""
    table = dict(one)
    for link, entry in other.items():
        before = table.get(link, Entry(0, 0))
        table[link] = Entry(before.bytes + entry.bytes, before.messages + entry.messages)
    return table


def show(entries: Mapping[Link, Entry]) -> str:
    """Returns the table as text."""
    lines = [f"{'from':>5} {'to':>5}  {'purpose':<24} {'bytes':>12} {'messages':>9}"]
    for (source, destination, purpose), entry in sorted(entries.items()):
        lines.append(
            f"{source:>5} {destination:>5}  {purpose:<24} {format_bytes(entry.bytes):>12} "
            f"{entry.messages:>9}"
        )
    return "\n".join(lines)
