"""fetch_paper: the published way to fetch features: one all-to-allv per minibatch, no cache.

Within the grid column, ids are sent to their owners and rows back. It is a baseline for comparison,
so it is not handicapped: ids have 4 bytes, and rows of a rank's own block are not sent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.column_fetcher import ColumnFetcher, QueuedBulk
from foregather.dist.features.rank_executor import put_local
from foregather.dist.transport.ledger import Entry
from foregather.dist.transport.wire import LENGTHS, as_bytes
from foregather.plan.planner import to_rows

__all__ = ["COUNT", "IDS", "ROWS", "PaperFetcher", "PaperPlan", "PaperPlanner", "predict_paper"]

Array = npt.NDArray[Any]
COUNT, IDS, ROWS = "features: minibatches", "features: ids", "features: rows"


@dataclass(frozen=True, eq=False)
class PaperPlan:
    """Which rows each minibatch of a bulk takes from which owner; nothing is kept.

    Attributes:
        row_starts: int64 [blocks + 1]: borders of the blocks.
        wanted: for each minibatch, ids of its rows.
        rounds: collectives: minibatches of the rank of the column that has most.
    """

    row_starts: npt.NDArray[np.int64]
    wanted: Sequence[Array]
    rounds: int

    @property
    def steps(self) -> int:
        """Minibatches of this rank."""
        return len(self.wanted)

    def by_owner(self, number: int) -> tuple[Array, Array]:
        """The order of a minibatch's rows by owner, and where each owner's begin in it."""
        owner = np.searchsorted(self.row_starts, self.rows(number), side="right") - 1
        order = np.argsort(owner, kind="stable")
        return order, np.searchsorted(owner[order], np.arange(len(self.row_starts)))

    def rows(self, number: int) -> Array:
        """Ids of a minibatch; none where only others have one of that number."""
        return self.wanted[number] if number < self.steps else np.empty(0, np.uint32)


class PaperPlanner:
    """Plans minibatch by minibatch, without a view of the next.

    Args:
        row_starts: int64 [blocks + 1]: borders of the blocks.
    """

    manner = "minibatch by minibatch"
    num_slots = 0
    memory_bytes = 0

    def __init__(self, row_starts: npt.NDArray[np.int64]) -> None:
        self.row_starts = row_starts

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> PaperPlan:
        """The plan of a bulk; what comes after it does not matter.

        Raises:
            InputError: ids are not whole numbers in range.
        """
        wanted = to_rows(batches, int(self.row_starts[-1]))
        return PaperPlan(self.row_starts, wanted, len(wanted))

    def complete(self, plan: PaperPlan, asked: Sequence[int]) -> PaperPlan:
        """The plan with as many collectives as the column needs."""
        return replace(plan, rounds=max(asked))


_Bulk = QueuedBulk[PaperPlan]


class PaperFetcher(ColumnFetcher[_Bulk]):
    """Fetches minibatch after minibatch; steps are collectives, and the cache has no hits."""

    @property
    def memory_bytes(self) -> int:
        """Nothing is kept between minibatches."""
        return 0

    def request(self, plan: PaperPlan) -> list[int]:
        """Tells the column how many minibatches there are; by place, how many each rank has."""
        counts = self.wire.share(as_bytes(np.array([plan.steps], np.int64)), COUNT)
        return [int(count.view(np.int64)[0]) for count in counts]

    def append(self, plan: PaperPlan) -> None:
        """Queues a plan; nothing moves before its steps."""
        self._bulks.append(QueuedBulk(plan))

    def _num_rows(self, bulk: _Bulk) -> int:
        return len(bulk.plan.rows(bulk.done))

    def _answer_rest(self, bulk: _Bulk) -> None:
        """The collectives that are left."""
        nothing = np.empty((0, self.block.width), self.block.gathered_dtype)
        while bulk.done < bulk.plan.rounds:
            self._fetch(bulk, nothing)

    def _fetch(self, bulk: _Bulk, out: Array) -> None:
        """One all-to-allv: ids to their owners, rows back, put where they belong."""
        rows, (order, cut) = bulk.plan.rows(bulk.done), bulk.plan.by_owner(bulk.done)
        parts = [rows[order[a:b]] for a, b in pairwise(cut)]
        own, size = self.wire.place, self.codec.row_bytes
        put_local(self.block, parts[own], order[cut[own] : cut[own + 1]], out)
        self.counts["local"] += len(parts[own])
        self.counts["misses"] += len(rows) - len(parts[own])
        bulk.done += 1
        if self.wire.size == 1:
            return
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

    def counters(self) -> dict[str, Any]:
        """Rows so far."""
        return {"rows": dict(self.counts)}

    def explain(self) -> list[str]:
        """Nothing in addition to the counters."""
        return []

    def close(self) -> None:
        """Nothing is held."""
        self._bulks.clear()


def predict_paper(
    needs: Sequence[npt.NDArray[np.int64]], row_bytes: int
) -> dict[tuple[int, int, str], Entry]:
    """Predicts what the ranks of a column send for a bulk, by (source, destination, purpose).

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
