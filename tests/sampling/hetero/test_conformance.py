"""Every kind of graph, tree and draw: all neighbours, shares of the draws, threads and batches.

One type with one relation, or several, times no trees, trees, times of nodes, times of edges, times
uniform, last and weighted draws. Each is set beside what can be said without the kernel: with all
neighbours what can be reached, with few of them how often each set is drawn.
"""

import importlib.util
import itertools
import os
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor
from tests.sampling.helpers_hetero import assert_same_samples, random_relation
from tests.sampling.hetero.reference_hetero import rows_of
from tests.some import some

SHAPES = ["plain", "disjoint", "node", "edge"]
CASES = [
    (graph, shape, draw)
    for graph, shape, draw in itertools.product(
        ("one type", "types"), SHAPES, ("uniform", "last", "weighted")
    )
    if draw != "last" or shape in ("node", "edge")  # without times there is no last edge
]
ALL = pytest.mark.parametrize(("kind", "shape", "draw"), CASES)
DRAWN = pytest.mark.parametrize(
    ("kind", "shape", "draw"), [case for case in CASES if case[2] != "last"]
)
LEAST = 1e-4  # probability below which a statistic is an error


def make_graph(kind, seed, nodes=40, edges=300):
    rng = np.random.default_rng(seed)
    names = ("user",) if kind == "one type" else ("item", "tag", "user")
    tables = {name: NodeTable.of(nodes, time=rng.integers(-9, 9, nodes)) for name in names}
    ends = [("user", "user")]
    if kind == "types":
        ends = [("item", "user"), ("tag", "item"), ("user", "item"), ("user", "user")]
    links = {
        (source, f"to_{target}", target): random_relation(
            rng, nodes, nodes, edges, time=True, weights=True
        )
        for source, target in ends
    }
    return HeteroGraph(tables, links)


def make_rule(fanouts, shape, draw):
    return HeteroNeighbor(
        fanouts,
        disjoint=shape != "plain",
        time=shape if shape in ("node", "edge") else None,
        temporal_strategy="last" if draw == "last" else "uniform",
        weights=draw == "weighted",
    )


def sample(rule, graph, seeds, first_row=0, **keys):
    """Minibatches of users; row numbers run on, and each row's time is a function of its number."""
    rows, at = [], first_row
    for part in seeds:
        rows.append(np.arange(at, at + len(part)))
        at += len(part)
    more = {}
    if rule.disjoint:
        more["rows"] = {"user": rows}
    if rule.time is not None:
        more["times"] = {"user": [row * 7 % 20 - 9 for row in rows]}
    return rule.sample_bulk(graph, {"user": seeds}, **more, **keys)


def reached(graph, rule, seeds, layers):
    """(tree, relation, source, target, position) of all edges that can be taken, by walking."""
    rows = {link: rows_of(graph, link, rule.time) for link in graph.edge_types}
    found = set()
    frontier = {(number if rule.disjoint else 0, "user", int(v)) for number, v in enumerate(seeds)}
    known = set(frontier)
    for _ in range(layers):
        fresh = set()
        for tree, name, v in frontier:
            limit = tree * 7 % 20 - 9 if rule.time is not None else None
            for link in graph.edge_types:
                if link[2] != name:
                    continue
                for p, (time, u, weight) in enumerate(rows[link][v]):
                    late = limit is not None and time is not None and time > limit
                    if late or (rule.weights is not None and weight == 0):
                        continue
                    found.add((tree, link, u, v, int(graph.edges[link].indptr[v]) + p))
                    fresh.add((tree, link[0], u))
        frontier = fresh - known
        known |= fresh
    return found, known


def held(sample):
    """The same of a minibatch."""
    edges, nodes = set(), set()
    for name, own in sample.nodes.items():
        trees = np.zeros(len(own.node), int) if own.tree is None else own.tree
        nodes |= {(int(t), name, int(v)) for t, v in zip(trees, own.node, strict=True)}
    for link, own in sample.edges.items():
        source, target = sample.nodes[link[0]], sample.nodes[link[2]]
        for row, col, edge in zip(own.row, own.col, own.edge, strict=True):
            tree = 0 if target.tree is None else int(target.tree[col])
            assert source.tree is None or source.tree[row] == tree
            edges.add((tree, link, int(source.node[row]), int(target.node[col]), int(edge)))
    assert len(edges) == sum(len(own.row) for own in sample.edges.values())
    return edges, nodes


def table(sample, shift=0):
    """Edges of a minibatch of trees as sorted rows: tree, relation, source, target, position."""
    parts = []
    for number, (link, own) in enumerate(sample.edges.items()):
        source, target = sample.nodes[link[0]], sample.nodes[link[2]]
        ends = (source.node[own.row], target.node[own.col])
        columns = (target.tree[own.col] + shift, np.full(len(own.row), number), *ends, own.edge)
        parts.append(np.stack([column.astype(np.int64) for column in columns], 1))
    rows = np.concatenate(parts)
    return rows[np.lexsort(rows.T)]


@ALL
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_all_neighbours_are_what_can_be_reached(kind, shape, draw, layers):
    graph = make_graph(kind, 3)
    rule = make_rule([-1] * layers, shape, draw)
    seeds = np.array([0, 3, 17, 3, 25]) if shape != "plain" else np.array([0, 3, 17, 25])
    got = held(sample(rule, graph, [seeds], seed=1)[0])
    want = reached(graph, rule, seeds, layers)
    assert got == want
    assert len(want[0]) > 5


def sets_of(weights, count):
    """Probability of each set of `count` edges drawn one after the other by weight."""
    chances = Counter()
    for order in itertools.permutations(range(len(weights)), count):
        left, chance = sum(weights), 1.0
        for edge in order:
            chance *= weights[edge] / left
            left -= weights[edge]
        chances[tuple(sorted(order))] += chance
    return chances


@DRAWN
def test_sets_are_drawn_as_often_as_they_should(kind, shape, draw):
    """One user with 9 in-edges, of which a tree with a time sees 6; sets of 2."""
    degree, seen, trials = 9, 6 if shape in ("node", "edge") else 9, 12_000
    weights = np.array([1.0, 4.0, 0.5, 2.0, 3.0, 0.0, 1.0, 2.0, 5.0], np.float32)
    pairs = np.stack([np.arange(degree), np.zeros(degree, np.int64)])
    star = Relation.of(pairs, degree, degree, time=np.arange(degree), weights=weights)
    tables = {"user": NodeTable.of(degree, time=np.arange(degree))}
    links = {("user", "to_user", "user"): star}
    if kind == "types":
        tables["item"] = NodeTable.of(degree, time=np.arange(degree))
        links["item", "to_user", "user"] = star
    graph, rule = HeteroGraph(tables, links), make_rule([2], shape, draw)
    more, each = {}, [np.zeros(1, np.int64)] * trials
    if rule.disjoint:
        more["rows"] = {"user": [np.array([row]) for row in range(trials)]}
    if rule.time is not None:
        more["times"] = {"user": [np.array([seen - 1])] * trials}
    bulk = rule.sample_bulk(graph, {"user": each}, seed=5, **more)
    likely = weights[:seen].tolist() if draw == "weighted" else [1.0] * seen
    chances = {key: p for key, p in sets_of(likely, 2).items() if p > 0}
    for link in some(links):
        counts = Counter(tuple(one.edges[link].edge.tolist()) for one in bulk)
        assert set(counts) <= set(chances)
        chi = sum((counts[k] - trials * p) ** 2 / (trials * p) for k, p in chances.items())
        assert LEAST < stats.chi2.sf(chi, len(chances) - 1) < 1 - LEAST


@pytest.fixture(scope="module")
def large():
    """Graphs whose minibatches are large enough for several threads to share one."""
    return {kind: make_graph(kind, 9, 6000, 90_000) for kind in ("one type", "types")}


@ALL
def test_threads_bulks_and_batch_sizes_change_nothing(kind, shape, draw, large):
    graph, rule = large[kind], make_rule([12, 9], shape, draw)
    ids = (6000 * np.random.default_rng(1).random(1200) ** 2).astype(np.int64)
    seeds = np.split(ids, 3)
    want = sample(rule, graph, seeds, seed=4, threads=1)
    assert min(sum(len(e.row) for e in one.edges.values()) for one in want) > 8000
    for threads in (2, 3):
        assert sample(rule, graph, seeds, seed=4, threads=threads).digest == want.digest
    at = 0
    for first, part in enumerate(seeds):  # alone, each is the work of all threads
        for threads in (1, 2, 3):
            one = sample(rule, graph, [part], at, seed=4, first_batch=first, threads=threads)
            assert_same_samples(one, want.samples[first : first + 1])
        at += len(part)
    if shape != "plain":
        whole = sample(rule, graph, [ids], seed=4, threads=2)[0]
        parts = np.concatenate([table(one, 400 * number) for number, one in enumerate(want)])
        np.testing.assert_array_equal(table(whole), parts[np.lexsort(parts.T)])


# ---- pyg-lib ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pyg_lib():
    """Torch with pyg-lib's kernels: of the package pyg_lib, or of the library that is named."""
    torch = pytest.importorskip("torch")
    if importlib.util.find_spec("pyg_lib") is not None:
        importlib.import_module("pyg_lib")
    elif path := os.environ.get("FOREGATHER_PYG_LIB"):
        torch.ops.load_library(path)
    else:
        pytest.skip("there is no package pyg_lib, and FOREGATHER_PYG_LIB names no library")
    return torch


@ALL
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_all_neighbours_are_those_of_pyg_lib(kind, shape, draw, layers, pyg_lib):
    """pyg-lib refuses weights with times, and takes edges of weight 0 if all are taken."""
    if draw == "weighted" and shape in ("node", "edge"):
        pytest.skip("pyg-lib has no weighted draws with times")
    torch, graph = pyg_lib, make_graph(kind, 3)
    rule = make_rule([-1] * layers, shape, "uniform" if draw == "weighted" else draw)
    seeds = np.array([0, 3, 17, 25])
    walked = {link: graph.relation(link, rule.time) for link in graph.edge_types}

    def by_relation(arrays):
        return {"__".join(link): torch.from_numpy(np.array(one)) for link, one in arrays.items()}

    times = {"user": torch.from_numpy(np.arange(4) * 7 % 20 - 9)}
    node_time = {n: torch.from_numpy(np.array(t.time)) for n, t in graph.nodes.items()}
    edge_time = by_relation({link: r.time for link, r in walked.items()}) if rule.time else None
    weights = {link: np.float64(r.weights) for link, r in walked.items()}
    made = torch.ops.pyg.hetero_neighbor_sample(
        list(graph.node_types),
        list(graph.edge_types),
        by_relation({link: r.indptr for link, r in walked.items()}),
        by_relation({link: r.indices.astype(np.int64) for link, r in walked.items()}),
        {"user": torch.from_numpy(seeds)},
        {"__".join(link): [-1] * layers for link in walked},
        node_time if rule.time == "node" else None,
        edge_time if rule.time == "edge" else None,
        times if rule.time is not None else None,
        by_relation(weights) if draw == "weighted" else None,
        True, False, True, rule.disjoint, "last" if draw == "last" else "uniform", True,
    )  # fmt: skip
    want = set()
    for link in graph.edge_types:
        key = "__".join(link)
        source, target = made[2][link[0]], made[2][link[2]]
        for row, col, edge in zip(made[0][key], made[1][key], made[3][key], strict=True):
            one, other = source[row], target[col]
            if rule.disjoint:
                assert one[0] == other[0]
                want.add((int(other[0]), link, int(one[1]), int(other[1]), int(edge)))
            else:
                want.add((0, link, int(one), int(other), int(edge)))
    assert held(sample(rule, graph, [seeds], seed=1)[0])[0] == want
    assert len(want) > 5
