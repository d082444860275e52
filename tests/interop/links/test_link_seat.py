"""Batches of LinkNeighborLoader are PyG's: names, kinds, shapes; and, of all neighbours, sets."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

from foregather import HeteroGraph, InputError, Negatives
from foregather.interop.pyg import LinkNeighborLoader
from tests.loader.graphs import small_graph
from tests.some import some

with_pyg_lib = pytest.mark.skipif(find_spec("pyg_lib") is None, reason="pyg-lib is not installed")
LINKS = torch.randint(0, 40, (2, 60), generator=torch.Generator().manual_seed(1))
TIMES = torch.randint(20, 60, (60,), generator=torch.Generator().manual_seed(2))


def plain():
    made = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(40, 3, generator=made),
        edge_index=torch.randint(0, 40, (2, 300), generator=made),
        edge_attr=torch.rand(300, generator=made),
        time=torch.randint(0, 40, (40,), generator=made),
        name="whole",
    )


def typed():
    made = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.rand(40, 3, generator=made), torch.arange(40)
    data["a"].time, data["b"].time = torch.arange(40), torch.arange(40) // 2
    for name in (("a", "to", "b"), ("b", "rev_to", "a"), ("a", "is", "a")):
        data[name].edge_index = torch.randint(0, 40, (2, 300), generator=made)
        data[name].edge_attr = torch.rand(300, generator=made)
    return data


DATA = {"plain": plain(), "typed": typed(), "one type": typed()}
TYPE = {"plain": None, "typed": ("a", "to", "b"), "one type": ("a", "is", "a")}
RULES = {
    "none": None,
    "binary": {"mode": "binary", "amount": 2},
    "triplet": NegativeSampling("triplet", 2),
}
TREES = {"shared": {}, "disjoint": {"disjoint": True}, "timed": {"time_attr": "time"}}


def both(kind, rule, trees, count=12, **options):
    """PyG's loader and ours, over the same links."""
    data, edge_type = DATA[kind], TYPE[kind]
    index = LINKS if edge_type is None else (edge_type, LINKS)
    how = {"num_neighbors": [-1, -1], "batch_size": count, **TREES[trees], **options}
    if trees == "timed":
        how["edge_label_time"] = TIMES
    ours = LinkNeighborLoader(data, edge_label_index=index, neg_sampling=RULES[rule], seed=0, **how)
    theirs = pyg_loader.LinkNeighborLoader(
        data, edge_label_index=index, neg_sampling=RULES[rule], **how
    )
    return theirs, ours


def stores(batch):
    if isinstance(batch, Data):
        return {"": batch}
    return dict([*batch.node_items(), *batch.edge_items()])


def told(store):
    """Names, and of tensors kinds and dimensions."""
    return {
        key: (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else type(value)
        for key, value in store.items()
        if value is not None
    }


@with_pyg_lib
@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", DATA)
def test_batches_say_what_those_of_pyg_say(kind, rule, trees):
    for theirs, ours in some(zip(*both(kind, rule, trees), strict=True)):
        assert type(theirs) is type(ours)
        found = stores(ours)
        for name, store in stores(theirs).items():
            assert told(store) == told(found[name])
            for key in ("input_id", "edge_label", "edge_label_time", "seed_time"):
                if store.get(key) is not None:
                    assert torch.equal(store[key], found[name][key])
            for key in ("edge_label_index", "src_index", "dst_pos_index", "dst_neg_index"):
                if key in store:
                    assert store[key].shape == found[name][key].shape
                    if trees != "shared":  # rows, not nodes
                        assert torch.equal(store[key], found[name][key])


@with_pyg_lib
@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("kind", DATA)
def test_all_neighbours_are_those_of_pyg(kind, trees):
    """Without negatives nothing is random: the same nodes and edges, per tree."""
    for theirs, ours in some(zip(*both(kind, "none", trees), strict=True)):
        found = stores(ours)
        for name, store in stores(theirs).items():
            other = found[name]
            for key in ("n_id", "e_id"):
                if key not in store:
                    continue
                if key == "n_id" and store.get("batch") is not None:
                    pairs = [
                        sorted(zip(one.batch.tolist(), one.n_id.tolist(), strict=True))
                        for one in (store, other)
                    ]
                    assert pairs[0] == pairs[1]
                else:
                    assert torch.equal(store[key].sort()[0], other[key].sort()[0])
            if "num_sampled_nodes" in store:
                assert list(store.num_sampled_nodes) == list(other.num_sampled_nodes)
            if "edge_label_index" in store:
                assert torch.equal(store.edge_label_index, other.edge_label_index)


@pytest.mark.parametrize("kind", DATA)
def test_edges_and_rows_are_those_of_the_data(kind):
    data, edge_type = DATA[kind], TYPE[kind]
    index = LINKS if edge_type is None else (edge_type, LINKS)
    made = LinkNeighborLoader(data, [3, 2], index, neg_sampling="binary", batch_size=9, seed=1)
    for batch in some(made):
        if edge_type is None:
            whole, parts = {"": data}, {"": batch}
            heads = tails = batch.n_id
            label = batch.edge_label_index
            assert batch.name == "whole"
        else:
            whole, parts = stores(data), stores(batch)
            heads, tails = batch[edge_type[0]].n_id, batch[edge_type[2]].n_id
            label = batch[edge_type].edge_label_index
        input_id = parts[edge_type or ""].input_id
        ends = torch.stack([heads[label[0]], tails[label[1]]])
        assert torch.equal(ends[:, : input_id.numel()], LINKS[:, input_id])
        for name, store in parts.items():
            if "x" in store:
                assert torch.equal(store.x, whole[name].x[store.n_id])
            if "edge_attr" in store:
                assert torch.equal(store.edge_attr, whole[name].edge_attr[store.e_id])


def test_a_call_gives_the_links_at_positions():
    made = LinkNeighborLoader(plain(), [2], LINKS, neg_sampling="triplet", seed=4, disjoint=True)
    called = made([3, 50])
    assert called.input_id.tolist() == [3, 50]
    looped = {int(batch.input_id): batch for batch in made}
    for place, row in enumerate((3, 50)):  # a tree depends on its link alone
        own = called.n_id[called.batch == place].sort()[0]
        assert torch.equal(own, looped[row].n_id.sort()[0])


def test_torch_samplers_choose_links():
    chosen = torch.utils.data.SubsetRandomSampler(range(0, 60, 3))
    made = LinkNeighborLoader(plain(), [2], LINKS, batch_size=4, sampler=chosen)
    found = torch.cat([batch.input_id for batch in made])
    assert sorted(found.tolist()) == list(range(0, 60, 3)) and len(made) == 5
    assert found.tolist() != torch.cat([batch.input_id for batch in made]).tolist()


def test_transforms_see_pygs_metadata():
    def change(out):
        input_id, index, label, time = out.metadata
        assert time is None and label.numel() == index.shape[1]
        out.metadata = (input_id, index, label * 7, time)
        return out

    made = LinkNeighborLoader(
        plain(),
        [2],
        LINKS,
        neg_sampling_ratio=1.0,
        batch_size=20,
        transform_sampler_output=change,
        transform=lambda batch: batch.edge_label,
    )
    assert [label.unique().tolist() for label in made] == [[0.0, 7.0]] * 3


def test_existing_links_are_drawn_unless_excluded():
    data = Data(edge_index=torch.cartesian_prod(torch.arange(9), torch.arange(8)).T, num_nodes=9)
    how = {"num_neighbors": [1], "batch_size": 72}
    (batch,) = LinkNeighborLoader(data, neg_sampling={"amount": 3}, seed=0, **how)
    drawn = batch.n_id[batch.edge_label_index[1, 72:]]
    assert (drawn < 8).any()
    rule = Negatives(amount=3, exclude="positives")
    (batch,) = LinkNeighborLoader(data, neg_sampling=rule, seed=0, **how)
    assert (batch.n_id[batch.edge_label_index[1, 72:]] == 8).all()


def test_the_face_of_pyg():
    made = LinkNeighborLoader(plain(), [2], LINKS, neg_sampling="binary")
    assert isinstance(made, pyg_loader.LinkNeighborLoader)
    assert isinstance(made, pyg_loader.LinkLoader)
    assert str(made) == "LinkNeighborLoader()"
    assert made.edge_label_index is LINKS and made.neg_sampling == "binary"
    assert len(made) == 60 and made.data.num_nodes == 40
    with made.enable_multithreading(1):
        assert len(list(made)) == 60


def test_typed_graphs_of_ours():
    graph = HeteroGraph.from_pyg(typed())
    made = LinkNeighborLoader(graph, [2], ("a", "to", "b"), neg_sampling="binary", batch_size=100)
    for batch in some(made):
        assert batch["a", "to", "b"].edge_label_index.shape[1] == 200


def test_loops_over_numpy_links_and_no_neighbours():
    made = LinkNeighborLoader(plain(), [], LINKS.numpy(), batch_size=30)
    for batch in some(made):
        assert batch.num_sampled_nodes == [batch.num_nodes] and batch.num_sampled_edges == []
        assert batch.edge_index.shape == (2, 0)


def refused(match, data=None, index=LINKS, num_neighbors=(2,), **options):
    with pytest.raises(InputError, match=match) as caught:
        LinkNeighborLoader(data or plain(), list(num_neighbors), index, **options)
    assert str(caught.value).count(". ") == 0


def test_what_does_not_fit_is_refused_in_a_sentence():
    refused("'edge_label_time' is set while 'time_attr' is not set", edge_label_time=TIMES)
    refused("'edge_label_time' is not set while", time_attr="time")
    refused("triplets have no labels", edge_label=torch.ones(60), neg_sampling="triplet")
    refused(
        "amount is 0.5, expected a whole number", neg_sampling={"mode": "triplet", "amount": 0.5}
    )
    refused("negatives have no 'ratio'", neg_sampling={"mode": "binary", "ratio": 2})
    refused("dst_weight is 0 for every node", neg_sampling={"dst_weight": torch.zeros(40)})
    refused("dst_weight holds 3 numbers", neg_sampling={"dst_weight": torch.ones(3)})
    refused("src_weight is nan", neg_sampling={"src_weight": torch.full((40,), np.nan)})
    refused("but there are 40 nodes", index=torch.tensor([[0], [40]]))
    refused("holds no links", index=torch.empty((2, 0), dtype=torch.int64))
    refused("transpose it", index=LINKS.T)
    refused("expected whole numbers", index=LINKS.float())
    refused("edge_label has shape", edge_label=torch.ones(3))
    refused("the graph has 3 relations", data=typed(), index=None)
    refused("no relation", data=typed(), index=("a", "at", "b"))
    refused("data is a Graph", data=small_graph())
    refused("neighbor_sampler", neighbor_sampler=object())
