"""lookahead: bulks in their order, each with those that come after it in sight."""

from collections import deque
from collections.abc import Generator, Iterable
from typing import TypeVar

__all__ = ["bulks_with_lookahead"]

Made = TypeVar("Made")


def bulks_with_lookahead(
    bulks: Iterable[Made], ahead: int = 1
) -> Generator[tuple[Made, ...], None, None]:
    """Each bulk, followed by up to `ahead` later ones; every one is made once.

    Args:
        bulks: makes the next bulk (or begins to) when it is asked for one.
        ahead: later bulks that are made before an earlier one is used.
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
