"""schema: what a typed model is made for: types, relations, and the arrays of each type.

It is a plain value that JSON can hold, so a model can be made again without the graph. Types and
relations are numbered by their sorted names; models use the numbers, so names may be anything.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foregather.graph.hetero.names import EdgeType

__all__ = ["ArraySchema", "Schema", "TypeSchema"]

_MOST = 1 << 48  # an implausible number of nodes, columns or categories


@dataclass(frozen=True)
class ArraySchema:
    """One feature array of a node type.

    Attributes:
        name: of the array.
        width: columns of numbers; 0 for categories.
        missing: some of its numbers are NaN, so each column has an indicator.
        categories: number of categories; 0 for numbers.
        names: digest of the names of the categories; empty for numbers.
    """

    name: str
    width: int
    missing: bool = False
    categories: int = 0
    names: str = ""


@dataclass(frozen=True)
class TypeSchema:
    """One node type.

    Attributes:
        name: of the type.
        num_nodes: of the graph that the model was made for.
        arrays: what the model takes, by name; empty: its nodes have learned rows.
        timed: its nodes have times.
    """

    name: str
    num_nodes: int
    arrays: tuple[ArraySchema, ...]
    timed: bool

    @property
    def learned(self) -> bool:
        """Whether each node has a row of weights of its own, since nothing else is known."""
        return not any(one.width or one.categories for one in self.arrays)


@dataclass(frozen=True)
class Schema:
    """A typed graph, as a model sees it.

    Attributes:
        target: the node type that is classified.
        classes: columns of scores.
        nodes: the node types, sorted by name.
        edges: the relations, sorted.
        span: the time between the first and the last node that has one; 0 where times are not
            encoded.
    """

    target: str
    classes: int
    nodes: tuple[TypeSchema, ...]
    edges: tuple[EdgeType, ...]
    span: int = 0

    @property
    def node_types(self) -> tuple[str, ...]:
        """Names of the node types."""
        return tuple(one.name for one in self.nodes)

    @property
    def place(self) -> int:
        """The number of the target type."""
        return self.node_types.index(self.target)

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Numbers of the source and the target type of each relation."""
        number = {name: place for place, name in enumerate(self.node_types)}
        return tuple((number[source], number[end]) for source, _, end in self.edges)

    @property
    def width(self) -> int:
        """Columns of numbers of all types together; at least 1."""
        return max(1, sum(array.width for one in self.nodes for array in one.arrays))

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> "Schema":
        """Reads what `as_dict` gave.

        Raises:
            ValueError, KeyError, TypeError: it did not.
        """
        nodes = tuple(
            TypeSchema(
                _text(one["name"]),
                _count(one["num_nodes"]),
                tuple(_array(array) for array in one["arrays"]),
                bool(one["timed"]),
            )
            for one in found["nodes"]
        )
        edges = tuple((_text(a), _text(b), _text(c)) for a, b, c in found["edges"])
        made = Schema(
            _text(found["target"]),
            _count(found["classes"]),
            nodes,
            edges,
            _count(found["span"]),
        )
        if made.classes < 1 or list(made.node_types) != sorted(set(made.node_types)):
            raise ValueError("node types or classes are impossible")
        if made.target not in made.node_types or any(
            end not in made.node_types for one in edges for end in (one[0], one[2])
        ):
            raise ValueError("a node type is not there")
        return made


def _array(found: Mapping[str, Any]) -> ArraySchema:
    return ArraySchema(
        _text(found["name"]),
        _count(found["width"]),
        bool(found["missing"]),
        _count(found["categories"]),
        _text(found["names"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a name is not a text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError("a count has an impossible value")
    return value
