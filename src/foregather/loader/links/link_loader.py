"""link_loader: yields the batches of links; the step from a graph and its links to a training loop.

A batch of links is a batch whose seeds are the ends of links and of their negatives, so all that is
true of a Loader is true here: batches are a pure function of (graph, sampler, links, negatives,
seed, epoch), whatever the threads, the bulk size, the storage and the ranks.
"""

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.links.link_seeds import LinkSeeds, LinkTask
from foregather.loader.links.plain_task import plain_task
from foregather.loader.loader import Loader
from foregather.loader.seeds import Seeds
from foregather.sampling.links.negatives import Negatives

__all__ = ["LinkLoader"]


class LinkLoader(Loader):
    """Iterates over minibatches of links, with PyG's argument names.

    A batch is one of `Loader` around the two ends of `batch_size` links and of their negatives; see
    `LinkBatch` for what it says about them. Each link has its `input_id`, its position among the
    links given.

    For a `HeteroGraph` it is a `HeteroLinkLoader`, whose batches are PyG's HeteroData.

    Args:
        graph: the graph to sample.
        num_neighbors: fan-outs, as for `Loader`; or pass `sampler`.
        edge_label_index: the links: [2, links] sources and targets (repeats allowed), the name of
            links that the graph has, or None for all its edges. For a HeteroGraph an edge type, or
            (edge type, one of these).
        batch_size: links per batch; negatives come in addition.
        edge_label: one row per link. With binary negatives 0 is theirs, so labels whose smallest is
            0 are raised by 1, as in PyG.
        edge_label_time: one time per link, for a HeteroGraph with times: its trees see nothing
            later.
        negatives: a `Negatives`, its arguments as a dict, "binary", "triplet", PyG's
            `NegativeSampling`, or None.
        exclude_seed_edges: True leaves the links of a batch, and their reverses, out of the edges
            that are sampled for it, before anything is drawn: a model cannot read the answer, and
            fan-outs stay full. Links that are edges of the graph are left out one by one; of other
            links all edges between the two nodes are. "pairs" leaves all edges between the two
            nodes out in any case. False leaves nothing out.
        disjoint: every end of every link and negative has its own tree; `batch.batch` numbers the
            links that they belong to.
        options: all other arguments of `Loader`; for a HeteroGraph those of `HeteroLoader`.

    Raises:
        InputError: an argument breaks its rule; the message says which.
        BudgetError: see `Loader`.
        FormatError: see `Loader`.
        StorageError: see `Loader`.
    """

    def __init__(
        self,
        graph: Graph,
        num_neighbors: Any = None,
        edge_label_index: Any = None,
        batch_size: int = 1,
        *,
        edge_label: Any = None,
        edge_label_time: Any = None,
        negatives: Any = None,
        exclude_seed_edges: Any = True,
        disjoint: bool = False,
        **options: Any,
    ) -> None:
        ...
