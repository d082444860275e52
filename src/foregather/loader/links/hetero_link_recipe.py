"""hetero_link_recipe: everything that typed batches of links are made from, as one value."""

from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.hetero.names import EdgeType
from foregather.loader.hetero.hetero_recipe import Assembles, HeteroRecipe
from foregather.loader.links.asked import Asked
from foregather.loader.links.hetero_left_out import HeteroLeftOut
from foregather.loader.links.link_seeds import LinkSeeds
from foregather.observe.trace import span
from foregather.sampling.hetero.hetero_bulk import HeteroBulk, HeteroSample

__all__ = ["HeteroLinkRecipe", "LinkAssembler", "mark_links"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class HeteroLinkRecipe(HeteroRecipe):
    """The graph, the sampler, the links, and the form of batches.

    Attributes:
        edge_type: of the links; `node_type` is that of their sources.
        leaves_out: which edges are left out, or None.
    """

    edge_type: EdgeType = field(kw_only=True)
    leaves_out: HeteroLeftOut | None = field(kw_only=True)

    def deal(self, epoch: int, start: int, count: int) -> list[Any]:
        """Returns the links of `count` batches from `start` on, or of those left."""
        end = min(start + count, len(self.seeds))
        return self.asked([self.seeds.positions(epoch, n) for n in range(start, end)], epoch)

    def asked(self, positions: list[Ids], epoch: int) -> list[Asked]:
        """Returns the links at these positions, with the negatives that they have in an epoch."""
        seeds = self.seeds
        assert isinstance(seeds, LinkSeeds)
        return seeds.task.asked(positions, seeds.seed, epoch)

    def sample(self, dealt: list[Any], epoch: int, start: int) -> HeteroBulk:
        """Samples these batches; trees are keyed by link and end."""
        options: dict[str, Any] = {}
        if self.sampler.disjoint:
            options["rows"] = self._by_type([one.keys for one in dealt])
        if self.sampler.time is not None:
            options["times"] = self._by_type([_times(one) for one in dealt])
        if self.leaves_out is not None:
            options["exclude"] = self.leaves_out(dealt)
        with span("sample"):
            return self.sampler.sample_bulk(
                self.graph,
                self._seeds_of(dealt),
                seed=self.seeds.seed,
                epoch=epoch,
                first_batch=start,
                threads=self.threads,
                **options,
            )

    def _seeds_of(self, dealt: list[Asked]) -> dict[str, list[Ids]]:
        source, _, target = self.edge_type
        found = {source: [one.placed.source_seeds for one in dealt]}
        if source != target:
            found[target] = [
                one.placed.target_seeds for one in dealt if one.placed.target_seeds is not None
            ]
        return found

    def _by_type(self, pairs: list[tuple[Ids, Ids]]) -> dict[str, list[Ids]]:
        """Numbers of sources and of targets, by node type."""
        source, _, target = self.edge_type
        if source == target:
            return {source: [np.concatenate(pair) for pair in pairs]}
        return {source: [pair[0] for pair in pairs], target: [pair[1] for pair in pairs]}


def _times(asked: Asked) -> tuple[Ids, Ids]:
    assert asked.time is not None
    return asked.time[asked.drawn.source_link], asked.time[asked.drawn.target_link]


@dataclass(frozen=True, slots=True, eq=False)
class LinkAssembler:
    """Adds what is known about links to batches.

    Attributes:
        inner: makes the batches.
        edge_type: of the links.
    """

    inner: Assembles
    edge_type: EdgeType

    def batch(self, sample: HeteroSample, node_type: str, rows: Any) -> Any:
        """The batch of a sample and its links."""
        made = self.inner.batch(sample, "", rows)  # no type has input rows
        mark_links(made, self.edge_type, rows)
        return made

    def using(self, threads: int) -> "LinkAssembler":
        """Returns the same with another number of threads."""
        return replaced(self, inner=self.inner.using(threads))


def mark_links(made: Any, edge_type: EdgeType, asked: Asked) -> None:
    """Says in a HeteroData where its links are, under PyG's names."""
    import torch

    source, _, target = edge_type
    made[edge_type].input_id = torch.from_numpy(np.array(asked.input_id))
    if asked.keys is not None:
        for name in made.node_types:
            made[name].batch = asked.links_of(made[name].batch, source <= target)
    told = asked.labels()
    if asked.triplet:
        made[source].src_index = told["src_index"]
        made[target].dst_pos_index = told["dst_pos_index"]
        made[target].dst_neg_index = told["dst_neg_index"]
        for name in {source, target} if told["seed_time"] is not None else ():
            made[name].seed_time = told["seed_time"]
        return
    for name, value in told.items():
        if value is not None:
            made[edge_type][name] = value
