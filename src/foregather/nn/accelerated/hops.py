"""hops: the order of a batch that lets a layer compute only what later layers need.

With N_h nodes within h hops of the seeds and M_h edges into the first N_{h-1} of them: the first
M_h edges are all edges into those nodes, and come from the first N_h. `Hops.of` checks that for the
edges it is given; nothing else is assumed, so batches of other loaders may be used.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from foregather.loader.batches.first_sums import FirstSums
from foregather.loader.batches.hop_counts import HopCounts, recall, remember
from foregather.loader.batches.lists_ahead import BY_SOURCE, BY_TARGET, ListsAhead
from foregather.loader.batches.pyg_batch import plain_tensor
from foregather.nn.aggregate import Neighborhoods
from foregather.nn.hop_order import order_of

__all__ = ["Hops", "Order", "ask_ahead", "make_lists", "remember_counts"]

T = TypeVar("T")


class Order:
    """What passes, comparisons and the proof ask of the order of a batch, typed or not.

    Attributes:
        typed: it is of a batch, or of one relation of it, with types.
        sums: what stands for the rows of leaves, if the batch has none.
        order: whether linear maps come after sums wherever they may, or before; None: where they
            cost less. Only the proof, which must see both, says so.
    """

    typed = False
    sums: FirstSums | None = None
    order: Literal["sums first", "maps first"] | None = None

    def sums_come_first(self, cheaper: bool) -> bool:
        """Whether rows are summed before they are mapped, where both give the same."""
        return cheaper if self.order is None else self.order == "sums first"

    def set_order(self, order: Literal["sums first", "maps first"] | None) -> None:
        """Sets the order of sums and maps, of all relations if there are any."""
        self.order = order

    @property
    def depth(self) -> int:
        """L, the number of hops."""
        raise NotImplementedError

    @property
    def kind(self) -> tuple[Any, ...]:
        """What of the order a proof depends on."""
        raise NotImplementedError

    @property
    def has_small_hops(self) -> bool:
        """Whether rows of one node, or of none, would be taken for other tensors."""
        raise NotImplementedError

    @property
    def row_sets(self) -> tuple[frozenset[int], ...]:
        """Numbers of rows after each hop: of all nodes, or of each type of them."""
        raise NotImplementedError

    @property
    def count_sets(self) -> tuple[Sequence[int], ...]:
        """Numbers of nodes and edges after each hop, of each kind of them."""
        raise NotImplementedError

    def seeds_among(self, rows: int) -> int | None:
        """How many of this many rows are seeds'; None if these are not rows of nodes."""
        raise NotImplementedError


class Hops(Order):
    """The checked hops of one batch.

    Attributes:
        nodes: N_0, ..., N_L.
        edges: M_0 = 0, ..., M_L.
        edge_index: the edges as a plain tensor.
        ascending: targets ascend, so that kernels can be used.
        sums: what stands for the rows of leaves, if the batch has none.
    """

    def __init__(self, edge_index: Tensor, nodes: Sequence[int], edges: Sequence[int]) -> None:
        self.edge_index = plain_tensor(edge_index)
        self.nodes = tuple(accumulate(nodes))
        self.edges = (0, *accumulate(edges))
        self.ascending = False
        self.sums: FirstSums | None = None
        self._made: dict[Any, Any] = {}
        self._ahead: ListsAhead | None = None

    @classmethod
    def of(cls, edge_index: Tensor, counts: HopCounts) -> "Hops | str":
        """Checks the counts of a batch; returns what is wrong if they do not fit its edges."""
        if counts.checked is None:
            made = cls(edge_index, counts.nodes, counts.edges)
            made._ahead = counts.ahead
            counts.checked = made._wrong() or made
        found: Hops | str = counts.checked
        return found

    @classmethod
    def find(cls, edge_index: Any, nodes: Any, edges: Any) -> "Hops | str":
        """The hops of a batch by its counts if given, else by those remembered for its edges."""
        if not isinstance(edge_index, Tensor) or edge_index.ndim != 2:
            return "there is no edge_index of two rows"
        if edge_index.layout != torch.strided or edge_index.shape[0] != 2:
            return "there is no edge_index of two rows"
        counts = recall(edge_index)
        if nodes is not None and edges is not None:
            try:
                listed = tuple(map(int, nodes)), tuple(map(int, edges))
            except (TypeError, ValueError):
                return "the counts of sampled nodes and edges are not whole numbers"
            if counts is None or (counts.nodes, counts.edges) != listed:
                counts = remember(edge_index, *listed)
        if counts is None:
            return "the batch does not say how many nodes and edges each hop has"
        found = cls.of(edge_index, counts)
        if isinstance(found, Hops):
            found.sums = counts.sums
        return found

    def _wrong(self) -> str | None:
        """Why these counts do not fit the edges; None if they do."""
        found = order_of(self.edge_index, self.nodes, self.nodes, self.edges)
        if found is None:
            return "the counts of sampled nodes and edges do not fit the edges of the batch"
        self.ascending = found
        return None

    @property
    def depth(self) -> int:
        """L, the number of hops."""
        return len(self.nodes) - 1

    @property
    def num_nodes(self) -> int:
        """Nodes of the batch."""
        return self.nodes[-1]

    @property
    def num_edges(self) -> int:
        """Edges of the batch."""
        return self.edges[-1]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What of the order a proof depends on."""
        return self.depth, self.ascending, self.sums is not None

    @property
    def has_small_hops(self) -> bool:
        """Whether rows of one node, or of none, would be taken for other tensors."""
        return min(self.nodes) < 2

    @property
    def row_sets(self) -> tuple[frozenset[int], ...]:
        """Numbers of rows after each hop."""
        return (frozenset(self.nodes),)

    @property
    def count_sets(self) -> tuple[Sequence[int], ...]:
        """Numbers of nodes and edges after each hop."""
        return self.nodes, self.edges

    def seeds_among(self, rows: int) -> int | None:
        """How many of this many rows are seeds'; None if these are not rows of nodes."""
        return self.nodes[0] if rows in self.nodes else None

    def same_edges(self, other: Any) -> bool:
        """Whether a tensor is the edges of the batch, or the first of them."""
        mine = self.edge_index
        if not isinstance(other, Tensor) or other.ndim != 2 or other.layout != torch.strided:
            return False
        if other.shape[0] != 2 or other.dtype != mine.dtype:
            return False
        other = plain_tensor(other)
        return bool(other.stride() == mine.stride() and other.data_ptr() == mine.data_ptr())

    def edges_into(self, level: int) -> int:
        """Edges into the first N_level nodes."""
        return self.edges[min(level + 1, self.depth)]

    def made_once(self, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives, made once for the batch."""
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def neighborhoods(self, sources: int, targets: int) -> Neighborhoods:
        """The edges into the first nodes, by target."""
        if self._ahead is not None:
            self._ahead.ask(make_lists, BY_TARGET)
        whole = self.made_once("edges", self._lists)
        return self.made_once((sources, targets), lambda: whole.first(targets, sources))

    def make_lists(self, by_source: bool, threads: int) -> None:
        """Makes the lists of all edges ahead of their use."""
        whole = self.made_once("edges", lambda: self._lists(threads))
        if by_source:
            whole.make_by_source(threads)

    def _lists(self, threads: int = 0) -> Neighborhoods:
        made = Neighborhoods.of(self.edge_index, self.num_nodes, self.num_nodes, threads)
        if self._ahead is None:
            return made
        return made.tell(partial(self._ahead.ask, make_lists, BY_SOURCE))


def make_lists(edge_index: Tensor, counts: HopCounts, by_source: bool, threads: int) -> None:
    """Makes the lists of a batch where a model called with its edges finds them."""
    found = Hops.of(edge_index, counts)
    if isinstance(found, Hops) and found.ascending:
        found.make_lists(by_source, threads)


def remember_counts(batch: Any) -> None:
    """Keeps the counts of a batch of any loader by its edges, unless they are known."""
    index = getattr(batch, "edge_index", None)
    nodes = getattr(batch, "num_sampled_nodes", None)
    edges = getattr(batch, "num_sampled_edges", None)
    if nodes is None or edges is None or not isinstance(index, Tensor) or recall(index) is not None:
        return
    try:
        remember(index, tuple(map(int, nodes)), tuple(map(int, edges)))
    except (TypeError, ValueError):
        return  # whatever these are, they are not counts


def ask_ahead(loader: Any) -> None:
    """Has a loader make the lists of all batches of its next loop, from the first one on."""
    ahead = getattr(loader._maker, "ahead", None)
    if ahead is not None and torch.device(loader.device or "cpu").type == "cpu":
        ahead.ask(make_lists, BY_SOURCE)
