"""bidirectional: sampled edges in the other direction as well, in the reverse relation."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.names import EdgeType, find_edge_type, show_edge_type
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.sampling.links.excluded import Excluded

__all__ = ["add_reverse_edges", "leave_out", "reverse_of", "reverse_relations"]

Local = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]


def reverse_relations(edge_types: Sequence[EdgeType]) -> dict[EdgeType, EdgeType]:
    """The reverse of each relation that has one.

    That is `rev_` and its name (and the other way round), or itself between nodes of one type, or
    the only relation in the other direction. A warning names a relation that has none.
    """
    found = {}
    for one in edge_types:
        back = reverse_of(one, edge_types)
        if back is not None:
            found[one] = back
            continue
        warnings.warn(
            f"relation {show_edge_type(one)} has no reverse (a relation rev_{one[1]}, or the "
            "only one in the other direction); its edges stay in their direction",
            UserWarning,
            stacklevel=4,
        )
    return found


def reverse_of(edge_type: EdgeType, edge_types: Sequence[EdgeType]) -> EdgeType | None:
    """The reverse of one of these relations, by the rule of `reverse_relations`; None: none."""
    source, name, target = edge_type
    backward = (target, f"rev_{name}", source)
    forward = (target, name.removeprefix("rev_"), source)
    if backward in edge_types:
        return backward
    if name.startswith("rev_") and forward in edge_types:
        return forward
    if source == target:
        return edge_type
    others = [other for other in edge_types if (other[2], other[0]) == (source, target)]
    return others[0] if len(others) == 1 else None


def add_reverse_edges(sample: HeteroSample, reverse: Mapping[EdgeType, EdgeType]) -> HeteroSample:
    """The minibatch with the edges of each relation's reverse added, every pair of nodes once.

    Edges that were added are not edges of the relation in the graph, so `edge` is None.
    """
    edges = {name: replace(own, num_edges=None) for name, own in sample.edges.items()}
    for name, other in reverse.items():
        own, back = sample.edges[name], sample.edges[other]
        edges[name] = _joined((own.row, own.col), (back.col, back.row))
    return replace(sample, edges=edges)


def leave_out(
    sample: HeteroSample, exclude: Mapping[EdgeType, Excluded], number: int
) -> HeteroSample:
    """The minibatch without edges that came back from their reverse, though they were left out.

    Args:
        sample: with the edges of reverse relations.
        exclude: what was left out when it was sampled.
        number: of the minibatch in `exclude`.

    Raises:
        InputError: edges were left out by number, which those of a reverse relation do not have.
    """
    edges = dict(sample.edges)
    for given, own in exclude.items():
        name = find_edge_type(given, edges)
        if own.target is None or own.source is None:
            raise InputError(
                "edges that are left out by number could come back by their reverse in a "
                "bidirectional subgraph; leave them out by their ends (Excluded.pairs)"
            )
        part = slice(int(own.ptr[number]), int(own.ptr[number + 1]))
        tree = None if own.tree is None else own.tree[part]
        row = _positions(sample.nodes[name[0]], own.source[part], tree)
        col = _positions(sample.nodes[name[2]], own.target[part], tree)
        there = (row >= 0) & (col >= 0)
        wrong = col[there].astype(np.uint64) << np.uint64(32) | row[there].astype(np.uint64)
        made = edges[name]
        pairs = made.col.astype(np.uint64) << np.uint64(32) | made.row.astype(np.uint64)
        keep = ~np.isin(pairs, wrong)
        edges[name] = EdgeSample(made.row[keep], made.col[keep], None, None)
    return replace(sample, edges=edges)


def _positions(nodes: NodeSample, ids: Ids, tree: Ids | None) -> Ids:
    """Where nodes (of trees) are in a minibatch; -1 for those that are not."""
    known = nodes.node.astype(np.int64)
    if tree is not None and nodes.tree is not None:
        most = np.int64(max(int(known.max(initial=0)), int(ids.max(initial=0))) + 1)
        known, ids = nodes.tree * most + known, tree * most + ids
    if not len(known):
        return np.full(len(ids), -1, np.int64)
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], ids), len(known) - 1)
    return np.where(known[order][at] == ids, order[at], -1)


def _joined(first: tuple[Local, Local], second: tuple[Local, Local]) -> EdgeSample:
    """Distinct (row, col) of both, by col and then row."""
    row = np.concatenate([first[0], second[0]]).astype(np.uint64)
    col = np.concatenate([first[1], second[1]]).astype(np.uint64)
    pairs = np.unique(col << np.uint64(32) | row)
    made = [(pairs & np.uint64(0xFFFFFFFF)), pairs >> np.uint64(32)]
    row32, col32 = (part.astype(np.uint32) for part in made)
    for part in (row32, col32):
        part.setflags(write=False)
    return EdgeSample(row32, col32, None, None)
