"""popularity: the baseline of links: every source is given the targets that most links go to."""

import numpy as np
import torch

from foregather.nn.links.decoders import ProductDecoder
from foregather.train.links.link_data import LinkData
from foregather.train.links.pair_scores import Rows

__all__ = ["POPULARITY", "popularity_rows"]

#: What the baseline is called.
POPULARITY = "popularity"


def popularity_rows(data: LinkData) -> Rows:
    """Rows whose product ranks targets, and sources, by their number of training links."""
    sources, targets = data.splits["train"].index
    out, into = (
        np.bincount(ids, minlength=count).astype(np.float32)
        for ids, count in ((sources, data.counts[0]), (targets, data.counts[1]))
    )
    if data.same:  # an undirected link may be stored in either direction
        out = into = out + into
    left = np.stack([np.ones_like(out), out], axis=1)
    right = np.stack([into, np.ones_like(into)], axis=1)
    return Rows(torch.from_numpy(left), torch.from_numpy(right), ProductDecoder(2))
