"""way_exchange: exchanges rows of the current chunks, and later their gradients, between ways.

Receives are posted first, and sends start as soon as the own rows are there, so that the caller
computes with what it has while rows are on their way.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.passes.link import Link

__all__ = ["Across"]


class Across:
    """One exchange of one aggregation: forward once, backward once.

    Args:
        link: to the other ways.
        reach: what is given and taken.
        ticks: the ticks whose rows cross.
    """

    def __init__(self, link: Link, reach: Reach, ticks: Sequence[int]) -> None:
        self._link, self._ways = link, [w for w in range(reach.ways) if w != reach.way]
        self._gives = {w: torch.cat([reach.gives[t][w] for t in ticks]) for w in self._ways}
        self._takes = {w: torch.cat([reach.takes[t][w] for t in ticks]) for w in self._ways}
        self._coming: list[tuple[int, Callable[[int], Tensor]]] = []

    def start(self, rows: Tensor) -> None:
        """Starts sending own rows and receiving rows of others."""
        self._begin("exchange", rows, self._gives, self._takes)

    def finish(self, rows: Tensor) -> None:
        """Waits, and puts the rows of others in their places."""
        for way, take in self._coming:
            rows[self._takes[way]] = take(0)
        self._coming = []

    def start_back(self, adjoint: Tensor) -> None:
        """Starts sending the gradients of rows of others and receiving those of own rows."""
        self._begin("exchange_back", adjoint, self._takes, self._gives)

    def finish_back(self, adjoint: Tensor) -> None:
        """Waits, and adds what others pushed to own rows."""
        for way, take in self._coming:
            adjoint.index_add_(0, self._gives[way], take(0))
        self._coming = []

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
