"""Batches of links hold the links, and depend on nothing but their arguments."""

import copy

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, LinkLoader, Loader, Negatives
from foregather.loader.links.link_batch import LinkBatch
from foregather.sampling import Labor
from tests.loader.graphs import small_graph
from tests.loader.links.slow import check_edges, check_links, check_trees, edges_of, same_links
from tests.some import some

GRAPH = small_graph()
LINKS = np.random.default_rng(5).integers(0, 120, (2, 90))
RULES = {
    "none": None,
    "binary": Negatives(),
    "half": Negatives(amount=0.5),
    "many": Negatives(amount=2.5, exclude="positives"),
    "weighted": Negatives(dst_weight=np.arange(120), src_weight=np.arange(120)[::-1]),
    "triplet": Negatives("triplet", exclude="positives"),
    "triplets": Negatives("triplet", 3),
}


def loader(links=LINKS, **options):
    settings = {"batch_size": 16, "shuffle": True, "seed": 3, "exclude_seed_edges": False}
    return LinkLoader(GRAPH, options.pop("num_neighbors", [4, 3]), links, **(settings | options))


def same(ones, others):
    ones, others = list(ones), list(others)
    return len(ones) == len(others) > 0 and all(map(same_links, ones, others))


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("links", [LINKS, None], ids=["given", "all edges"])
@pytest.mark.parametrize("rule", RULES)
def test_batches_hold_links_and_negatives(rule, links, disjoint):
    given = edges_of(GRAPH) if links is None else links
    known = set(map(tuple, np.concatenate([edges_of(GRAPH), given], 1).T.tolist()))
    seen = []
    made = loader(links, negatives=RULES[rule], disjoint=disjoint, batch_size=32)
    for batch in some(made):
        check_edges(batch, GRAPH)
        check_links(batch, given, RULES[rule], known)
        assert batch.num_sampled_nodes[0] == batch.batch_size == batch.seed_id.numel()
        assert torch.equal(batch.n_id[: batch.batch_size], batch.seed_id)
        keys = ("edge_label_index",)
        if "src_index" in batch:
            keys = ("src_index", "dst_pos_index", "dst_neg_index")
        if disjoint:
            check_trees(batch, keys)
        else:
            assert torch.equal(batch.seed_id, batch.seed_id.unique())
            ends = torch.cat([batch[key].reshape(-1) for key in keys]).unique()
            assert torch.equal(ends, torch.arange(batch.batch_size))
        seen.append(batch.input_id)
    assert torch.cat(seen).sort()[0].tolist() == list(range(given.shape[1]))
    assert made.edge_label_index.tolist() == given.tolist()


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("rule", ["none", "many", "triplets"])
def test_batches_do_not_depend_on_threads_bulk_or_prefetch(rule, disjoint):
    how = {"negatives": RULES[rule], "disjoint": disjoint}
    first = list(loader(**how, threads=1, bulk=1))
    assert same(first, loader(**how, threads=2, bulk=5))
    assert same(first, loader(**how, prefetch=0))
    other = loader(**how)
    assert same(first, other)
    assert not same(first, other)  # the second epoch
    other.set_epoch(0)
    assert same(first, other)


def test_negatives_depend_on_their_link_alone():
    rule = Negatives(amount=2, exclude="positives")
    found = []
    for options in ({"batch_size": 7}, {"batch_size": 90, "shuffle": False}):
        drawn = {}
        for batch in loader(negatives=rule, **options):
            ends, count = batch.n_id[batch.edge_label_index].T.tolist(), batch.input_id.numel()
            for q, pair in enumerate(ends[count:]):
                drawn[int(batch.input_id[q % count]), q // count] = pair
        found.append(drawn)
    assert found[0] == found[1] and len(found[0]) == 180


def test_a_tree_depends_on_its_link_alone():
    """Trees of a link are the same in any batch: as many nodes, the same edges."""
    found = []
    for options in ({"batch_size": 7}, {"batch_size": 90, "shuffle": False}):
        trees = {}
        for batch in loader(negatives="binary", disjoint=True, **options):
            for link, row in enumerate(batch.input_id.tolist()):
                own = batch.batch[batch.edge_index[0]] == link
                trees[row] = sorted(batch.e_id[own].tolist())
        found.append(trees)
    assert found[0] == found[1] and len(found[0]) == 90


def test_trees_of_both_ends_differ():
    """The two ends of a link, and its negatives, draw from one row independently."""
    pairs = np.zeros((2, 40), np.int64)
    graph = Graph.from_edge_index(np.stack([np.arange(1, 200), np.zeros(199, np.int64)]), 200)
    made = LinkLoader(graph, [5], pairs, 40, disjoint=True, exclude_seed_edges=False)
    (batch,) = made
    sources = batch.n_id[batch.edge_index[0]].reshape(80, 5)
    assert len({tuple(row) for row in sources.tolist()}) > 75


def test_resuming_is_exact():
    made = loader(negatives="binary", disjoint=True)
    loop = iter(made)
    next(loop), next(loop)
    state, rest = made.state_dict(), list(loop)
    other = loader(negatives="binary", disjoint=True, threads=1, bulk=3)
    other.load_state_dict(state)
    assert same(rest, other)


def test_two_loops_at_once():
    made = loader(negatives="triplet")
    alone = [*made]
    made.set_epoch(0)
    one = iter(made)
    first = next(one)
    other = [*copy.copy(made)]  # the next epoch
    assert same([first, *one], alone)
    assert not same(other, alone)


def test_a_loader_beside_has_other_links():
    made = loader(negatives="binary")
    beside = made.beside(LINKS[:, :20], 5, edge_label=np.arange(20), exclude_seed_edges=False)
    found = torch.cat([batch.edge_label for batch in beside])
    assert found.tolist() == list(range(20))
    ends = torch.cat([batch.n_id[batch.edge_label_index] for batch in beside], 1)
    assert ends.tolist() == LINKS[:, :20].tolist()
    assert len(made) == 6


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool, torch.bfloat16])
def test_labels_keep_their_kind(dtype):
    label = (torch.arange(180).reshape(90, 2) % 7).to(dtype)
    for batch in some(loader(edge_label=label)):
        assert batch.edge_label.dtype == dtype
        assert torch.equal(batch.edge_label, label[batch.input_id])


def test_labels_beside_negatives_leave_zero_to_them():
    label = np.arange(90) % 3
    for batch in some(loader(edge_label=label, negatives="binary")):
        count = batch.input_id.numel()
        assert batch.edge_label[:count].tolist() == (label[batch.input_id] + 1).tolist()
        assert not batch.edge_label[count:].any()
    for batch in some(loader(edge_label=label + 5, negatives="binary")):
        count = batch.input_id.numel()
        assert batch.edge_label[:count].tolist() == (label[batch.input_id] + 5).tolist()


def test_given_arrays_may_change_afterwards():
    links, label = LINKS.copy(), torch.arange(90)
    made = loader(links, edge_label=label)
    links[:], label[:] = 0, 0
    for batch in some(made):
        assert torch.equal(batch.edge_label, batch.input_id)
        assert np.array_equal(batch.n_id[batch.edge_label_index], LINKS[:, batch.input_id])


def test_other_samplers_and_plain_batches():
    made = loader(num_neighbors=None, sampler=Labor([4, 3]), contents=BatchContents(pyg=False))
    for batch in some(made):
        assert isinstance(batch, LinkBatch)
        assert np.array_equal(batch.n_id[batch.edge_label_index], LINKS[:, batch.input_id])
        assert batch.to("cpu").edge_label_index is not None
    assert isinstance(made, Loader)


def test_node_loaders_are_as_before():
    plain = Loader(GRAPH, [4, 3], "train", 16, seed=3)
    assert all("edge_label_index" not in batch for batch in some(plain))
