"""blocks: how much is computed at a time when sources meet targets, within a budget.

The budget decides how many sources are held while all targets pass by, and with that how often the
targets are read. Scores are computed in tiles of one size.
"""

from dataclasses import dataclass

from foregather.errors import BudgetError
from foregather.units import format_bytes

__all__ = ["TILE_SOURCES", "TILE_TARGETS", "Blocks", "plan_blocks"]

TILE_SOURCES = 128
TILE_TARGETS = 2048
_FOUND = 64  # bytes for each score of a tile that enters the list of a source, while it is sorted


@dataclass(frozen=True, slots=True)
class Blocks:
    """What is held at a time.

    Attributes:
        sources: sources of a pass, a multiple of `TILE_SOURCES`.
        nbytes: bytes of everything that is held.
        passes: how often all targets are read.
    """

    sources: int
    nbytes: int
    passes: int


def plan_blocks(
    memory: int | None, count: int, width: int, itemsize: int, k: int, known: int = 0
) -> Blocks:
    """Divides a budget.

    Args:
        memory: bytes that may be held; None: no limit.
        count: number of sources.
        width: columns of an embedding.
        itemsize: bytes of a number in computation.
        k: targets kept for each source.
        known: most known links of the sources of a tile.

    Raises:
        BudgetError: the least that is needed is more; the message states it.
    """
    tile = TILE_SOURCES * TILE_TARGETS
    row = width * itemsize
    # A tile of targets as it is read and as it is multiplied, a tile of sources, its scores, the
    # scores that enter lists, and the known links of its sources.
    fixed = 2 * TILE_TARGETS * row + TILE_SOURCES * row + tile * (itemsize + _FOUND) + 40 * known
    each = 2 * row + 2 * k * (itemsize + 8)
    least = fixed + TILE_SOURCES * each
    tiles = max(1, -(-count // TILE_SOURCES))
    if memory is not None:
        if memory < least:
            error = BudgetError(
                f"memory is {format_bytes(memory)}, too little for the {k} best targets by "
                f"{width} columns; at least {format_bytes(least)} are needed"
            )
            error.least = least
            raise error
        tiles = min(tiles, (memory - fixed) // (TILE_SOURCES * each))
    held = tiles * TILE_SOURCES
    return Blocks(held, fixed + held * each, max(1, -(-count // held)))
