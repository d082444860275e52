"""way_exchange: exchanges rows of the current chunks, and later their gradients, between ways.

Receives are posted first, and sends start as soon as the own rows are there, so that the caller
computes with what it has while rows are on their way.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.passes.boundary_sample import BoundarySample
from foregather.pipeline.passes.link import Link

__all__ = ["Across"]


class Across:
    """One exchange of one aggregation: forward once, backward once.

    Args:
        link: to the other ways.
        reach: what is given and taken.
        ticks: the ticks whose rows cross.
        sample: the rows that cross, if not all do; rows of others that do not cross are zero here.
    """

    def __init__(
        self,
        link: Link,
        reach: Reach,
        ticks: Sequence[int],
        sample: BoundarySample | None = None,
    ) -> None:
        self._link, self._ways = link, [w for w in range(reach.ways) if w != reach.way]
        self._gives = {w: torch.cat([reach.gives[t][w] for t in ticks]) for w in self._ways}
        self._takes = {w: torch.cat([reach.takes[t][w] for t in ticks]) for w in self._ways}
        self._scale, self._dropped = 1.0, list[Tensor]()
        if sample is not None:
            kept, self._scale = sample.kept, sample.scale
            self._dropped = [rows[~kept[rows]] for rows in self._takes.values()]
            self._gives = {w: rows[kept[rows]] for w, rows in self._gives.items()}
            self._takes = {w: rows[kept[rows]] for w, rows in self._takes.items()}
        self._coming: list[tuple[int, Callable[[int], Tensor]]] = []

    def start(self, rows: Tensor) -> None:
        """Starts sending own rows and receiving rows of others."""
        for dropped in self._dropped:
            rows[dropped] = 0
        self._begin("exchange", rows, self._gives, self._takes)

    def finish(self, rows: Tensor) -> None:
        """Waits, and puts the rows of others in their places."""
        for way, take in self._coming:
            rows[self._takes[way]] = self._scaled(take(0))
        self._coming = []

    def start_back(self, adjoint: Tensor) -> None:
        """Starts sending the gradients of rows of others and receiving those of own rows."""
        self._begin("exchange_back", adjoint, self._takes, self._gives)

    def finish_back(self, adjoint: Tensor) -> None:
        """Waits, and adds what others pushed to own rows."""
        for way, take in self._coming:
            adjoint.index_add_(0, self._gives[way], self._scaled(take(0)))
        self._coming = []

    def _scaled(self, rows: Tensor) -> Tensor:
        return rows if self._scale == 1 else rows * self._scale

    def _begin(
        self, purpose: str, rows: Tensor, out: dict[int, Tensor], back: dict[int, Tensor]
    ) -> None:
        for way in self._ways:
            if back[way].numel():
                coming = [(0, (int(back[way].numel()), int(rows.shape[1])))]
                peer = self._link.way_peer(way)
                self._coming.append((way, self._link.receiver(peer, purpose, coming, rows)))
        for way in self._ways:
            if out[way].numel():
                self._link.send(self._link.way_peer(way), rows[out[way]], purpose)
