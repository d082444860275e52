"""sampler: foregather's samplers as PyG's BaseSampler, for code that keeps PyG's NodeLoader.

PyG does not number its batches, so a sample is keyed by the seeds of its batch and by the epoch,
and a disjoint tree by the `input_id` of its seed: the same for any number of workers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler, SamplerOutput

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.mapped import fetch
from foregather.interop.typed.asked import sample_typed
from foregather.loader.hetero.rule import HeteroSampler
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from foregather.sampling.hetero.hgt import Hgt

__all__ = ["EpochSampler", "PygSampler"]

Array = npt.NDArray[Any]


class EpochSampler(BaseSampler):  # type: ignore[misc]
    """What our samplers in PyG's socket share: an epoch, and seeds that are nodes."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that samples are keyed by; call it before the loop starts its workers."""
        self.epoch = epoch

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Not supported.

        Raises:
            InputError: always.
        """
        raise InputError("edges as seeds are not supported; pass nodes, with NodeLoader")


class PygSampler(EpochSampler):
    """A foregather sampler for PyG's NodeLoader.

    If the batches do not change from epoch to epoch (no shuffle), call `set_epoch` for new samples.

    `e_id` of the batches names edges of the `edge_index` that the graph or relation was made from;
    for a Graph from a folder, positions in its CSC order. It is left out for a graph with
    self-loops that its `edge_index` does not have.

    Args:
        sampler: any sampler with `expand="once"`, since PyG has one edge_index for all layers; for
            a HeteroGraph a `HeteroNeighbor` (with `time=` and `disjoint=` as it has them) or `Hgt`.
        graph: the graph to sample. A HeteroGraph of one type and one relation may stand for a Data.
        seed: seed of the run.
        threads: threads per batch, 0 for all.

    Edge weights of a Data are included in its batches, by `e_id`, as in PyG. A sampler that weights
    its edges (such as LABOR) is refused: PyG cannot represent the weights.

    Raises:
        InputError: the sampler expands per layer or is not one of such graphs, or the graph has
            edge weights and edges without an `e_id` to find them by.
    """

    def __init__(
        self, sampler: Any, graph: Graph | HeteroGraph, seed: int = 0, threads: int = 1
    ) -> None:
        self.sampler, self.graph, self.seed, self.threads = sampler, graph, seed, threads
        if isinstance(graph, HeteroGraph):
            _check_typed(sampler)
            self._permutation: Any = permutations(graph, sampler.time)
            return
        if isinstance(sampler, HeteroSampler):
            raise InputError(
                f"{type(sampler).__name__} samples graphs with types, but the graph is a Graph; "
                "pass HeteroGraph.from_graph(graph)"
            )
        if sampler.expand != "once":
            raise InputError(
                'the sampler has expand="per-layer", which PyG\'s one edge_index cannot hold; '
                'use expand="once", or foregather.Loader'
            )
        ids = graph.edge_ids
        self._named = ids is None or ids.size == 0 or int(ids.min()) >= 0
        if graph.edge_weight is not None and not self._named:
            raise InputError(
                "the graph has edge weights, but with the self-loops that were added PyG cannot "
                "tell which belong to a batch; use foregather.Loader"
            )
        self._permutation = None
        if ids is not None and self._named:
            self._permutation = torch.from_numpy(np.array(ids))

    @property
    def num_neighbors(self) -> Any:
        """The fan-outs of the sampler, or None if it has none."""
        return getattr(self.sampler, "num_neighbors", None)

    @property
    def disjoint(self) -> bool:
        """Whether every seed has a tree of its own."""
        return bool(getattr(self.sampler, "disjoint", False))

    def sample_from_nodes(self, inputs: Any, **_: Any) -> Any:
        """Samples a batch of seeds.

        Raises:
            InputError: a seed is not a node, or for a Graph is given twice; or edges have factors.
        """
        keys = (self.seed, self.epoch)
        if isinstance(self.graph, HeteroGraph):
            return sample_typed(self.sampler, self.graph, inputs, keys, self.threads)
        nodes = to_ids(inputs.node, self.graph.num_nodes, "input_nodes")
        number = _core.xxh64(np.ascontiguousarray(nodes).view(np.uint8)) >> 16
        sample = self.sampler.sample_bulk(
            self.graph,
            [nodes],
            seed=self.seed,
            epoch=self.epoch,
            first_batch=number,
            threads=self.threads,
        )[0]
        self._check(sample.seed_position is not None, sample.weight is not None)
        return SamplerOutput(
            node=_long(sample.node),
            row=_long(sample.row),
            col=_long(sample.col),
            edge=_long(sample.edge) if self._named else None,
            batch=None,
            num_sampled_nodes=np.diff(sample.num_nodes, prepend=0).tolist(),
            num_sampled_edges=list(sample.num_edges),
            metadata=(inputs.input_id, inputs.time),
        )

    def _check(self, repeated: bool, weighted: bool) -> None:
        """Refuses what PyG's batches have no place for."""
        if repeated:
            raise InputError(
                "a batch holds a seed twice, which PyG's batches cannot; make input_nodes unique, "
                "or use foregather.Loader"
            )
        if weighted:
            raise InputError(
                f"{type(self.sampler).__name__} gives each edge a factor, which PyG's batches have "
                "no place for, and without it the sums are wrong; use foregather.Loader, which has "
                "it in batch.edge_weight"
            )

    @property
    def edge_permutation(self) -> Any:
        """From positions in the sampled rows to the edge_index they were made from.

        A tensor, for a HeteroGraph a dict of them by edge type; None where both are the same.
        """
        return self._permutation


def permutations(graph: HeteroGraph, level: Any) -> dict[Any, Tensor | None]:
    """By edge type, for edges as they are walked: their positions in the edge_index they had."""
    found: dict[Any, Tensor | None] = {}
    for name in graph.edge_types:
        ids = graph.relation(name, level).edge_ids
        found[name] = None if ids is None else torch.from_numpy(np.array(ids))
    return found


def _check_typed(sampler: Any) -> None:
    if not isinstance(sampler, HeteroSampler):
        raise InputError(
            f"sampler is a {type(sampler).__name__}, which does not sample graphs with types; use "
            "HeteroNeighbor or Hgt"
        )
    if not isinstance(sampler, (HeteroNeighbor, Hgt)):
        raise InputError(
            f"{type(sampler).__name__} weights the edges that it samples, or expands per layer, "
            "which PyG's SamplerOutput cannot hold; use HeteroLoader(sampler=...)"
        )


def _long(values: Array) -> Tensor:
    return torch.from_numpy(np.array(fetch(values), np.int64))
