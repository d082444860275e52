"""outputs: samples around links as PyG's sampler outputs, and what batches say about links.

PyG hands what is known about links on in the metadata of an output, so that a
`transform_sampler_output` may look at it and change it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foregather.graph.hetero.names import EdgeType
from foregather.loader.hetero.input_rows import Dealt
from foregather.loader.links.asked import Asked
from foregather.sampling.hetero.hetero_bulk import HeteroSample

__all__ = ["LinkMarks", "LinkOutput"]


@dataclass(frozen=True, slots=True, eq=False)
class LinkOutput:
    """Makes an output of a sample and its links.

    Attributes:
        inner: makes one of a sample, a node type and input rows.
        edge_type: of the links.
        seeds_only: no neighbours were asked for, so there are no hops to count.
    """

    inner: Callable[[HeteroSample, str, Dealt], Any]
    edge_type: EdgeType
    seeds_only: bool = False

    def __call__(self, sample: HeteroSample, _: str, asked: Asked) -> Any:
        """The output, with PyG's metadata of links."""
        source, _, target = self.edge_type
        out = self.inner(sample, source, Dealt(asked.placed.source_seeds, asked.input_id, None))
        if asked.keys is not None:
            trees, first = out.batch, source <= target
            out.batch = (
                {name: asked.links_of(own, first) for name, own in trees.items()}
                if isinstance(trees, dict)
                else asked.links_of(trees, first)
            )
        if self.seeds_only:
            _forget_hops(out)
        out.metadata = (out.metadata[0], *asked.labels().values())
        return out


def _forget_hops(out: Any) -> None:
    """Leaves the counts of the seeds alone."""
    nodes, edges = out.num_sampled_nodes, out.num_sampled_edges
    if isinstance(nodes, dict):
        out.num_sampled_nodes = {name: own[:1] for name, own in nodes.items()}
        out.num_sampled_edges = {name: own[:0] for name, own in (edges or {}).items()}
    elif nodes is not None:
        out.num_sampled_nodes, out.num_sampled_edges = nodes[:1], edges[:0]


@dataclass(frozen=True, slots=True, eq=False)
class LinkMarks:
    """Says in a batch where its links are, under PyG's names.

    Attributes:
        edge_type: of the links; None for a Data.
        triplet: negatives are other targets of the same source.
    """

    edge_type: EdgeType | None
    triplet: bool

    def __call__(self, made: Any, out: Any) -> None:
        """Takes what the metadata of an output says."""
        edge = made if self.edge_type is None else made[self.edge_type]
        source, target = (
            (made, made)
            if self.edge_type is None
            else (made[self.edge_type[0]], made[self.edge_type[2]])
        )
        edge.input_id = out.metadata[0]
        if not self.triplet:
            edge.edge_label_index, edge.edge_label, edge.edge_label_time = out.metadata[1:4]
            return
        source.src_index, target.dst_pos_index, target.dst_neg_index = out.metadata[1:4]
        source.seed_time = target.seed_time = out.metadata[4]
        for name in ("edge_label_index", "edge_label_time"):  # of the whole data
            if name in edge:
                del edge[name]
