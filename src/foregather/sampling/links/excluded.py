"""excluded: edges that minibatches of links leave out, so that no link is a message to itself.

They are removed from a row before anything is drawn, so fan-outs stay full: what is drawn is what
would be drawn if these edges were not in the graph. An edge that is not there is left out already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, find_edge_type, show_edge_type
from foregather.graph.hetero.relation import Level
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.links.edge_places import EdgePlaces
from foregather.sampling.seeds import flatten

__all__ = ["Entries", "Excluded", "RowOrder", "rows_of", "typed_entries"]

Int = npt.NDArray[np.int64]
#: (ptr, target, source, edge, tree, whether sources ascend in rows)
Entries = tuple[Int, Int | None, Int | None, Int | None, Int | None, bool]


@dataclass(frozen=True, eq=False)
class Excluded:
    """Edges of one relation that each of k minibatches leaves out; made by `pairs` or `edges`.

    In minibatches of disjoint trees an entry belongs to one tree; otherwise to the whole minibatch.
    Edges in the other direction are entries of their own: (source, target) swapped in a plain
    graph, and entries of the reverse relation in a typed one.

    Attributes:
        ptr: int64 [k + 1]: minibatch i has the entries from ptr[i] to ptr[i + 1].
        target: int64 [entries]: node whose row the edges are in; None where edges are given.
        source: int64 [entries]: node at the other end; None where edges are given.
        edge: int64 [entries]: positions of edges in the order in which they were given to the
            graph; None where ends are given.
        tree: int64 [entries]: the tree of each entry, which is the number of its seed in the
            minibatch (in a typed graph counting the seeds of all types, in the order of the sorted
            names); None without trees.
    """

    ptr: Int
    target: Int | None = None
    source: Int | None = None
    edge: Int | None = None
    tree: Int | None = None

    @staticmethod
    def pairs(
        targets: Sequence[Any], sources: Sequence[Any], trees: Sequence[Any] | None = None
    ) -> "Excluded":
        """All edges from sources[i][n] to targets[i][n], parallel ones too, in minibatch i.

        Raises:
            InputError: arrays that are not whole numbers, or not alike in length.
        """
        target, ptr = flatten(targets, "targets")
        source = _like(sources, "sources", ptr)
        tree = None if trees is None else _like(trees, "trees", ptr)
        return Excluded(ptr, target, source, tree=tree)

    @staticmethod
    def edges(edges: Sequence[Any], trees: Sequence[Any] | None = None) -> "Excluded":
        """The edges edges[i] in minibatch i: positions in the caller's edge_index.

        Parallel edges of others stay. In a graph made undirected, both directions of an edge have
        its position.

        Raises:
            InputError: arrays that are not whole numbers, or not alike in length.
        """
        edge, ptr = flatten(edges, "edges")
        tree = None if trees is None else _like(trees, "trees", ptr)
        return Excluded(ptr, edge=edge, tree=tree)

    @staticmethod
    def stack(parts: Sequence["Excluded"], where: str) -> "Excluded":
        """What the minibatches of several leave out, one after another.

        Args:
            parts: with trees or without, by ends.
            where: as in `by_ends`.

        Raises:
            InputError: edges are named, or trees by some and not by others.
        """
        given = [one.target is not None and one.source is not None for one in parts]
        if not all(given) or len({one.tree is None for one in parts}) > 1:
            raise _by_ends(where)
        none = [np.empty(0, np.int64)]
        target = np.concatenate([*none, *(o.target for o in parts if o.target is not None)])
        source = np.concatenate([*none, *(o.source for o in parts if o.source is not None)])
        tree = np.concatenate([*none, *(o.tree for o in parts if o.tree is not None)])
        counts = [np.diff(one.ptr) for one in parts]
        ptr = np.cumsum(np.concatenate([[0], *counts]), dtype=np.int64)
        named = bool(parts) and parts[0].tree is not None
        return Excluded(ptr, target, source, tree=tree if named else None)

    def one_by_one(self, seeds: Int, num_nodes: int, where: str) -> "Excluded":
        """The same with each tree as a minibatch of its own.

        Args:
            seeds: seeds of each minibatch, which are as many trees.
            num_nodes: nodes of the graph.
            where: as in `by_ends`.

        Raises:
            InputError: edges are named, or what `of` refuses.
        """
        if self.target is None or self.source is None:
            raise _by_ends(where)
        _check_trees(self, seeds, True)
        _check(self.target, num_nodes, "target")
        _check(self.source, num_nodes, "source")
        assert self.tree is not None
        first = np.cumsum(seeds) - seeds
        tree = self.tree + np.repeat(first, np.diff(self.ptr))
        order = np.argsort(tree, kind="stable")
        ptr = np.searchsorted(tree[order], np.arange(int(seeds.sum()) + 1))
        return Excluded(ptr.astype(np.int64), self.target[order], self.source[order])

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def of(self, rows: "RowOrder", seeds: Int, trees: bool) -> Entries:
        """The entries as kernels take them.

        Args:
            rows: the relation they are of.
            seeds: seeds of each minibatch, which are as many trees.
            trees: whether minibatches are of disjoint trees.

        Raises:
            InputError: nodes, edges or trees that do not exist, or another number of minibatches.
        """
        _check_trees(self, seeds, trees)
        ptr, tree = self.ptr, self.tree
        if self.target is not None and self.source is not None:
            _check(self.target, rows.num_targets, "target")
            _check(self.source, rows.num_sources, "source")
            return ptr, self.target, self.source, None, tree, rows.ascending
        assert self.edge is not None
        places, counts = rows.places.find(self.edge)
        if len(places) != len(self.edge):  # edges that are in the graph in both directions
            ptr = np.concatenate([[0], np.cumsum(counts)])[ptr]
            tree = None if tree is None else np.repeat(tree, counts)
        return ptr, None, None, places, tree, rows.ascending

    def by_ends(self, num_nodes: int, batches: int, where: str) -> tuple[Int, Int, Int]:
        """(ptr, target, source), for neighbour lists that are elsewhere: on disk, or with a rank.

        Args:
            num_nodes: nodes of the graph.
            batches: how many minibatches there are.
            where: what the lists are called in a message.

        Raises:
            InputError: edges or trees are named, nodes do not exist, or another number of
                minibatches.
        """
        if len(self) != batches:
            raise InputError(
                f"exclude is for {len(self)} minibatches, but there are {batches}; pass entries "
                "for each of them"
            )
        if self.target is None or self.source is None or self.tree is not None:
            raise _by_ends(where)
        _check(self.target, num_nodes, "target")
        _check(self.source, num_nodes, "source")
        return self.ptr, self.target, self.source


@dataclass(frozen=True, eq=False)
class RowOrder:
    """What is known of the rows that entries are looked up in.

    Attributes:
        num_sources: nodes of the source type.
        num_targets: nodes of the target type.
        places: finds edges by their position in the caller's edge_index.
        ascending: whether the sources of a row ascend.
    """

    num_sources: int
    num_targets: int
    places: EdgePlaces
    ascending: bool


def rows_of(graph: Graph) -> RowOrder:
    """The rows of a plain graph."""
    places = _PLAIN.get(graph, lambda own: EdgePlaces(own.edge_ids, own.num_edges))
    return RowOrder(graph.num_nodes, graph.num_nodes, places, True)


def typed_entries(
    exclude: Mapping[EdgeType, Excluded],
    graph: HeteroGraph,
    time: Level | None,
    seeds: Int,
    trees: bool,
) -> list[Entries | None]:
    """The entries of each relation as kernels take them, None for those that leave out nothing.

    Args:
        exclude: by edge type.
        graph: the graph.
        time: by which rows are ordered.
        seeds: seeds of each minibatch, of all types.
        trees: whether minibatches are of disjoint trees.

    Raises:
        InputError: a relation that does not exist (the nearest is named), or see `Excluded.of`.
    """
    if not isinstance(exclude, Mapping):
        raise InputError("exclude must be a mapping from edge types to what they leave out")
    kept = _TYPED.get(graph, lambda _: {})
    found = {find_edge_type(name, graph.edges): own for name, own in exclude.items()}
    entries: list[Entries | None] = []
    for name in graph.edge_types:
        if name not in found:
            entries.append(None)
            continue
        relation = graph.relation(name, time)
        if (name, time) not in kept:
            kept[name, time] = EdgePlaces(relation.edge_ids, relation.num_edges)
        ends = (graph.nodes[name[0]].num_nodes, graph.nodes[name[2]].num_nodes)
        rows = RowOrder(*ends, kept[name, time], relation.order == "source")
        with about(f"relation {show_edge_type(name)}"):
            entries.append(found[name].of(rows, seeds, trees))
    return entries


_PLAIN: GraphCache[EdgePlaces] = GraphCache(shared=True)
_TYPED: GraphCache[dict[Any, EdgePlaces]] = GraphCache(shared=True)


def _by_ends(where: str) -> InputError:
    return InputError(
        f"exclude names edges or trees, but edges are left out of {where} by their two "
        "ends; use Excluded.pairs, or keep the neighbour lists in the memory of one rank"
    )


def _check_trees(given: Excluded, seeds: Int, trees: bool) -> None:
    """Raises InputError unless entries are for as many minibatches, and name trees if they must."""
    if len(given) != len(seeds):
        raise InputError(
            f"exclude is for {len(given)} minibatches, but there are {len(seeds)}; pass entries "
            "for each of them"
        )
    tree = given.tree
    if (tree is None) == trees:
        raise InputError(
            "minibatches of disjoint trees need the tree of every entry of exclude; pass trees"
            if trees
            else "exclude names trees, but these minibatches are not of disjoint trees"
        )
    if tree is None:
        return
    wrong = np.flatnonzero((tree < 0) | (tree >= np.repeat(seeds, np.diff(given.ptr))))
    if len(wrong):
        raise InputError(
            f"exclude names tree {tree[wrong[0]]}, but a tree is the number of a seed in its "
            "minibatch"
        )


def _like(given: Sequence[Any], name: str, ptr: Int) -> Int:
    values, cuts = flatten(given, name)
    if not np.array_equal(cuts, ptr):
        raise InputError(f"{name} must hold one number for each entry of each minibatch")
    return values


def _check(ids: Int, count: int, end: str) -> None:
    wrong = np.flatnonzero((ids < 0) | (ids >= count))
    if len(wrong):
        raise InputError(
            f"exclude has {end} {ids[wrong[0]]}, but there are {count} such nodes (ids are 0 to "
            "N-1)"
        )
