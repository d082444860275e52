"""messages: what the tasks of a schedule send and receive, in bytes, one message at a time.

The engine sends these and no others, the simulator prices them, and their sum is what a run
predicts. Agreements are not included: they are a few bytes of control.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from foregather.nn.layer import GraphLayer
from foregather.pipeline.dry_run import Widths
from foregather.pipeline.passes.tensor_parallel import column_bounds
from foregather.pipeline.planning.schedule import Schedule, Task

__all__ = [
    "Message",
    "RankMessages",
    "Sizes",
    "sent_bytes",
    "trained_values",
    "trained_weights",
]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of rows and weights.

    Attributes:
        nodes: nodes of each chunk.
        crossing: rows [tick, giver, reader] that one way reads from another.
        widths: columns of everything.
        weights: how many values of each layer's weights are trained.
        itemsize: bytes per value.
        wire: bytes per value at a boundary.
    """

    nodes: Sequence[int]
    crossing: npt.NDArray[np.int64]
    widths: Widths
    weights: Sequence[int]
    itemsize: int
    wire: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as one of its two ranks sees it.

    Attributes:
        sending: whether this rank sends it; otherwise it receives it.
        peer: the other rank.
        purpose: as in the ledger.
        bytes: bytes of payload.
        rows: whole rows that are packed for it.
    """

    sending: bool
    peer: int
    purpose: str
    bytes: int
    rows: float = 0.0


class RankMessages:
    """The messages of one rank.

    Args:
        schedule: of all ranks.
        sizes: of rows and weights.
        rank: the rank whose messages these are.
    """

    def __init__(self, schedule: Schedule, sizes: Sizes, rank: int) -> None:
        self._schedule, self._sizes, self._rank = schedule, sizes, rank
        self._stage, self._way = divmod(rank, schedule.ways)

    def of(self, task: Task) -> Iterator[Message]:
        """Yields what a task sends and receives, in order; sends never wait for later receives."""
        if task.kind in ("receive", "send"):
            yield self._boundary(task)
        elif task.kind == "sum":
            yield from self._chain(task)
        elif task.kind in ("run", "exchange"):
            for layer in reversed(task.layers) if task.backward else task.layers:
                for exchange in self.exchanges(task, layer):
                    yield from exchange

    def exchanges(self, task: Task, layer: int) -> list[list[Message]]:
        """Returns what ways exchange in one aggregation of a task: rows once, columns twice.

        Gradients of sums are summed by columns too, so both passes trade for columns first.
        """
        if self._schedule.how != "columns":
            return [self._rows(task, layer)]
        features = layer == 0 and self._schedule.programs[0].reads_features
        turns = [True] if features else [False, True]  # columns of features are already there
        return [self._trade(layer, to_rows, task.backward) for to_rows in turns]

    def _boundary(self, task: Task) -> Message:
        """The rows of a chunk and its skip tensors, or their gradients."""
        sending, (chunk,), (peer,) = task.kind == "send", task.chunks, task.peers
        sender = self._schedule.programs[min(peer, self._rank) // self._schedule.ways]
        widths = self._sizes.widths
        width = widths.x[sender.last] + sum(widths.skip[name] for name in sender.skips_out)
        size = self._sizes.nodes[chunk] * width * self._sizes.wire
        return Message(sending, peer, "backward" if task.backward else "forward", size)

    def _rows(self, task: Task, layer: int) -> list[Message]:
        """Rows between ways if nodes are divided; gradients go in the opposite direction."""
        rows = self._sizes.crossing[list(task.ticks)].sum(0)
        width, purpose = self._sizes.widths.message[layer], _exchange(task.backward)
        made = []
        for sending in (True, False):
            for other in range(self._schedule.ways):
                gives = sending != task.backward
                count = int(rows[self._way, other] if gives else rows[other, self._way])
                if other != self._way and count:
                    size = count * width * self._sizes.itemsize
                    made.append(Message(sending, self._peer(other), purpose, size, count))
        return made

    def _trade(self, layer: int, to_rows: bool, backward: bool) -> list[Message]:
        """Rows for columns of all rows, or the reverse."""
        width, nodes = self._sizes.widths.message[layer], self._sizes.nodes
        bounds, purpose = column_bounds(width, self._schedule.ways), _exchange(backward)
        made = []
        for sending in (True, False):
            for other in range(self._schedule.ways):
                giver, taker = (self._way, other) if sending else (other, self._way)
                n, d = (taker, giver) if to_rows else (giver, taker)
                columns = bounds[d + 1] - bounds[d]
                size = nodes[n] * columns * self._sizes.itemsize
                if other != self._way and size:
                    rows = nodes[n] * columns / width
                    made.append(Message(sending, self._peer(other), purpose, size, rows))
        return made

    def _chain(self, task: Task) -> Iterator[Message]:
        """Down a chain of ranks and back."""
        size = sum(self._sizes.weights[n] for n in task.layers) * self._sizes.itemsize
        chain, place = task.peers, task.peers.index(self._rank)
        if len(chain) == 1 or not size:
            return
        if place > 0:
            yield Message(False, chain[place - 1], "weights", size)
        if place + 1 < len(chain):
            yield Message(True, chain[place + 1], "weights", size)
            yield Message(False, chain[place + 1], "weights", size)
        if place > 0:
            yield Message(True, chain[place - 1], "weights", size)

    def _peer(self, way: int) -> int:
        return self._stage * self._schedule.ways + way


def _exchange(backward: bool) -> str:
    return "exchange_back" if backward else "exchange"


def trained_weights(layers: Sequence[GraphLayer]) -> list[list[nn.Parameter]]:
    """Returns the trained weights of each layer; a shared one counts for the first layer only."""
    seen: set[int] = set()
    found = []
    for layer in layers:
        own = {id(p): p for p in layer.parameters() if p.requires_grad and id(p) not in seen}
        seen |= own.keys()
        found.append(list(own.values()))
    return found


def trained_values(layers: Sequence[GraphLayer]) -> list[int]:
    """Returns the number of trained values of each layer."""
    return [sum(p.numel() for p in weights) for weights in trained_weights(layers)]


def sent_bytes(schedule: Schedule, sizes: Sizes) -> dict[str, int]:
    """Returns the bytes that all ranks send, by purpose."""
    total = dict.fromkeys(("forward", "backward", "exchange", "exchange_back", "weights"), 0)
    for rank in range(schedule.ranks):
        messages = RankMessages(schedule, sizes, rank)
        for task in schedule.tasks(rank):
            for message in messages.of(task):
                if message.sending:
                    total[message.purpose] += message.bytes
    return total
