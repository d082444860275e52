"""triple_spec: what a description says of the facts of a knowledge graph."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["TripleSpec"]


@dataclass(frozen=True)
class TripleSpec:
    """Facts of a knowledge graph: a table of head, relation and tail, and of time where given.

    Attributes:
        file: the table.
        head: its columns, by name or by position from 1.
        relation: the same.
        tail: the same.
        time: the same; None where facts have none.
        type: of the nodes.
        reverse: every relation has a way back.
        header: whether the first line of a text file names the columns; None: as it looks.
    """

    file: Path
    head: str
    relation: str
    tail: str
    time: str | None = None
    type: str = "entity"
    reverse: bool = False
    header: bool | None = None
