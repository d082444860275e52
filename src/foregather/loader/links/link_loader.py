"""link_loader: yields the batches of links; the step from a graph and its links to a training loop.

A batch of links is a batch whose seeds are the ends of links and of their negatives, so all that is
true of a Loader is true here: batches are a pure function of (graph, sampler, links, negatives,
seed, epoch), whatever the threads, the bulk size, the storage and the ranks.
"""

from dataclasses import replace as replaced
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.arguments import check_engine
from foregather.loader.links.hetero_link_loader import HeteroLinkLoader
from foregather.loader.links.link_seeds import LinkSeeds, LinkTask
from foregather.loader.links.plain_task import plain_task
from foregather.loader.loader import Loader
from foregather.loader.seeds import Seeds
from foregather.sampling.fused import check_excluding
from foregather.sampling.links.negatives import Negatives
from foregather.sampling.sampler import Sampler
from foregather.units import format_bytes, parse_size

__all__ = ["LinkLoader"]


class _Kind(type):
    """Lets loaders of typed graphs count as LinkLoaders, which they are to the user."""

    def __instancecheck__(cls, instance: object) -> bool:
        typed = cls is LinkLoader and isinstance(instance, HeteroLinkLoader)
        return typed or super().__instancecheck__(instance)


class LinkLoader(Loader, metaclass=_Kind):
    """Iterates over minibatches of links, with PyG's argument names.

    A batch is one of `Loader` around the two ends of `batch_size` links and of their negatives; see
    `LinkBatch` for what it says about them. Each link has its `input_id`, its position among the
    links given. For a `HeteroGraph` it is a `HeteroLinkLoader`: see there for what differs.

    Args:
        graph: the graph to sample.
        num_neighbors: fan-outs, as for `Loader`; or pass `sampler` with the options.
        edge_label_index: the links: [2, links] sources and targets (repeats allowed), the name of
            links that the graph has, or None for all its edges.
        batch_size: links per batch; negatives come in addition.
        edge_label: one row per link. With binary negatives 0 is theirs, so labels whose smallest is
            0 are raised by 1, as in PyG.
        edge_label_time: refused: a Graph has no times; see `HeteroLinkLoader`.
        negatives: a `Negatives`, its arguments as a dict, "binary", "triplet", PyG's
            `NegativeSampling`, or None.
        exclude_seed_edges: True leaves the links of a batch and their reverses out of the edges
            that are sampled for it, before anything is drawn: a model cannot read the answer, and
            fan-outs stay full. All edges between the two ends of a link are left out, in both
            directions. "pairs" is the same; False leaves nothing out.
        disjoint: every end of every link and negative has its own tree, and `batch.batch` says
            which link it belongs to. A tree leaves out its own link.
        memory: as for `Loader`; links and what negatives are drawn from are part of it.
        options: all other arguments of `Loader`.

    Raises:
        InputError: an argument breaks its rule; the message says which.
        BudgetError: see `Loader`.
        FormatError: see `Loader`.
        StorageError: see `Loader`.
    """

    _task: LinkTask

    def __new__(cls, graph: Any = None, *given: Any, **options: Any) -> Any:
        """A loader of the kind that the graph asks for."""
        if cls is LinkLoader and isinstance(graph, HeteroGraph):
            return HeteroLinkLoader(graph, *given, **options)
        return object.__new__(cls)

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
        memory: str | int | None = None,
        **options: Any,
    ) -> None:
        check_engine(graph, options.get("threads", 0), None, None)
        if "input_nodes" in options:
            raise InputError("input_nodes is an argument of Loader; links are edge_label_index")
        for name in ("neg_sampling", "neg_sampling_ratio"):
            if name in options:
                raise InputError(
                    f"{name} is an argument of PyG's LinkNeighborLoader; pass negatives, or use "
                    "foregather.interop.pyg.LinkNeighborLoader"
                )
        asked = (edge_label_index, edge_label, edge_label_time)
        self._task = plain_task(graph, *asked, negatives, exclude_seed_edges, disjoint)
        options |= {"disjoint": disjoint, "memory": _left(memory, self._task.nbytes)}
        super().__init__(graph, num_neighbors, None, batch_size, **options)

    def _check_rule(self, rule: Sampler) -> None:
        if self._task.leaves_out is None:
            return
        try:
            check_excluding(rule)
        except InputError:
            raise InputError(
                f"{type(rule).__name__} leaves no links out of what it samples; use num_neighbors, "
                "or exclude_seed_edges=False"
            ) from None

    def _seeds(self, graph: Graph, asked: Any, dealt: tuple[Any, Any, Any, Any]) -> Seeds:
        nothing = np.empty(0, np.int64)
        return LinkSeeds.of(self._task, Seeds.make(graph, nothing, *dealt))

    @property
    def edge_label_index(self) -> npt.NDArray[np.int64]:
        """The links, int64 [2, links], in the order given."""
        ends = self._task.links.ends
        return np.stack(ends.at(np.arange(ends.count)))

    @property
    def negatives(self) -> Negatives | None:
        """What is drawn as negatives; None: nothing."""
        sampler = self._task.sampler
        return None if sampler is None else sampler.negatives

    def _identity(self) -> dict[str, Any]:
        said = super()._identity()
        said["links"] = said.pop("input_nodes")
        return said

    def beside(
        self,
        edge_label_index: Any,
        batch_size: int | None = None,
        *,
        edge_label: Any = None,
        negatives: Any = None,
        exclude_seed_edges: Any = True,
    ) -> "LinkLoader":
        """Returns a loader of other links, in order, with the same sampler and memory.

        See `Loader.beside`.

        Args:
            edge_label_index: as for a new loader.
            batch_size: None takes half of this one's.
            edge_label: as for a new loader.
            negatives: as for a new loader; None: none.
            exclude_seed_edges: as for a new loader.
        """
        size = max(1, self.batch_size // 2) if batch_size is None else batch_size
        graph, disjoint = self.graph, self._task.disjoint
        asked = (edge_label_index, edge_label, None)
        task = plain_task(graph, *asked, negatives, exclude_seed_edges, disjoint)
        other = self.__copy__()
        other._task = task
        seeds = other._seeds(graph, None, (size, False, False, self.seed))
        other._maker = replaced(self._maker, seeds=seeds)
        other._go_to(0, 0)
        return other


def _left(memory: str | int | None, held: int) -> str | int | None:
    """What links leave of a budget."""
    if memory is None or memory == "auto":  # what is free now, so without what links hold
        return memory
    room = parse_size(memory)
    if room <= held:
        raise BudgetError(
            f"memory is {format_bytes(room)}, but the links and what negatives are drawn from take "
            f"{format_bytes(held)}; give more"
        )
    return room - held
