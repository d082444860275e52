"""drawn: batches of positions drawn by a torch sampler, for the drop-in NeighborLoader."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_ids

__all__ = ["Drawn"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """A sampler of torch.

    Attributes:
        sampler: yields positions of input nodes, or whole batches of them.
        whole: it yields batches.
    """

    sampler: Any
    whole: bool

    @staticmethod
    def of(sampler: Any, batch_sampler: Any, options: dict[str, Any]) -> "Drawn | None":
        """Returns the given sampler, if any.

        Raises:
            InputError: both were given, or options that they determine.
        """
        if sampler is None and batch_sampler is None:
            return None
        name = "sampler" if batch_sampler is None else "batch_sampler"
        wrong = [key for key in ("shuffle", "grid") if options.get(key)]
        if batch_sampler is not None:
            usual = {"batch_size": 1, "drop_last": False}
            wrong += [key for key, value in usual.items() if options.get(key, value) != value]
        if sampler is not None and batch_sampler is not None:
            wrong.append("sampler")
        if wrong:
            raise InputError(f"{name} decides the order, so leave {', '.join(wrong)} out")
        return Drawn(sampler if batch_sampler is None else batch_sampler, batch_sampler is not None)

    def count(self, batch_size: int, drop_last: bool) -> int:
        """Number of batches per epoch, if the sampler knows it."""
        given = len(self.sampler)
        if self.whole:
            return given
        return given // batch_size if drop_last else -(-given // batch_size)

    def batches(self, batch_size: int, drop_last: bool, among: int) -> tuple[Ids, ...]:
        """Draws an epoch.

        Raises:
            InputError: a position is not among the input nodes.
        """
        if self.whole:
            return tuple(_positions(one, among) for one in self.sampler)
        drawn = _positions(list(self.sampler), among)
        end = len(drawn) // batch_size * batch_size if drop_last else len(drawn)
        return tuple(drawn[first : first + batch_size] for first in range(0, end, batch_size))


def _positions(given: Any, among: int) -> Ids:
    found: Ids = np.array(to_ids(given, among, "sampler", "input nodes"), np.int64)
    return found
