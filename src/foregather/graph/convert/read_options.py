"""read_options: how a source is read where it does not say so itself; no kind takes all."""

from dataclasses import dataclass, fields

from foregather.errors import InputError
from foregather.graph.convert.nodes.node_options import NodeFile

__all__ = ["ReadOptions"]

_FLAGS = {
    "num_nodes": "nodes",
    "table": "node-table",
    "skip_columns": "skip-columns",
}  # where the command line has another name


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How `convert` reads a source.

    Attributes:
        ids: "dense" uses integers as they are, "sparse" renumbers integers, "string" numbers
            text, "auto" looks.
        num_nodes: vertex count, where the source does not say it.
        columns: source and target column of a table, by name or position.
        weight: weight column of a table.
        header: whether the first line of an edge list is a header; None looks, and refuses a
            line that could be an edge as well.
        table: a table of nodes that belongs to the edges.
        strict: refuse foreign keys of tables of several types that point nowhere, which are
            otherwise counted and left out, and facts that two files of links have.
        skip_columns: columns of a database that are left out, each as "table.column".
    """

    ids: str = "auto"
    num_nodes: int | None = None
    columns: tuple[str, ...] | None = None
    weight: str | None = None
    header: bool | None = None
    table: NodeFile | None = None
    strict: bool = False
    skip_columns: tuple[str, ...] = ()

    def only(self, what: str, *allowed: str) -> None:
        """Refuses every option that is given and that such a source has no use for.

        Raises:
            InputError: names the option and the kind of source.
        """
        for part in fields(self):
            if part.name not in allowed and getattr(self, part.name) != part.default:
                flag = _FLAGS.get(part.name, part.name)
                raise InputError(f"--{flag} does not apply to {what}; leave it out")
