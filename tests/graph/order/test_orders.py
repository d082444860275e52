"""Orders: permutations that depend on the graph alone, and bring neighbours together."""

import importlib.util

import numpy as np
import pytest

from foregather import Graph, _core
from foregather.errors import BudgetError, InputError
from foregather.graph.order import ORDERS, find_order
from foregather.graph.order.find import order_bytes
from foregather.graph.order.streams import visits
from tests.some import some

NAMES = [n for n in ORDERS if n != "metis" or importlib.util.find_spec("pymetis")]


def planted(groups=40, size=50, seed=0, directed=False):
    """Groups of nodes with most edges inside, ids shuffled; and the group of each node."""
    rng = np.random.default_rng(seed)
    nodes = groups * size
    group = rng.permutation(np.repeat(np.arange(groups), size))
    members = np.argsort(group, kind="stable").reshape(groups, size)
    target = np.repeat(np.arange(nodes), 8)
    inside = members[group[target], rng.integers(0, size, len(target))]
    source = np.where(rng.random(len(target)) < 0.9, inside, rng.integers(0, nodes, len(target)))
    if directed:  # a tenth has no sources
        kept = target >= nodes // 10
        source, target = source[kept], target[kept]
    return Graph.from_edge_index(np.stack([source, target]), nodes), group


@pytest.mark.parametrize("name", NAMES)
def test_every_order_is_a_permutation_for_any_threads(name):
    graph, _ = planted()
    first = find_order(graph, name, threads=1)
    assert first.dtype == np.uint32 and (np.sort(first) == np.arange(graph.num_nodes)).all()
    for threads in some((2, 3, 8)):
        assert (find_order(graph, name, threads=threads) == first).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [0, 1, 2, 70])
def test_small_graphs_without_edges(name, nodes):
    graph = Graph.from_edge_index(np.empty((2, 0), np.int64), nodes)
    assert sorted(find_order(graph, name).tolist()) == list(range(nodes))


@pytest.mark.parametrize("directed", [False, True])
def test_communities_find_planted_groups(directed):
    graph, group = planted(directed=directed)
    along = group[find_order(graph, "communities")]
    together = (along[1:] == along[:-1]).mean()
    by_chance = (group[1:] == group[:-1]).mean()
    assert by_chance < 0.1 and together > 0.6


def test_pieces_of_the_topology_change_nothing(monkeypatch):
    from foregather.graph.order import streams

    graph, _ = planted()
    whole = find_order(graph, "communities")
    scores = visits(graph)
    monkeypatch.setattr(streams, "_PIECE", 100)
    assert (find_order(graph, "communities") == whole).all()
    assert (visits(graph) == scores).all()


def test_levels_stay_within_their_cap_and_inside_each_other():
    graph, _ = planted()
    core = _core.Communities(graph.num_nodes)
    above = np.zeros(graph.num_nodes, np.uint32)
    for cap in some((100, 7)):
        core.begin_level(cap)
        for _ in range(4):
            core.feed(0, graph.indptr, graph.indices)
        labels = core.labels()
        assert np.bincount(labels).max() <= cap
        assert len(np.unique(np.stack([above, labels]), axis=1).T) == len(np.unique(labels))
        above = labels


def test_visits_are_the_chances_of_being_drawn():
    graph, _ = planted()
    expected = np.zeros(graph.num_nodes)
    for node in range(graph.num_nodes):
        row = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        np.add.at(expected, row, min(3, len(row)) / max(1, len(row)))
    assert np.allclose(visits(graph, 3) / 2**20, expected, atol=1e-3)
    hottest = find_order(graph, "hot")
    score = visits(graph)
    assert (np.diff(score[hottest].astype(np.int64)) <= 0).all()


def test_a_search_goes_from_targets_to_sources():
    # 0 <- 3 <- 4, 1 <- 2
    graph = Graph.from_edge_index(np.array([[3, 4, 2], [0, 3, 1]]), 5)
    assert find_order(graph, "bfs").tolist() == [0, 3, 4, 1, 2]
    assert find_order(graph, "rcm").tolist() == [2, 1, 4, 3, 0]


def test_the_hot_tenth_is_first():
    graph, _ = planted()
    made, plain = find_order(graph, "hot+communities"), find_order(graph, "communities")
    count = graph.num_nodes // 10
    assert set(made[:count]) == set(find_order(graph, "hot")[:count])
    rest = ~np.isin(plain, made[:count])
    assert (made[count:] == plain[rest]).all()


def test_bad_input_is_one_sentence():
    graph, _ = planted()
    with pytest.raises(InputError, match="order is 'best', expected one of ids, communities"):
        find_order(graph, "best")
    with pytest.raises(BudgetError, match=r"order bfs needs .* needs 28 bytes per node"):
        find_order(graph, "bfs", 1000)
    assert order_bytes(graph, "communities") < order_bytes(graph, "bfs") + 28 * graph.num_nodes
    core = _core.Communities(graph.num_nodes)
    core.begin_level(5)
    with pytest.raises(InputError, match="feed every row once"):
        core.feed(64 * 3, graph.indptr[:3], graph.indices[: graph.indptr[2]])
    with pytest.raises(InputError, match="names node 9999"):
        core.feed(0, np.array([0, 1]), np.array([9999], np.uint32))
    with pytest.raises(InputError, match="names node 9999"):
        empty = np.empty(0, np.uint32)
        _core.breadth_first(np.array([0, 1]), np.array([9999], np.uint32), False, empty, empty)
