"""typed_small: a made-up typed batch of some hundred nodes, on which a model is proven.

It has the types, relations and seeds of a given batch. All numbers of its nodes and edges differ,
so that the rows of a type, and of a hop, are known by their number; there are self-loops, parallel
edges and targets without edges in it. Of two with other seeds the larger types are the others.
"""

from itertools import count, pairwise
from typing import Any

import torch
from torch import Tensor

from foregather.loader.batches.typed_counts import remember_typed
from foregather.nn.accelerated.typed.typed_hops import Relation, RelationHops, TypedHops
from foregather.nn.accelerated.typed.typed_inputs import TypedInputs, Where
from foregather.nn.arguments import count_of

__all__ = ["TypedSmall"]

_SEEDS = 7
_MORE = 5  # new nodes of a type in a hop, at least
_BY_SEED = ("input_id", "seed_id", "seed_time", "seed_position", "y", "target")
#: Positions of seeds or of trees; those of the small batch are fewer.
_POSITIONS = ("batch", "edge_label_index", "src_index", "dst_pos_index", "dst_neg_index")


class TypedSmall:
    """A made-up batch like a given one.

    Args:
        hops: of the batch whose arguments are taken over.
        seed: for its sizes, its edges and its choice of rows.
        widths: numbers that are no number of rows.

    Attributes:
        hops: of this batch.
        leaves: the tensors whose gradients are compared, after `inputs`.
        sums: such batches have the rows of all nodes.
    """

    sums = None

    def __init__(self, hops: TypedHops, seed: int, widths: frozenset[int]) -> None:
        self._whole, self._seed = hops, seed
        self._random = torch.Generator().manual_seed(seed)
        self._taken = set(widths)
        self._nodes = self._node_counts()
        self._edges: dict[Relation, list[int]] = {name: [0] for name in hops.relations}
        self._index = self._made_edges()
        self.leaves: dict[str, Tensor] = {}
        self.hops: TypedHops = self._hops()
        self._rows = {
            name: self._chosen(hops.nodes[name][-1], counts[-1])
            for name, counts in self._nodes.items()
        }
        self._seeds = {
            name: self._chosen(hops.nodes[name][0], counts[0])
            for name, counts in self._nodes.items()
        }
        self._places = {
            name: self._chosen(one.num_edges, self._edges[name][-1])
            for name, one in hops.relations.items()
        }

    # ---- its nodes and edges -----------------------------------------------------------------

    def _number(self, least: int) -> int:
        """The next number that nothing else has."""
        found = next(number for number in count(least) if number not in self._taken)
        self._taken.add(found)
        return found

    def _node_counts(self) -> dict[str, list[int]]:
        """Nodes of each type within each hop: new ones wherever a relation may lead."""
        whole = self._whole
        names = list(whole.nodes)[:: -1 if self._seed else 1]
        reached = {name for name in names if whole.nodes[name][0]}
        made = {name: [self._number(_SEEDS) if name in reached else 0] for name in names}
        for _ in range(whole.depth):
            reached = {source for source, _, target in whole.relations if target in reached}
            for place, name in enumerate(names):
                before = made[name][-1]
                more = _MORE + 2 * place
                made[name].append(self._number(before + more) if name in reached else before)
        return {name: made[name] for name in whole.nodes}

    def _made_edges(self) -> dict[Relation, Tensor]:
        parts: dict[Relation, list[Tensor]] = {name: [] for name in self._edges}
        for hop in range(self._whole.depth):
            covered: set[str] = set()
            for name in self._edges:
                part = self._hop(name, hop, name[0] not in covered)
                if part.shape[1]:
                    covered.add(name[0])
                parts[name].append(part)
                self._edges[name].append(self._edges[name][-1] + part.shape[1])
        return {name: torch.cat(part, dim=1) for name, part in parts.items()}

    def _hop(self, name: Relation, hop: int, covers: bool) -> Tensor:
        """Edges of a relation into the nodes that are new in a hop; none if there are none."""
        sources, targets = self._nodes[name[0]], self._nodes[name[2]]
        first, last = targets[hop - 1] if hop else 0, targets[hop]
        if first == last:
            return torch.empty(2, 0, dtype=torch.int64)
        new = sources[hop + 1] - sources[hop]
        before = self._edges[name][-1]
        number = self._number(before + 2 * new + 3) - before
        # the first target has no edge; every new node is some target's source
        target = self._integers(last - first - 1, number) + first + 1
        source = self._integers(sources[hop + 1], number)
        if covers:
            source[:new] = torch.arange(sources[hop], sources[hop + 1])
        if name[0] == name[2]:
            source[-1] = target[-1]  # a self-loop
        target[-2], source[-2] = target[0], source[0]  # parallel to another edge
        order = torch.argsort(target, stable=True, descending=not self._whole.ascending)
        return torch.stack([source[order], target[order]])

    def _integers(self, high: int, number: int) -> Tensor:
        return torch.randint(max(high, 1), (number,), generator=self._random)

    def _chosen(self, high: int, number: int) -> Tensor:
        """Positions of rows to take, each once if there are enough."""
        if high >= number:
            return torch.randperm(high, generator=self._random)[:number]
        return self._integers(high, number)

    def _hops(self) -> TypedHops:
        nodes = {name: _new(counts) for name, counts in self._nodes.items()}
        edges = {name: _new(counts)[1:] for name, counts in self._edges.items()}
        counts = remember_typed(self._index, nodes, edges)
        made = TypedHops.of(self._index, counts)
        assert isinstance(made, TypedHops), made
        return made

    # ---- calls with it -----------------------------------------------------------------------

    def inputs(self, given: TypedInputs) -> TypedInputs:
        """The same call with this batch: float64, with gradients of everything that can have some.

        `leaves` are then the tensors whose gradients are compared.
        """
        self.leaves = {}
        self._like(given.edges() or {})
        mine = {id(value): name for name, value in (given.edges() or {}).items()}

        def change(name: str, where: Where, value: Any) -> Any:
            if id(value) in mine:
                return self._index[mine[id(value)]]
            if count_of(name) is not None and value is not None and where is not None:
                return self._counts(name, where)
            if isinstance(value, int) and not isinstance(value, bool):
                return self._count(name, where, value)
            return self._tensor(name, where, value) if isinstance(value, Tensor) else value

        return given.changed(change)

    def _like(self, given: dict[Relation, Any]) -> None:
        """Makes the edges tensors of the kind that the given ones are."""
        for name, value in given.items():
            mine = self._index[name].as_subclass(Tensor).to(value.device, value.dtype)
            if type(value).__name__ == "EdgeIndex":
                from torch_geometric import EdgeIndex

                size = (self._nodes[name[0]][-1], self._nodes[name[2]][-1])
                mine = EdgeIndex(mine.clone(), sparse_size=size)
            self._index[name] = mine
        self.hops = self._hops()

    def _counts(self, name: str, where: Where) -> Any:
        if isinstance(where, tuple):
            return _new(self._edges[where])[1:] if where in self._edges else [0] * self.hops.depth
        return _new(self._nodes[where]) if where in self._nodes else None

    def _count(self, name: str, where: Where, value: int) -> int:
        """Of a type; or of the only type with seeds."""
        seeded = [one for one in self._nodes if self._nodes[one][0]]
        of = where if where in self._nodes else seeded[0] if len(seeded) == 1 else None
        if name == "batch_size" and of is not None and value == self._whole.nodes[str(of)][0]:
            return self._nodes[str(of)][0]
        if name.removesuffix("_dict") == "num_nodes" and where in self._nodes:
            return self._nodes[str(where)][-1]
        return value

    def _tensor(self, name: str, where: Where, value: Tensor) -> Tensor:
        chosen = self._selected(name.removesuffix("_dict"), where, value)
        made = value.detach()
        if chosen is not None:
            made = _taken(made, chosen)
        if not made.is_floating_point():
            positions = name.removesuffix("_dict") in _POSITIONS and made.numel()
            seeds = min(counts[0] for counts in self._nodes.values() if counts[0])
            return made % seeds if positions else made.clone()
        made = made.double().clone()  # what is not a number would be in every comparison
        made = made.nan_to_num_(0.0, 0.0, 0.0).requires_grad_()
        self.leaves[f"{name}[{len(self.leaves)}]"] = made
        return made

    def _selected(self, name: str, where: Where, value: Tensor) -> Tensor | None:
        """The rows to take of a tensor of a type or relation; None for all."""
        rows = value.shape[0] if value.ndim else -1
        if isinstance(where, tuple):
            one: RelationHops | None = self._whole.relations.get(where)
            return self._places[where] if one is not None and rows == one.num_edges else None
        if where is None:
            seeded = [kind for kind in self._nodes if self._nodes[kind][0]]
            where = seeded[0] if len(seeded) == 1 and name in _BY_SEED else None
            known = where is not None and rows == self._whole.nodes[where][0]
            return self._seeds[where] if known and where is not None else None
        if where not in self._nodes:
            return None
        counts = self._whole.nodes[where]
        if name in _BY_SEED and rows == counts[0] and (rows != counts[-1] or name != "y"):
            return self._seeds[where]
        return self._rows[where] if rows == counts[-1] else None


def _new(counts: list[int]) -> list[int]:
    return [counts[0], *(after - before for before, after in pairwise(counts))]


def _taken(value: Tensor, chosen: Tensor) -> Tensor:
    if value.shape[0] == 0:  # no row to take
        fill = 1.0 if value.is_floating_point() else 0  # whole numbers may be positions
        return value.new_full((chosen.numel(), *value.shape[1:]), fill)
    return value.as_subclass(Tensor).index_select(0, chosen.to(value.device))
