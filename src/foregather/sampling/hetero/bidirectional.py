"""bidirectional: sampled edges in the other direction as well, in the reverse relation."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from foregather.graph.hetero.names import EdgeType, show_edge_type
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample

__all__ = ["add_reverse_edges", "reverse_of", "reverse_relations"]

Local = npt.NDArray[np.uint32]


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
