"""For loops of tests: values of which there must be one."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def some(values: Iterable[T]) -> Iterator[T]:
    """The values; fails where there are none, as a loop over nothing checks nothing."""
    count = 0
    for count, value in enumerate(values, 1):  # noqa: B007
        yield value
    assert count, "there is nothing to check"
