"""Edges that typed minibatches leave out: equal to the reference, in every kind of subgraph."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroLabor, HeteroNeighbor
from foregather.sampling.hetero.hetero_bulk import HeteroSample
from foregather.sampling.links.excluded import Excluded
from tests.sampling.helpers_hetero import (
    assert_same_samples,
    drawn_graph,
    drawn_seeds,
    random_graph,
    sample_all,
    sample_slowly,
)
from tests.sampling.hetero.reference_hetero import LeftOut, Seed
from tests.some import some

Entry = tuple[int, int, int, int]  # tree, target, source, position in the relation


def rule_of(data: st.DataObject) -> HeteroNeighbor:
    fanouts = data.draw(st.lists(st.sampled_from([-1, 0, 1, 3, 40]), min_size=1, max_size=3))
    time = data.draw(st.sampled_from([None, None, "node", "edge"]))
    last = time is not None and data.draw(st.booleans())
    return HeteroNeighbor(
        fanouts,
        replace=not last and data.draw(st.booleans()),
        disjoint=data.draw(st.booleans()),
        time=time,
        temporal_strategy="last" if last else "uniform",
        weights=None if last or data.draw(st.booleans()) else True,
    )


def entries_of(
    graph: HeteroGraph, rule: HeteroNeighbor, dealt: list[list[Seed]], rng: np.random.Generator
) -> dict[EdgeType, list[list[Entry]]]:
    """For some relations and each minibatch some edges, those of hubs more often."""
    made: dict[EdgeType, list[list[Entry]]] = {}
    for name in graph.edge_types:
        relation = graph.relation(name, rule.time)
        if rng.random() < 0.3:
            continue
        target = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
        made[name] = []
        for batch in dealt:
            most = relation.num_edges if batch else 0
            edges = rng.integers(0, max(most, 1), min(most, int(rng.integers(0, 60))))
            trees = rng.integers(0, max(len(batch), 1), len(edges))
            own = zip(trees, target[edges], relation.indices[edges], edges, strict=True)
            made[name].append([tuple(map(int, one)) for one in own])  # type: ignore[misc]
    return made


def passed(
    graph: HeteroGraph,
    rule: HeteroNeighbor,
    entries: dict[EdgeType, list[list[Entry]]],
    by_ends: bool,
) -> tuple[dict[EdgeType, Excluded], list[LeftOut]]:
    """What the sampler is given, and the same for the reference, by minibatch."""
    exclude = {}
    for name, batches in entries.items():
        ids = graph.relation(name, rule.time).edge_ids
        trees = [[e[0] for e in own] for own in batches] if rule.disjoint else None
        if by_ends:
            columns = [[[e[i] for e in own] for own in batches] for i in (1, 2)]
            exclude[name] = Excluded.pairs(*columns, trees)
        else:
            edges = [[e[3] if ids is None else int(ids[e[3]]) for e in own] for own in batches]
            exclude[name] = Excluded.edges(edges, trees)

    def reference(batch: int) -> LeftOut:
        gone = {
            (name, tree if rule.disjoint else 0, v, *((u,) if by_ends else (edge,)))
            for name, batches in entries.items()
            for tree, v, u, edge in batches[batch]
        }

        def left_out(name: EdgeType, tree: int, v: int, position: int, u: int) -> bool:
            edge = int(graph.edges[name].indptr[v]) + position
            return (name, tree, v, u if by_ends else edge) in gone

        return left_out

    count = max((len(b) for b in entries.values()), default=0)
    return exclude, [reference(batch) for batch in range(count)]


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_minibatches_are_those_of_the_reference(data):
    graph, rule = drawn_graph(data), rule_of(data)
    dealt = drawn_seeds(data, graph, 2)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    try:
        entries = entries_of(graph, rule, dealt, rng)
    except InputError as error:
        assert "time" in str(error)  # a graph without such times
        return
    exclude, reference = passed(graph, rule, entries, data.draw(st.booleans()))
    keys = {"seed": 3, "epoch": 1, "first_batch": 5}
    want = sample_slowly(rule, graph, dealt, reference, **keys)
    for threads in (1, 3):
        got = sample_all(rule, graph, dealt, exclude, threads=threads, **keys)
        assert_same_samples(got, want)


def links_of(seed: int) -> tuple[HeteroGraph, Any]:
    """Users and items with times, a relation, its reverse, and one among users; some links."""
    rng = np.random.default_rng(seed)
    users, items, count = 400, 300, 9000
    pairs = np.stack(
        [
            (users * rng.random(count) ** 2).astype(np.int64),
            (items * rng.random(count) ** 2).astype(np.int64),
        ]
    )
    time = rng.integers(0, 100, count)
    friends = rng.integers(0, users, (2, 3000))
    graph = HeteroGraph(
        {
            "user": NodeTable.of(users, time=rng.integers(0, 100, users)),
            "item": NodeTable.of(items, time=rng.integers(0, 100, items)),
        },
        {
            ("user", "buys", "item"): Relation.of(pairs, users, items, time=time),
            ("item", "rev_buys", "user"): Relation.of(pairs[::-1], items, users, time=time),
            ("user", "knows", "user"): Relation.of(friends, users, users),
        },
    )
    return graph, pairs


BUYS, BACK = ("user", "buys", "item"), ("item", "rev_buys", "user")


def both_ways(links: Any, trees: bool, reverse: bool = True) -> dict[EdgeType, Excluded]:
    """Each link out of both relations; with trees, out of those of its two ends."""
    count = links.shape[1]
    twice = [np.tile(np.arange(count), 2) + np.repeat([0, count], count)] if trees else None
    users, items = (np.tile(own, 2) if trees else own for own in links)
    exclude = {BUYS: Excluded.pairs([items], [users], twice)}
    if reverse:
        exclude[BACK] = Excluded.pairs([users], [items], twice)
    return exclude


def pairs_of(sample: HeteroSample, name: EdgeType) -> set[tuple[int, ...]]:
    """(tree, source, target) of the edges of a relation."""
    edges, target = sample.edges[name], sample.nodes[name[2]]
    source = sample.nodes[name[0]].node[edges.row]
    tree = np.zeros(len(edges.col), int) if target.tree is None else target.tree[edges.col]
    return set(zip(tree.tolist(), source.tolist(), target.node[edges.col].tolist(), strict=True))


@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("time", [None, "node", "edge"])
@pytest.mark.parametrize("reverse", [False, True])
def test_no_link_is_in_its_own_minibatch(kind, trees, time, reverse):
    trees = trees or time is not None
    graph, pairs = links_of(1)
    rule = HeteroNeighbor([6, 4], subgraph_type=kind, disjoint=trees, time=time)
    links = pairs[:, 40:70]
    seeds = {"user": [links[0]], "item": [links[1]]}
    more: dict[str, Any] = {}
    if trees:
        more["rows"] = {"user": [np.arange(30)], "item": [np.arange(30, 60)]}
    if time:
        more["times"] = {"user": [np.full(30, 80)], "item": [np.full(30, 80)]}
    exclude = both_ways(links, trees, reverse)
    (sample,) = rule.sample_bulk(graph, seeds, seed=1, exclude=exclude, **more)
    (before,) = rule.sample_bulk(graph, seeds, seed=1, **more)
    for name, own in ((BUYS, links), (BACK, links[::-1])) if reverse else ((BUYS, links),):
        gone = {
            (tree, u, v)
            for at, (u, v) in enumerate(own.T.tolist())
            for tree in ((at, 30 + at) if trees else (0,))
        }
        assert gone & pairs_of(before, name)
        assert not gone & pairs_of(sample, name)
        assert len(sample.edges[name].row) > 100


@pytest.mark.parametrize("trees", [False, True])
def test_an_induced_subgraph_has_all_edges_but_those(trees):
    graph, pairs = links_of(2)
    rule = HeteroNeighbor([4, 3], subgraph_type="induced", disjoint=trees)
    links = pairs[:, :20]
    more = {"rows": {"user": [np.arange(20)], "item": [np.arange(20, 40)]}} if trees else {}
    seeds = {"user": [links[0]], "item": [links[1]]}
    exclude = both_ways(links, trees)
    (got,) = rule.sample_bulk(graph, seeds, seed=1, exclude=exclude, **more)
    for name, own in ((BUYS, links), (BACK, links[::-1])):
        edges = (pairs if name == BUYS else pairs[::-1]).T
        members = [got.nodes[end] for end in (name[0], name[2])]
        want = set()
        for tree in range(40) if trees else [0]:
            sets = [
                set(n.node.tolist() if n.tree is None else n.node[n.tree == tree].tolist())
                for n in members
            ]
            gone = {
                tuple(e) for e in (own.T[tree % 20 : tree % 20 + 1] if trees else own.T).tolist()
            }
            want |= {
                (tree, u, v)
                for u, v in map(tuple, edges.tolist())
                if u in sets[0] and v in sets[1] and (u, v) not in gone
            }
        assert pairs_of(got, name) == want


@pytest.mark.parametrize("rule", [HeteroLabor([5, 5]), HeteroLabor([4], disjoint=True)], ids=repr)
def test_labor_draws_as_if_the_edges_were_not_there(rule):
    graph, pairs = links_of(3)
    rng = np.random.default_rng(0)
    gone = rng.choice(pairs.shape[1], 700, replace=False)
    kept = np.delete(pairs, gone, axis=1)
    less = HeteroGraph(graph.nodes, {**graph.edges, BUYS: Relation.of(kept, 400, 300)})
    users = np.arange(40)
    more = {"rows": {"user": [users]}} if rule.disjoint else {}
    trees = [np.repeat(users, len(gone))] if rule.disjoint else None
    edges = np.tile(gone, len(users)) if rule.disjoint else gone
    exclude = {BUYS: Excluded.edges([edges], trees)}
    (got,) = rule.sample_bulk(graph, {"user": [users]}, seed=2, exclude=exclude, **more)
    (want,) = rule.sample_bulk(less, {"user": [users]}, seed=2, **more)
    for name in graph.edge_types:
        for field in ("row", "col", "num_edges", "weight"):
            one, other = (getattr(s.edges[name], field) for s in (got, want))
            np.testing.assert_array_equal(one, other)


def test_an_earlier_edge_between_the_same_nodes_stays():
    pairs, time = np.array([[0, 0, 0], [0, 0, 0]]), np.array([1, 5, 9])
    graph = HeteroGraph(
        {"user": NodeTable.of(1), "item": NodeTable.of(1)},
        {BUYS: Relation.of(pairs, 1, 1, time=time)},
    )
    rule = HeteroNeighbor([-1], time="edge")
    call: dict[str, Any] = {"seed": 0, "rows": {"item": [[0]]}, "times": {"item": [[5]]}}
    for exclude, want in (
        (Excluded.edges([[1]], [[0]]), [0]),
        (Excluded.pairs([[0]], [[0]], [[0]]), []),
    ):
        (sample,) = rule.sample_bulk(graph, {"item": [[0]]}, exclude={BUYS: exclude}, **call)
        assert sample.edges[BUYS].edge is not None
        assert sample.edges[BUYS].edge.tolist() == want


def test_threads_and_bulks_do_not_matter():
    graph = random_graph(5, types=3, relations=6, most_nodes=600, most_edges=30_000)
    rng = np.random.default_rng(2)
    for rule in some(
        [
            HeteroNeighbor([10, 8]),
            HeteroNeighbor([10, 8], disjoint=True, time="edge", weights=True),
            HeteroNeighbor([10, 8], time="edge", temporal_strategy="last"),
        ]
    ):
        dealt: list[list[Seed]] = [
            [("user", int(v), int(rng.integers(2**62)), 4) for v in rng.integers(0, 80, 60)]
            for _ in range(3)
        ]
        entries = entries_of(graph, rule, dealt, rng)
        exclude, _ = passed(graph, rule, entries, True)
        want = list(sample_all(rule, graph, dealt, exclude, seed=1, threads=1))
        assert sum(len(own.row) for own in want[0].edges.values()) > 5000
        assert_same_samples(sample_all(rule, graph, dealt, exclude, seed=1, threads=4), want)
        for b in range(3):
            alone, _ = passed(graph, rule, {n: e[b : b + 1] for n, e in entries.items()}, True)
            keys = {"seed": 1, "first_batch": b, "threads": 4}
            got = sample_all(rule, graph, dealt[b : b + 1], alone, **keys)
            assert_same_samples(got, want[b : b + 1])


def test_what_does_not_fit_is_refused():
    graph, _ = links_of(1)
    rule = HeteroNeighbor([2])
    seeds = {"user": [[0]]}
    with pytest.raises(InputError, match="the nearest is"):
        rule.sample_bulk(
            graph, seeds, seed=0, exclude={("user", "buy", "item"): Excluded.edges([[0]])}
        )
    with pytest.raises(InputError, match="exclude must be a mapping from edge types"):
        rule.sample_bulk(graph, seeds, seed=0, exclude=Excluded.edges([[0]]))
    with pytest.raises(InputError, match="rev_buys.*exclude has target 400"):
        rule.sample_bulk(graph, seeds, seed=0, exclude={BACK: Excluded.pairs([[400]], [[0]])})
    both = HeteroNeighbor([2], subgraph_type="bidirectional")
    with pytest.raises(InputError, match="by number could come back by their reverse"):
        both.sample_bulk(graph, seeds, seed=0, exclude={BUYS: Excluded.edges([[0]])})
