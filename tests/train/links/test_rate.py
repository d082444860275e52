"""Rating: every metric of links against counting by hand; candidates that cannot be are refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, HeteroGraph
from foregather.errors import InputError, NumericError
from foregather.graph.hetero import NodeTable, Relation
from foregather.graph.links.links import Links
from foregather.nn.links.decoders import make_decoder
from foregather.train.links.link_data import read_links
from foregather.train.links.link_goal import choose_link_metric
from foregather.train.links.link_settings import LinkSettings
from foregather.train.links.pair_scores import PairScorer
from foregather.train.links.popularity import rate_baseline
from foregather.train.links.rate import check_k, choose_rating, draw, rate_rows

NAMES = {"train": "train", "valid": "valid", "test": "test"}


def bipartite(seed, users=6, items=9):
    """A graph, and rows of which no two scores are equal."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(users * items)[: users * items // 2]
    pairs = np.stack(np.divmod(pairs, items))
    kind, cut = ("u", "r", "i"), pairs.shape[1] // 2
    nodes = {"u": NodeTable.of(users), "i": NodeTable.of(items)}
    links = {
        "train": Links.of(pairs[:, :cut], users, items),
        "test": Links.of(pairs[:, cut:], users, items),
    }
    graph = HeteroGraph(
        nodes, {kind: Relation.of(pairs[:, :cut], users, items)}, links={kind: links}
    )
    rows = PairScorer(
        torch.from_numpy(rng.normal(size=(users, 3)).astype("f4")),
        torch.from_numpy(rng.normal(size=(items, 3)).astype("f4")),
        make_decoder("dot", 3),
    )
    return read_links(graph, "", NAMES), rows


def rated(data, rows, metric, **link):
    found = choose_link_metric(metric)
    rating = choose_rating(found, LinkSettings(**link), data.splits["test"], 0, False)
    return rate_rows(rows, data, "test", rating)


@given(st.integers(0, 500))
@settings(max_examples=25, deadline=None)
def test_against_counting(seed):
    data, rows = bipartite(seed)
    scores = (rows.left @ rows.right.T).numpy()
    known = {tuple(pair) for one in data.splits.values() for pair in one.index.T.tolist()}
    asked = [tuple(pair) for pair in data.splits["test"].index.T.tolist()]
    open_ = [[j for j in range(9) if (u, j) not in known] for u in range(6)]
    ranks = [1 + sum(scores[u, j] > scores[u, i] for j in open_[u]) for u, i in asked if open_[u]]
    assert rated(data, rows, "mrr") == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert rated(data, rows, "hits@1") == pytest.approx(np.mean([rank <= 1 for rank in ranks]))
    free = [[v for v in range(6) if (v, i) not in known] for i in range(9)]
    back = [1 + sum(scores[v, i] > scores[u, i] for v in free[i]) for u, i in asked if free[i]]
    both = rated(data, rows, "mrr", both_ends=True)
    assert both == pytest.approx(np.mean([1 / rank for rank in ranks + back]))
    wide = [1 + sum(scores[u, j] > scores[u, i] for j in range(9)) for u, i in asked]
    assert rated(data, rows, "mrr", filtered=False) == pytest.approx(np.mean(1 / np.array(wide)))
    train = {tuple(pair) for pair in data.splits["train"].index.T.tolist()}
    recall, gain = [], []
    for user in {u for u, _ in asked if open_[u]}:
        mine = {i for u, i in asked if u == user}
        order = sorted(range(9), key=lambda i: -scores[user, i])
        best = [i for i in order if (user, i) not in train][:3]
        recall.append(len(mine & set(best)) / len(mine))
        most = sum(1 / np.log2(place + 2) for place in range(min(3, len(mine))))
        gain.append(sum(1 / np.log2(p + 2) for p, i in enumerate(best) if i in mine) / most)
    assert rated(data, rows, "recall@3") == pytest.approx(np.mean(recall))
    assert rated(data, rows, "ndcg@3") == pytest.approx(np.mean(gain))


def test_sampled_candidates_are_never_known():
    data, rows = bipartite(3)
    rating = choose_rating(
        choose_link_metric("roc_auc"), LinkSettings(sampled=4), data.splits["test"], 0, False
    )
    found = draw(data, data.splits["test"], rating)
    known = {tuple(pair) for one in data.splits.values() for pair in one.index.T.tolist()}
    assert found.shape == (len(data.splits["test"]), 4)
    for user, items in zip(data.splits["test"].index[0], found, strict=True):
        assert not any((int(user), int(item)) in known for item in items)
    assert np.array_equal(found, draw(data, data.splits["test"], rating))
    assert 0 <= rated(data, rows, "roc_auc") <= 1


def test_given_negatives_are_ogbs():
    graph = Graph.from_edge_index([[0, 1], [1, 2]], 6).with_links("train", [[0, 1], [1, 2]])
    graph = graph.with_links("test", [[0, 3], [2, 4]], negatives=[[0, 1, 2], [3, 4, 5]])
    data = read_links(graph, "", NAMES)
    values = torch.tensor([[1.0], [2.0], [3.0], [1.0], [2.0], [1.0]])
    rows = PairScorer(values, values, make_decoder("dot", 1))
    # links score 3 and 2; the negatives 1, 4 and 3; ties count against a link
    assert rated(data, rows, "hits@1") == 0.0
    assert rated(data, rows, "hits@2") == 0.0
    assert rated(data, rows, "hits@3") == 1.0
    value, name = rate_baseline(
        data,
        "test",
        choose_rating(choose_link_metric("hits@1"), LinkSettings(), data.splits["test"], 0, False),
    )
    assert name == "common neighbours" and value == 0.0


@pytest.mark.parametrize(
    ("metric", "link", "expected"),
    [
        ("recall@3", {"candidates": "sampled"}, "looks at the first targets of a source among all"),
        ("roc_auc", {"candidates": "all"}, "compares links with negatives"),
        ("mrr", {"candidates": "given"}, "neither negatives nor candidates"),
        ("hits@5", {"candidates": "sampled", "sampled": 2}, "so every answer would be a hit"),
    ],
)
def test_refused(metric, link, expected):
    data, rows = bipartite(0)
    with pytest.raises(InputError, match=expected):
        rated(data, rows, metric, **link)


@given(st.integers(0, 500), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_most_k_is_known_before(seed, filtered, both):
    """What the meter finds to be too much while it rates is refused before, and nothing else."""
    data, rows = bipartite(seed)
    link = LinkSettings(filtered=filtered, both_ends=both, candidates="all")
    for k in range(1, 11):
        metric = choose_link_metric(f"hits@{k}")
        rating = choose_rating(metric, link, data.splits["test"], 0, False)
        try:
            rate_rows(rows, data, "test", rating)
        except InputError:
            with pytest.raises(InputError, match=f"train.metric is 'hits@{k}', but a link of tra"):
                check_k(data, "test", rating)
        else:
            check_k(data, "test", rating)


def test_the_most_k_of_given_candidates_is_known_before():
    graph = Graph.from_edge_index([[0, 1], [1, 2]], 6).with_links("train", [[0, 1], [1, 2]])
    for more in ({"negatives": [[0, 1, 2], [3, 4, 5]]}, {"candidates": [[1, 3, 5], [1, 2, 5]]}):
        data = read_links(graph.with_links("test", [[0, 3], [2, 4]], **more), "", NAMES)
        for k in (4, 5):
            metric = choose_link_metric(f"hits@{k}")
            rating = choose_rating(metric, LinkSettings(), data.splits["test"], 0, False)
            if k == 4:
                check_k(data, "test", rating)
                continue
            with pytest.raises(InputError, match=r"train.test has only 4 candidates, so every"):
                check_k(data, "test", rating)


def test_refused_metrics_and_scores():
    data, rows = bipartite(0)
    with pytest.raises(InputError, match="'accuracy', which is for .*, but the task is link"):
        choose_link_metric("accuracy")
    with pytest.raises(InputError, match="expected one of .*mrr.*hits@K, recall@K, ndcg@K"):
        choose_link_metric("hits")
    with pytest.raises(InputError, match="'recall@10', but there are only 9 targets"):
        rated(data, rows, "recall@10")
    bad = PairScorer(rows.left * torch.nan, rows.right, rows.decoder)
    with pytest.raises(NumericError, match="NaN"):
        rated(data, bad, "roc_auc")
