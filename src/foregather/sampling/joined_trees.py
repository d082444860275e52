"""joined_trees: minibatches of disjoint trees, from layers in which each tree is a minibatch.

The tree of a seed is the minibatch of this seed alone whose number is its row. So whatever samples
minibatches samples trees, wherever neighbour lists are, and what is left is to put the trees of a
minibatch together: all seeds, what layer 0 met of tree 0, of tree 1, ..., what layer 1 met of tree
0, ...; edges likewise by layer and tree. That is the order of stacked layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.sampling.bulk import Sample
from foregather.sampling.matrix import LayerGraph
from foregather.sampling.rows import pointer
from foregather.sampling.seeds import flatten

__all__ = ["TreeSeeds", "join_trees"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TreeSeeds:
    """The seeds of the trees of k minibatches.

    Attributes:
        flat: int64 [trees]: the seed of each.
        keys: int64 [trees]: the number that each is keyed by.
        ptr: int64 [k + 1]: minibatch i has the trees from ptr[i] to ptr[i + 1].
    """

    flat: Int
    keys: Int
    ptr: Int

    @staticmethod
    def of(seeds: Sequence[Array], rows: Sequence[Array]) -> "TreeSeeds":
        """The seeds of each minibatch, and the number for each.

        Raises:
            InputError: there is not one number of at least 0 for each seed.
        """
        flat, ptr = flatten(seeds)
        keys, cuts = flatten(rows, "rows")
        if not np.array_equal(ptr, cuts) or keys.min(initial=0) < 0:
            raise InputError("rows must hold one number of at least 0 per seed")
        return TreeSeeds(flat, keys, ptr)

    def parts(self) -> list[tuple[Int, Int]]:
        """Seeds and their numbers of each minibatch."""
        spans = [slice(int(a), int(b)) for a, b in pairwise(self.ptr)]
        return [(self.flat[span], self.keys[span]) for span in spans]

    @property
    def one_by_one(self) -> list[Int]:
        """Each seed as a minibatch."""
        return list(self.flat.reshape(-1, 1))


def join_trees(
    layers: Sequence[LayerGraph],
    seeds: Array,
    ptr: Int,
    batches: Sequence[int],
    depth: int,
    weighted: bool,
) -> list[Sample]:
    """Joins the trees of minibatches.

    Args:
        layers: A_l of all trees, stacked, expanded once; not looked at if there are no trees.
        seeds: the seed of each tree, in the dtype of ids.
        ptr: as in `TreeSeeds`.
        batches: the numbers of these minibatches.
        depth: how many layers there are.
        weighted: whether edges have weights, also where there are no trees.
    """
    if not len(seeds):
        layers = [_nothing(weighted)] * depth
    parts = _Parts.of(layers, seeds, ptr)
    return [parts.minibatch(place, number) for place, number in enumerate(batches)]


def _nothing(weighted: bool) -> LayerGraph:
    """A layer of no trees."""
    none, weight = np.empty(0, np.uint32), np.empty(0) if weighted else None
    return LayerGraph(np.zeros(1, np.int64), none, none, np.empty(0, np.int64), weight, [])


@dataclass(frozen=True, eq=False)
class _Parts:
    """What each layer met of each tree; part 0 is the seed.

    Attributes:
        layers: A_l of all trees.
        ptr: as in `TreeSeeds`.
        ids: of each part, the nodes of all trees.
        ends: int64 [parts, trees + 1]: where those of each tree begin.
        tree: of each part, the number in its minibatch of the tree of each node.
        ends_of_edges: of each layer, sources and targets as positions in their minibatch.
    """

    layers: Sequence[LayerGraph]
    ptr: Int
    ids: list[Array]
    ends: Int
    tree: list[npt.NDArray[np.uint32]]
    ends_of_edges: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]

    @staticmethod
    def of(layers: Sequence[LayerGraph], seeds: Array, ptr: Int) -> "_Parts":
        count = len(seeds)
        counts = np.ones((1 + len(layers), count), np.int64)
        for place, made in enumerate(layers, 1):
            counts[place] = [len(ids) for ids in made.fresh]
        ends = np.stack([pointer(one) for one in counts])
        owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        number = np.arange(count) - ptr[:-1][owner]
        moved, base = _places(counts, ends, ptr, owner)

        def both(made: LayerGraph) -> Any:
            shift = np.repeat(base, np.diff(made.edge_ptr))
            return moved[shift + made.row], moved[shift + made.col]

        return _Parts(
            layers=layers,
            ptr=ptr,
            ids=[seeds, *(np.concatenate([seeds[:0], *made.fresh]) for made in layers)],
            ends=ends,
            tree=[np.repeat(number, one).astype(np.uint32) for one in counts],
            ends_of_edges=[both(made) for made in layers],
        )

    def minibatch(self, place: int, number: int) -> Sample:
        """The minibatch at this place, with this number."""
        first, last = self.ptr[place], self.ptr[place + 1]
        nodes = [slice(int(part[first]), int(part[last])) for part in self.ends]
        edges = [slice(int(one.edge_ptr[first]), int(one.edge_ptr[last])) for one in self.layers]
        weights = [one.weight for one in self.layers if one.weight is not None]

        def take(arrays: Sequence[Array], spans: list[slice], dtype: Any) -> Array:
            pieces = [array[span] for array, span in zip(arrays, spans, strict=True)]
            made = np.concatenate(pieces).astype(dtype, copy=False)
            made.setflags(write=False)
            return made

        return Sample(
            node=take(self.ids, nodes, self.ids[0].dtype),
            num_nodes=tuple(np.cumsum([span.stop - span.start for span in nodes]).tolist()),
            row=take([one for one, _ in self.ends_of_edges], edges, np.uint32),
            col=take([one for _, one in self.ends_of_edges], edges, np.uint32),
            num_edges=tuple(span.stop - span.start for span in edges),
            edge=take([one.edge for one in self.layers], edges, np.int64),
            weight=take(weights, edges, np.float32) if weights else None,
            seed_position=None,
            batch=number,
            expand="once",
            tree=take(self.tree, nodes, np.uint32),
        )


def _places(counts: Int, ends: Int, ptr: Int, owner: Int) -> tuple[npt.NDArray[np.uint32], Int]:
    """Where the nodes of trees go in their minibatches, tree by tree; where each tree begins."""
    sizes = ends[:, ptr[1:]] - ends[:, ptr[:-1]]  # of each part of each minibatch
    begin = np.cumsum(sizes, axis=0) - sizes
    start = begin[:, owner] + ends[:, :-1] - ends[:, ptr[:-1]][:, owner]
    flat, many = start.T.reshape(-1), counts.T.reshape(-1)
    before = pointer(many)
    moved = np.arange(before[-1]) + np.repeat(flat - before[:-1], many)
    return moved.astype(np.uint32), before[:-1][:: len(counts)]
