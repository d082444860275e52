"""cluster_forecast: predicts bytes, messages and seconds of an epoch on a hypothetical cluster.

Some grid rows and bulks are rehearsed with the real graph (all of them, for small grids: then bytes
and messages are those of a run), and extrapolated to the others. Seconds are those of the links
alone: a collective takes as long as its busiest rank, which pays a latency per message and sends
and receives at the bandwidth; the stages of the paper's product run one after the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.fetch_plan import FetchPlan, FetchPlanner, cut_rounds, in_round
from foregather.dist.features.memory_split import shares
from foregather.dist.forecast.rehearsal import (
    Messages,
    PaperRow,
    blocks_of,
    rehearse,
    rehearse_paper,
)
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.plan.line import Line
from foregather.sampling.bulk import Bulk
from foregather.sampling.neighbor import Neighbor

__all__ = ["Cost", "Forecast", "Model"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """The traffic of an epoch over all ranks, and how long the links are busy with it."""

    bytes: int
    messages: int
    seconds: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.bytes + other.bytes, self.messages + other.messages, self.seconds + other.seconds
        )

    def times(self, factor: float) -> "Cost":
        """Multiplies the cost."""
        return Cost(
            round(self.bytes * factor), round(self.messages * factor), self.seconds * factor
        )


@dataclass(frozen=True)
class Forecast:
    """What both modes would send, side by side; nothing is chosen, so they are no candidates.

    Attributes:
        default: cost by part: "sampling" and "features".
        paper: the same for the paper's mode; empty if the grid does not fit it.
        ranks: ranks that were rehearsed.
        bulks: bulks of each that were rehearsed.
        epoch_bulks: bulks of an epoch.
        exact: everything was rehearsed, so bytes and messages are those of a run.
    """

    default: dict[str, Cost]
    paper: dict[str, Cost]
    ranks: int
    bulks: int
    epoch_bulks: int
    exact: bool


@dataclass
class Model:
    """A grid, a graph and how it is trained.

    Args:
        graph: the graph; its features' width and dtype count, not their content.
        sampler: the rule.
        seeds: the input nodes of an epoch in the order in which they form minibatches; minibatch b
            belongs to rank b mod p.
        ranks: p.
        replication: c.
        link: of each rank.
        batch_size: seeds of a minibatch.
        bulk: minibatches per rank and bulk.
        row_bytes: bytes of a feature row on the wire.
        memory: a rank's budget for rows of others.
        seed: random seed.

    Raises:
        InputError: c does not divide p.
        BudgetError: the budget is below the minimum.
    """

    graph: Graph
    sampler: Neighbor
    seeds: Array
    ranks: int
    replication: int
    link: Line
    batch_size: int = 1024
    bulk: int = 8
    row_bytes: int = 512
    memory: int = 1 << 30
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.replication < 1 or self.ranks % self.replication:
            raise InputError(
                f"there are {self.ranks} ranks with replication {self.replication}; choose a "
                "replication that divides the number of ranks"
            )
        if self.batch_size < 1 or self.bulk < 1 or not len(self.seeds):
            raise InputError(
                "expected at least one seed, one seed per batch and one batch per bulk"
            )
        self.rows = self.ranks // self.replication
        self.batches = -(-len(self.seeds) // self.batch_size)
        self.epoch_bulks = -(-self.batches // (self.ranks * self.bulk))
        self.slots, self.staging = 0, 1
        if self.row_bytes:
            count = self.graph.num_nodes
            self.slots, self.staging = shares(self.memory, count, self.row_bytes, self.rows - 1)
        self._blocks = blocks_of(self.graph, self.rows)
        self._topology = self._blocks[0].row_starts
        # Features are cut by nodes, as FeatureBlock does.
        self._borders = np.arange(self.rows + 1, dtype=np.int64) * self.graph.num_nodes // self.rows

    def numbers(self, rank: int, bulk: int) -> list[int]:
        """Minibatches of a rank in a bulk."""
        first = bulk * self.ranks * self.bulk
        last = min(first + self.ranks * self.bulk, self.batches)
        return list(range(first + rank, last, self.ranks))

    def seeds_of(self, batch: int) -> Array:
        """Seeds of a minibatch."""
        return self.seeds[batch * self.batch_size : (batch + 1) * self.batch_size]

    def forecast(self, grid_rows: int = 2, bulks: int = 2, threads: int = 1) -> Forecast:
        """Rehearses some grid rows and bulks and scales up.

        Args:
            grid_rows: how many of the p/c; at least as many as there are gives exact bytes.
            bulks: how many of an epoch's; likewise.
            threads: for sampling.
        """
        c = self.replication
        spread = np.linspace(0, self.rows - 1, min(grid_rows, self.rows))
        chosen = sorted(set(spread.astype(int).tolist()))  # row 0 has the most minibatches
        counted = min(bulks, self.epoch_bulks)
        planners = {
            row * c + j: FetchPlanner(self._borders, row, self.slots)
            for row in chosen
            for j in range(c)
        }
        default = {"sampling": Cost(0, 0, 0.0), "features": Cost(0, 0, 0.0)}
        paper = dict(default) if self.ranks % (c * c) == 0 else {}
        made = [self._sample(chosen, number, threads) for number in range(counted)]
        for number, (drawn, layers) in enumerate(made):
            later = made[number + 1][0] if number + 1 < counted else {}
            default["sampling"] += self._ask(layers)
            if paper:
                paper["sampling"] += self._stages(drawn, chosen)
            if self.row_bytes:
                plans = {r: planners[r].plan(drawn[r], later.get(r, [])) for r in drawn}
                default["features"] += self._planned(plans)
                if paper:
                    paper["features"] += self._per_minibatch(drawn)
        scale = self.batches / min(self.batches, counted * self.ranks * self.bulk)
        return Forecast(
            {part: cost.times(scale) for part, cost in default.items()},
            {part: cost.times(scale) for part, cost in paper.items()},
            ranks=len(planners),
            bulks=counted,
            epoch_bulks=self.epoch_bulks,
            exact=len(chosen) == self.rows and counted == self.epoch_bulks,
        )

    def _sample(
        self, chosen: Sequence[int], number: int, threads: int
    ) -> tuple[dict[int, Bulk], dict[int, list[Messages]]]:
        drawn, layers = {}, {}
        for row in chosen:
            for rank in range(row * self.replication, (row + 1) * self.replication):
                batches = self.numbers(rank, number)
                seeds = [self.seeds_of(b) for b in batches]
                drawn[rank], layers[rank] = rehearse(
                    self._blocks, self.sampler, row, seeds, batches, self.seed, 0, threads
                )
        return drawn, layers

    # ---- collectives ---------------------------------------------------------------------------

    def _collective(self, got: dict[int, Int], lengths: int, messages: int) -> Cost:
        """The cost of an all-to-all in each column, from the bytes that rehearsed ranks receive.

        Args:
            got: by rank: int64 [places].
            lengths: 8 if lengths are sent first, otherwise 0.
            messages: non-empty messages of the sampled ranks.
        """
        peers, known = self.rows - 1, len(got)
        if not peers:
            return Cost(0, 0, 0.0)
        table = np.array(list(got.values()))
        places = np.array([rank // self.replication for rank in got])
        asking = np.array([(places != owner).sum() for owner in range(self.rows)])
        out = table.sum(axis=0) * peers / np.maximum(asking, 1)
        busiest = max(float(out.max()), float(table.sum(axis=1).max()))
        scale = self.ranks / known
        nbytes = float(table.sum()) * scale + lengths * peers * self.ranks
        count = messages * scale + (peers * self.ranks if lengths else 0)
        seconds = self.link.seconds(busiest, peers if messages else 0)
        if lengths:
            seconds += self.link.seconds(lengths * peers, peers)
        return Cost(round(nbytes), round(count), seconds)

    def _ask(self, layers: dict[int, list[Messages]]) -> Cost:
        """Request and reply of each layer; a request is what owners get, so it is turned round."""
        cost = Cost(0, 0, 0.0)
        for layer in range(self.sampler.num_layers):
            for kind in ("sent", "got"):
                table = {rank: getattr(found[layer], kind) for rank, found in layers.items()}
                filled = sum(int((row > 0).sum()) for row in table.values())
                cost += self._collective(table, 8, filled)
        return cost

    def _stages(self, drawn: dict[int, Bulk], chosen: Sequence[int]) -> Cost:
        """The staged product.

        Each stage has one root per column, which the others contact in order.
        """
        c, peers, stages = self.replication, self.rows - 1, self.rows // self.replication
        rows: dict[int, PaperRow] = {
            row: rehearse_paper(
                self.graph,
                self.sampler,
                [drawn[row * c + j] for j in range(c)],
                self._topology,
                row,
            )
            for row in chosen
        }
        scale, cost = self.rows / len(rows), Cost(0, 0, 0.0)
        for layer in range(self.sampler.num_layers):
            asked = np.array([found.needed[layer] for found in rows.values()])
            sent = np.array([found.rows[layer] for found in rows.values()])
            count = int((asked > 0).sum())
            cost += Cost(int(asked.sum() + sent.sum()) + 16 * count, 4 * count, 0.0).times(scale)
            others = np.maximum((asked > 0).sum(axis=0), 1)
            per_block = (asked + sent).sum(axis=0) * peers / others
            turns = [per_block[j * stages : (j + 1) * stages].sum() for j in range(c)]
            waits = 4 * peers * stages if peers else 0
            cost += Cost(0, 0, self.link.turn_seconds(float(max(turns)), waits))
        if c > 1:
            share = np.array([found.share for found in rows.values()])
            times = np.array([found.shares for found in rows.values()])
            nbytes = (int(share.sum()) + 8 * c * int(times.sum())) * (c - 1)
            cost += Cost(nbytes, 2 * c * (c - 1) * int(times.sum()), 0.0).times(scale)
            busiest = (c - 1) * float(share.max())
            cost += Cost(0, 0, self.link.seconds(busiest, 2 * (c - 1) * int(times.max())))
        return cost

    def _planned(self, plans: dict[int, FetchPlan]) -> Cost:
        """One request, and as many replies as staging requires."""
        places = range(self.rows)
        requests = {
            rank: np.array([0 if o == plan.place else plan.request_bytes(o) for o in places])
            for rank, plan in plans.items()
        }
        cost = self._collective(requests, 8, (self.rows - 1) * len(plans))
        for ranks in self._columns(plans):
            own = {rank: plans[rank] for rank in ranks}
            most = [plan.most.astype(np.int64) for plan in own.values()]
            spent = Cost(0, 0, 0.0)
            for this in cut_rounds(most, self.staging):
                table = {
                    rank: np.array([in_round(plan.needs[:, o], this).sum() for o in places])
                    for rank, plan in own.items()
                }
                spent += self._rows_of(table)
            cost += spent.times(1 / self.replication)
        return cost

    def _per_minibatch(self, drawn: dict[int, Bulk]) -> Cost:
        """Ids and rows for every minibatch, after all have said how many they have."""
        others = {r: 8 * (np.arange(self.rows) != r // self.replication) for r in drawn}
        cost = self._collective(others, 8, (self.rows - 1) * len(drawn))
        for ranks in self._columns(drawn):
            spent = Cost(0, 0, 0.0)
            for step in range(max(len(drawn[rank]) for rank in ranks)):
                table = {}
                for rank in ranks:
                    nodes = drawn[rank][step].node if step < len(drawn[rank]) else np.empty(0)
                    counts = np.diff(np.searchsorted(np.sort(nodes), self._borders))
                    counts[rank // self.replication] = 0
                    table[rank] = counts
                filled = sum(int((counts > 0).sum()) for counts in table.values())
                spent += self._collective({r: 4 * n for r, n in table.items()}, 8, filled)
                spent += self._rows_of(table)
            cost += spent.times(1 / self.replication)
        return cost

    def _columns(self, ranks: Iterable[int]) -> list[list[int]]:
        """Ranks by column. Columns work at the same time, and each is 1/c of all ranks."""
        c = self.replication
        return [[rank for rank in ranks if rank % c == column] for column in range(c)]

    def _rows_of(self, counts: dict[int, Int]) -> Cost:
        """A reply: feature rows that ranks get from each place."""
        filled = sum(int((row > 0).sum()) for row in counts.values())
        return self._collective({r: self.row_bytes * n for r, n in counts.items()}, 0, filled)
