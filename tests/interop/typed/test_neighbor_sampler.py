"""Samplers of ours in PyG's NodeLoader: typed and timed data, workers, and what is refused."""

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NodeSamplerInput, NumNeighbors

from foregather import HeteroGraph, InputError
from foregather.interop.pyg import (
    NeighborLoader,
    NeighborSampler,
    PygFeatureStore,
    PygGraphStore,
    PygSampler,
)
from foregather.sampling import (
    HeteroFastGCN,
    HeteroLabor,
    HeteroLadies,
    HeteroNeighbor,
    Hgt,
    Neighbor,
)
from tests.interop.typed.test_typed_seat import CITES, DATA, TIMES, check_filter, ours, timed_data
from tests.loader.hetero.batches import shop
from tests.some import some

MASK = DATA["paper"].train_mask
OPTIONS = {
    "plain": {},
    "disjoint": {"disjoint": True},
    "node time": {"time_attr": "time"},
    "edge time": {"time_attr": "since", "temporal_strategy": "last"},
    "weighted": {"weight_attr": "weight"},
    "induced": {"subgraph_type": "induced"},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", OPTIONS)
def test_pygs_node_loader_makes_the_batches_of_our_loader(kind, workers):
    """Trees are keyed by input row and so the same; plain samples are keyed otherwise."""
    options = OPTIONS[kind]
    sampler = NeighborSampler(DATA, [3, 2], seed=1, **options)
    time = TIMES if kind == "edge time" else None
    loader = NodeLoader(DATA, sampler, ("paper", MASK), time, batch_size=6, num_workers=workers)
    theirs = list(ours(input_time=time, **options))
    for batch, other in some(zip(loader, theirs, strict=True)):
        check_filter(batch, DATA)
        assert batch["paper"].input_id.tolist() == other["paper"].input_id.tolist()
        assert batch["paper"].batch_size == other["paper"].batch_size
        if sampler.disjoint:
            for name in some(DATA.node_types):
                assert torch.equal(batch[name].n_id, other[name].n_id)
                assert torch.equal(batch[name].batch, other[name].batch)
            for name in some(DATA.edge_types):
                assert torch.equal(batch[name].e_id, other[name].e_id)
                assert torch.equal(batch[name].edge_index, other[name].edge_index)
        if time is not None:
            assert torch.equal(batch["paper"].seed_time, other["paper"].seed_time)


def test_workers_epochs_and_pickles_change_nothing_but_what_they_should():
    def nodes(sampler, workers):
        loader = NodeLoader(DATA, sampler, "paper", batch_size=8, num_workers=workers)
        return [batch["paper"].n_id.tolist() for batch in loader]

    sampler = NeighborSampler(DATA, [2, 2], seed=5)
    once = nodes(sampler, 0)
    assert once == nodes(sampler, 2) == nodes(pickle.loads(pickle.dumps(sampler)), 0)
    sampler.set_epoch(1)
    assert once != nodes(sampler, 0)


def test_data_with_times_and_plain_data():
    data = timed_data()
    sampler = NeighborSampler(data, [4, 4], time_attr="time", seed=0)
    assert sampler.disjoint and sampler.is_temporal and not sampler.is_hetero
    theirs = NeighborLoader(data, [4, 4], time_attr="time", batch_size=8, seed=0)
    loader = NodeLoader(data, sampler, batch_size=8)
    for batch, other in some(zip(loader, theirs, strict=True)):
        for name in some(["x", "n_id", "e_id", "edge_attr", "edge_index", "batch"]):
            assert torch.equal(batch[name], other[name])
    del data.time
    for kind in some(["directional", "bidirectional", "induced"]):
        for batch in some(NodeLoader(data, NeighborSampler(data, [3, 3], kind), batch_size=9)):
            ends, own = batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id]
            turned = (ends.flip(0) == own).all(0) & (kind == "bidirectional")
            assert ((ends == own).all(0) | turned).all()
            assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])


def test_backwards_follows_edges_to_their_targets():
    forward = copy.copy(DATA)
    turned = HeteroData()
    for name in DATA.node_types:
        turned[name].num_nodes = DATA[name].num_nodes
    for name in DATA.edge_types:
        turned[name[2], name[1], name[0]].edge_index = DATA[name].edge_index.flip(0)
    numbers = {name: [-1, -1] for name in DATA.edge_types}
    back = NeighborSampler(forward, numbers, sample_direction="backward", seed=0)
    flip = NeighborSampler(turned, [-1, -1], seed=0)
    asked = NodeSamplerInput(input_id=None, node=torch.arange(4), input_type="paper")
    one, two = back.sample_from_nodes(asked), flip.sample_from_nodes(asked)
    for name in some(DATA.node_types):
        assert torch.equal(one.node[name], two.node[name])
    for name in some(DATA.edge_types):
        other = (name[2], name[1], name[0])
        assert torch.equal(one.row[name], two.col[other])
        perm = back.edge_permutation[name]
        edge = one.edge[name] if perm is None else perm[one.edge[name]]
        ends = [one.node[name[0]][one.row[name]], one.node[name[2]][one.col[name]]]
        assert torch.equal(torch.stack(ends), DATA[name].edge_index[:, edge])
    assert sum(row.numel() for row in one.row.values()) > 0


def test_backwards_by_weight():
    """A row that is taken whole may have only zeros; rows are those of the other direction."""
    data = Data(edge_index=torch.tensor([[0, 0, 2], [1, 2, 3]]), num_nodes=4)
    asked = NodeSamplerInput(input_id=None, node=torch.tensor([0]))
    for weight, reached in some([([1.0, 0.0, 1.0], [0, 1]), ([0.0, 1.0, 0.0], [0, 2, 3])]):
        data.weight = torch.tensor(weight)
        for seed in range(20):
            sampler = NeighborSampler(
                data, [1, 1], weight_attr="weight", sample_direction="backward", seed=seed
            )
            assert sampler.sample_from_nodes(asked).node.tolist() == reached


def test_a_seed_given_twice():
    loader = NodeLoader(
        DATA, NeighborSampler(DATA, [2]), ("paper", torch.tensor([4, 7, 4])), batch_size=3
    )
    (batch,) = loader
    check_filter(batch, DATA)
    assert batch["paper"].n_id[:3].tolist() == [4, 7, 4]


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_folder_with_our_sampler_and_stores(tmp_path, loaded, workers):
    graph = HeteroGraph.open(shop().save(tmp_path / "shop.fg"))
    data = graph.to_pyg()
    pair = (PygFeatureStore(graph, loaded=loaded), PygGraphStore(graph, edge_attr=False))
    for rule in some([HeteroNeighbor([3, 2]), HeteroNeighbor([3], time="node"), Hgt([5, 5])]):
        sampler = PygSampler(rule, graph, seed=2)
        assert sampler.disjoint == rule.disjoint
        loader = NodeLoader(
            pair,
            sampler,
            ("user", torch.arange(20)),
            batch_size=7,
            num_workers=workers,
            filter_per_worker=False,
        )
        for batch in some(loader):
            assert set(batch.node_types) == set(data.node_types)
            for name in some(data.node_types):
                for key in some(set(data[name].keys()) & {"x", "age", "picture", "y", "time"}):
                    assert torch.equal(batch[name][key], data[name][key][batch[name].n_id])
            for name in some(data.edge_types):
                ends = [batch[name[2 * at]].n_id[batch[name].edge_index[at]] for at in (0, 1)]
                assert torch.equal(torch.stack(ends), data[name].edge_index[:, batch[name].e_id])


def test_what_is_refused():
    with pytest.raises(InputError, match="edges as seeds are not supported"):
        NeighborSampler(DATA, [2]).sample_from_edges(None)
    with pytest.raises(InputError, match="time_attr does not work with sample_direction"):
        NeighborSampler(DATA, [2], time_attr="time", sample_direction="backward")
    with pytest.raises(InputError, match="sample_direction is 'down'"):
        NeighborSampler(DATA, [2], sample_direction="down")
    with pytest.raises(InputError, match="no node type 'papr'; the nearest is 'paper'"):
        NodeLoader(DATA, NeighborSampler(DATA, [2]), ("paper", [1])).node_sampler.sample_from_nodes(
            NodeSamplerInput(None, torch.tensor([1]), input_type="papr")
        )
    with pytest.raises(InputError, match="input_time was given, but the sampler looks at no times"):
        next(iter(NodeLoader(DATA, NeighborSampler(DATA, [2]), "paper", torch.arange(40))))
    timed = NeighborSampler(DATA, [2], time_attr="since")
    with pytest.raises(InputError, match="every input row needs a time; pass input_time"):
        next(iter(NodeLoader(DATA, timed, "paper")))
    with pytest.raises(InputError, match="the seeds have no type, but the graph has 3 node types"):
        PygSampler(HeteroNeighbor([2]), shop()).sample_from_nodes(
            NodeSamplerInput(None, torch.tensor([1]))
        )
    with pytest.raises(InputError, match="does not sample graphs with types"):
        PygSampler(Neighbor([2]), shop())
    for rule in (HeteroLabor([2]), HeteroLadies([2]), HeteroFastGCN([2])):  # PyG has no weights
        with pytest.raises(InputError, match=f"{type(rule).__name__} weights .* HeteroLoader"):
            PygSampler(rule, shop())
    numbers = NumNeighbors({CITES: [2]}, default=[1])
    assert NeighborSampler(DATA, numbers).num_neighbors is numbers
    assert PygSampler(HeteroNeighbor([2]), shop()).num_neighbors is not None
