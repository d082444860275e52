"""inputs: from seeds, the rows that key their trees and their times to typed minibatches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, find_node_type
from foregather.sampling.bulk import Expand
from foregather.sampling.hetero.hetero_bulk import HeteroBulk, to_hetero_samples
from foregather.sampling.hetero.kernel import Kernel
from foregather.sampling.links.excluded import Entries, Excluded, typed_entries
from foregather.sampling.seeds import flatten

__all__ = ["sample_by", "seed_groups"]

Array = npt.NDArray[Any]
ByType = Mapping[str, Sequence[Array]]
#: (number of the type, seeds, where each minibatch begins, rows, times)
Group = tuple[int, Array, Array, Array | None, Array | None]


class _Rule(Protocol):
    @property
    def disjoint(self) -> bool: ...
    @property
    def time(self) -> str | None: ...
    @property
    def expand(self) -> Expand: ...


def sample_by(
    kernel: Callable[[HeteroGraph], Kernel],
    rule: _Rule,
    graph: HeteroGraph,
    given: tuple[ByType, ByType | None, ByType | None],
    keys: tuple[int, int, int, int],
    layers: bool = True,
    exclude: Mapping[EdgeType, Excluded] | None = None,
) -> HeteroBulk:
    """Samples minibatches by a kernel.

    Args:
        kernel: gives that of the graph.
        rule: the sampler.
        graph: the graph.
        given: seeds, rows and times, by node type.
        keys: seed, epoch, number of the first minibatch, and threads.
        layers: whether edges have layers.
        exclude: edges that the minibatches leave out, by edge type.

    Raises:
        InputError: what is given does not fit the graph, the sampler or each other.
        FormatError: the graph is damaged.
        StorageError: it cannot be read.
    """
    groups, count = seed_groups(rule, graph, *given)
    seed, epoch, first_batch, _ = keys
    more: tuple[list[Entries | None], ...] = ()
    if exclude is not None:
        seeds = sum((np.diff(ptr) for _, _, ptr, *_ in groups), np.zeros(count, np.int64))
        level: Any = rule.time
        more = (typed_entries(exclude, graph, level, seeds, rule.disjoint),)
    own: Any = kernel(graph)
    made = own.sample(groups, count, *keys, *more)
    samples = to_hetero_samples(
        made, graph.node_types, graph.edge_types, first_batch, layers, rule.expand
    )
    return HeteroBulk(samples, seed, epoch, first_batch)


def seed_groups(
    rule: _Rule,
    graph: HeteroGraph,
    seeds: ByType,
    rows: ByType | None,
    times: ByType | None,
) -> tuple[list[Group], int]:
    """Returns the seeds of each type as the kernel takes them, and the number of minibatches.

    Raises:
        InputError: they do not fit the graph, the sampler or each other.
    """
    if not isinstance(seeds, Mapping) or not seeds:
        raise InputError("seeds must be a mapping from node types to the seeds of each minibatch")
    for given, name in ((rows, "rows"), (times, "times")):
        if given is not None and (not isinstance(given, Mapping) or given.keys() != seeds.keys()):
            raise InputError(f"{name} must have the node types of seeds: {', '.join(seeds)}")
    if rule.disjoint and rows is None:
        raise InputError("disjoint trees need rows: for each seed the number that keys its tree")
    if rows is not None and not rule.disjoint:
        raise InputError("rows key disjoint trees, but the sampler has disjoint=False")
    if times is not None and rule.time is None:
        raise InputError(
            "times were given, but the sampler has no time; make it with time='node' or 'edge'"
        )
    counts = {len(per_batch) for per_batch in seeds.values()}
    if len(counts) > 1:
        raise InputError("the node types of seeds have different numbers of minibatches")
    number = {name: at for at, name in enumerate(graph.node_types)}
    found = {find_node_type(name, graph.node_types): name for name in seeds}
    groups = []
    for name, key in sorted(found.items()):
        own = (
            seeds[key],
            None if rows is None else rows[key],
            None if times is None else times[key],
        )
        groups.append(_group(rule, graph, name, number[name], own))
    return groups, counts.pop()


def _group(
    rule: _Rule,
    graph: HeteroGraph,
    node_type: str,
    number: int,
    given: tuple[Sequence[Array], Sequence[Array] | None, Sequence[Array] | None],
) -> Group:
    seeds, rows, times = given
    flat, ptr = flatten(seeds)
    nodes = graph.nodes[node_type].num_nodes
    wrong = np.flatnonzero((flat < 0) | (flat >= nodes))
    if len(wrong):
        raise InputError(
            f"seeds hold node {flat[wrong[0]]}, but the graph has {nodes} nodes of type "
            f"{node_type!r} (ids are 0 to N-1)"
        )
    keys = None if rows is None else _like(rows, ptr, "rows", node_type)
    if keys is not None and keys.min(initial=0) < 0:
        raise InputError(f"rows of type {node_type!r} hold {keys.min()}, expected 0 or more")
    limits = None
    if times is not None:
        limits = _like(times, ptr, "times", node_type)
    elif rule.time == "edge":
        raise InputError("time is 'edge', so every seed needs a time; pass times")
    elif rule.time == "node":
        own = graph.nodes[node_type].time
        if own is None:
            raise InputError(
                f"nodes of type {node_type!r} have no time of their own, so their seeds need "
                "times; pass times"
            )
        limits = np.ascontiguousarray(own[flat])
    return number, flat, ptr, keys, limits


def _like(given: Sequence[Array], ptr: Array, name: str, node_type: str) -> Array:
    """Whole numbers, one for each seed."""
    for batch, values in enumerate(given):
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InputError(
                f"{name} of minibatch {batch} are {array.dtype} of shape {list(array.shape)}, "
                "expected one whole number per seed"
            )
    flat, cuts = flatten(given)
    if not np.array_equal(cuts, ptr):
        raise InputError(f"{name} of type {node_type!r} must hold one number for each seed")
    return flat
