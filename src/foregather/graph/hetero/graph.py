"""graph: the `HeteroGraph` value: node tables and relations by name.

What is not known about a plain graph is not asked of it: a folder of version 1 opens as one type
and one relation, and keeps its digest.
"""

import os
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, InputError
from foregather.files import absolute
from foregather.graph.graph import Graph
from foregather.graph.hetero.describe import describe_typed
from foregather.graph.hetero.names import PLAIN_RELATION, EdgeType, about, show_edge_type
from foregather.graph.hetero.on_disk.folder import compute_digest, open_typed, save_typed
from foregather.graph.hetero.on_disk.verify import verify_typed
from foregather.graph.hetero.plain import graph_of, parts_of
from foregather.graph.hetero.pyg.from_pyg import parts_from_pyg
from foregather.graph.hetero.pyg.to_pyg import data_of
from foregather.graph.hetero.relation import Level
from foregather.graph.hetero.time_order import turned
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.integrity.verify import Report, verify
from foregather.graph.links.links import Links
from foregather.graph.on_disk.meta import read_meta

__all__ = ["HeteroGraph", "is_typed_folder"]


def is_typed_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds node types and relations (format version 2 or 4).

    Raises:
        FormatError: it is not a graph folder.
        StorageError: it cannot be read.
    """
    return read_meta(absolute(path), with_tables=False).typed


def reopen(path: str, digest: str) -> "HeteroGraph":
    """Reopens the graph of a folder, for unpickling.

    Raises:
        FormatError: the folder now holds another graph, or none.
        StorageError: it cannot be opened.
    """
    graph = HeteroGraph.open(path)
    if graph.digest != digest:
        raise FormatError(
            f"the graph that was pickled has the digest {digest}, but {Path(path).name} now holds "
            f"one with {graph.digest}; open the folder where the graph is needed"
        )
    return graph


def rebuild(nodes: Any, edges: Any, meta: Any, links: Any = ()) -> "HeteroGraph":
    """Makes a graph from its parts, for unpickling."""
    return HeteroGraph(nodes, edges, meta, links=dict(links))


class HeteroGraph(HeteroValue):
    """A graph of several node types and relations, with times where they are known.

    Attributes:
        nodes: a `NodeTable` for each node type, by name.
        edges: a `Relation` for each (source type, relation, target type).
        meta: facts about the graph; for one from a folder everything in its meta.json.
        path: the folder that the graph is read from, or None; a copy with other arrays
            (`dataclasses.replace`) has none.
        checked: whether the folder has block checksums, so that every byte is checked when it is
            read.
        links: `Links` by relation and name (train, valid, test): pairs of nodes to be predicted,
            which are no edges; `with_links` and `split_links` make them.
    """

    @staticmethod
    def open(path: str | os.PathLike[str]) -> "HeteroGraph":
        """Opens a graph folder; arrays are memory-mapped, so this takes milliseconds.

        The folder of a plain graph is one type, `node`, and one relation, `(node, to, node)`.
        Metadata, headers and file sizes are checked here; `verify` checks the contents.

        Raises:
            FormatError: the folder is not what meta.json says, or not a graph folder.
            StorageError: a file cannot be opened.
        """
        folder = absolute(path)
        meta = read_meta(folder)
        if meta.typed:
            return open_typed(folder, meta, HeteroGraph)
        return HeteroGraph.from_graph(Graph.open(folder))

    @staticmethod
    def from_graph(graph: Graph) -> "HeteroGraph":
        """A plain graph as one type, `node`, and one relation, `(node, to, node)`.

        Digest and folder stay those of the graph; `as_graph` gives it back.

        Raises:
            InputError: its edge features are scaled, which those of a relation are not.
        """
        links = {PLAIN_RELATION: graph.links}
        made = HeteroGraph(*parts_of(graph), graph.meta, links=links)
        for name, value in (("path", graph.path), ("checked", graph.checked), ("_plain", graph)):
            object.__setattr__(made, name, value)
        return made

    @staticmethod
    def from_pyg(data: Any, threads: int = 0, links: str | None = "train") -> "HeteroGraph":
        """Builds a graph from a PyG `HeteroData`, or from a `Data` as one type and one relation.

        Of a node type these are taken: `num_nodes`, `y` (labels), `time`, `train_mask`,
        `val_mask`, `test_mask` (or `_idx`), and every other tensor of one row per node as a
        feature array of its name. Of a relation: `edge_index`, `edge_attr`, `edge_weight` (as
        float32), `time`, and `edge_label_index`, `edge_label` and `edge_label_time` as its links
        (zeros among labels of zeros and ones are pairs that are no links). A warning names what is
        left out.

        Args:
            data: any object with those attributes; PyG itself is not needed.
            threads: 0 uses all cores; the result is the same for any number.
            links: the name that links get, such as "valid"; None leaves them out.

        Raises:
            InputError: ids that are no nodes of their type, times that are floats or missing, or
                shapes that do not fit; names the type or relation.
        """
        nodes, edges, found = parts_from_pyg(data, threads, links)
        return HeteroGraph(nodes, edges, links=found)

    def to_pyg(self) -> Any:
        """The graph as a PyG `HeteroData` in memory, edges in the order in which they were given.

        Splits become masks (`_idx` where their order or repeats matter); original ids stay behind,
        in `nodes[type].ids`.

        Raises:
            MissingDependencyError: PyG is not installed.
            InputError: a feature has the name of something else in PyG.
        """
        return data_of(self)

    def as_graph(self) -> Graph:
        """The plain graph of a graph with one type and one relation.

        Raises:
            InputError: there are more, or times, or several feature arrays.
        """
        return self._plain if isinstance(self._plain, Graph) else graph_of(self)

    def save(self, dst: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Writes the graph as a folder that `open` reads; that of a plain graph has version 1.

        Raises:
            StorageError: `dst` exists (and `overwrite` is off) or cannot be written.
        """
        if isinstance(self._plain, Graph):
            return self._plain.save(dst, overwrite)
        return save_typed(self, dst, overwrite)

    def verify(self, threads: int = 0) -> Report:
        """Checks every byte, every id and every time.

        Raises:
            FormatError: names the file, or the type or relation, and the first problem.
            StorageError: a file cannot be read.
        """
        if isinstance(self._plain, Graph):
            return verify(self._plain, threads)
        return verify_typed(self, threads)

    def info(self) -> dict[str, Any]:
        """Counts, degrees, times, labels and bytes of each type and relation, as JSON values."""
        return describe_typed(self)

    @property
    def digest(self) -> str:
        """Identifies the contents: equal graphs have equal digests, in memory and on disk.

        A plain graph has its own digest. A graph in memory, or a changed copy of one from a folder,
        is hashed on first use (seconds for a few gigabytes).
        """
        if isinstance(self._plain, Graph):
            return self._plain.digest
        if not self._opened:
            self._opened.append(compute_digest(self))
        return self._opened[0]

    def with_time_order(self, level: Level) -> "HeteroGraph":
        """The same graph with the rows of every relation as `relation(edge_type, level)` has them.

        Saved, it opens with rows that need not be sorted again.

        Args:
            level: "node" orders rows by the times of their sources, "edge" by those of the edges.

        Raises:
            InputError: the graph has no times of that level, or a relation has times of both.
        """
        edges = dict(self.edges)
        for name, own in self.edges.items():
            found = self.relation(name, level)
            if found.time is None:
                continue  # nothing limits it
            if level == "node" and own.time is not None and own.time_level == "edge":
                raise InputError(
                    f"relation {show_edge_type(name)} has times of its edges, which those of its "
                    "sources would replace; leave one of them out with dataclasses.replace"
                )
            edges[name] = found
        return HeteroGraph(self.nodes, edges, self.facts, links=self.links)

    def with_links(
        self,
        name: str,
        index: Any,
        *,
        relation: EdgeType | None = None,
        labels: Any = None,
        time: Any = None,
        negatives: Any = None,
        candidates: Any = None,
    ) -> "HeteroGraph":
        """The same graph with links of that name, which replace any that the relation has.

        Edges stay as they are: a link that is also an edge is seen by models as such.

        Args:
            name: train, valid, test or another name.
            index: [2, links] tensor or array: row 0 the sources, row 1 the targets.
            relation: the edge type that is predicted; None where there is one.
            labels: one row of numbers per link: a rating or a class.
            time: [links] whole numbers, or datetime64, which becomes seconds since 1970.
            negatives: [2, n] pairs that are no links, which all links are compared with.
            candidates: [links, n] targets that each link is compared with.

        Raises:
            InputError: no such relation, an id that is no node of its type, something that does
                not fit, or times on one side only.
        """
        if isinstance(self._plain, Graph):
            self.linked_relation(relation)
            plain = self._plain.with_links(
                name,
                index,
                labels=labels,
                time=time,
                negatives=negatives,
                candidates=candidates,
            )
            return HeteroGraph.from_graph(plain)
        edge_type = self.linked_relation(relation)
        with about(f"relation {show_edge_type(edge_type)}"):
            made = Links.of(
                index,
                self.nodes[edge_type[0]].num_nodes,
                self.nodes[edge_type[2]].num_nodes,
                labels=labels,
                time=time,
                negatives=negatives,
                candidates=candidates,
            )
        own = {**self.links.get(edge_type, {}), name: made}
        links = {**self.links, edge_type: own}
        return HeteroGraph(self.nodes, self.edges, self.facts, links=links)

    def with_reverse(self) -> "HeteroGraph":
        """The same graph with `rev_NAME` back along every relation NAME that has no way back.

        Edges of both ways share weights, times, features and edge ids. A relation called `rev_NAME`
        gets none, nor does one that has its `rev_NAME` already.

        Raises:
            InputError: a relation is damaged, or times of nodes are copied to edges.
        """
        edges = dict(self.edges)
        for (source, name, target), own in self.edges.items():
            back = (target, f"rev_{name}", source)
            if name.startswith("rev_") or back in self.edges:
                continue
            if own.time_level == "node":
                raise InputError(
                    f"the rows of relation {show_edge_type((source, name, target))} are ordered by "
                    "the times of its sources; add the ways back first, then order rows by time"
                )
            walked = self.relation((source, name, target))
            edges[back] = turned(walked, self.nodes[source].num_nodes, own.order)
        return HeteroGraph(self.nodes, edges, self.facts, links=self.links)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles a graph from a folder as its path and digest, any other by its arrays."""
        if isinstance(self._plain, Graph):
            return HeteroGraph.from_graph, (self._plain,)
        if self.path is not None and self.meta["digest"] == self.digest:
            return reopen, (str(self.path), self.digest)
        links = {name: dict(lists) for name, lists in self.links.items()}
        return rebuild, (dict(self.nodes), dict(self.edges), self.facts, links)

    def __copy__(self) -> "HeteroGraph":
        return self  # nothing in it can be changed
