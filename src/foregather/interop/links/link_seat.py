"""link_seat: what a loader needs to sit where PyG's link loaders sat, besides making batches."""

from dataclasses import replace as replaced
from typing import Any

import numpy as np

from foregather import _core
from foregather.graph.hetero.graph import HeteroGraph
from foregather.interop.links.outputs import LinkMarks, LinkOutput
from foregather.interop.seat import Ids
from foregather.interop.typed.typed_seat import TypedSeat
from foregather.loader.hetero.rule import HeteroSampler
from foregather.loader.links.hetero_link_loader import HeteroLinkLoader
from foregather.sampling.links.negatives import Negatives

__all__ = ["LinkSeat"]


class LinkSeat(TypedSeat, HeteroLinkLoader):
    """A HeteroLinkLoader of PyG's data, or of a HeteroGraph, with the face of PyG's loaders."""

    _index: Any  # the links as they were given
    _rule: Negatives | None
    _seeds_only: bool = False  # no neighbours are sampled, and no hops counted

    def _link_assembler(
        self, graph: HeteroGraph, rule: HeteroSampler, how: tuple[bool, int]
    ) -> Any:
        if self._from is None:
            return super()._link_assembler(graph, rule, how)
        made = self._assembler(graph, rule.time, *how)
        plain, negatives = self._from.plain, self._rule
        triplet = negatives is not None and not negatives.is_binary
        self._finish.links = LinkMarks(None if plain else self._edge_type, triplet)
        output = LinkOutput(made.output, self._edge_type, self._seeds_only)
        return replaced(made, output=output)

    def _made_at(self, maker: Any, position: Ids) -> Any:
        (asked,) = maker.asked([position], self.epoch)
        number = _core.xxh64(np.ascontiguousarray(position).view(np.uint8)) >> 16
        sampled = maker.sample([asked], self.epoch, number)
        return maker.assembler.batch(sampled[0], maker.node_type, asked)

    @property
    def edge_label_index(self) -> Any:
        """The links as they were given."""
        return self._index

    @property
    def link_sampler(self) -> Any:
        """The rule that chooses neighbours, under PyG's name."""
        return self._maker.sampler
