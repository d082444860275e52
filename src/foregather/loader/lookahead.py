"""lookahead: yields bulks in order, each together with the following ones."""

from collections import deque
from collections.abc import Generator, Iterable
from typing import TypeVar

__all__ = ["bulks_with_lookahead"]

Made = TypeVar("Made")


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
