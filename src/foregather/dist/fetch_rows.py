"""fetch_rows: decides how the feature rows of a Loader over ranks cross, and makes the exchange."""

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.exchange import ExchangeMode, FeatureExchange
from foregather.dist.features import FeatureBlock
from foregather.dist.fetch_plan import row_geometry
from foregather.dist.grid import Grid
from foregather.graph.features import Features
from foregather.train.ranks import Mode, WireFormat

__all__ = ["default_memory", "exchange_of"]

Int = npt.NDArray[np.int64]
_PART = 10  # the default cache is this part of the largest block


def default_memory(features: Features, starts: Int) -> int | None:
    """Bytes for rows of other ranks where none were given; the same on all ranks.

    The planner's tables and a tenth of the largest block. None where the tables alone would take
    more than that block, or all rows are in one: then rows cross minibatch by minibatch.
    """
    row = features.width * features.dtype.itemsize
    largest = int(np.diff(starts).max(initial=0)) * row
    tables = int(_core.planner_bytes(row_geometry(features.num_rows), 0, 0, 0))
    if len(starts) == 2 or tables > largest:
        return None
    return tables + max(largest // _PART, 2 * (len(starts) - 2) * row)


def exchange_of(
    features: Features,
    starts: Int,
    grid: Grid,
    mode: Mode,
    memory: int | None,
    wire: WireFormat,
    threads: int,
    keep: bool,
) -> FeatureExchange:
    """The exchange of a Loader; all ranks call this together.

    Args:
        features: the whole matrix, in memory or memory-mapped.
        starts: int64 [num_rows + 1]: borders of the blocks.
        grid: the ranks.
        mode: "paper" exchanges rows minibatch by minibatch, "owner" by plan.
        memory: bytes for rows of other ranks; None takes `default_memory`.
        wire: what rows are while they cross.
        threads: threads to use.
        keep: copy this rank's block into memory; False takes a view.

    Raises:
        InputError: the ranks differ, or the rows cannot be rounded.
        BudgetError: `memory` is too small; the message says the minimum.
    """
    if memory is None and mode == "owner":
        memory = default_memory(features, starts)
    how: ExchangeMode = "planned" if memory is not None and mode == "owner" else "paper"
    block = FeatureBlock.of(features, grid.num_rows, grid.row, starts)
    if keep and isinstance(block.rows, Features):
        kept = Features(np.array(block.rows.data), features.scale)
        block = FeatureBlock(block.row_starts, block.block, kept)
    return FeatureExchange(grid, block, memory=memory, wire=wire, mode=how, threads=max(1, threads))
