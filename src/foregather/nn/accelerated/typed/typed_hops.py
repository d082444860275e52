"""typed_hops: the order of a typed batch, that of each relation checked against its edges.

With N_t,h nodes of type t within h hops of the seeds and M_r,h edges of a relation r from s to t
into the first N_t,h-1 of them: the first M_r,h edges of r are all edges into those nodes, and come
from the first N_s,h of s. As that holds for every relation, the rows that a layer needs h layers
before the result are the first N_t,h of each type, however the layers mix the relations.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

import torch
from torch import Tensor

from foregather.loader.batches.pyg_batch import plain_tensor
from foregather.loader.batches.typed_counts import TypedCounts
from foregather.nn.accelerated.hops import Hops, Order
from foregather.nn.aggregate import Neighborhoods
from foregather.nn.hop_order import order_of

__all__ = ["Relation", "RelationHops", "TypedHops", "place_of"]

Relation = tuple[str, str, str]
_UNFIT = "the counts of sampled nodes and edges do not fit the edges of the batch"


def place_of(edge_index: Tensor) -> tuple[Any, ...] | None:
    """Where the edges lie in memory, the same for the first of them; None if there are none."""
    edge_index = plain_tensor(edge_index)
    start = edge_index.untyped_storage().data_ptr()
    if start == 0:
        return None
    return start, edge_index.storage_offset(), edge_index.stride(), edge_index.dtype


class RelationHops(Hops):
    """The hops of one relation.

    Attributes:
        nodes: of the type of the targets.
        sources: of the type of the sources.
        name: source type, relation, target type.
    """

    typed = True

    def __init__(
        self, name: Relation, edge_index: Tensor, nodes: Mapping[str, Any], edges: Sequence[int]
    ) -> None:
        super().__init__(edge_index, nodes[name[2]], edges)
        self.name, self.sources = name, tuple(accumulate(nodes[name[0]]))

    @property
    def within(self) -> bool:
        """Whether sources and targets are of one type."""
        return self.name[0] == self.name[2]

    def _wrong(self) -> str | None:
        found = order_of(self.edge_index, self.sources, self.nodes, self.edges)
        if found is None:
            return _UNFIT
        self.ascending = found
        return None

    def neighborhoods(self, sources: int, targets: int) -> Neighborhoods:
        """The edges into the first targets, by target."""
        whole = self.made_once(
            "edges",
            lambda: Neighborhoods.of(self.edge_index, self.sources[-1], self.nodes[-1]),
        )
        return self.made_once((sources, targets), lambda: whole.first(targets, sources))


class TypedHops(Order):
    """The checked hops of one typed batch.

    Attributes:
        nodes: N_t,0, ..., N_t,L of each type.
        relations: those that the model is given.
        ascending: targets ascend in all of them, so that kernels can be used.
    """

    typed = True

    def __init__(self, nodes: Mapping[str, Sequence[int]], relations: dict[Relation, RelationHops]):
        self.nodes = {name: tuple(accumulate(counts)) for name, counts in nodes.items()}
        self.relations = relations
        self.ascending = all(one.ascending for one in relations.values())
        self._places: dict[Any, Relation] = {}
        self._made: dict[Any, Any] = {}
        for one in relations.values():
            one.ascending = self.ascending

    @classmethod
    def of(cls, index: Mapping[Relation, Tensor], counts: TypedCounts) -> "TypedHops | str":
        """Checks the counts of a batch; returns what is wrong if they do not fit its edges."""
        key = tuple(index)
        if key not in counts.checked:
            counts.checked[key] = cls._checked(index, counts)
        found: TypedHops | str = counts.checked[key]
        return found

    @classmethod
    def _checked(cls, index: Mapping[Relation, Tensor], counts: TypedCounts) -> "TypedHops | str":
        depths = {len(new) - 1 for new in counts.nodes.values()}
        if len(depths) != 1 or any(min(new) < 0 for new in counts.nodes.values()):
            return _UNFIT
        relations = {}
        for name, edge_index in index.items():
            missing = name not in counts.edges or {name[0], name[2]} - counts.nodes.keys()
            if missing or len(counts.edges[name]) not in depths:
                return _UNFIT
            one = RelationHops(name, edge_index, counts.nodes, counts.edges[name])
            if (wrong := one._wrong()) is not None:
                return wrong
            relations[name] = one
        made = cls(counts.nodes, relations)
        for name, edge_index in index.items():
            place = place_of(edge_index)
            if place is not None and made._places.setdefault(place, name) != name:
                return "two relations of the batch share the memory of their edges"
        return made

    @property
    def depth(self) -> int:
        """L, the number of hops."""
        return len(next(iter(self.nodes.values()))) - 1

    @property
    def kind(self) -> tuple[Any, ...]:
        """What of the order a proof depends on: hops, kernels, where the seeds are."""
        seeded = tuple(name for name, counts in self.nodes.items() if counts[0])
        return "typed", self.depth, self.ascending, tuple(self.nodes), seeded

    @property
    def has_small_hops(self) -> bool:
        """Whether a type has one node after some hop, whose row would be taken for a constant."""
        return any(1 in counts for counts in self.nodes.values())

    @property
    def row_sets(self) -> tuple[frozenset[int], ...]:
        """Numbers of rows after each hop, by type."""
        return tuple(frozenset(counts) for counts in self.nodes.values())

    @property
    def count_sets(self) -> tuple[Sequence[int], ...]:
        """Numbers of nodes and edges after each hop, by type and relation."""
        return (*self.nodes.values(), *(one.edges for one in self.relations.values()))

    def seeds_among(self, rows: int) -> int | None:
        """How many of this many rows are seeds', if no two types have equally many rows."""
        if rows == 0:
            return 0
        return next((counts[0] for counts in self.nodes.values() if rows in counts), None)

    def relation_of(self, value: Any) -> Relation | None:
        """The relation whose edges, or first edges, a tensor is; None if it is of none."""
        if not isinstance(value, Tensor) or value.ndim != 2 or value.layout != torch.strided:
            return None
        if value.shape[0] != 2 or value.is_floating_point():
            return None
        place = place_of(value)
        return None if place is None else self._places.get(place)

    def is_edges(self, value: Any, name: Relation) -> bool:
        """Whether a tensor is all edges of a relation, which may be none."""
        count = self.relations[name].num_edges
        if not isinstance(value, Tensor) or value.ndim != 2 or value.shape[1] != count:
            return False
        if count == 0:
            return value.shape[0] == 2 and not value.is_floating_point()
        return self.relation_of(value) == name

    def set_order(self, order: Literal["sums first", "maps first"] | None) -> None:
        """Sets the order of sums and maps, of all relations."""
        super().set_order(order)
        for one in self.relations.values():
            one.set_order(order)

    def made_once(self, key: Any, make: Any) -> Any:
        """What `make` gives, made once for the batch."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
