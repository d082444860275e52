"""Metrics and baselines on real graphs give the figures that are published, or known, for them."""

import os

import numpy as np
import pytest

from benchmarks.common.link_graphs import load_ddi, load_events, load_gowalla, load_knowledge
from foregather.graph.links.known import KnownLinks, known_links
from foregather.train.links.baselines import common_neighbours, popularity
from foregather.train.links.lists import ListMeter
from foregather.train.links.topk import top_k
from foregather.train.ranking import RankMeter, ogb_hits_at, ranks_among_all, ranks_in_pool

pytestmark = pytest.mark.skipif(
    not os.environ.get("FOREGATHER_DATA"), reason="FOREGATHER_DATA names no folder of real graphs"
)


@pytest.mark.slow
def test_common_neighbours_on_ddi():
    """0.1773 is on OGB's board for test."""
    graph = load_ddi()
    for name, expected in (("valid", 0.0947), ("test", 0.1773)):
        links = graph.links_of(name)
        scores = [common_neighbours(graph, one) for one in (links.index, links.negatives)]
        assert ogb_hits_at(*scores, 20) == pytest.approx(expected, abs=5e-5)


@pytest.mark.slow
def test_popularity_on_gowalla():
    graph = load_gowalla()
    visits = ("user", "visits", "item")
    train, test = (known_links(graph, visits, [one], False) for one in ("train", "test"))
    score = popularity(graph.links_of("train", visits).index, train.num_targets)
    users = np.ones((train.num_sources, 1), np.float32)
    asked = np.arange(0, train.num_sources, 10)
    items = score[:, None].astype(np.float32)
    best = top_k(users, items, 20, exclude=train, sources=asked, memory="100MB")
    meter = ListMeter(test, 20)
    meter.add(best.sources, best.targets)
    assert meter.value("recall") == pytest.approx(0.0380, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expected"), [("fb15k237", 0.478), ("codex_s", 0.611)])
def test_frequent_tails_of_knowledge_graphs(name, expected):
    """The known figure broke ties in some order, so it is between the two extremes."""
    graph = load_knowledge(name)
    meters = {ties: RankMeter(ties) for ties in ("mean", "optimistic", "pessimistic")}
    for edge_type, lists in graph.links.items():
        if "test" not in lists:
            continue
        known = known_links(graph, edge_type)
        often = popularity(lists["train"].index, known.num_targets).astype(np.float32)
        sources, targets = lists["test"].index
        for start in range(0, len(sources), 512):
            part = slice(start, start + 512)
            scores = np.broadcast_to(often, (len(sources[part]), len(often)))
            ranks = ranks_among_all(np.array(scores), targets[part], sources[part], known)
            for meter in meters.values():
                meter.add(ranks)
    hits = {ties: meter.hits_at(10) for ties, meter in meters.items()}
    assert hits["pessimistic"] <= hits["mean"] <= hits["optimistic"]
    assert hits["pessimistic"] < expected < hits["optimistic"]
    assert hits["mean"] == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("wikipedia_edits", 0.941), ("collegemsg", 0.844), ("bitcoin_otc", 0.494)],
)
def test_pairs_seen_before(name, expected):
    """Of a link and a random other target: the area under the curve is the mean win, ties half."""
    graph = load_events(name)
    edge_type = graph.edge_types[0]
    sizes = tuple(graph.nodes[edge_type[end]].num_nodes for end in (0, 2))
    parts = [graph.links_of(one, edge_type) for one in ("train", "valid", "test")]
    pairs = np.concatenate([one.index for one in parts], axis=1)
    first = np.unique(pairs, axis=1, return_index=True)[1]
    seen = np.ones(pairs.shape[1], np.bool_)
    seen[first] = False  # in order of time: all but the first of equal pairs
    test = slice(pairs.shape[1] - len(parts[2]), None)
    wrong = np.random.default_rng(0).integers(0, sizes[1], len(parts[2]))
    before = KnownLinks.of([pairs[:, : test.start]], *sizes)
    scores = before.holds(pairs[0, test], wrong).astype(np.float32)
    right = seen[test].astype(np.float32)
    ranks = ranks_in_pool(right, scores).ranks()  # the mean rank is the area, turned round
    area = 1 - float((ranks - 1).mean()) / len(scores)
    assert area == pytest.approx(expected, abs=0.012)
