"""recipe: the options of a synthetic typed graph, checked once and resolved to plain numbers.

A `TypedRecipe` that exists is valid. Equal recipes give equal bytes on every machine.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from foregather.errors import InputError
from foregather.graph.hetero.names import EdgeType
from foregather.units import format_count

__all__ = ["GENERATOR", "Pair", "TypedRecipe"]

#: Incremented whenever the same recipe starts to give different bytes.
GENERATOR = 1
_MOST_TYPES = 1000
_MOST_COMMUNITIES = 64  # per class
_SMALL_COMMUNITY = 4  # nodes of the smallest type that make up one


class Pair(NamedTuple):
    """A relation that is drawn, and where it is turned round as well, the name of that."""

    source: int
    target: int
    name: EdgeType
    reverse: EdgeType | None
    edges: int


def _need(valid: bool, message: str) -> None:
    if not valid:
        raise InputError(message)


@dataclass(frozen=True)
class TypedRecipe:
    """What a synthetic typed graph is made of.

    Types are called t0, t1, ...; each has about half the nodes of the one before. t0 has labels and
    splits. Relations come in pairs, one way and back (`rev_...`): first from every other type to
    t0, then from t0 to itself, then among the others.

    Attributes:
        nodes: number of nodes of all types together.
        edges: number of edges of all relations together; None takes 16 per node.
        types: number of node types.
        relations: number of relations; None takes one pair for each type.
        features: columns of the float32 features `x` of each type, 0 for none.
        classes: number of classes of t0.
        times: "none", "node" (t0, t2, ... have times) or "edge" (all relations have).
        weights: edges have weights.
        skew: 1, 2, 4 or 8; in-degrees follow a power law of exponent none, 3, 2.33 or 2.14.
        mixing: share of the sources drawn from everywhere; the rest come from the community.
        label_noise: share of labels replaced by a random class.
        signal: norm of a class centroid; the noise has unit variance in every column.
        split: shares of train, val and test.
        seed: any integer from 0 to 2^64 - 1.
    """

    nodes: int
    edges: int | None = None
    types: int = 3
    relations: int | None = None
    features: int = 16
    classes: int = 8
    times: Literal["none", "node", "edge"] = "none"
    weights: bool = False
    skew: int = 4
    mixing: float = 0.5
    label_noise: float = 0.05
    signal: float = 1.75
    split: tuple[float, float, float] = (0.6, 0.2, 0.2)
    seed: int = 0

    def __post_init__(self) -> None:
        _need(
            1 <= self.types <= _MOST_TYPES,
            f"types is {self.types}, expected from 1 to {_MOST_TYPES}",
        )
        _need(
            self.relations is None or 1 <= self.relations <= 2 * _MOST_TYPES,
            f"relations is {self.relations}, expected from 1 to {2 * _MOST_TYPES}",
        )
        _need(
            self.times in ("none", "node", "edge"),
            f"times is {self.times!r}, expected none, node or edge",
        )
        _need(0 <= self.features <= 1 << 20, f"features is {self.features}, expected 0 to 2^20")
        _need(1 <= self.classes <= 1 << 15, f"classes is {self.classes}, expected from 1 to 2^15")
        _need(
            0 <= self.seed < 1 << 64,
            f"seed is {self.seed}, expected an integer from 0 to 2^64 - 1",
        )
        _need(1 <= self.nodes < 1 << 40, f"nodes is {self.nodes}, expected from 1 to 2^40")
        _need(0 <= self.num_edges < 1 << 40, f"edges is {self.num_edges}, expected 0 to 2^40")
        least = self.sizes[-1]
        _need(
            least >= self.classes,
            f"the smallest of {self.types} types would have {format_count(least)} of the "
            f"{format_count(self.nodes)} nodes, fewer than {self.classes} classes; give more nodes "
            "or fewer types",
        )
        for pair in self.pairs:
            most = self.sizes[pair.target] * (self.sizes[pair.target] - 1)
            _need(
                pair.edges <= most,
                f"the relation to {self.type_names[pair.target]} would have "
                f"{format_count(pair.edges)} edges, but its {format_count(self.sizes[pair.target])}"
                f" nodes take at most {format_count(most)}; give fewer edges",
            )

    @property
    def num_edges(self) -> int:
        """Number of edges requested."""
        return 16 * self.nodes if self.edges is None else self.edges

    @property
    def num_relations(self) -> int:
        """Number of relations."""
        return max(2, 2 * (self.types - 1)) if self.relations is None else self.relations

    @cached_property
    def type_names(self) -> tuple[str, ...]:
        """Names of the types, in the order of their numbers."""
        width = len(str(self.types - 1))
        return tuple(f"t{number:0{width}d}" for number in range(self.types))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each type; they add up to `nodes`."""
        shares = [2.0 ** -min(number, 16) for number in range(self.types)]
        found = [int(self.nodes * share / sum(shares)) for share in shares]
        found[0] += self.nodes - sum(found)
        return tuple(found)

    @property
    def communities(self) -> int:
        """Communities that every type has; a multiple of the classes."""
        usual = self.sizes[-1] // (_SMALL_COMMUNITY * self.classes)
        return self.classes * max(1, min(usual, _MOST_COMMUNITIES))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The relations that are drawn, with their edges."""
        count = self.num_relations
        star = [(other, 0) for other in range(1, self.types)]
        ends = [*star, (0, 0)]
        ends += [(a, b) for b in range(1, self.types) for a in range(self.types)]
        each = self.num_edges // count
        names = self.type_names
        found = []
        for number in range((count + 1) // 2):
            source, target = ends[number % len(ends)]
            way = names[source], f"r{number}", names[target]
            alone = 2 * number + 1 == count
            back = None if alone else (names[target], f"rev_r{number}", names[source])
            found.append(Pair(source, target, way, back, each))
        return tuple(found)

    def provenance(self) -> dict[str, Any]:
        """The provenance for meta.json: enough to make the graph again."""
        fields = asdict(self)
        fields.update(edges=self.num_edges, relations=self.num_relations, split=list(self.split))
        return {"source": "synth --types", "generator": GENERATOR, **fields}
