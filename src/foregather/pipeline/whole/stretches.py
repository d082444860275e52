"""stretches: which segments are kept for the backward pass, and which are run again, and when.

A stretch that is run again costs its input until then, and once more its time; while it goes back,
it holds what its segments save. Stretches near the end go back first, with the inputs of all others
still held, so they are shorter; the last one goes back as soon as it is reached, and costs no time.
What to keep is chosen by dynamic programming over segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["SegmentCost", "Stretch", "cheapest", "shortest_of", "stretch_bytes"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive segments, kept for the backward pass or run again there together.

    Attributes:
        first: its first segment.
        last: one past its last segment.
        kept: whether everything the backward pass needs is kept; if not, it is run again in the
            backward pass, or if it is the last, goes back piece by piece in the forward pass.
        spilled: whether its input waits in a file.
        at_once: whether the forward pass makes the sums of all pieces before any of them goes on,
            which is faster while rows fit in the processor's caches, and holds them for a while.
    """

    first: int
    last: int
    kept: bool
    spilled: bool = False
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class SegmentCost:
    """What a segment costs for all nodes.

    Attributes:
        x: bytes of its input rows.
        message: bytes of the messages in front of it, if they are not the rows.
        saved: bytes that autograd saves beside them.
        seconds: of running it forward.
    """

    x: int
    message: int
    saved: int
    seconds: float

    @property
    def held(self) -> int:
        """Bytes that it holds for the backward pass."""
        return self.x + self.message + self.saved


def stretch_bytes(costs: Sequence[SegmentCost], stretch: Stretch, pieces: float) -> int:
    """Bytes that a stretch holds while it goes back, its input among them."""
    if stretch.kept:
        return sum(cost.held for cost in costs[stretch.first : stretch.last])
    *before, final = costs[stretch.first : stretch.last]
    # messages are made again from rows: at most those of two segments are there at a time
    messages = sorted(cost.message for cost in [*before, final])[-2:]
    own = final.x + int(final.saved / pieces)
    return sum(cost.x + cost.saved for cost in before) + own + sum(messages)


def cheapest(
    costs: Sequence[SegmentCost], room: float, pieces: float
) -> tuple[float, list[Stretch]] | None:
    """The stretches that run the least again and never hold more than `room`; None if none do.

    Returns:
        Seconds that are run again, and the stretches.
    """
    count = len(costs)
    # by segments covered: (bytes held until the end, seconds) that no other one beats, with how
    known: list[list[tuple[int, float, tuple[Stretch, ...]]]] = [[] for _ in range(count + 1)]
    known[0] = [(0, 0.0, ())]
    for first in range(count):
        for held, seconds, made in _unbeaten(known[first]):
            kept = costs[first].held
            if held + kept <= room:
                one = (held + kept, seconds, (*made, Stretch(first, first + 1, True)))
                known[first + 1].append(one)
            again = 0.0
            for last in range(first + 1, count + 1):
                again = 0.0 if last == count else again + costs[last - 1].seconds
                stretch = Stretch(first, last, False)
                if held + stretch_bytes(costs, stretch, pieces) > room:
                    break
                after = held + costs[first].x
                known[last].append((after, seconds + again, (*made, stretch)))
    final = _unbeaten(known[count])
    if not final:
        return None
    _, seconds, made = min(final, key=lambda one: one[1])
    return seconds, _joined(made)


def _unbeaten(
    found: list[tuple[int, float, tuple[Stretch, ...]]],
) -> list[tuple[int, float, tuple[Stretch, ...]]]:
    best, rest = float("inf"), []
    for one in sorted(found, key=lambda one: (one[0], one[1])):
        if one[1] < best:
            best = one[1]
            rest.append(one)
    return rest


def _joined(made: Sequence[Stretch]) -> list[Stretch]:
    """Joins stretches that are kept and follow each other."""
    found: list[Stretch] = []
    for stretch in made:
        if found and found[-1].kept and stretch.kept:
            stretch = Stretch(found.pop().first, stretch.last, True)
        found.append(stretch)
    return found


def shortest_of(costs: Sequence[SegmentCost], pieces: float) -> tuple[float, list[Stretch]]:
    """The stretches with the smallest peak if nothing is run more than once again.

    Returns:
        Bytes that are held at most, and the stretches.
    """
    low, high = 0.0, float(sum(cost.held for cost in costs))
    for _ in range(30):
        middle = (low + high) / 2
        if _fits(costs, middle, pieces):
            high = middle
        else:
            low = middle
    found = cheapest(costs, high, pieces)
    assert found is not None
    return high, found[1]


def _fits(costs: Sequence[SegmentCost], room: float, pieces: float) -> bool:
    """Whether stretches, each as long as fits, reach the end: the longest first are the best."""
    first, held = 0, 0
    while first < len(costs):
        last = first
        while last < len(costs):
            if held + stretch_bytes(costs, Stretch(first, last + 1, False), pieces) > room:
                break
            last += 1
        if last == first:
            return False
        held += costs[first].x
        first = last
    return True
