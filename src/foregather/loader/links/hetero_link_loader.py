"""hetero_link_loader: yields the batches of links of graphs with types, relations and times."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.loader.hetero.input_rows import RowTimes
from foregather.loader.hetero.rule import HeteroSampler, check_rule
from foregather.loader.links.hetero_left_out import HeteroLeftOut
from foregather.loader.links.hetero_link_recipe import HeteroLinkRecipe, LinkAssembler
from foregather.loader.links.link_seeds import LinkSeeds
from foregather.loader.links.typed_task import split_links, typed_task
from foregather.loader.seeds import Seeds
from foregather.sampling.hetero.hetero_labor import HeteroLabor
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from foregather.sampling.links.negatives import Negatives

__all__ = ["HeteroLinkLoader"]


class HeteroLinkLoader(HeteroLoader):
    """Iterates over minibatches of links of a typed graph as PyG's `HeteroData`.

    A batch is one of `HeteroLoader` around the two ends of `batch_size` links and of their
    negatives. What it says about them is on `batch[edge_type]`: `input_id`, `edge_label_index`
    (positions among the nodes of the source and of the target type), `edge_label` and
    `edge_label_time`; with triplets `src_index` is on the source type, `dst_pos_index` and
    `dst_neg_index` on the target type, and `seed_time` on both. With disjoint trees, which times
    always make, `batch` numbers the links.

    Args:
        graph: the graph, in memory.
        num_neighbors: fan-outs, as for `HeteroLoader`; or pass `sampler` with the options.
        edge_label_index: an edge type for all its edges, in the order in which they were given; or
            (edge type, links): [2, links] sources and targets, or the name of links that the graph
            has. The type may be left out where there is one relation.
        batch_size: links per batch; negatives come in addition.
        edge_label: one row per link; see `LinkLoader`.
        edge_label_time: one time per link: its trees see nothing later, and negatives are nodes of
            no later time. Needed with `time`, and refused without.
        negatives: as for `LinkLoader`.
        exclude_seed_edges: True leaves the links of a batch and their reverses (those of the
            relation `rev_` and its name, see `HeteroNeighbor`) out of the edges that are sampled
            for it, before anything is drawn. Where edges have times that count, only the edge that
            a link is and its reverse of the same time are left out; otherwise, and by "pairs", all
            edges between the two ends. False leaves nothing out.
        options: all other arguments of `HeteroLoader`.

    Raises:
        InputError: an argument breaks its rule; the message says which.
        FormatError: see `HeteroLoader`.
        MissingDependencyError: PyG is not installed.
    """

    _edge_type: EdgeType
    _given: tuple[Any, Any, Any, Any, Any]

    def __init__(
        self,
        graph: HeteroGraph,
        num_neighbors: Any = None,
        edge_label_index: Any = None,
        batch_size: int = 1,
        *,
        edge_label: Any = None,
        edge_label_time: Any = None,
        negatives: Any = None,
        exclude_seed_edges: Any = True,
        **options: Any,
    ) -> None:
        for name in ("input_nodes", "input_time"):
            if options.get(name) is not None:
                raise InputError(
                    f"{name} is an argument of HeteroLoader; links are {_INSTEAD[name]}"
                )
        asked = (edge_label_index, edge_label, edge_label_time)
        self._given = (*asked, negatives, exclude_seed_edges)
        super().__init__(graph, num_neighbors, None, batch_size, **options)

    def _recipe(
        self,
        graph: HeteroGraph,
        rule: HeteroSampler,
        asked: tuple[Any, Any],
        dealt: tuple[Any, Any, Any, Any],
        how: tuple[bool, int],
    ) -> HeteroLinkRecipe:
        index, label, time, negatives, exclude = self._given
        edge_type, links = split_links(graph, index)
        kind = edge_type[0]
        with about(f"links {show_edge_type(edge_type)}"):
            task = typed_task(
                graph, edge_type, (links, label, time), negatives, exclude, rule.disjoint, rule.time
            )
        nothing = np.empty(0, np.int64)
        seeds = LinkSeeds.of(task, Seeds.make(graph.nodes[kind], nothing, *dealt))
        check_rule(rule, graph, kind, how[1])
        left = None
        if task.leaves_out is not None:
            if not isinstance(rule, HeteroNeighbor | HeteroLabor):
                raise InputError(
                    f"{type(rule).__name__} leaves no links out of what it samples; use "
                    "num_neighbors, or exclude_seed_edges=False"
                )
            left = HeteroLeftOut.of(graph, edge_type, task.leaves_out, rule.time == "edge")
        self._given = (None,) * 5  # read; arrays of the caller are not kept
        self._edge_type = edge_type
        return HeteroLinkRecipe(
            graph,
            rule,
            kind,
            seeds,
            RowTimes(None, None),
            self._link_assembler(graph, rule, how),
            how[1],
            edge_type=edge_type,
            leaves_out=left,
        )

    def _link_assembler(
        self, graph: HeteroGraph, rule: HeteroSampler, how: tuple[bool, int]
    ) -> Any:
        """What batches hold."""
        return LinkAssembler(self._assembler(graph, rule.time, *how), self._edge_type)

    @property
    def edge_type(self) -> EdgeType:
        """The type of the links."""
        return self._edge_type

    @property
    def edge_label_index(self) -> npt.NDArray[np.int64]:
        """The links, int64 [2, links], in the order given."""
        ends = self._maker.seeds.task.links.ends
        return np.stack(ends.at(np.arange(ends.count)))

    @property
    def negatives(self) -> Negatives | None:
        """What is drawn as negatives; None: nothing."""
        sampler = self._maker.seeds.task.sampler
        return None if sampler is None else sampler.negatives

    def one(self, nodes: Any, input_time: Any = None, epoch: int = 0) -> Any:
        """Refused: this is a loader of links.

        Raises:
            InputError: always.
        """
        raise InputError(
            "this is a loader of links, and a batch of given nodes has none; make a HeteroLoader, "
            "or a loader of the links that are asked about"
        )

    def _identity(self) -> dict[str, Any]:
        said = super()._identity()
        del said["input_time"]  # those of links are part of their digest
        said["links"] = f"{show_edge_type(self._edge_type)} {said.pop('input_nodes')}"
        return said


_INSTEAD = {"input_nodes": "edge_label_index", "input_time": "edge_label_time"}
