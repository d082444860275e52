"""stretches: which segments are kept for the backward pass, and which are run again, and when."""

from dataclasses import dataclass

__all__ = ["Stretch"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive segments, kept for the backward pass or run again there together.

    Attributes:
        first: its first segment.
        last: one past its last segment.
        kept: whether everything the backward pass needs is kept.
    """

    first: int
    last: int
    kept: bool
