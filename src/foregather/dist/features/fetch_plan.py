"""fetch_plan: plans which remote rows are sent for a bulk, when, and which stay cached.

A rank's remote rows go through the same planner as blocks of a disk, one row per block, so rows are
cached by Belady's rule within the budget and each is sent once while it stays. What the ranks of a
column send follows from their plans alone: `predict` is the ledger, to the byte.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.transport.ledger import Entry
from foregather.dist.transport.wire import LENGTHS
from foregather.errors import InputError
from foregather.plan.planner import to_rows

__all__ = ["REPLY", "REQUEST", "FetchPlan", "FetchPlanner", "Round", "cut_rounds", "predict"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
PlaceLink = tuple[int, int, str]
REQUEST, REPLY = "features: request", "features: reply"
_ROW = 4096  # for the planner, a row is a block
_HEADER = 24  # bytes of the three lengths in a request


@dataclass(frozen=True)
class Round:
    """One reply collective: rows of the steps [first, last).

    It has at most `take` rows of each owner, from `skip` on; `done` says whether it completes the
    steps.
    """

    first: int
    last: int
    skip: int
    take: int
    done: bool


@dataclass(frozen=True, eq=False)
class FetchPlan:
    """What one rank fetches for a bulk.

    Attributes:
        place: its block, and its position in the column.
        core: the plan over its remote rows: hits, misses and slots.
        remote: for each step, positions of remote rows in the output (plan position -> row).
        local: for each step, positions of rows of the own block in the output.
        local_ids: for each step, their ids; ascending if they are read from disk.
        cut: int64 [steps, blocks + 1]: where the misses of each owner begin, among all misses.
        reads_local: rows of the own block are read round by round, like those of others.
        local_ahead: ids of the own block in later batches, where they are read.
    """

    place: int
    core: _core.Plan
    remote: list[Int]
    local: list[Int]
    local_ids: list[Array]
    cut: Int
    reads_local: bool = False
    local_ahead: Sequence[Array] = ()

    @property
    def steps(self) -> int:
        """Minibatches."""
        return len(self.remote)

    @property
    def needs(self) -> Int:
        """int64 [steps, blocks]: misses by owner."""
        return np.diff(self.cut, axis=1)

    @property
    def most(self) -> npt.NDArray[np.int32]:
        """The most misses of any owner, for each step; own rows count if they are read."""
        blocks = self.cut.shape[1] - 1
        most = self.needs.max(axis=1) if blocks else np.zeros(self.steps)
        if self.reads_local:
            most = np.maximum(most, [len(ids) for ids in self.local_ids])
        return np.asarray(most, np.int32)

    def local_in(self, step: int, this: "Round") -> slice:
        """Which rows of the own block a step gets in a round.

        All in its first, or as many as others.
        """
        if self.reads_local:
            return slice(this.skip, this.skip + this.take)
        return slice(0, None if this.skip == 0 else 0)

    def local_of(self, this: "Round") -> list[Array]:
        """Ids of the own block that a round needs, by step."""
        steps = range(this.first, min(this.last, self.steps))
        return [self.local_ids[step][self.local_in(step, this)] for step in steps]

    def ids_of(self, owner: int) -> npt.NDArray[np.uint32]:
        """Ids of all misses of one owner, by step and ascending in a step."""
        rows = np.asarray(self.core.copy_row)
        spans = [rows[a:b] for a, b in self.cut[:, owner : owner + 2].tolist()]
        return np.concatenate([np.empty(0, np.uint32), *spans])

    def request_bytes(self, owner: int) -> int:
        """Bytes of the request to one owner."""
        return _HEADER + 8 * self.steps + 4 * int(self.needs[:, owner].sum())


class FetchPlanner:
    """Plans one bulk after the other for one rank and its cache of remote rows.

    Args:
        row_starts: int64 [blocks + 1]: borders of the blocks.
        place: this rank's block.
        num_slots: rows the cache holds.
        bounds: also compute the fewest misses of any policy.
        reads_local: the own block is on disk, so its rows are part of rounds.
    """

    def __init__(
        self,
        row_starts: Int,
        place: int,
        num_slots: int,
        bounds: bool = False,
        reads_local: bool = False,
    ) -> None:
        self.row_starts, self.place, self.num_slots = row_starts, place, num_slots
        self.reads_local = reads_local
        self._core = _core.Planner(
            row_geometry(int(row_starts[-1])), num_slots, 0, _ROW, riders=False, bounds=bounds
        )

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> FetchPlan:
        """Plans a bulk; `ahead` are the following batches, as far as known.

        Raises:
            InputError: a row is out of range, or twice in a batch.
        """
        count = int(self.row_starts[-1])
        low, high = (int(self.row_starts[self.place + i]) for i in (0, 1))
        remote, local, local_ids, wanted = [], [], [], []
        for rows in to_rows(batches, count):
            if len(rows) and int(rows.max()) >= count:
                raise InputError(f"a batch asks for row {rows.max()}; expected 0 to {count - 1}")
            own = (rows >= low) & (rows < high)
            remote.append(np.flatnonzero(~own))
            place = np.flatnonzero(own)
            if self.reads_local:  # rounds then traverse the block from start to end
                place = place[np.argsort(rows[place])]
            local.append(place)
            local_ids.append(rows[place])
            wanted.append(rows[~own])
        known = to_rows(ahead, count)
        later = [rows[(rows < low) | (rows >= high)] for rows in known]
        core = self._core.plan(wanted, later)
        begin, misses = np.asarray(core.request_ptr), np.asarray(core.copy_row)
        cut = np.empty((len(remote), len(self.row_starts)), np.int64)
        for step in range(len(remote)):  # a request is a row, and rows of a step ascend
            a, b = int(begin[step]), int(begin[step + 1])
            cut[step] = a + np.searchsorted(misses[a:b], self.row_starts)
        own_later = [rows[(rows >= low) & (rows < high)] for rows in known if self.reads_local]
        return FetchPlan(
            self.place, core, remote, local, local_ids, cut, self.reads_local, own_later
        )


def row_geometry(rows: int) -> _core.Geometry:
    """A file in which every row is a block of its own."""
    return _core.Geometry(rows, _ROW, _ROW, (rows + 1) * _ROW, _ROW)


def cut_rounds(most: Sequence[Int], staging: int) -> list[Round]:
    """Divides a bulk into reply collectives: a round has at most `staging` rows on any link.

    Args:
        most: for each rank of the column and each of its steps, the misses of the owner that has
            most. A rank may have fewer steps than others.
        staging: rows of one peer that a rank has room for.
    """
    steps = max((len(counts) for counts in most), default=0)
    need = np.zeros(steps, np.int64)
    for counts in most:
        need[: len(counts)] = np.maximum(need[: len(counts)], counts)
    rounds: list[Round] = []
    first, held = 0, 0
    for step, rows in enumerate(need.tolist()):
        if held + rows > staging and step > first:
            rounds.append(Round(first, step, 0, held, True))
            first, held = step, 0
        if rows <= staging:
            held += rows
            continue
        for skip in range(0, rows, staging):
            rounds.append(Round(step, step + 1, skip, staging, skip + staging >= rows))
        first, held = step + 1, 0
    if first < steps:
        rounds.append(Round(first, steps, 0, held, True))
    return rounds


def in_round(counts: Int, this: Round) -> Int:
    """Returns how many rows of each step are in a round on a link, from their counts."""
    span = counts[this.first : this.last]
    return np.clip(span - this.skip, 0, this.take)


def predict(plans: Sequence[FetchPlan], row_bytes: int, staging: int) -> dict[PlaceLink, Entry]:
    """Predicts what the ranks of a column send for a bulk, by (source, destination, purpose)."""
    sums: dict[PlaceLink, list[int]] = defaultdict(lambda: [0, 0])
    rounds = cut_rounds([np.asarray(plan.most, np.int64) for plan in plans], staging)
    for plan in plans:
        for owner in range(len(plans)):
            if owner == plan.place:
                continue
            sums[plan.place, owner, LENGTHS] = [8, 1]
            sums[plan.place, owner, REQUEST] = [plan.request_bytes(owner), 1]
            counts = plan.needs[:, owner]
            for this in rounds:
                rows = int(in_round(counts, this).sum())
                if rows:
                    sent = sums[owner, plan.place, REPLY]
                    sent[0] += rows * row_bytes
                    sent[1] += 1
    return {link: Entry(*sent) for link, sent in sums.items()}
