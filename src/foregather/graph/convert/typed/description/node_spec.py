"""node_spec: one node type of a description, and its foreign keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from foregather.errors import InputError
from foregather.graph.convert.typed.tables import Table
from foregather.graph.hetero.names import EdgeType

__all__ = ["Foreign", "NodeSpec", "check_named", "foreign_types"]


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
    header: bool | None = None  # whether the first line of text names columns; None: as it looks

    @property
    def numbered(self) -> bool:
        """Whether what names its nodes names them by row numbers from 0."""
        return self.id is None and (self.file is not None or self.count is not None)

    @property
    def by_rows(self) -> bool:
        """Whether it was said that row numbers from 0 name its nodes."""
        return self.numbered and (self.ids == "rows" or self.file is None)


def check_named(node: NodeSpec, where: str) -> None:
    """Refuses to join a column to row numbers of a table that nobody said are its ids.

    Args:
        node: the type that a column names.
        where: the column, as a message calls it.

    Raises:
        InputError: the table has no id, and row numbers are not asked for.
    """
    if node.file is not None and node.numbered and not node.by_rows:
        raise InputError(
            f"{where} names rows of node type {node.name!r}, whose table {node.file.name} has no "
            f'id; set id = "column" in [nodes.{node.name}], or ids = "rows" if they are row '
            "numbers from 0"
        )


def foreign_types(node: NodeSpec) -> dict[EdgeType, Foreign]:
    """The relations that the foreign keys of a table are."""
    return {(node.name, f"f2p_{key.column}", key.type): key for key in node.foreign}
