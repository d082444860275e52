"""list_topology: samplers that look at whole neighbour lists, over a topology on disk.

`DiskTopology` hands these samplers to it, with the whole of its budget.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk
from foregather.sampling.fused import FusedSampler, leaves_out_anywhere
from foregather.sampling.joined_trees import TreeSeeds
from foregather.sampling.labor import Labor
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.links.excluded import Excluded
from foregather.sampling.matrix import MatrixSampler, keeps_verbs
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.on_disk.list_program import sample_lists, sample_trees_of_lists
from foregather.sampling.on_disk.node_sums import NODE_BYTES
from foregather.sampling.on_disk.row_lists import RowLists, divide_lists
from foregather.sampling.on_disk.subgraph_program import sample_subgraphs
from foregather.sampling.sampler import Sampler
from foregather.sampling.subgraphs.saint import Saint
from foregather.sampling.subgraphs.subgraph import SubgraphSampler
from foregather.sampling.subgraphs.walk import RandomWalk

__all__ = ["ListTopology", "why_not_lists"]

Array = npt.NDArray[Any]

_MOST_HOT = 0.5  # of what is left; the rest is for the lists that a layer looks at


class ListTopology:
    """Samples whole neighbour lists of a graph folder within a budget.

    Args:
        graph: a graph opened from a folder.
        memory: the budget.
        ways: backend, depth and gap, as in `DiskTopology`.
        hot: part of what is left for lists that are held.
        block: bytes of a block, by which rows are ranked.
    """

    def __init__(
        self, graph: Graph, memory: int, ways: tuple[str, int, int], hot: float, block: int
    ) -> None:
        self.graph, self._memory, self._ways = graph, memory, ways
        self._hot, self._block = min(hot, _MOST_HOT), block
        self._made: tuple[tuple[bool, str | None], RowLists] | None = None

    def sample_bulk(
        self,
        sampler: Sampler,
        seeds: Sequence[Array],
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
        exclude: Excluded | None,
    ) -> Bulk:
        """As `DiskTopology.sample_bulk`."""
        self._check(sampler, exclude)
        lists = self._lists(sampler)
        if isinstance(sampler, MatrixSampler):
            keys = (seed, epoch, first_batch, threads)
            return sample_lists(sampler, lists, seeds, *keys, exclude)
        assert isinstance(sampler, SubgraphSampler)
        return sample_subgraphs(sampler, lists, seeds, seed, epoch, first_batch)

    def sample_trees(
        self,
        sampler: FusedSampler,
        trees: TreeSeeds,
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
        exclude: Excluded | None,
    ) -> Bulk:
        """As `DiskTopology.sample_trees`; `exclude` has each tree as a minibatch."""
        self._check(sampler, exclude)
        keys = (seed, epoch, first_batch, threads)
        return sample_trees_of_lists(sampler, self._lists(sampler), trees, *keys, exclude)

    @staticmethod
    def _check(sampler: Sampler, exclude: Excluded | None) -> None:
        reason = why_not_lists(sampler, exclude is not None)
        if reason is not None:
            raise InputError(
                f"{reason}; open the graph in memory or mapped and pass it to the sampler"
            )

    def _lists(self, sampler: Sampler) -> RowLists:
        """The reader of lists for a sampler; kept until one needs another division."""
        weighted, sums = _weighted(sampler, self.graph), _sums(sampler)
        if self._made is not None and self._made[0] == (weighted, sums):
            return self._made[1]
        self.close()
        nodes = 0 if sums is None else NODE_BYTES[sums] * self.graph.num_nodes
        shares = divide_lists(self.graph, self._memory, weighted, nodes, self._hot)
        lists = RowLists(self.graph, shares, weighted, self._ways)
        self._made = ((weighted, sums), lists)
        lists.hold(self._block)
        return lists

    def counters(self) -> dict[str, Any]:
        """As `DiskTopology.counters`."""
        return {} if self._made is None else self._made[1].counters()

    def shares(self) -> dict[str, int]:
        """As `DiskTopology.shares`."""
        if self._made is None:
            return {}
        parts = self._made[1].shares
        return {
            "index": parts.index,
            "checksums": parts.sums,
            "staging": parts.staging * (2 if self._made[0][0] else 1),
            "nodes": parts.nodes,
            "work": parts.work,
            "hot": parts.hot,
            "least": parts.least,
        }

    def close(self) -> None:
        """Closes the files and frees the memory."""
        made, self._made = self._made, None
        if made is not None:
            made[1].close()


def _weighted(sampler: Sampler, graph: Graph) -> bool:
    """Whether edge weights are read next to neighbour lists."""
    if graph.edge_weight is None or isinstance(sampler, SubgraphSampler):
        return False
    if isinstance(sampler, Neighbor) and keeps_verbs(sampler):
        return sampler.weights is not None and sampler.weights.values is None
    return not (isinstance(sampler, Labor) and keeps_verbs(sampler) and sampler.debias is None)


def _sums(sampler: Sampler) -> str | None:
    """Which numbers for all nodes a sampler needs."""
    if isinstance(sampler, FastGCN):
        return "squares"
    return sampler.kind if isinstance(sampler, Saint) and sampler.kind != "walk" else None


def why_not_lists(sampler: Sampler, leaves_out: bool) -> str | None:
    """Why a sampler cannot sample whole lists from disk; None if it can.

    Args:
        sampler: any sampler.
        leaves_out: whether its minibatches leave out edges.
    """
    name = type(sampler).__name__
    if leaves_out and not leaves_out_anywhere(sampler):
        return f"{name} draws from tables of whole rows, which leave out no edges on disk"
    if isinstance(sampler, Saint) and sampler.normalise:
        return (
            "Saint with normalise=True counts every edge of the graph (4 bytes each), which takes "
            "as much memory as the neighbour lists; use normalise=False"
        )
    if isinstance(sampler, FastGCN) and not keeps_verbs(sampler):
        return f"{name} overrides how FastGCN weighs nodes, and all edges would be looked at"
    own = isinstance(sampler, MatrixSampler) and _runs_program(sampler)
    if own or type(sampler) in (RandomWalk, Saint):
        return None
    return f"{name} does not say which rows it looks at before it looks at them"


def _runs_program(sampler: MatrixSampler) -> bool:
    """Whether bulks are made by the matrix program or a kernel that equals it."""
    home = next(base for base in type(sampler).__mro__ if "sample_bulk" in vars(base))
    return home.__module__.startswith("foregather.")
