"""lists: how much of what is asked for is in the first k of a list: Recall, NDCG, MAP, hit rate.

Every source counts once, whatever the number of its held-out links; a source without any does not
count. Sums are rounded once, so results depend neither on the division into batches nor on their
order.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.links.known import KnownLinks

__all__ = ["LIST_METRICS", "ListMeter"]

#: recall: share of the source's links that is in the list; precision: share of the list that is
#: right; ndcg: gains 1 / log2(place + 1), divided by the most there can be; map: precision at the
#: places of the right ones, summed and divided by the most there can be; hit: whether any is there.
LIST_METRICS = ("recall", "precision", "ndcg", "map", "hit")

Floats = npt.NDArray[np.float64]


class ListMeter:
    """Adds up what lists of the best targets are worth.

    Args:
        wanted: the held-out links, which lists should contain.
        k: places of a list that count; lists may be longer.
    """

    def __init__(self, wanted: KnownLinks, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k is {k!r:.40}, expected a whole number from 1 on")
        if k > wanted.num_targets:
            raise InputError(
                f"k is {k}, but there are only {wanted.num_targets} candidates; choose a smaller k"
            )
        self.wanted, self.k = wanted, k
        self._values: dict[str, list[Floats]] = {name: [] for name in LIST_METRICS}
        gains = 1 / np.log2(np.arange(2, k + 2))
        self._gains, self._most = gains, np.cumsum(gains)

    @property
    def sources(self) -> int:
        """Sources that counted."""
        return sum(len(part) for part in self._values["recall"])

    def add(self, sources: Any, targets: Any) -> None:
        """Adds the lists of some sources.

        Args:
            sources: [n] ids.
            targets: [n, at least k] their best targets, best first; -1 for none.

        Raises:
            InputError: lists are shorter than k.
        """
        asked = np.asarray(sources, np.int64)
        lists = np.asarray(targets, np.int64)
        if lists.ndim != 2 or len(lists) != len(asked) or lists.shape[1] < self.k:
            raise InputError(
                f"lists have shape {list(lists.shape)}, expected {len(asked)} of at least {self.k} "
                "targets"
            )
        counts = self.wanted.counts[asked]
        asked, lists, counts = asked[counts > 0], lists[counts > 0, : self.k], counts[counts > 0]
        every = np.repeat(asked, self.k)
        right = self.wanted.holds(every, lists.reshape(-1)).reshape(-1, self.k)
        right &= lists >= 0
        hits = right.sum(1)
        most = np.minimum(counts, self.k)
        at = right.cumsum(1) / np.arange(1, self.k + 1)
        for name, values in {
            "recall": hits / counts,
            "precision": hits / self.k,
            "ndcg": (right * self._gains).sum(1) / self._most[most - 1],
            "map": (right * at).sum(1) / most,
            "hit": (hits > 0).astype(np.float64),
        }.items():
            self._values[name].append(values)

    def state(self) -> dict[str, Floats]:
        """What a rank sends to the others; `merge` takes it."""
        return {name: np.concatenate([np.empty(0), *v]) for name, v in self._values.items()}

    def merge(self, state: dict[str, Floats]) -> None:
        """Adds what another meter counted."""
        for name in LIST_METRICS:
            self._values[name].append(state[name])

    def value(self, metric: str) -> float:
        """The mean over sources of a metric in `LIST_METRICS`.

        Raises:
            InputError: no such metric, or no source counted.
        """
        if metric not in LIST_METRICS:
            raise InputError(
                f"there is no metric {metric!r:.40}; there are {', '.join(LIST_METRICS)}"
            )
        if not self.sources:
            raise InputError("no source has links to be found; the split is empty")
        return math.fsum(self.state()[metric].tolist()) / self.sources
