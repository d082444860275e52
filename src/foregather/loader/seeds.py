"""seeds: decides which input nodes form which batch of which epoch.

The order of an epoch is a keyed bijection of positions, a pure function of (seed, epoch, number of
input nodes). So any batch can be computed without the others, nothing is stored, and a position in
training is three integers: seed, epoch, batch.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_array, to_ids
from foregather.graph.mapped import fetch
from foregather.loader.near import Dealer, Near
from foregather.units import to_whole

__all__ = ["MOST_EPOCH", "MOST_SEED", "Seeds", "share_of"]

MOST_SEED = (1 << 64) - 1
MOST_EPOCH = (1 << 63) - 1
Ids = npt.NDArray[np.int64]


class HasNodes(Protocol):
    """What input nodes are chosen from: a Graph, or the table of a node type."""

    @property
    def num_nodes(self) -> int: ...

    def split(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Seeds:
    """Input nodes and the rule that divides them into batches.

    Attributes:
        nodes: node ids, int64, repeats allowed; None is all nodes of the graph.
        count: how many there are.
        by_position: `input_id` of a batch holds positions in the given list (PyG's rule for lists
            of ids); False: it holds the node ids (PyG's rule for masks and for None).
        batch_size: input nodes per batch.
        shuffle: a new order each epoch; False keeps the order given. A `Near` deals input nodes
            whose feature rows lie together to the same batches.
        drop_last: drop a smaller last batch.
        seed: seed of the run.
        drawn: positions of each batch, if chosen elsewhere; None chooses them here.
    """

    nodes: Ids | None
    count: int
    by_position: bool
    batch_size: int
    shuffle: bool | Near
    drop_last: bool
    seed: int
    drawn: tuple[Ids, ...] | None = None
    dealer: Dealer | None = None
    _digest: list[str] = field(default_factory=list, init=False)

    @staticmethod
    def make(
        graph: HasNodes,
        input_nodes: Any,
        batch_size: int,
        shuffle: bool | Near = False,
        drop_last: bool = False,
        seed: int = 0,
    ) -> "Seeds":
        """Reads `input_nodes`: the name of a split, a mask, ids, or None for all nodes.

        Raises:
            InputError: no such split, ids out of range, or numbers that are not positive.
        """
        size, seed = to_whole(batch_size, "batch_size", 1), to_whole(seed, "seed", 0, MOST_SEED)
        for name, flag in (("shuffle", shuffle), ("drop_last", drop_last)):
            near = name == "shuffle" and isinstance(flag, Near)
            if not near and not any(flag is one or flag == one for one in (None, False, True)):
                raise InputError(f"{name} is {flag!r}, expected True or False")
        nodes, by_position = _read(graph, input_nodes)
        count = graph.num_nodes if nodes is None else int(nodes.size)
        rule = (
            size,
            shuffle if isinstance(shuffle, Near) else bool(shuffle),
            bool(drop_last),
            seed,
        )
        dealer = Dealer.make(graph, nodes, size, shuffle) if isinstance(shuffle, Near) else None
        return Seeds(nodes, count, by_position, *rule, dealer=dealer)

    def __len__(self) -> int:
        """Batches per epoch."""
        if self.drawn is not None:
            return len(self.drawn)
        if self.drop_last:
            return self.count // self.batch_size
        return -(-self.count // self.batch_size)

    @property
    def digest(self) -> str:
        """Identifies the input nodes and their order; hashed on first use."""
        if not self._digest:
            named = "all" if self.nodes is None else f"{_core.xxh64(self.nodes.view('u1')):016x}"
            self._digest.append(named)
        return self._digest[0]

    def batch(self, epoch: int, number: int) -> tuple[Ids, Ids]:
        """Returns the node ids and `input_id` of batch `number` of an epoch.

        Raises:
            InputError: the epoch has no such batch.
        """
        return self.at(self.positions(epoch, number))

    def deal(self, epoch: int, first: int, last: int) -> list[tuple[Ids, Ids]]:
        """Returns the same of batches `first` to `last` - 1."""
        return [self.batch(epoch, number) for number in range(first, last)]

    def positions(self, epoch: int, number: int) -> Ids:
        """Returns which of the input nodes are in batch `number` of an epoch.

        Raises:
            InputError: the epoch has no such batch.
        """
        if not 0 <= number < len(self):
            raise InputError(f"batch is {number}, but an epoch has {len(self)} batches")
        if self.drawn is not None:
            return self.drawn[number]
        start = number * self.batch_size
        size = min(self.batch_size, self.count - start)
        position = np.empty(size, np.int64)
        self._fill(epoch, start, position)
        return position

    def _fill(self, epoch: int, start: int, position: Ids) -> None:
        """Writes the positions `start`, `start` + 1, ... of the order of an epoch."""
        if self.dealer is not None:
            self.dealer.fill(self.seed, epoch, start, position)
        elif self.shuffle:
            _core.shuffled(self.count, self.seed, epoch, start, position)
        else:
            position[:] = np.arange(start, start + len(position))

    def run(self, epoch: int, first: int, count: int) -> tuple[Ids, Ids, Ids]:
        """Returns the node ids and `input_id` of batches in a row, and where each one begins.

        Args:
            epoch: number of the epoch.
            first: the first batch.
            count: batches, or fewer if there are fewer; they are not drawn elsewhere.
        """
        last = min(first + count, len(self))
        ptr = np.arange(first, last + 1) * self.batch_size
        np.minimum(ptr, self.count, out=ptr)
        ptr -= first * self.batch_size
        position = np.empty(ptr[-1], np.int64)
        self._fill(epoch, first * self.batch_size, position)
        return *self.at(position), ptr

    def on(self, graph: Any) -> "Seeds":
        """Returns the same over the same graph with other arrays in memory."""
        return self

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Returns the node ids and `input_id` of the input nodes at these positions."""
        nodes = position if self.nodes is None else self.nodes[position]
        return nodes, (position if self.by_position else nodes)


def share_of(seeds: Seeds, step: int, rank: int, ranks: int) -> float:
    """The weight of a rank's mean loss in a step of all: its seeds over the mean of the ranks.

    Step t has the batches t * ranks, t * ranks + 1, ..., one per rank; 0 where there is none left.
    """
    counts = [
        max(0, min(seeds.batch_size, seeds.count - number * seeds.batch_size))
        for number in range(step * ranks, min((step + 1) * ranks, len(seeds)))
    ]
    return (counts[rank] if rank < len(counts) else 0) * ranks / sum(counts)


def _read(graph: HasNodes, input_nodes: Any) -> tuple[Ids | None, bool]:
    if input_nodes is None:
        return None, False
    if isinstance(input_nodes, str):
        return to_ids(graph.split(input_nodes), graph.num_nodes, f"split {input_nodes}"), True
    array = fetch(to_array(input_nodes, "input_nodes"))
    if array.dtype == np.bool_ and array.shape != (graph.num_nodes,):
        raise InputError(
            f"input_nodes is a mask of shape {list(array.shape)}, expected [{graph.num_nodes}]"
        )
    # a copy: the caller may reuse the array, and a position in an epoch must keep its meaning
    ids = np.array(to_ids(array, graph.num_nodes, "input_nodes"), np.int64)
    return ids, array.dtype != np.bool_
