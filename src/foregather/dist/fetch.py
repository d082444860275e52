"""fetch: feature rows of minibatches from the ranks that hold them, one exchange a minibatch.

Rows are cut into the blocks of the grid's rows; block i lies with all ranks of grid row i, so a
rank finds every row in its own column. This is the published feature fetch: an all-to-all of ids
and one of rows for each minibatch. Whoever moves rows in another way keeps to `RowSource`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.dist.grid import Channel, Grid
from foregather.dist.ledger import Ledger
from foregather.dist.wire import as_bytes
from foregather.errors import InputError
from foregather.gather.memory import gather, gathered_dtype
from foregather.graph.features import Features
from foregather.sampling.bulk import Bulk

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BlockFetch", "RowSource"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
IDS, ROWS = "features: ids", "features: rows"


class RowSource(Protocol):
    """Where a Loader over ranks gets its feature rows from."""

    @property
    def ledger(self) -> Ledger:
        """What this rank sent."""

    def fetch(self, bulk: Bulk, later: Bulk | None = None) -> "Iterator[Tensor]":
        """The rows of each minibatch of a bulk, in their order.

        All ranks call this together, with equally many minibatches, and take as many items.

        Args:
            bulk: the minibatches.
            later: the bulk after it, for those who plan.
        """


class BlockFetch:
    """Rows from memory where they are this rank's own, from their owners where they are not.

    Args:
        features: the whole matrix, in memory or memory-mapped.
        starts: int64 [num_rows + 1]: block i has the rows [starts[i], starts[i + 1]).
        grid: the ranks.
        threads: threads of the gather.
        keep: copy this rank's block into memory; False reads it through the map each time.

    Attributes:
        block: the rows that this rank holds.
    """

    def __init__(
        self, features: Features, starts: Int, grid: Grid, threads: int = 1, keep: bool = True
    ) -> None:
        if len(starts) != grid.num_rows + 1 or starts[-1] != features.num_rows:
            raise InputError(
                f"starts cut {int(starts[-1])} rows into {len(starts) - 1} blocks, expected "
                f"{features.num_rows} rows and {grid.num_rows} blocks"
            )
        self.grid, self.starts, self.threads = grid, starts, threads
        self.first = int(starts[grid.row])
        own = features.data[self.first : int(starts[grid.row + 1])]
        self.block = Features(np.array(own) if keep else own, features.scale)
        self.dtype = gathered_dtype(features)
        grid.agree("features", f"{features.num_rows} x {features.width} {features.dtype}")
        self.channel: Channel = grid.channel()

    @property
    def ledger(self) -> Ledger:
        """What this rank sent for feature rows."""
        return self.channel.ledger

    def fetch(self, bulk: Bulk, later: Bulk | None = None) -> "Iterator[Tensor]":
        """Rows of each minibatch; see `RowSource.fetch`."""
        for sample in bulk:
            where = f"epoch {bulk.epoch}, features of minibatch {sample.batch}"
            yield self.channel.thread.submit(self.rows, sample.node, where).result()

    def rows(self, ids: Array, where: str = "features") -> "Tensor":
        """Rows of some nodes; all ranks of the column call this together."""
        import torch

        wire = self.channel.column
        wire.watch.where = where
        owner = np.searchsorted(self.starts, ids, side="right") - 1
        order = np.argsort(owner, kind="stable")
        cut = np.searchsorted(owner[order], np.arange(wire.size + 1))
        parts = [order[cut[i] : cut[i + 1]] for i in range(wire.size)]
        asked = wire.exchange([as_bytes(ids[part]) for part in parts], IDS)
        sent = [self._own(part.view(ids.dtype)) for part in asked]
        got = wire.exchange([as_bytes(rows.numpy()) for rows in sent], ROWS)
        out = np.empty((len(ids), self.block.width), self.dtype)
        for part, rows in zip(parts, got, strict=True):
            out[part] = rows.view(self.dtype).reshape(-1, self.block.width)
        return torch.from_numpy(out)

    def _own(self, ids: Array) -> "Tensor":
        local = (ids.astype(np.int64) - self.first).astype(np.int64)
        return gather(self.block, local, threads=self.threads)
