"""ranked_links: the metrics of links among candidates: MRR, Hits@k, Recall@k and NDCG@k.

They compare a link with its candidates, not a row of scores with a label, so `train.links.rate`
computes them; an accumulator of rows has nothing to add up.
"""

import math
from collections.abc import Mapping
from typing import Any

from foregather.train.metrics.metric import Metric

__all__ = ["MRR", "NoRows", "hits_at", "ndcg_at", "recall_at"]


class NoRows:
    """Adds up nothing."""

    def update(self, scores: Any, labels: Any) -> None:
        """Nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Nothing."""

    def value(self) -> float:
        """None is known."""
        return math.nan


def _metric(name: str, about: str) -> Metric:
    return Metric(name, about, ("link",), True, NoRows)


MRR = _metric("mrr", "mean of 1 / rank of a link among its candidates")


def hits_at(k: int) -> Metric:
    """The share of links whose rank is at most k."""
    return _metric(f"hits@{k}", f"share of links that are among the first {k} of their candidates")


def recall_at(k: int) -> Metric:
    """The mean over sources of the share of their links that are among the first k targets."""
    return _metric(f"recall@{k}", f"share of a source's links among its first {k}, mean of sources")


def ndcg_at(k: int) -> Metric:
    """The mean over sources of the discounted gain of the first k targets."""
    return _metric(f"ndcg@{k}", f"discounted gain of a source's first {k} targets, mean of sources")
