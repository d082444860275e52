"""fetch_paper: the published way to fetch features: an all-to-allv for every minibatch, no cache.

Inside the process column: ids to their owners, rows back, put where they belong. It is the baseline
of our numbers, so ids have 4 bytes and rows of the own block are not sent.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.features.planned_fetcher import put_local
from foregather.dist.transport.codec import Codec
from foregather.dist.transport.ledger import Entry
from foregather.dist.transport.wire import LENGTHS, Wire, as_bytes
from foregather.plan.planner import to_rows

__all__ = ["COUNT", "IDS", "ROWS", "PaperFetcher", "predict_paper"]

Array = npt.NDArray[Any]
COUNT, IDS, ROWS = "features: minibatches", "features: ids", "features: rows"


class PaperFetcher:
    """Fetches minibatch after minibatch.

    Args:
        wire: links to the column.
        block: the rows this rank has.
        codec: what rows are while they cross.
    """

    def __init__(self, wire: Wire, block: FeatureBlock, codec: Codec) -> None:
        self.wire, self.block, self.codec = wire, block, codec
        #: Rows so far: of the own block, from the cache (none), and fetched.
        self.counts = {"local": 0, "hits": 0, "misses": 0}

    @property
    def memory_bytes(self) -> int:
        """Nothing is kept between minibatches."""
        return 0

    def run(self, batches: Sequence[Any], ahead: Sequence[Any]) -> Iterator[Array]:
        """The rows of each minibatch; ranks of the column run this together."""
        wanted = to_rows(batches, self.block.total_rows)
        counts = self.wire.share(as_bytes(np.array([len(wanted)], np.int64)), COUNT)
        steps = max(int(count.view(np.int64)[0]) for count in counts)
        for step in range(steps):
            made = self._one(wanted[step] if step < len(wanted) else np.empty(0, np.uint32))
            if step < len(wanted):
                yield made

    def _one(self, rows: Array) -> Array:
        owner = np.searchsorted(self.block.row_starts, rows, side="right") - 1
        order = np.argsort(owner, kind="stable")
        cut = np.searchsorted(owner[order], np.arange(self.wire.size + 1))
        parts = [rows[order[a:b]] for a, b in pairwise(cut)]
        own, size = self.wire.place, self.codec.row_bytes
        out = np.empty((len(rows), self.block.width), self.block.gathered_dtype)
        put_local(self.block, parts[own], order[cut[own] : cut[own + 1]], out)
        self.counts["local"] += len(parts[own])
        self.counts["misses"] += len(rows) - len(parts[own])
        if self.wire.size == 1:
            return out
        asked = [
            part.view(np.uint32) for part in self.wire.exchange(list(map(as_bytes, parts)), IDS)
        ]
        asked[own] = asked[own][:0]
        answer = np.concatenate(asked)
        sent = np.empty((len(answer), size), np.uint8)
        self.codec.encode(self.block.take(answer), sent)
        counts = [0 if i == own else len(part) for i, part in enumerate(parts)]
        got = np.empty((sum(counts), size), np.uint8)
        lengths, expected = [len(part) * size for part in asked], [n * size for n in counts]
        self.wire.swap(sent.reshape(-1), lengths, got.reshape(-1), expected, ROWS)
        received = np.empty((len(got), self.block.width), out.dtype)
        self.codec.decode(got, np.arange(len(got)), received)
        out[np.concatenate([order[: cut[own]], order[cut[own + 1] :]])] = received
        return out


def predict_paper(
    needs: Sequence[npt.NDArray[np.int64]], row_bytes: int
) -> dict[tuple[int, int, str], Entry]:
    """What the ranks of a column send for a bulk, by (source, destination, purpose): places.

    Args:
        needs: by place: int64 [steps, blocks], rows of each owner in each minibatch.
        row_bytes: bytes of a row.
    """
    places = range(len(needs))
    steps = max((len(counts) for counts in needs), default=0)
    found = {}
    for place in places:
        for owner in places:
            if owner == place:
                continue
            found[place, owner, LENGTHS] = Entry(8 * (steps + 1), steps + 1)
            found[place, owner, COUNT] = Entry(8, 1)
            counts = needs[place][:, owner]
            rows, messages = int(counts.sum()), int((counts > 0).sum())
            if rows:
                found[place, owner, IDS] = Entry(4 * rows, messages)
                found[owner, place, ROWS] = Entry(row_bytes * rows, messages)
    return found
