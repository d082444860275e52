"""Edges that are left out: equal to the reference, to a graph without them, and never there."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import InputError
from foregather.sampling import DiskTopology, Labor, Ladies, Neighbor
from foregather.sampling.bulk import Sample
from foregather.sampling.fused import check_excluding
from foregather.sampling.links.excluded import Excluded
from tests.helpers_sampling import assert_same, drawn_graph, skewed_graph
from tests.sampling.hetero.reference_hetero import choose_in_part
from tests.sampling.reference import batch_key, choose, layer_key, sample_one, vertex_key
from tests.sampling.reference_trees import join_all
from tests.some import some

Entries = list[tuple[int, int, int]]  # tree, target, source


def target_of(graph: Graph, edge: Any) -> Any:
    return np.searchsorted(graph.indptr, edge, side="right") - 1


def entries_of(graph: Graph, rng: np.random.Generator, trees: int) -> list[tuple[int, int]]:
    """(tree, edge of the graph) of some edges, and some twice."""
    count = int(rng.integers(0, 40)) if graph.num_edges else 0
    edges = rng.integers(0, max(graph.num_edges, 1), count)
    return [(int(rng.integers(max(trees, 1))), int(e)) for e in [*edges, *edges[:3]]]


def excluded(
    graph: Graph, given: list[list[tuple[int, int]]], by_ends: bool, trees: bool
) -> tuple[Excluded, list[set[tuple[int, int]]]]:
    """What is passed, and for each minibatch the (tree, edge) that are left out."""
    of = [[tree for tree, _ in own] for own in given]
    edges = [np.array([e for _, e in own], np.int64) for own in given]
    numbers = of if trees else None
    if not by_ends:
        ids = edges if graph.edge_ids is None else [graph.edge_ids[e] for e in edges]
        return Excluded.edges(ids, numbers), [set(own) for own in given]
    targets = [target_of(graph, e) for e in edges]
    made = Excluded.pairs(targets, [graph.indices[e] for e in edges], numbers)
    gone: list[set[tuple[int, int]]] = []
    for own in given:
        gone.append(set())
        for tree, e in own:
            v = int(target_of(graph, e))
            row = range(int(graph.indptr[v]), int(graph.indptr[v + 1]))
            gone[-1] |= {(tree, k) for k in row if graph.indices[k] == graph.indices[e]}
    return made, gone


def alone(graph: Graph, rule: Neighbor, seeds: list[int], gone: set[int], key: int) -> Sample:
    """The reference's minibatch of a uniform or weighted sampler, without some edges."""
    weights = None if rule.weights is None else rule.weights.of(graph)

    def pick(layer: int, batch: int, v: int, fanout: int) -> list[int]:
        begin, end = int(graph.indptr[v]), int(graph.indptr[v + 1])
        own = vertex_key(layer_key(batch, layer), v)
        gaps = {e - begin for e in gone if begin <= e < end}
        left = [p for p in range(end - begin) if p not in gaps]
        if weights is None:
            return [left[p] for p in choose(own, len(left), fanout, rule.replace)]
        row = weights[begin:end].tolist()
        return choose_in_part(own, row, end - begin, gaps, fanout, rule.replace)

    return sample_one(graph, seeds, rule.num_neighbors, pick, rule.expand, key, 0)


def drawn_rule(data: st.DataObject, graph: Graph) -> Neighbor:
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40]), min_size=1, max_size=3))
    again, weighted = data.draw(st.booleans()), data.draw(st.booleans())
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.25, 1.0, 3.0, 500.0], graph.num_edges)
    first = graph.indptr[:-1][np.diff(graph.indptr) > 0]
    weights[first] = 2.0  # a row whose weights are all 0 is refused
    expand = data.draw(st.sampled_from(["once", "per-layer"]))
    return Neighbor(fanouts, again, expand, weights if weighted else None)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_minibatches_are_those_of_the_reference(data):
    graph = drawn_graph(data, 25, 400)
    rule = drawn_rule(data, graph)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    seeds = [rng.integers(0, graph.num_nodes, n) for n in rng.integers(0, 6, 3)]
    made, gone = excluded(
        graph, [entries_of(graph, rng, 1) for _ in seeds], data.draw(st.booleans()), False
    )
    got = rule.sample_bulk(graph, seeds, seed=3, epoch=1, first_batch=7, exclude=made, threads=2)
    want = [
        replace(
            alone(graph, rule, own.tolist(), {e for _, e in out}, batch_key(3, 1, 7 + b)),
            batch=7 + b,
        )
        for b, (own, out) in enumerate(zip(seeds, gone, strict=True))
    ]
    assert_same(list(got), want)
    for sample, out in zip(got, gone, strict=True):
        assert not {e for _, e in out} & set(sample.edge.tolist())
    if rule.joins:
        flat, ptr = np.concatenate(seeds), np.cumsum([0, *map(len, seeds)])
        _, _, edge, *_ = rule.sample_joined(graph, flat, ptr, 3, 1, 7, 1, made)
        assert np.array_equal(edge, np.concatenate([s.edge for s in want]))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_trees_leave_out_what_is_theirs(data):
    graph = drawn_graph(data, 25, 400)
    rule = replace(drawn_rule(data, graph), expand="once")
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    seeds = [rng.integers(0, graph.num_nodes, n) for n in rng.integers(1, 6, 3)]
    rows = [rng.integers(0, 2**62, len(own)) for own in seeds]
    given_ = [entries_of(graph, rng, len(own)) for own in seeds]
    made, gone = excluded(graph, given_, data.draw(st.booleans()), True)
    got = rule.sample_trees(graph, seeds, rows, seed=3, epoch=1, exclude=made, threads=2)
    out = {
        int(row): {e for at, e in own if at == tree}
        for b, own in enumerate(gone)
        for tree, row in enumerate(rows[b])
    }

    def one(v: int, row: int) -> Sample:
        return alone(graph, rule, [v], out[row], batch_key(3, 1, row))

    assert_same(list(got), join_all(one, seeds, rows, rule.num_layers))


def without(graph: Graph, edges: Any) -> tuple[Graph, Any]:
    """The graph without some edges, and where the others were."""
    kept = np.setdiff1d(np.arange(graph.num_edges), edges)
    pairs = np.stack([graph.indices[kept].astype(np.int64), target_of(graph, kept)])
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return Graph.from_edge_index(pairs, graph.num_nodes, edge_weight=weight), kept


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        Neighbor([7, 4]),
        Neighbor([7, 4], replace=True),
        Neighbor([-1, 3], expand="per-layer"),
        Labor([5, 5]),
        Labor([5, -1], debias="reference", layer_dependency=True),
        Labor([9], debias=None, expand="per-layer"),
    ],
    ids=repr,
)
def test_a_minibatch_is_that_of_a_graph_without_these_edges(rule, wide):
    graph = skewed_graph(2, 2000, 40_000, wide=wide)
    rng = np.random.default_rng(4)
    gone = np.unique(rng.integers(0, graph.num_edges, 4000))
    seeds = [rng.integers(0, 2000, 60) for _ in range(3)]
    ids = graph.edge_ids
    made = Excluded.edges([gone if ids is None else ids[gone]] * 3)
    less, kept = without(graph, gone)
    want = list(rule.sample_bulk(less, seeds, seed=5))
    for threads in (1, 4):
        got = rule.sample_bulk(graph, seeds, seed=5, exclude=made, threads=threads)
        assert_same(list(got), [replace(one, edge=kept[one.edge]) for one in want])


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_bulks_and_teams_do_not_matter(weighted):
    graph = skewed_graph(6, 3000, 90_000)
    rng = np.random.default_rng(0)
    weights = 0.1 + rng.random(graph.num_edges) if weighted else None
    rule = Neighbor([15, 10], weights=weights)
    edges = [rng.integers(0, graph.num_edges, 500) for _ in range(3)]
    targets = [target_of(graph, e) for e in edges]
    sources = [graph.indices[e] for e in edges]
    seeds = [np.concatenate(pair) for pair in zip(targets, sources, strict=True)]
    whole = Excluded.pairs(targets, sources)
    want = list(rule.sample_bulk(graph, seeds, seed=1, exclude=whole, threads=1))
    assert_same(list(rule.sample_bulk(graph, seeds, seed=1, exclude=whole, threads=4)), want)
    for b in range(3):
        own = Excluded.pairs(targets[b : b + 1], sources[b : b + 1])
        keys = {"seed": 1, "first_batch": b, "threads": 4}
        assert_same(list(rule.sample_bulk(graph, seeds[b : b + 1], exclude=own, **keys)), [want[b]])
        col, row = want[b].node[want[b].col], want[b].node[want[b].row]
        pairs = set(zip(targets[b].tolist(), sources[b].tolist(), strict=True))
        assert len(col) > 10_000
        assert not pairs & set(zip(col.tolist(), row.tolist(), strict=True))
    plain = list(rule.sample_bulk(graph, seeds, seed=1))
    assert_same(
        list(rule.sample_bulk(graph, seeds, seed=1, exclude=Excluded.edges([[]] * 3))), plain
    )


def test_parallel_edges_by_ends_and_by_number():
    graph = Graph.from_edge_index([[1, 1, 2, 1], [0, 0, 0, 0]], 3)
    rule = Neighbor([-1])

    def sources(exclude: Excluded) -> list[int]:
        (sample,) = rule.sample_bulk(graph, [[0]], seed=0, exclude=exclude)
        return sorted(sample.node[sample.row].tolist())

    assert sources(Excluded.pairs([[0]], [[1]])) == [2]
    assert sources(Excluded.pairs([[0, 0]], [[2, 2]])) == [1, 1, 1]
    assert sources(Excluded.edges([[3]])) == [1, 1, 2]
    assert sources(Excluded.pairs([[1]], [[0]])) == [1, 1, 1, 2]  # no such edge
    assert sources(Excluded.edges([[0, 1, 2, 3]])) == []


def test_an_edge_of_a_graph_made_undirected_goes_both_ways():
    graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], 3, undirected=True)
    (sample,) = Neighbor([-1]).sample_bulk(
        graph, [[0, 1, 2]], seed=0, exclude=Excluded.edges([[1]])
    )
    ends = {(int(sample.node[u]), int(sample.node[v])) for u, v in zip(sample.row, sample.col)}  # noqa: B905
    assert ends == {(0, 1), (1, 0), (2, 0), (0, 2)}


@pytest.mark.parametrize("length", [12, 90])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_what_is_left_is_drawn_with_its_own_probability(length, weighted, again):
    rng = np.random.default_rng(1)
    weights = rng.choice([0.5, 1.0, 4.0], length)
    weights[3] = 30.0  # the heaviest is left out, so many draws are refused
    pairs = np.stack([np.arange(1, length + 1), np.zeros(length, np.int64)])
    graph = Graph.from_edge_index(pairs, length + 1)
    gone = [3, 4, length - 1]
    rule = Neighbor([1], again, weights=weights if weighted else None)
    tries = 12_000
    exclude = Excluded.edges([np.tile(gone, tries)], [np.repeat(np.arange(tries), 3)])
    seeds, rows = [np.zeros(tries, np.int64)], [np.arange(tries)]
    (sample,) = rule.sample_trees(graph, seeds, rows, seed=9, exclude=exclude)
    counts = Counter(sample.edge.tolist())
    share = weights.copy() if weighted else np.ones(length)
    share[gone] = 0
    want = tries * share / share.sum()
    found = np.array([counts[e] for e in range(length)])
    assert not found[gone].any()
    left = np.flatnonzero(share)
    chi = float(((found[left] - want[left]) ** 2 / want[left]).sum())
    assert chi < len(left) - 1 + 5 * np.sqrt(2 * (len(left) - 1))


def test_samplers_that_leave_nothing_out():
    class Own(Neighbor):
        def sample(self, p: Any) -> Any:
            return super().sample(p)

    graph = skewed_graph(0, 10, 40)
    for sampler in some([Own([2]), Ladies([2])]):
        with pytest.raises(InputError, match=f"not by {type(sampler).__name__}; pass num_neigh"):
            check_excluding(sampler)
    with pytest.raises(InputError, match="edges are left out by Neighbor and Labor, not by Own"):
        Own([2]).sample_bulk(graph, [[0]], seed=0, exclude=Excluded.edges([[0]]))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Excluded.edges([[0], [1]]), "exclude is for 2 minibatches, but there are 1"),
        (lambda: Excluded.edges([[40]]), "exclude has edge 40, which is not one of the 40 edges"),
        (lambda: Excluded.edges([[-1]]), "exclude has edge -1"),
        (lambda: Excluded.edges([[0.5]]), "edges of minibatch 0 are float64"),
        (lambda: Excluded.pairs([[10]], [[0]]), "exclude has target 10, but there are 10"),
        (lambda: Excluded.pairs([[1]], [[-4]]), "exclude has source -4"),
        (lambda: Excluded.pairs([[1]], [[4, 5]]), "sources must hold one number for each entry"),
        (lambda: Excluded.edges([[0]], [[0]]), "exclude names trees, but these minibatches"),
    ],
)
def test_what_cannot_be_left_out(made, words):
    graph = skewed_graph(0, 10, 40)
    with pytest.raises(InputError, match=words):
        Neighbor([2]).sample_bulk(graph, [[0]], seed=0, exclude=made())


def ends_of(graph: Graph, rng: np.random.Generator, batches: int) -> Excluded:
    """Some edges of each minibatch, most of them of long rows, and pairs that are no edges."""
    targets, sources = [], []
    for _ in range(batches):
        edges = rng.integers(0, graph.num_edges, 40) if graph.num_edges else np.empty(0, np.int64)
        none = rng.integers(0, graph.num_nodes, (2, 10))
        targets.append(np.concatenate([target_of(graph, edges), none[0]]))
        sources.append(np.concatenate([graph.indices[edges].astype(np.int64), none[1]]))
    return Excluded.pairs(targets, sources)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("rule", "block"),
    [
        (Neighbor([7, 4]), 4096),
        (Neighbor([-1]), 8192),  # the header of the file is in the block of the first edges
        (Neighbor([5, 3], True), 4096),
        (Neighbor([6, -1], expand="per-layer"), 16384),
    ],
)
def test_from_disk_as_from_memory(tmp_path, rule, block, wide):
    graph = skewed_graph(4, 60, 60_000, wide=wide)  # rows of several blocks, many parallel edges
    assert np.diff(graph.indptr).max() > 4096
    graph.save(tmp_path / "g.fg")
    rng = np.random.default_rng(5)
    seeds = [rng.integers(0, 60, 9) for _ in range(4)]
    made = ends_of(graph, rng, 4)
    options: dict[str, Any] = {"seed": 3, "epoch": 1, "first_batch": 7}
    want = rule.sample_bulk(graph, seeds, exclude=made, **options)
    plain = rule.sample_bulk(graph, seeds, **options)
    assert any(not np.array_equal(a.edge, b.edge) for a, b in zip(want, plain, strict=True))
    for memory, threads in (("3MB", 1), ("64MB", 2)):
        with DiskTopology(tmp_path / "g.fg", memory, block=block) as topology:
            for _ in range(2):  # from the file, and from the cache
                got = topology.sample_bulk(rule, seeds, exclude=made, threads=threads, **options)
                assert_same(list(got), list(want))
            counted = topology.counters()
            assert counted["picks"] == 2 * sum(len(sample.edge) for sample in want)
            assert_same(list(topology.sample_bulk(rule, seeds, **options)), list(plain))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_any_graph_from_disk(data, tmp_path_factory):
    graph = drawn_graph(data, 25, 400)
    rule = replace(drawn_rule(data, graph), weights=None)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    seeds = [rng.integers(0, graph.num_nodes, n) for n in rng.integers(0, 6, 3)]
    made = ends_of(graph, rng, 3)
    path = tmp_path_factory.mktemp("disk") / "g.fg"
    graph.save(path)
    with DiskTopology(path, "16MB") as topology:
        got = topology.sample_bulk(rule, seeds, seed=3, exclude=made)
    assert_same(list(got), list(rule.sample_bulk(graph, seeds, seed=3, exclude=made)))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Excluded.edges([[0]]), "edges are left out of a topology on disk by their two"),
        (lambda: Excluded.pairs([[1]], [[2]], [[0]]), "use Excluded.pairs, or keep the neighbour"),
        (lambda: Excluded.pairs([[1], []], [[2], []]), "exclude is for 2 minibatches"),
        (lambda: Excluded.pairs([[10]], [[2]]), "exclude has target 10, but there are 10"),
        (lambda: Excluded.pairs([[1]], [[10]]), "exclude has source 10, but there are 10"),
    ],
)
def test_what_cannot_be_left_out_of_a_topology_on_disk(tmp_path, made, words):
    skewed_graph(0, 10, 40).save(tmp_path / "g.fg")
    with (
        DiskTopology(tmp_path / "g.fg", "16MB") as topology,
        pytest.raises(InputError, match=words),
    ):
        topology.sample_bulk(Neighbor([2]), [[0]], seed=0, exclude=made())


def test_trees_that_do_not_exist():
    graph = skewed_graph(0, 10, 40)
    rule = Neighbor([2])
    with pytest.raises(InputError, match="need the tree of every entry"):
        rule.sample_trees(graph, [[0]], [[5]], seed=0, exclude=Excluded.edges([[0]]))
    with pytest.raises(InputError, match="exclude names tree 1, but a tree is the number of a"):
        rule.sample_trees(graph, [[0]], [[5]], seed=0, exclude=Excluded.edges([[0]], [[1]]))
