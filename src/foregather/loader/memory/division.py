"""division: how budgets of bytes are divided, and every reserve that is counted in; pure.

A Loader in memory (`budget`), one that reads from disk (`layout`), the feature cache of a rank
(`dist/features/memory_split`) and exact inference (`train/exact/room`) divide different things by
the same rules: what must be there comes first, and where it does not fit, the error says the least
that does; then staging and bulks get their part of what is free; the cache takes the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass

from foregather import _core
from foregather.errors import BudgetError
from foregather.gather.disk import STAGING
from foregather.plan.planner import MAX_REQUEST, PAGE

__all__ = [
    "AHEAD_SHARE",
    "BLOCK_RESERVE",
    "BULKS",
    "GUESS_RESERVE",
    "HEAP_PART",
    "MOST_BULK",
    "MOST_STAGING",
    "PLANS_SHARE",
    "PLAN_BYTES",
    "REPACK_BYTES",
    "SIZE_RESERVE",
    "STAGING_PART",
    "WORK_SHARE",
    "CacheNeed",
    "longest_request",
    "most",
    "planned_steps",
    "refusal",
    "reserved",
    "staging_bytes",
]

# ---- reserves ------------------------------------------------------------------------------------

#: Later batches, or what an operation uses inside itself, may be larger than what was measured.
SIZE_RESERVE = 5 / 4
#: The same where a size was not measured but guessed from degrees.
GUESS_RESERVE = 3 / 2
#: Blocks of recycled memory are larger than what lies in them.
BLOCK_RESERVE = 9 / 8
#: The allocator gets one part in this many, because it holds more than is in use.
HEAP_PART = 8
#: What a plan holds for a row of a batch at most: slot and position, or row, position and slot,
#: with the free riders that come along.
PLAN_BYTES = 32
#: What repacking holds in addition for a row of the bulk it works on: the plan by rows with its
#: requests, the moves, and the place to sort them in.
REPACK_BYTES = 64
#: Bulks alive at once: in the executor's hands, waiting for it, and sampled ahead of their plan.
BULKS = 3

# ---- parts of what is free -----------------------------------------------------------------------

MOST_BULK = 64  # batches of a bulk; more gives nothing
AHEAD_SHARE = 0.2  # of a Loader, for seeing far ahead
PLANS_SHARE = 1 / 16  # of an inference, for seeing ahead: its parts are large
WORK_SHARE = 1 / 2  # of an inference, for the part that is worked on
STAGING_PART = 8  # one part in this many is staging,
MOST_STAGING = 64 << 20  # at most this for rows that cross between ranks


def reserved(nbytes: float, pooled: bool = False) -> int:
    """Bytes for what was measured to be so large: more, as others may be larger."""
    return int(nbytes * SIZE_RESERVE * BLOCK_RESERVE) if pooled else int(nbytes * SIZE_RESERVE)


def planned_steps(bulk: int) -> int:
    """Steps that a planner sees at once: of a bulk and of the one ahead, which is not planned."""
    return (BULKS - 1) * bulk


def longest_request(row: int) -> int:
    """Bytes of the longest request for rows of this size."""
    return max(MAX_REQUEST, -(-row // PAGE) * PAGE + 2 * PAGE)


def staging_bytes(row: int, wanted: int = STAGING) -> int:
    """Room for many requests, up to what is wanted, and at least for two of the longest."""
    return max(min(STAGING, wanted), 2 * longest_request(row))


def refusal(message: str, least: int) -> BudgetError:
    """The error for a budget below the least that works, which the message says too."""
    error = BudgetError(message)
    error.least = least
    return error


def most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to count that fits, 0 where none does; what is asked grows with it."""
    low, high = 0, max(0, count)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True)
class CacheNeed:
    """What a cache takes: its rows, and the tables of the planner that decides about them.

    Attributes:
        geometry: of the file the rows come from.
        row_bytes: of a row in the cache.
        rows: of all steps that the planner sees at once.
        steps: that it sees at once.
    """

    geometry: _core.Geometry
    row_bytes: int
    rows: int = 0
    steps: int = 0

    def tables(self, slots: int) -> int:
        """Of the planner."""
        return int(_core.planner_bytes(self.geometry, slots, self.rows, self.steps))

    def bytes(self, slots: int) -> int:
        """Of this many rows, and the tables for them."""
        return slots * self.row_bytes + self.tables(slots)

    def slots(self, room: float) -> int:
        """As many rows as fit, up to all of the file; 0 where not even the tables fit."""
        return most(self.geometry.num_rows, lambda count: self.bytes(count) <= room)
