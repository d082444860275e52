"""lookahead: where bulks begin, and bulks in order, each together with the following ones."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, repeat
from typing import TypeVar

__all__ = ["bulks_with_lookahead", "growing_bulks", "planned_bulks"]

Made = TypeVar("Made")


def growing_bulks(first: int, end: int, most: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """Yields the first batch and the size of each bulk: 1, 2, 4, ... up to what `most` says then.

    So the first batch is there as soon as it can be, and soon bulks are full.
    """
    size = 1
    while first < end:
        count = min(size, most(), end - first)
        yield first, count
        first, size = first + count, 2 * size


def planned_bulks(first: int, end: int, bulk: int, swept: bool) -> Iterator[tuple[int, int]]:
    """Yields the same for bulks whose reads are planned: 1, 2, and then full ones.

    Each is planned with the next in view, so the first batch waits for three samples; more small
    ones would read more, as their plans see less. Where each bulk costs a sweep over the whole
    file, all are full.
    """
    sizes = chain(() if swept else (1, 2), repeat(bulk))
    while first < end:
        count = min(next(sizes), bulk, end - first)
        yield first, count
        first += count


def bulks_with_lookahead(
    bulks: Iterable[Made], ahead: int = 1
) -> Generator[tuple[Made, ...], None, None]:
    """Yields each bulk with up to `ahead` later ones; every bulk is made once.

    Args:
        bulks: makes (or starts making) the next bulk on request.
        ahead: number of later bulks made before an earlier one is used.
    """
    window: deque[Made] = deque()
    for made in bulks:
        window.append(made)
        if len(window) > ahead:
            yield tuple(window)
            window.popleft()
        del made
    while window:
        yield tuple(window)
        window.popleft()
