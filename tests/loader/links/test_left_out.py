"""No batch holds the links that it asks about, and nothing else is missing."""

from collections import Counter

import numpy as np
import pytest
import torch

from foregather import Graph, HeteroLinkLoader, InputError, LinkLoader, Negatives
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.loader.links.hetero_left_out import find_edges
from foregather.sampling import HeteroLabor, Hgt, Labor, Ladies
from tests.loader.graphs import small_graph
from tests.loader.hetero.batches import BOUGHT, BUYS, LIKES, given_edges, shop
from tests.loader.links.slow import check_edges, edges_of, same_links
from tests.some import some

GRAPH = small_graph(nodes=60, edges=900)  # many parallel edges, and some in both directions
EDGES = edges_of(GRAPH)
SHOP = shop()
GIVEN = given_edges(SHOP)


def forbidden(batch, links):
    """For each node of a batch the pairs that its part of the batch must not hold."""
    own = links[:, batch.input_id.numpy()]
    return [{(u, v), (v, u)} for u, v in own.T.tolist()]


@pytest.mark.parametrize("links", ["all", "given"])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("fanouts", [[-1, -1], [3, 2]])
def test_links_are_left_out_and_fanouts_stay_full(fanouts, disjoint, links):
    pairs = None if links == "all" else EDGES[:, ::7]
    given = EDGES if pairs is None else pairs
    made = LinkLoader(
        GRAPH, fanouts, pairs, 9, negatives="binary", disjoint=disjoint, shuffle=True, seed=4
    )
    degree = Counter(map(tuple, EDGES.T.tolist()))
    for batch in some(made):
        check_edges(batch, GRAPH)
        wrong = forbidden(batch, given)
        group = batch.batch if disjoint else torch.zeros(batch.num_nodes, dtype=torch.int64)
        if not disjoint:
            wrong = [set().union(*wrong)]
        ends = batch.n_id[batch.edge_index]
        link = group[batch.edge_index[1]]
        for (u, v), g in zip(ends.T.tolist(), link.tolist(), strict=True):
            assert (u, v) not in wrong[g]
        found = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        expanded = sum(batch.num_sampled_nodes[:-1])
        limits = np.repeat(fanouts, batch.num_sampled_nodes[:-1])
        for node in range(expanded):
            v, g = int(batch.n_id[node]), int(group[node])
            row = EDGES[0, EDGES[1] == v].tolist()
            left = sum((u, v) not in wrong[g] for u in row)
            limit = int(limits[node])
            assert int(found[node]) == (left if limit < 0 else min(limit, left))
    assert max(degree.values()) > 1


def test_false_leaves_nothing_out():
    made = LinkLoader(GRAPH, [-1], None, 900, exclude_seed_edges=False)
    (batch,) = made
    assert sorted(batch.e_id.tolist()) == list(range(GRAPH.num_edges))
    (batch,) = LinkLoader(GRAPH, [-1], None, 900)
    assert batch.e_id.numel() == 0  # every edge is asked about


@pytest.mark.parametrize("sampler", [Labor([4, 3])])
def test_other_samplers_leave_out(sampler):
    for batch in some(LinkLoader(GRAPH, None, None, 30, sampler=sampler)):
        wrong = set().union(*forbidden(batch, EDGES))
        assert not wrong & set(map(tuple, batch.n_id[batch.edge_index].T.tolist()))


def test_samplers_that_cannot_say_so():
    with pytest.raises(InputError, match="Ladies leaves no links out .* exclude_seed_edges=False"):
        LinkLoader(GRAPH, None, None, 30, sampler=Ladies([9, 9]))
    assert len(
        list(LinkLoader(GRAPH, None, None, 900, sampler=Ladies([9]), exclude_seed_edges=False))
    )
    with pytest.raises(InputError, match="Hgt leaves no links out .* exclude_seed_edges=False"):
        LinkLoader(SHOP, None, BUYS, 30, sampler=Hgt([9]))
    with pytest.raises(InputError, match="exclude_seed_edges is 'edges', expected one of"):
        LinkLoader(GRAPH, [2], None, 30, exclude_seed_edges="edges")


@pytest.mark.parametrize("threads, bulk", [(1, 1), (2, 5)])
def test_batches_do_not_depend_on_threads_or_bulk(threads, bulk):
    for disjoint in (False, True):
        how = {"negatives": Negatives(exclude="positives"), "disjoint": disjoint, "seed": 2}
        first = LinkLoader(GRAPH, [4, 3], None, 100, **how)
        other = LinkLoader(GRAPH, [4, 3], None, 100, threads=threads, bulk=bulk, **how)
        assert all(map(same_links, list(first), list(other)))


def typed_ends(batch, name):
    """Source, target, and link of each edge of a relation."""
    store = batch[name]
    source, target = batch[name[0]], batch[name[2]]
    link = target.batch[store.edge_index[1]] if "batch" in target else None
    return source.n_id[store.edge_index[0]], target.n_id[store.edge_index[1]], link


@pytest.mark.parametrize("edge_type", [BUYS, BOUGHT, LIKES])
@pytest.mark.parametrize("disjoint", [False, True])
def test_typed_links_and_their_reverses_are_left_out(disjoint, edge_type):
    reverse = {BUYS: BOUGHT, BOUGHT: BUYS, LIKES: LIKES}[edge_type]
    how = {"negatives": "binary", "disjoint": disjoint, "seed": 1}
    made = HeteroLinkLoader(SHOP, [-1, 4], edge_type, 20, **how)
    links = GIVEN[edge_type]["edge_index"]
    for batch in some(made):
        own = links[:, batch[edge_type].input_id]
        for name, turned in ((edge_type, False), (reverse, True)):
            source, target, link = typed_ends(batch, name)
            a, b = (target, source) if turned else (source, target)
            same = (own[0][:, None] == a) & (own[1][:, None] == b)
            if disjoint:
                same &= torch.arange(own.shape[1])[:, None] == link
            assert not same.any()


def test_fanouts_of_typed_links_stay_full():
    """With all neighbours, only the links of a batch are missing."""
    whole = HeteroLinkLoader(SHOP, [-1], BUYS, 20, exclude_seed_edges=False)
    for batch, full in some(zip(HeteroLinkLoader(SHOP, [-1], BUYS, 20), whole, strict=True)):
        asked = GIVEN[BUYS]["edge_index"][:, batch[BUYS].input_id]
        known = set(map(tuple, asked.T.tolist()))
        for name, turn in ((BUYS, False), (BOUGHT, True)):
            pairs = GIVEN[name]["edge_index"][:, full[name].e_id].T.tolist()
            kept = [
                int(e)
                for e, (u, v) in zip(full[name].e_id.tolist(), pairs, strict=True)
                if ((v, u) if turn else (u, v)) not in known
            ]
            assert sorted(kept) == sorted(batch[name].e_id.tolist())
        assert torch.equal(full[LIKES].e_id.sort()[0], batch[LIKES].e_id.sort()[0])


def stream():
    """One pair that is linked five times, and others."""
    rng = np.random.default_rng(0)
    pairs = np.concatenate([np.tile([[3], [4]], 5), rng.integers(0, 12, (2, 80))], 1)
    when = np.concatenate([[10, 20, 20, 30, 40], rng.integers(0, 50, 80)])
    nodes = {name: NodeTable.of(12) for name in ("user", "item")}
    mixed = rng.permutation(85)
    back = Relation.of(pairs[::-1, mixed], 12, 12, time=when[mixed])
    edges = {BUYS: Relation.of(pairs, 12, 12, time=when), BOUGHT: back}
    return HeteroGraph(nodes, edges), pairs, when, mixed


@pytest.mark.parametrize("known", [True, False], ids=["edges of the graph", "pairs"])
def test_what_came_before_stays(known):
    """With times of edges, only the edge itself and its reverse of the same time are left out."""
    graph, pairs, when, mixed = stream()
    index = BUYS if known else (BUYS, pairs)
    how = {"time": "edge", "edge_label_time": when}
    made = HeteroLinkLoader(graph, [-1], index, 1, **how)
    for batch in some(made):
        row = int(batch[BUYS].input_id)
        (u, v), t = pairs[:, row], when[row]
        seen = when <= t
        twins = (pairs[0] == u) & (pairs[1] == v) & (when == t)
        own = np.zeros(85, bool)
        own[row] = True
        into_item = (pairs[1] == v) & seen & ~(own if known else twins)
        assert sorted(batch[BUYS].e_id.tolist()) == np.flatnonzero(into_item).tolist()
        into_user = (pairs[0] == u) & seen & ~twins
        found = mixed[batch[BOUGHT].e_id.numpy()]
        assert sorted(found.tolist()) == np.flatnonzero(into_user).tolist()
    (batch,) = HeteroLinkLoader(
        graph, [-1], (BUYS, pairs[:, 4:5]), 1, time="edge", edge_label_time=[40],
        exclude_seed_edges="pairs",
    )  # fmt: skip
    assert not set(batch[BUYS].e_id.tolist()) & set(range(5))


def test_find_edges_beside_a_slow_search():
    graph, pairs, when, _ = stream()
    walked = graph.relation(BUYS, "edge")
    rng = np.random.default_rng(1)
    src, dst, time = rng.integers(0, 12, 300), rng.integers(0, 12, 300), rng.integers(0, 50, 300)
    src[:60], dst[:60], time[:60] = *pairs[:, :60], when[:60]
    edges, which = find_edges(walked, src, dst, time)
    for row in range(300):
        slow = (pairs[0] == src[row]) & (pairs[1] == dst[row]) & (when == time[row])
        assert sorted(edges[which == row].tolist()) == np.flatnonzero(slow).tolist()


def test_trees_leave_out_their_own_link_alone():
    """Two links that share a node: each sees the other."""
    graph = Graph.from_edge_index([[1, 2, 0, 0], [0, 0, 1, 2]], 3)
    made = LinkLoader(graph, [-1], [[1, 2], [0, 0]], 2, disjoint=True)
    (batch,) = made
    ends, link = batch.n_id[batch.edge_index].T.tolist(), batch.batch[batch.edge_index[1]]
    assert [pair for pair, g in zip(ends, link.tolist(), strict=True) if g == 0] == [[2, 0]]
    assert [pair for pair, g in zip(ends, link.tolist(), strict=True) if g == 1] == [[1, 0]]


@pytest.mark.parametrize("kind", ["bidirectional", "induced"])
def test_other_subgraphs_leave_out(kind):
    for batch in some(HeteroLinkLoader(SHOP, [4, 4], BUYS, 20, subgraph_type=kind, seed=1)):
        own = GIVEN[BUYS]["edge_index"][:, batch[BUYS].input_id]
        for name, turned in ((BUYS, False), (BOUGHT, True)):
            source, target, _ = typed_ends(batch, name)
            a, b = (target, source) if turned else (source, target)
            assert not ((own[0][:, None] == a) & (own[1][:, None] == b)).any()


def test_labor_of_typed_graphs_leaves_out():
    for batch in some(HeteroLinkLoader(SHOP, None, BUYS, 20, sampler=HeteroLabor([4, 4]), seed=1)):
        own = GIVEN[BUYS]["edge_index"][:, batch[BUYS].input_id]
        source, target, _ = typed_ends(batch, BUYS)
        assert not ((own[0][:, None] == source) & (own[1][:, None] == target)).any()
