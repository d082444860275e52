"""graph: the `Graph` value: topology, features, labels and splits.

A Graph is frozen and its arrays fit together. Topology is CSC: the in-neighbours of node v are
`indices[indptr[v]:indptr[v + 1]]`, ascending. Arrays are in memory or memory-mapped; computations
first read mapped ones into memory (`graph.load`).
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError
from foregather.graph.build import fields_from_edges, fields_from_pyg
from foregather.graph.from_others import from_matrix, from_named, from_networkx
from foregather.graph.graph_value import GraphValue, plain_fields
from foregather.graph.integrity.verify import Report, verify
from foregather.graph.links.links import Links
from foregather.graph.on_disk.folder import compute_digest, open_graph, save_graph
from foregather.graph.original_ids import find_nodes, original_ids

__all__ = ["Graph"]


def reopen(path: str, digest: str) -> "Graph":
    """Reopens the graph of a folder, for unpickling.

    Raises:
        FormatError: the folder now holds another graph, or none.
        StorageError: it cannot be opened.
    """
    graph = Graph.open(path)
    if graph.digest != digest:
        raise FormatError(
            f"the graph that was pickled has the digest {digest}, but {graph.path} now holds one "
            f"with {graph.digest}; open the folder where the graph is needed"
        )
    return graph


def rebuild(fields: dict[str, Any]) -> "Graph":
    """Makes a graph from its fields, for unpickling."""
    return Graph(**fields)


class Graph(GraphValue):
    """A directed graph with what is known about its nodes and edges.

    Attributes:
        num_nodes: N; node ids are 0 to N - 1.
        num_edges: E, parallel edges counted.
        indptr: int64 [N + 1].
        indices: sources, uint32 [E] (int64 beyond 2^32 nodes), ascending inside a row.
        features: one row per node, or None.
        edge_weight: float32 [E] in the order of `indices`, or None.
        edge_features: one row per edge in the order of `indices`, or None.
        labels: [N] integers with -1 for missing, or [N, C] multi-label, or floats; or None.
        splits: node ids (int64) by name: train, valid, test.
        edge_ids: int64 [E], only for graphs made from an edge_index: the input position of each
            edge, -1 for a self-loop that was added.
        extra: further arrays of the folder: `mapping`, or `mapping_bytes` and `mapping_offsets`,
            the ids of the source (see `original_ids`), and any arrays added by others. They are
            not in batches.
        meta: facts: labels, features, undirected, self_loops, duplicates, provenance; for a graph
            from a folder everything in its meta.json.
        path: the folder that the graph is read from, or None; a copy with other topology or
            features (`dataclasses.replace`) has none, one with other labels or splits keeps it.
        checked: whether the folder has block checksums, so that every byte is checked when it is
            read; `foregather verify --add-checks` adds them.
        links: `Links` by name (train, valid, test): pairs of nodes to be predicted, which are no
            edges; `with_links` and `split_links` make them.
    """

    __slots__ = ()

    @staticmethod
    def open(path: str | os.PathLike[str]) -> "Graph":
        """Opens a graph folder; arrays are memory-mapped, so this takes milliseconds.

        Metadata, headers and file sizes are checked here; `verify` checks the contents.

        Raises:
            FormatError: the folder is not what meta.json says, or not a graph folder.
            StorageError: a file cannot be opened.
        """
        return open_graph(Path(path), Graph)

    @staticmethod
    def from_edge_index(
        edge_index: Any,
        num_nodes: int | None = None,
        *,
        x: Any = None,
        y: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        splits: Mapping[str, Any] | None = None,
        undirected: bool = False,
        self_loops: bool = False,
        dedup: bool = False,
        threads: int = 0,
    ) -> "Graph":
        """Builds a graph in memory from edges in any order.

        Args:
            edge_index: [2, E] tensor or array, row 0 the sources, row 1 the targets.
            num_nodes: N; None takes the rows of `x` or `y`, or 1 + the largest id.
            x: node features [N, D].
            y: labels [N], [N, 1] or [N, C]; NaN or -1 is missing.
            edge_weight: [E] numbers.
            edge_attr: edge features [E] or [E, D].
            splits: node ids or boolean masks by name.
            undirected: add the reverse of every edge, then remove duplicates.
            self_loops: add one to each node that has none (weight 1, features 0).
            dedup: keep only the first of several edges with the same source and target.
            threads: 0 uses all cores; the result is the same for any number.

        Raises:
            InputError: ids out of range, not whole numbers, or shapes that do not fit.
        """
        fields = fields_from_edges(
            edge_index,
            num_nodes,
            columns={"x": x, "y": y, "edge_weight": edge_weight, "edge_attr": edge_attr},
            splits=splits or {},
            undirected=undirected,
            self_loops=self_loops,
            dedup=dedup,
            threads=threads,
        )
        return Graph(**fields)

    @staticmethod
    def from_pyg(data: Any, **options: Any) -> "Graph":
        """Builds a graph from a PyG `Data`: edge_index, x, y, edge_weight, edge_attr and masks.

        Its links (`edge_label_index`, `edge_label`, `edge_label_time`) become the links "train".
        Where labels are zeros and ones, zeros are pairs that are no links (`negatives`).

        Args:
            data: any object with those attributes; PyG itself is not needed.
            options: undirected, self_loops, dedup and threads of `from_edge_index`; links: another
                name for the links, such as "valid", or None to leave them out.

        Raises:
            InputError: heterogeneous data, no edge_index, or links that do not fit.
        """
        return Graph(**fields_from_pyg(data, **options))

    @staticmethod
    def from_scipy(matrix: Any, **options: Any) -> "Graph":
        """Builds a graph from a sparse matrix: entry (u, v) is the edge from u to v, its weight.

        Args:
            matrix: a square matrix of `scipy.sparse`, or the path of one saved by `save_npz`;
                SciPy itself is not needed for a path. Weights that are all 1 are left out.
            options: x, y, splits, undirected, self_loops, dedup and threads of `from_edge_index`.

        Raises:
            InputError: it is not a square sparse matrix.
            FormatError: the file is damaged.
        """
        return Graph.from_edge_index(**from_matrix(matrix), **options)

    @staticmethod
    def from_networkx(graph: Any, weight: str | None = None, **options: Any) -> "Graph":
        """Builds a graph from one of networkx; `original_ids` gives its names of nodes.

        Args:
            graph: of any kind; an undirected edge is stored in both directions.
            weight: the attribute of edges that is their weight; None: no weights.
            options: x, y, splits and others of `from_edge_index`, rows in the order of the nodes.

        Raises:
            InputError: nodes are not named by text or whole numbers, or a weight is missing.
        """
        fields, names = from_networkx(graph, weight)
        return replace(Graph.from_edge_index(**fields, **options), extra=names)

    @staticmethod
    def from_edges(edges: Iterable[Any], **options: Any) -> "Graph":
        """Builds a graph from pairs of names: `Graph.from_edges([("Ann", "Bob"), ...])`.

        Args:
            edges: (source, target) or (source, target, weight); names are text or whole numbers.
                Nodes are numbered by first appearance; `original_ids` and `nodes_of` translate.
            options: x, y, splits and others of `from_edge_index`.

        Raises:
            InputError: names are of several kinds, or an edge has another length.
        """
        fields, names = from_named(edges)
        return replace(Graph.from_edge_index(**fields, **options), extra=names)

    def save(self, dst: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Writes the graph as a folder that `Graph.open` reads; `edge_ids` is not stored.

        Raises:
            StorageError: `dst` exists (and `overwrite` is off) or cannot be written.
        """
        return save_graph(self, dst, overwrite)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles a graph from a folder as its path and digest, any other by its arrays."""
        if self._token.opened:
            return reopen, (str(self.path), self.digest)
        return rebuild, (plain_fields(self),)

    def __copy__(self) -> "Graph":
        return self  # nothing in it can be changed

    def original_ids(self, nodes: Any) -> npt.NDArray[np.int64] | list[str]:
        """The ids that nodes have in the source: integers, or names where the source has names.

        Args:
            nodes: node ids, such as `batch.n_id` or `graph.split("test")`, or a mask.

        Raises:
            InputError: `nodes` are no nodes of the graph.
        """
        return original_ids(self, nodes)

    def nodes_of(self, ids: Any) -> npt.NDArray[np.int64]:
        """The nodes that have these ids in the source; the opposite of `original_ids`.

        Args:
            ids: a list of integers, or of names where the source has names. The first call reads
                all ids of the source and keeps 8 to 16 bytes per node.

        Raises:
            InputError: an id is not in the graph.
        """
        return find_nodes(self, ids)

    def with_links(
        self,
        name: str,
        index: Any,
        *,
        labels: Any = None,
        time: Any = None,
        negatives: Any = None,
        candidates: Any = None,
    ) -> "Graph":
        """The same graph with links of that name, which replace any that it has.

        Edges stay as they are: a link that is also an edge is seen by models as such.

        Args:
            name: train, valid, test or another name.
            index: [2, links] tensor or array: row 0 the sources, row 1 the targets.
            labels: one row of numbers per link: a rating, a class, the number of a relation.
            time: [links] whole numbers, or datetime64, which becomes seconds since 1970.
            negatives: [2, n] pairs that are no links, which all links are compared with.
            candidates: [links, n] targets that each link is compared with.

        Raises:
            InputError: an id that is no node, something that does not fit, or times on one side
                only: some links of the graph have them and others do not.
        """
        nodes = self.num_nodes
        made = Links.of(
            index,
            nodes,
            nodes,
            labels=labels,
            time=time,
            negatives=negatives,
            candidates=candidates,
        )
        return replace(self, links={**self.links, name: made})

    def verify(self) -> Report:
        """Checks every byte and every id; see `foregather.graph.integrity.verify`."""
        return verify(self)

    @property
    def digest(self) -> str:
        """Identifies the contents: equal graphs have equal digests, in memory and on disk.

        A graph in memory, or a changed copy of one from a folder, is hashed on first use (seconds
        for a few gigabytes).
        """
        if not self._digest:
            if self._token.opened:
                self._digest.append(str(self.meta["digest"]))
            else:
                self._digest.append(compute_digest(self))
        return self._digest[0]
