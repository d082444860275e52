"""Links without a candidate are left out of every result, and counted: against counting by hand."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, HeteroGraph
from foregather.cli.training.train import Train
from foregather.errors import InputError
from foregather.graph.hetero import NodeTable, Relation
from foregather.graph.links.links import Links
from foregather.observe.read_run import read_run
from foregather.observe.report import write_report
from foregather.train.links.link_data import read_links
from foregather.train.links.link_goal import choose_link_metric
from foregather.train.links.link_settings import LinkSettings
from foregather.train.links.rate import check_k, choose_rating, rate_rows
from foregather.train.ranking import RankMeter, ranks_among_all
from tests.train.links.small_links import link_settings, saved
from tests.train.links.test_rate import NAMES, PairScorer, make_decoder
from tests.train.runs import train

KIND = ("person", "knows", "person")


def crowded(seed, nodes=4, missing=3):
    """People who know nearly everybody, so that few or no candidates are left; and rows."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.divmod(rng.permutation(nodes * nodes), nodes))
    pairs = pairs[:, : pairs.shape[1] - missing]
    cut = pairs.shape[1] // 2
    lists = {"train": pairs[:, :cut], "test": pairs[:, cut:]}
    relation = Relation.of(lists["train"], nodes, nodes)
    links = {name: Links.of(part, nodes, nodes) for name, part in lists.items()}
    graph = HeteroGraph({"person": NodeTable.of(nodes)}, {KIND: relation}, links={KIND: links})
    left, right = (rng.normal(size=(nodes, 3)).astype("f4") for _ in range(2))
    import torch

    rows = PairScorer(torch.from_numpy(left), torch.from_numpy(right), make_decoder("dot", 3))
    return graph, rows, left @ right.T


def rated(data, rows, metric, **link):
    """The value, and what was left out."""
    wanted = LinkSettings(candidates="all", **link)
    rating = choose_rating(choose_link_metric(metric), wanted, data.splits["test"], 0, False)
    found = check_k(data, "test", rating)
    left_out = (0, None) if found is None else (found.count, found.told)
    return rate_rows(rows, data, "test", rating), *left_out


def slow_ranks(asked, known, scores):
    """Ranks of links with other candidates, and how many have none."""
    ranks, alone = [], 0
    for u, i in asked:
        others = [j for j in range(scores.shape[1]) if j != i and (u, j) not in known]
        alone += not others
        if others:
            ranks.append(1 + sum(scores[u, j] > scores[u, i] for j in others))
    return ranks, alone


@given(st.integers(0, 500), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_ranks_against_counting(seed, missing):
    graph, rows, scores = crowded(seed, missing=missing)
    data = read_links(graph, "", NAMES)
    known = {tuple(pair) for one in data.splits.values() for pair in one.index.T.tolist()}
    asked = [tuple(pair) for pair in data.splits["test"].index.T.tolist()]
    ranks, alone = slow_ranks(asked, known, scores)
    if not ranks:
        with pytest.raises(InputError, match=r"no link of train.test has a candidate"):
            rated(data, rows, "mrr")
        return
    words = f"{alone} of {len(asked)} links have no candidate and are left out" if alone else None
    expected = pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert rated(data, rows, "mrr") == (expected, alone, words)
    expected = pytest.approx(np.mean([rank <= 1 for rank in ranks]))
    assert rated(data, rows, "hits@1") == (expected, alone, words)
    back, lonely = slow_ranks([(i, u) for u, i in asked], {(i, u) for u, i in known}, scores.T)
    value, count, words = rated(data, rows, "mrr", both_ends=True)
    assert value == pytest.approx(np.mean([1 / rank for rank in ranks + back]))
    assert count == alone + lonely
    assert not count or words.startswith(f"{count} of {2 * len(asked)} ranks of links")
    assert rated(data, rows, "mrr", filtered=False)[1] == 0


@given(st.integers(0, 500), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_lists_against_counting(seed, missing):
    graph, rows, scores = crowded(seed, missing=missing)
    data = read_links(graph, "", NAMES)
    seen = {tuple(pair) for pair in data.splits["train"].index.T.tolist()}
    asked = [tuple(pair) for pair in data.splits["test"].index.T.tolist()]
    recall, gain, alone = [], [], 0
    for user in sorted({u for u, _ in asked}):
        mine = {i for u, i in asked if u == user}
        open_ = [i for i in range(4) if (user, i) not in seen]
        if set(open_) <= mine:
            alone += 1
            continue
        best = sorted(open_, key=lambda i: -scores[user, i])[:2]
        recall.append(len(mine & set(best)) / len(mine))
        most = sum(1 / np.log2(place + 2) for place in range(min(2, len(mine))))
        gain.append(sum(1 / np.log2(p + 2) for p, i in enumerate(best) if i in mine) / most)
    for metric, values in (("recall@2", recall), ("ndcg@2", gain)):
        if not values:
            with pytest.raises(InputError, match=r"no link of train.test has a candidate"):
                rated(data, rows, metric)
            continue
        value, count, words = rated(data, rows, metric)
        assert value == pytest.approx(np.mean(values)) and count == alone
        assert not count or f"{alone} of {alone + len(values)} sources" in words


def test_a_meter_counts_them_however_links_are_divided():
    from foregather.graph.links.known import KnownLinks

    known = KnownLinks.of([np.array([[0, 0, 1], [0, 1, 0]])], 2, 2)  # 0 has everything
    scores, targets, sources = np.array([[1, 2], [2, 1], [1, 2.0]]), [0, 1, 0], [0, 0, 1]
    whole, other = RankMeter(), RankMeter()
    whole.add(ranks_among_all(scores, targets, sources, known))
    other.add(ranks_among_all(scores[:1], targets[:1], sources[:1], known))
    with pytest.raises(InputError, match="1 link added, and none has a candidate"):
        other.mrr()
    rest = RankMeter()
    rest.add(ranks_among_all(scores[1:], targets[1:], sources[1:], known))
    other.merge(rest.state())
    for meter in (whole, other):
        assert (meter.links, meter.left_out) == (1, 2)
        assert meter.mrr() == 0.5 and meter.mean_rank() == 2 and meter.hits_at(2) == 1


def test_a_relation_with_all_pairs_is_refused_before_the_run(tmp_path):
    graph = saved(crowded(0, 3, 0)[0], tmp_path / "full")
    for link in ({}, {"both_ends": True}):
        changes = {"link": link, "train": {"metric": "mrr"}, "model": {"kind": "lightgcn"}}
        with pytest.raises(InputError, match="is linked to every target; name another spl") as e:
            train(link_settings(graph, tmp_path / "run", **changes))
        assert "\n" not in str(e.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["lightgcn", "sage"])
def test_a_run_says_what_is_left_out(tmp_path, kind):
    """4 users and 6 items, all pairs linked but one: the links of one user have a candidate."""
    pairs = np.stack(np.divmod(np.random.default_rng(1).permutation(23), 6))
    nodes, of = {"u": NodeTable.of(4), "i": NodeTable.of(6)}, ("u", "r", "i")
    links = {"train": Links.of(pairs[:, :13], 4, 6), "test": Links.of(pairs[:, 13:], 4, 6)}
    made = HeteroGraph(nodes, {of: Relation.of(pairs[:, :13], 4, 6)}, links={of: links})
    graph = saved(made.with_reverse(), tmp_path / "g")
    alone = int((pairs[0, 13:] < 3).sum())
    told, said = f"{alone} of 10 links have no candidate and are left out", []
    changes = {"train": {"metric": "mrr", "epochs": 1}, "model": {"kind": kind}}
    run = tmp_path / "run"
    facts = train(link_settings(graph, run, **changes), said.append)
    assert 0 < alone < 10 and any(told in text for text in said)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["left_out"] == {"test": {"count": alone, "of": 10, "told": told}}
    assert told in Train().show({**facts, "run": "r", "seconds": 1.0})
    assert told in write_report(read_run(run))


def test_nothing_is_said_where_every_link_has_candidates():
    pairs = np.array([[0, 1], [1, 2]])
    graph = Graph.from_edge_index(pairs, 6).with_links("train", pairs).with_links("test", pairs)
    data = read_links(graph, "", NAMES)
    rating = choose_rating(choose_link_metric("mrr"), LinkSettings(), data.splits["test"], 0, False)
    assert check_k(data, "test", rating) is None
