"""node_spec: one node type of a description, and its foreign keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from foregather.graph.convert.typed.tables import Table
from foregather.graph.hetero.names import EdgeType

__all__ = ["Foreign", "NodeSpec", "foreign_types"]


@dataclass(frozen=True)
class Foreign:
    """A foreign key: a column whose values name rows of a table, by its id or another column."""

    column: str
    type: str
    key: str | None = None


@dataclass(frozen=True)
class NodeSpec:
    """One node type: a table, or a number of nodes, or neither (then its edges name its nodes)."""

    name: str
    file: Table | None = None
    count: int | None = None
    id: str | None = None
    ids: str = "auto"
    labels: str | None = None
    time: str | None = None
    split: str | None = None
    features: tuple[str, ...] = ()
    arrays: Mapping[str, Path] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    foreign: tuple[Foreign, ...] = ()


def foreign_types(node: NodeSpec) -> dict[EdgeType, Foreign]:
    """The relations that the foreign keys of a table are."""
    return {(node.name, f"f2p_{key.column}", key.type): key for key in node.foreign}
