"""near: deals input nodes so that those whose feature rows lie together share batches.

Input nodes are lined up by the places of their rows and cut into runs; the runs are shuffled each
epoch, some batches' worth of them form a window, and inside a window nodes are shuffled again. So
each node comes once per epoch, the position of any batch is a pure function of (seed, epoch,
batch), and a larger window mixes better and reads more. Neighbours are sampled from the whole
graph, as ever: only who shares a batch with whom is less random.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.units import to_whole

__all__ = ["Dealer", "Near"]

Ids = npt.NDArray[np.int64]

_RUNS, _NODES = 0x72756E73, 0x6E6F6465  # words that keep the two shuffles apart
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Near:
    """How input nodes are dealt by locality; for graphs whose feature rows are in an order.

    Attributes:
        run: nodes in a row, by the places of their rows, that stay together.
        window: batches among which the nodes of as many runs as fill them are mixed.

    Raises:
        InputError: a number is below 1.
    """

    run: int = 128
    window: int = 16

    def __post_init__(self) -> None:
        for name in ("run", "window"):
            object.__setattr__(self, name, to_whole(getattr(self, name), name, 1))


class Dealer:
    """The order of epochs that a `Near` makes.

    Args:
        line: positions of the input nodes, by the places of their rows: 8 bytes per node.
        batch_size: input nodes of a batch.
        rule: how they are dealt.
    """

    def __init__(self, line: Ids, batch_size: int, rule: Near) -> None:
        self._line, self._rule, self._window = line, rule, rule.window * batch_size

    @staticmethod
    def make(graph: Any, nodes: Ids | None, batch_size: int, rule: Near) -> "Dealer":
        """Lines up the input nodes of a graph; None: all nodes.

        Raises:
            InputError: its feature rows lie by id, so there is no order to deal by.
        """
        features = getattr(graph, "features", None)
        if features is None or getattr(features, "places", None) is None:
            raise InputError(
                "shuffle is Near, but the feature rows of the graph are in no order; make one with "
                "foregather reorder, or use shuffle=True"
            )
        wanted = np.arange(graph.num_nodes) if nodes is None else nodes
        line = np.argsort(features.rows_of(wanted), kind="stable").astype(np.int64)
        return Dealer(line, batch_size, rule)

    def fill(self, seed: int, epoch: int, start: int, out: Ids) -> None:
        """Writes the positions `start`, `start` + 1, ... of the order of an epoch."""
        done = 0
        while done < len(out):
            window, inside = divmod(start + done, self._window)
            here = self._order(seed, epoch, window)
            some = here[inside : inside + len(out) - done]
            out[done : done + len(some)] = some
            done += len(some)

    def _order(self, seed: int, epoch: int, window: int) -> Ids:
        """The input nodes of one window, in their order."""
        count, run = len(self._line), self._rule.run
        first = window * self._window
        size = min(self._window, count - first)
        mixed = np.empty(size, np.int64)
        _core.shuffled(size, _word(seed, _NODES + window), epoch, 0, mixed)
        at = first + mixed
        whole = count // run  # runs of full length; what is left over comes last
        low, high = first // run, min(whole, -(-(first + size) // run))
        runs = np.empty(max(0, high - low), np.int64)
        if len(runs):
            _core.shuffled(whole, _word(seed, _RUNS), epoch, low, runs)
            number = np.minimum(at // run - low, len(runs) - 1)
            at = np.where(at < whole * run, runs[number] * run + at % run, at)
        turn = _word(seed + epoch, _RUNS) % count  # borders of runs differ from epoch to epoch
        return self._line[(at + turn) % count]


def _word(seed: int, word: int) -> int:
    """Another seed, for another purpose."""
    return int(_core.xxh64(np.array([seed & _MASK, word & _MASK], np.uint64).view(np.uint8)))
