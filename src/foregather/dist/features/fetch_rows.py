"""fetch_rows: decides how a Loader over ranks fetches feature rows, and creates the exchange."""

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.features.exchange import ExchangeMode, FeatureExchange
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.features.fetch_plan import row_geometry
from foregather.dist.features.memory_split import OwnBlock, shares, shares_with_disk
from foregather.dist.transport.codec import Codec
from foregather.dist.transport.rank_grid import RankGrid
from foregather.errors import BudgetError
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch
from foregather.loader.rank_options import BlockStorage, RankSetup

__all__ = ["default_memory", "exchange_of"]

Int = npt.NDArray[np.int64]
_PART = 10  # the default is this share of the largest block,
_LEAST = 64 << 20  # and at least this much: small staging means many rounds per minibatch


def default_memory(features: Features, starts: Int) -> int | None:
    """The default bytes for rows of other ranks; the same on all ranks.

    It is the planner's tables plus a tenth of the largest block or 64 MiB, whichever is more. None
    if the tables alone would take more than that block, or all rows are in one: then rows are sent
    minibatch by minibatch.
    """
    row = features.width * features.dtype.itemsize
    largest = int(np.diff(starts).max(initial=0)) * row
    tables = int(_core.planner_bytes(row_geometry(features.num_rows), 0, 0, 0))
    if len(starts) == 2 or tables > largest:
        return None
    return tables + max(largest // _PART, _LEAST, 2 * (len(starts) - 2) * row)


def exchange_of(
    graph: Graph,
    starts: Int,
    grid: RankGrid,
    options: RankSetup,
    threads: int,
) -> FeatureExchange:
    """Creates the exchange of a Loader; a collective call.

    Args:
        graph: with features, in memory or memory-mapped.
        starts: int64 [num_rows + 1]: boundaries of the blocks.
        grid: the ranks.
        options: mode "paper" exchanges rows minibatch by minibatch, "owner" according to a plan,
            with `memory`, or `default_memory` if that is None.
        threads: threads to use.

    Raises:
        InputError: the ranks differ, or the rows cannot be rounded.
        BudgetError: `memory` is too small; the message states the minimum.
    """
    features = graph.features
    assert features is not None
    mode, memory, storage, wire = options.mode, options.memory, options.storage, options.wire
    block = FeatureBlock.of(features, grid.num_rows, grid.row, starts)
    if memory is not None and storage == "auto" and graph.path is not None:
        memory, storage = _place(block, memory, Codec(block, wire).row_bytes)
    if memory is None and mode == "owner":
        memory = default_memory(features, starts)
    how: ExchangeMode = "planned" if memory is not None and mode == "owner" else "paper"
    if storage in ("features", "disk"):
        block = FeatureBlock.on_disk(graph, grid.num_rows, grid.row, starts)
    elif graph.path is not None:  # mapped: this rank's block is read into memory
        first, last = int(starts[grid.row]), int(starts[grid.row + 1])
        own = features.part(first, last)
        kept = Features(fetch(own.data) if own.places is None else own.by_id(), own.scale)
        block = FeatureBlock(block.row_starts, block.block, kept)
    return FeatureExchange(grid, block, memory=memory, wire=wire, mode=how, threads=max(1, threads))


def _place(block: FeatureBlock, memory: int, row_bytes: int) -> tuple[int, BlockStorage]:
    """Decides where blocks are kept within the budget, and what is left for other rows.

    The largest block decides, so that all ranks agree.

    Raises:
        BudgetError: neither option fits; the message states the smaller minimum.
    """
    rows, peers = int(np.diff(block.row_starts).max()), len(block.row_starts) - 2
    own = OwnBlock(rows, block.width * block.dtype.itemsize)
    held = rows * own.row_bytes
    try:
        shares(memory - held, block.total_rows, row_bytes, peers)
        return memory - held, "memory"
    except BudgetError as error:
        least = held + (error.least or 0)
    try:
        shares_with_disk(memory, block.total_rows, row_bytes, peers, own)
        return memory, "disk"
    except BudgetError as error:
        least = min(least, error.least or least)
    raise BudgetError(
        f"the memory is {memory} bytes, but a feature block of {rows} rows and rows of {peers} "
        f"other ranks need at least {least}"
    )
