"""popularity: the baselines of links, computed as models are: popular nodes, common neighbours."""

import numpy as np
import numpy.typing as npt
import torch

from foregather.graph.graph import Graph
from foregather.nn.links.decoders import ProductDecoder
from foregather.train.links.baselines import common_neighbours, popularity
from foregather.train.links.link_data import LinkData
from foregather.train.links.pair_scores import PairScorer
from foregather.train.links.rate import Rating, rate_pairs, rate_rows

__all__ = ["popularity_rows", "rate_baseline"]

Ids = npt.NDArray[np.int64]


def popularity_rows(data: LinkData) -> PairScorer:
    """Rows whose product ranks targets, and sources, by their number of training links."""
    links = data.splits["train"].index
    out = popularity(links[::-1], data.counts[0])
    into = popularity(links, data.counts[1])
    if data.same:  # an undirected link may be stored in either direction
        out = into = out + into
    left = np.stack([np.ones_like(out), out], axis=1).astype(np.float32)
    right = np.stack([into, np.ones_like(into)], axis=1).astype(np.float32)
    return PairScorer(torch.from_numpy(left), torch.from_numpy(right), ProductDecoder(2))


def rate_baseline(data: LinkData, role: str, rating: Rating) -> tuple[float, str]:
    """What the best answer without a model reaches on a split, and what it is.

    On a plain graph pairs are given their number of common neighbours; elsewhere, and where all
    targets are ranked, targets their popularity.
    """
    graph = data.graph
    if not isinstance(graph, Graph) or rating.kind == "all":
        return rate_rows(popularity_rows(data), data, role, rating), "popularity"

    def score(
        sources: Ids, targets: Ids, relation: Ids | None, time: Ids | None
    ) -> npt.NDArray[np.float32]:
        each = targets.shape[1] if targets.ndim == 2 else 1
        pairs = np.stack([np.repeat(sources, each), targets.reshape(-1)])
        return common_neighbours(graph, pairs).reshape(targets.shape).astype(np.float32)

    return rate_pairs(score, data, role, rating), "common neighbours"
