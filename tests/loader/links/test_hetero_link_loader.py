"""Batches of links of typed and timed graphs hold the links, and nothing of the future."""

import numpy as np
import pytest
import torch

from foregather import HeteroLinkLoader, HeteroLoader, InputError, LinkLoader, Negatives
from foregather.graph.hetero import HeteroGraph
from tests.loader.hetero.batches import (
    BOUGHT,
    BUYS,
    LIKES,
    check_batch,
    given_edges,
    same_data,
    shop,
)
from tests.some import some

GRAPH = shop()
GIVEN = given_edges(GRAPH)
RNG = np.random.default_rng(2)
TIMES = RNG.integers(10, 110, 400)
KINDS = {
    "plain": {},
    "disjoint": {"disjoint": True},
    "node time": {"time": "node", "edge_label_time": TIMES},
    "edge time": {"time": "edge", "edge_label_time": TIMES},
    "last": {"time": "edge", "temporal_strategy": "last", "edge_label_time": TIMES},
}
RULES = {
    "none": None,
    "binary": Negatives(amount=1.5, exclude="positives"),
    "triplet": Negatives("triplet", 2),
}


def loader(edge_type=BUYS, **options):
    settings = {"batch_size": 48, "shuffle": True, "seed": 3, "exclude_seed_edges": False}
    return LinkLoader(GRAPH, [3, 2], edge_type, **(settings | options))


def ends_of(batch, edge_type):
    """Node ids of all heads and tails, the links first, and the count of links."""
    source, _, target = edge_type
    store, src, dst = batch[edge_type], batch[source], batch[target]
    if "src_index" in src:
        negative = dst.dst_neg_index.reshape(store.input_id.numel(), -1)
        head = src.n_id[src.src_index]
        tail = dst.n_id[torch.cat([dst.dst_pos_index, negative.T.reshape(-1)])]
        return head, tail, store.input_id.numel()
    head, tail = store.edge_label_index
    return src.n_id[head], dst.n_id[tail], store.input_id.numel()


@pytest.mark.parametrize("edge_type", [BUYS, LIKES], ids=["two types", "one type"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_links_and_negatives(kind, rule, edge_type):
    made = loader(edge_type, negatives=RULES[rule], **KINDS[kind])
    assert isinstance(made, HeteroLinkLoader) and isinstance(made, HeteroLoader)
    links = GIVEN[edge_type]["edge_index"]
    known = set(map(tuple, links.T.tolist()))
    seen = []
    for batch in some(made):
        check_batch(batch, GRAPH, True)
        head, tail, count = ends_of(batch, edge_type)
        input_id = batch[edge_type].input_id
        assert torch.equal(torch.stack([head[:count], tail[:count]]), links[:, input_id])
        if rule == "binary":
            assert head.numel() == tail.numel() == count + -(-count * 3 // 2)
            assert not known & set(zip(head[count:].tolist(), tail[count:].tolist(), strict=True))
            label = batch[edge_type].edge_label
            assert label.tolist() == [1.0] * count + [0.0] * (head.numel() - count)
        if rule == "triplet":
            assert (head.numel(), tail.numel()) == (count, 3 * count)
        seen.append(input_id)
    assert torch.cat(seen).sort()[0].tolist() == list(range(400))


@pytest.mark.parametrize("edge_type", [BUYS, LIKES], ids=["two types", "one type"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["disjoint", "node time", "edge time", "last"])
def test_trees_belong_to_links_and_see_no_future(kind, rule, edge_type):
    made = loader(edge_type, negatives=RULES[rule], **KINDS[kind])
    level, source, target = made.sampler.time, edge_type[0], edge_type[2]
    for batch in some(made):
        count = batch[edge_type].input_id.numel()
        limit = torch.from_numpy(TIMES)[batch[edge_type].input_id]
        for (start, _, end), store in batch.edge_items():
            link = batch[start].batch[store.edge_index[0]]
            assert torch.equal(link, batch[end].batch[store.edge_index[1]])
            assert (link < count).all()
            if level == "edge" and "time" in store:
                assert (store.time <= limit[link]).all()
            if level == "node" and start == "user":
                assert (batch["user"].time[store.edge_index[0]] <= limit[link]).all()
        if rule == "triplet":
            at = {"src_index": source, "dst_pos_index": target, "dst_neg_index": target}
            found = [(at[name], batch[at[name]][name].reshape(count, -1).T) for name in at]
            rows = [(*one, 0 if one[1].numel() > count else count) for one in found]
            times = [batch[name].get("seed_time") for name in (source, target)]
        else:
            head, tail = batch[edge_type].edge_label_index
            rows = [(source, head, count), (target, tail, count)]
            times = [batch[edge_type].get("edge_label_time")]
        for name, row, first in rows:
            link = torch.arange(row.numel()) % count
            assert torch.equal(batch[name].batch[row.reshape(-1)], link)
            late = batch[name].get("time", torch.zeros(0)) if level == "node" else None
            if late is not None and late.numel():  # negatives are no later than their link
                negative = row.reshape(-1)[first:]
                assert (late[negative] <= limit[torch.arange(negative.numel()) % count]).all()
        for told in times:
            assert (told is None) == (level is None)
            assert told is None or torch.equal(told, limit[torch.arange(told.numel()) % count])


@pytest.mark.parametrize("kind", ["plain", "disjoint", "node time", "edge time"])
def test_batches_do_not_depend_on_threads_or_bulk(kind):
    how = {"negatives": RULES["binary"], **KINDS[kind]}
    first = list(loader(**how, threads=1, bulk=1))
    for other in (loader(**how, threads=2, bulk=5), loader(**how, prefetch=0)):
        assert all(map(same_data, first, [*other]))
    assert len(first) == 9


def test_resuming_is_exact():
    made = loader(negatives="binary", **KINDS["edge time"])
    loop = iter(made)
    next(loop)
    state, rest = made.state_dict(), list(loop)
    other = loader(negatives="binary", **KINDS["edge time"], bulk=2)
    other.load_state_dict(state)
    assert all(map(same_data, rest, [*other])) and len(rest) == 8
    with pytest.raises(InputError, match="saved with links"):
        loader(negatives="triplet", **KINDS["edge time"]).load_state_dict(state)


@pytest.mark.parametrize("given", [("user", "item"), ["user", "buys", "item"], (BUYS, None)])
def test_edge_types_by_other_names(given):
    assert loader(given).edge_type == BUYS
    assert loader(given).edge_label_index.tolist() == GIVEN[BUYS]["edge_index"].tolist()


def test_links_of_a_type_that_the_graph_does_not_have():
    pairs = np.array([[0, 1, 2], [3, 4, 5]])
    made = loader((("user", "rates", "item"), pairs), negatives=Negatives(exclude="positives"))
    (batch,) = made
    store = batch["user", "rates", "item"]
    assert store.edge_label_index.shape == (2, 6) and "edge_index" not in store
    assert batch["user"].n_id[store.edge_label_index[0, :3]].tolist() == pairs[0].tolist()


def test_one_relation_needs_no_name():
    table = GRAPH.nodes["user"]
    graph = HeteroGraph({"user": table}, {LIKES: GRAPH.edges[LIKES]})
    made = LinkLoader(graph, [3], np.array([[1], [2]]))
    assert made.edge_type == LIKES and made.negatives is None
    assert LinkLoader(graph, [3], None, 100).edge_label_index.shape == (2, 400)


def test_named_links_of_typed_graphs():
    pairs = RNG.integers(0, 25, (2, 30))
    graph = GRAPH.with_links("train", pairs, relation=BUYS, labels=np.arange(1, 31))
    for given in ("train", (BUYS, "train")):
        made = LinkLoader(graph, [3], given, 10, exclude_seed_edges=False)
        found = torch.cat([batch[BUYS].edge_label for batch in made])
        assert found.tolist() == list(range(1, 31)) and made.edge_type == BUYS


def test_reverse_relations_are_no_links_by_themselves():
    assert loader(BOUGHT).edge_label_index.tolist() == GIVEN[BOUGHT]["edge_index"].tolist()
