"""graph: the `HeteroGraph` value: node tables and relations by name."""

from foregather.graph.hetero.relation import Level
from foregather.graph.hetero.value import HeteroValue

__all__ = ["HeteroGraph"]


class HeteroGraph(HeteroValue):
    """A graph of several node types and relations.

    Attributes:
        nodes: a `NodeTable` for each node type, by name.
        edges: a `Relation` for each (source type, relation, target type).
        meta: facts about the graph; for one from a folder everything in its meta.json.
        path: the folder that the graph is read from, or None.
        checked: whether the folder has block checksums, so that every byte is checked when it is
            read.
    """

    def with_time_order(self, level: Level) -> "HeteroGraph":
        """The same graph with the rows of every relation as `relation(edge_type, level)` has them.

        Saved, it opens with rows that need not be sorted again.

        Args:
            level: "node" orders rows by the times of their sources, "edge" by those of the edges.

        Raises:
            InputError: the graph has no times of that level.
        """
        return HeteroGraph(
            self.nodes, {name: self.relation(name, level) for name in self.edges}, self.facts
        )
