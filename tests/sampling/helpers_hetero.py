"""Helpers of the typed sampling tests: random typed graphs, inputs, and comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation
from foregather.loader.hetero.rule import HeteroSampler
from foregather.sampling.hetero.hetero_bulk import HeteroBulk, HeteroSample
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from foregather.sampling.links.excluded import Excluded
from tests.sampling.hetero.reference_hetero import LeftOut, Seed, sample_hetero

TYPES = ("user", "item", "shop", "tag")


def random_relation(
    rng: np.random.Generator,
    sources: int,
    targets: int,
    edges: int,
    *,
    time: bool = False,
    weights: bool = False,
    wide: bool = False,
) -> Relation:
    """Edges that crowd on the first nodes, with parallel ones, ties of time and weights of 0."""
    edges = edges if sources and targets else 0
    source = (sources * rng.random(edges) ** 1.5).astype(np.int64)
    target = (targets * rng.random(edges) ** 3).astype(np.int64)
    weight = rng.choice([0.0, 0.25, 1.0, 3.0, 40.0], edges)
    for v in np.unique(target):  # a row whose weights are all 0 is refused
        weight[np.flatnonzero(target == v)[0]] = 2.0
    columns: dict[str, Any] = {"time": rng.integers(-9, 9, edges)} if time else {}
    if weights:
        columns["weights"] = weight
    made = Relation.of(np.stack([source, target]), sources, targets, **columns)
    if not wide:
        return made
    indices = made.indices.astype(np.int64)
    return Relation(made.indptr, indices, made.edge_ids, made.time, made.weights)


def random_graph(
    seed: int,
    types: int = 3,
    relations: int = 5,
    most_nodes: int = 30,
    most_edges: int = 200,
    wide: bool = False,
) -> HeteroGraph:
    """A graph some of whose types have times, some of whose relations have times and weights."""
    rng = np.random.default_rng(seed)
    counts = dict(zip(TYPES[:types], rng.integers(0, most_nodes, types).tolist(), strict=True))
    first = TYPES[0]
    counts[first] = max(1, counts[first])
    nodes = {
        name: NodeTable.of(
            count, time=rng.integers(-9, 9, count) if rng.random() < 0.7 or name == first else None
        )
        for name, count in counts.items()
    }
    edges: dict[EdgeType, Relation] = {}
    for number in range(relations):
        source, target = rng.choice(list(counts), 2)
        if number == 0:
            target = first
        name = str(source), f"r{rng.integers(99)}", str(target)
        relation = random_relation(
            rng,
            counts[source],
            counts[target],
            int(rng.integers(0, most_edges)),
            time=bool(rng.random() < 0.6) or number == 0,
            weights=bool(rng.random() < 0.6) or number == 0,
            wide=wide,
        )
        edges.setdefault(name, relation)  # the first one stays, which has times and weights
    return HeteroGraph(nodes, edges)


def drawn_graph(data: st.DataObject) -> HeteroGraph:
    """A random graph of one to four types."""
    return random_graph(
        data.draw(st.integers(0, 10**6)),
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 6)),
        data.draw(st.sampled_from([2, 10, 40])),
        data.draw(st.sampled_from([10, 100, 700])),
        data.draw(st.booleans()),
    )


def drawn_seeds(data: st.DataObject, graph: HeteroGraph, batches: int) -> list[list[Seed]]:
    """For each minibatch up to eight seeds of one or two types, in the order of types."""
    there = [name for name in graph.node_types if graph.nodes[name].num_nodes]
    chosen = sorted(data.draw(st.sets(st.sampled_from(there), min_size=1, max_size=2)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    dealt: list[list[Seed]] = []
    for number in range(batches):
        batch: list[Seed] = []
        for name in chosen:
            for _ in range(rng.integers(0 if number else 1, 9)):
                # Nodes with small numbers have most of the edges.
                v = int(graph.nodes[name].num_nodes * rng.random() ** 2)
                batch.append((name, v, int(rng.integers(2**62)), int(rng.integers(-11, 12))))
        dealt.append(batch)
    return dealt


def by_type(dealt: list[list[Seed]], column: int) -> dict[str, list[Any]]:
    """One column of the seeds, by type and minibatch."""
    names = sorted({seed[0] for batch in dealt for seed in batch})
    return {
        name: [np.array([s[column] for s in b if s[0] == name], np.int64) for b in dealt]
        for name in names
    }


def sample_all(
    rule: HeteroSampler,
    graph: HeteroGraph,
    dealt: list[list[Seed]],
    exclude: Mapping[EdgeType, Excluded] | None = None,
    **keys: int,
) -> HeteroBulk:
    """The kernel's minibatches of such seeds."""
    more: dict[str, Any] = {"rows": by_type(dealt, 2)} if rule.disjoint else {}
    if rule.time is not None:
        more["times"] = by_type(dealt, 3)
    if exclude is not None:
        more["exclude"] = exclude
    return rule.sample_bulk(graph, by_type(dealt, 1), **more, **keys)  # type: ignore[arg-type]


def sample_slowly(
    rule: HeteroNeighbor,
    graph: HeteroGraph,
    dealt: list[list[Seed]],
    left_out: Sequence[LeftOut] = (),
    **keys: int,
) -> list[HeteroSample]:
    """The reference's minibatches of such seeds."""
    first, seed, epoch = keys.get("first_batch", 0), keys["seed"], keys.get("epoch", 0)
    limited = rule.time is not None
    return [
        sample_hetero(
            graph,
            rule,
            [s if limited else (*s[:3], None) for s in batch],
            seed,
            epoch,
            number,
            *left_out[number - first : number - first + 1],
        )
        for number, batch in enumerate(dealt, first)
    ]


def assert_same_samples(got: Iterable[HeteroSample], want: Iterable[HeteroSample]) -> None:
    """Two lists of minibatches are equal; the message names the array that differs."""
    for one, other in zip(got, want, strict=True):
        assert (one.batch, one.expand) == (other.batch, other.expand)
        _assert_same(one.nodes, other.nodes, ("node", "num_nodes", "tree", "seed_position"))
        _assert_same(one.edges, other.edges, ("row", "col", "edge", "num_edges", "weight"))


def _assert_same(one: Mapping[Any, Any], other: Mapping[Any, Any], fields: tuple[str, ...]) -> None:
    assert list(one) == list(other)
    for name in one:
        for field in fields:
            got, want = getattr(one[name], field), getattr(other[name], field)
            assert (got is None) == (want is None), (name, field)
            if want is not None:
                np.testing.assert_array_equal(got, want, err_msg=f"{field} of {name}")
