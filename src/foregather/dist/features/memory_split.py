"""memory_split: divides a rank's budget for feature rows, equally on all ranks of a grid.

The planners' tables and block checksums come first; then staging for rows being sent and received
and, if the own block is on disk, for reads; the rest is cache, for rows of other ranks and of the
own block.
"""

from dataclasses import dataclass

from foregather import _core
from foregather.dist.features.fetch_plan import row_geometry
from foregather.errors import BudgetError
from foregather.gather.disk import STAGING, whole_pages
from foregather.graph.integrity.blocks import most_sums_bytes
from foregather.graph.on_disk.npy import ALIGN, file_bytes
from foregather.loader.memory.division import (
    MOST_STAGING,
    STAGING_PART,
    CacheNeed,
    longest_request,
    refusal,
)

__all__ = ["DiskShare", "OwnBlock", "shares", "shares_with_disk", "sum_staging"]

_USUAL_SUMS = 8 << 20  # bytes for sums that cross, where there is no budget


@dataclass(frozen=True)
class OwnBlock:
    """The blocks that ranks have on disk, for budgets.

    Attributes:
        rows: rows of the largest block, so that all ranks get the same shares.
        row_bytes: stored bytes of a row.
    """

    rows: int
    row_bytes: int


@dataclass(frozen=True)
class DiskShare:
    """The share for reading the own block.

    Attributes:
        slots: rows of the own block that the cache holds.
        staging: bytes to read ahead into.
    """

    slots: int
    staging: int


def shares(memory: int, rows: int, row_bytes: int, peers: int) -> tuple[int, int]:
    """Returns cache slots and rows of staging per peer, if the own block is in memory.

    Staging is an eighth of the budget after the tables, at most 64 MiB.

    Args:
        memory: the budget.
        rows: of the whole matrix.
        row_bytes: bytes of a row on the wire.
        peers: other ranks of the column.

    Raises:
        BudgetError: the budget is below the minimum.
    """
    cache = CacheNeed(row_geometry(rows), row_bytes)
    fixed = cache.tables(0)
    pair = 2 * max(1, peers) * row_bytes
    if memory < fixed + pair:
        raise _too_small(memory, fixed + pair, rows, row_bytes, peers, "")
    staging = max(1, min((memory - fixed) // STAGING_PART, MOST_STAGING) // pair)
    return cache.slots(memory - staging * pair), staging


def shares_with_disk(
    memory: int, rows: int, row_bytes: int, peers: int, own: OwnBlock
) -> tuple[int, int, DiskShare]:
    """Returns the same if the own block is on disk, and the share for reading it.

    A round's rows of the own block, for all ranks of the column, are in memory at once. Half of the
    cache is for rows of the own block, or all of it if there are no other ranks.

    Raises:
        BudgetError: the budget is below the minimum.
    """
    stored = own.row_bytes
    file = _core.Geometry(own.rows, stored, ALIGN, file_bytes(rows * stored), ALIGN)
    remote, local = CacheNeed(row_geometry(rows), row_bytes), CacheNeed(file, stored)
    fixed = remote.tables(0) + local.tables(0)
    fixed += most_sums_bytes(own.rows * stored)  # even if a rank's folder has none: all must agree
    reading = whole_pages(2 * longest_request(stored))
    pair = 2 * peers * row_bytes + (peers + 1) * stored
    least = fixed + reading + pair
    if memory < least:
        raise _too_small(memory, least, rows, row_bytes, peers, " and the own block from disk")
    free = memory - least
    staging = 1 + min(free // STAGING_PART, MOST_STAGING) // pair
    more = min(max(STAGING - reading, 0), free // STAGING_PART)
    reading += more // ALIGN * ALIGN
    rest = memory - fixed - reading - staging * pair
    own_slots = local.slots(local.tables(0) + (rest // 2 if peers else rest))
    rest -= local.bytes(own_slots) - local.tables(0)
    slots = remote.slots(remote.tables(0) + rest) if peers else 0
    return slots, staging, DiskShare(own_slots, reading)


def sum_staging(memory: int | None, row_bytes: int, peers: int) -> int:
    """Returns rows of staging per peer for sums that owners form: an eighth of the budget.

    Args:
        memory: the budget; None without one.
        row_bytes: bytes of a sum.
        peers: other ranks of the column.
    """
    room = _USUAL_SUMS if memory is None else min(memory // STAGING_PART, MOST_STAGING)
    return max(1, room // max(1, 2 * peers * row_bytes))


def _too_small(
    memory: int, least: int, rows: int, row_bytes: int, peers: int, beside: str
) -> BudgetError:
    return refusal(
        f"the memory is {memory} bytes, but fetching {rows} rows of {row_bytes} bytes from "
        f"{peers} ranks{beside} needs at least {least}",
        least,
    )
