"""Pairs of stores in our loaders and in PyG's: any stores, typed folders, damage, and bad input."""

import copy
import importlib.util
import pickle

import numpy as np
import pytest
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data, HeteroData, TensorAttr
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from foregather import FormatError, HeteroGraph, InputError
from foregather.graph.hetero import NodeTable, Relation
from foregather.interop.pyg import NeighborLoader, PygFeatureStore, PygGraphStore, from_pyg
from tests.graph.hetero.typed_graphs import typed_graph
from tests.interop.typed.test_typed_seat import CITES, DATA, TIMES, WRITES, ours
from tests.loader.hetero.batches import BUYS, shop
from tests.some import some

#: PyG's own sampler; none is needed for ours.
with_pyg_lib = pytest.mark.skipif(
    importlib.util.find_spec("pyg_lib") is None, reason="pyg-lib is not installed"
)


def stores(data, layout="coo"):
    """The attributes and edges of a HeteroData in PyG's own stores of tests."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    for name in data.node_types:
        for key, value in data[name].items():
            if isinstance(value, torch.Tensor):
                features.put_tensor(value, group_name=name, attr_name=key, index=None)
    for name in data.edge_types:
        size = data[name[0]].num_nodes, data[name[2]].num_nodes
        row, col = data[name].edge_index
        given = {"edge_type": name, "layout": layout, "size": size}
        order = torch.arange(row.numel())
        if layout == "csc":
            order = torch.argsort(col, stable=True)
            pointer = torch.bincount(col, minlength=size[1]).cumsum(0)
            graphs.put_edge_index(
                (row[order], torch.cat([torch.zeros(1).long(), pointer])), **given
            )
        else:
            graphs.put_edge_index((row, col), **given)
        for key, value in data[name].items():
            if key != "edge_index":
                features.put_tensor(value[order], group_name=name, attr_name=key, index=None)
    return features, graphs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disjoint": True},
        {"time_attr": "time", "input_time": TIMES},
        {"time_attr": "since", "input_time": TIMES},
        {"weight_attr": "weight"},
        {"subgraph_type": "induced"},
    ],
)
def test_batches_of_stores_are_those_of_the_data(options):
    data = copy.copy(DATA)
    theirs = list(ours(data, **options))
    for batch, other in some(zip(ours(stores(data), **options), theirs, strict=True)):
        assert isinstance(batch, HeteroData)
        for name in some(data.node_types):
            assert torch.equal(batch[name].n_id, other[name].n_id)
            for key in set(data[name].keys()) & {"x", "y", "time"}:
                assert torch.equal(batch[name][key], other[name][key])
        for name in some(data.edge_types):
            assert torch.equal(batch[name].edge_index, other[name].edge_index)
            assert torch.equal(batch[name].e_id, other[name].e_id)
        assert torch.equal(batch[CITES].edge_attr, other[CITES].edge_attr)  # PyG leaves it out
        assert batch["paper"].input_id.tolist() == other["paper"].input_id.tolist()


def test_one_call_a_batch_and_positions_of_the_store():
    features, graphs = stores(DATA, "csc")
    calls, own = [], features._multi_get_tensor

    def counted(attrs):
        calls.append(len(attrs))
        return own(attrs)

    features._multi_get_tensor = counted
    for batch in some(ours((features, graphs))):
        got = batch[WRITES]
        asked = features.get_tensor(group_name=WRITES, attr_name="since", index=got.e_id)
        assert torch.equal(got.since, asked)
    assert len(calls) == 4 and min(calls) > 4


def test_stores_without_types():
    features, graphs = MyFeatureStore(), MyGraphStore()
    edges = torch.randint(0, 20, (2, 90))
    x, weight = torch.randn(20, 3), torch.rand(90)
    features.put_tensor(x, group_name=None, attr_name="x", index=None)
    features.put_tensor(weight, group_name=None, attr_name="edge_attr", index=None)
    graphs.put_edge_index((edges[0], edges[1]), edge_type=None, layout="coo", size=(20, 20))
    for batch in some(NeighborLoader((features, graphs), [3, 3], torch.arange(20), batch_size=6)):
        assert type(batch) is Data and torch.equal(batch.x, x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], edges[:, batch.e_id])
        assert torch.equal(batch.edge_attr, weight[batch.e_id]) and batch.batch_size <= 6


def test_a_class_of_batches():
    class Mine(HeteroData):
        pass

    assert all(type(batch) is Mine for batch in some(ours(stores(DATA), custom_cls=Mine)))
    with pytest.raises(InputError, match="custom_cls is for stores"):
        ours(custom_cls=Mine)


# ---- folders -------------------------------------------------------------------------------


def arrays(graph, edge_types=True):
    """Everything that the stores hold, the slow way."""
    found = {}
    for name, table in graph.nodes.items():
        own = dict(table.features)
        own |= {k: v for k, v in (("y", table.labels), ("time", table.time)) if v is not None}
        for key, values in own.items():
            found[name, key] = np.asarray(values)
    for name in graph.edge_types:
        one = graph.relation(name)
        own = {"edge_attr": one.features, "edge_weight": one.weights, "time": one.time}
        for key, values in own.items():
            if values is not None and edge_types:
                found[name, key] = np.asarray(values)
    return found


@pytest.mark.parametrize("loaded", [None, True, False])
@pytest.mark.parametrize("make", [shop, typed_graph])
def test_rows_of_a_folder(tmp_path, make, loaded):
    graph = HeteroGraph.open(make().save(tmp_path / "graph.fg"))
    store, expected = PygFeatureStore(graph, loaded=loaded), arrays(graph)
    attrs = store.get_all_tensor_attrs()
    named = {(attr.group_name, attr.attr_name) for attr in attrs}
    bare = {(name, "n_id") for name, t in graph.nodes.items() if name not in {n for n, _ in named}}
    assert named - {("place", "n_id")} == expected.keys() and not bare
    rng = np.random.default_rng(0)
    asked = []
    for group, name in some(sorted(named & expected.keys(), key=repr)):
        values = expected[group, name]
        ids = rng.integers(0, len(values), 7) if len(values) else np.empty(0, np.int64)
        asked.append(TensorAttr(group_name=group, attr_name=name, index=torch.from_numpy(ids)))
        for index in some([None, slice(1, 5), torch.from_numpy(ids)]):
            got = store.get_tensor(group_name=group, attr_name=name, index=index)
            at = slice(None) if index is None else index if isinstance(index, slice) else ids
            assert np.array_equal(got.numpy(), values[at]), (group, name)
        assert store.get_tensor_size(group_name=group, attr_name=name) == values.shape
    for attr, got in some(zip(asked, store.multi_get_tensor(asked), strict=True)):
        values = expected[attr.group_name, attr.attr_name]
        assert np.array_equal(got.numpy(), values[attr.index.numpy()])
    again = pickle.loads(pickle.dumps(store))
    assert len(again.get_all_tensor_attrs()) == len(attrs)


@pytest.mark.parametrize("time", [None, "node", "edge"])
def test_edges_of_a_folder(tmp_path, time):
    graph = HeteroGraph.open(shop().save(tmp_path / "graph.fg"))
    store = PygGraphStore(graph, edge_attr=False, time=time)
    assert {attr.edge_type for attr in store.get_all_edge_attrs()} == set(graph.edge_types)
    for name in some(graph.edge_types):
        own = graph.relation(name, time)
        targets = np.repeat(np.arange(own.num_targets), np.diff(own.indptr))
        size = graph.nodes[name[0]].num_nodes, own.num_targets
        row, col = store.get_edge_index(edge_type=name, layout="coo", size=size)
        assert np.array_equal(row, own.indices) and np.array_equal(col, targets)
        row, pointer = store.get_edge_index(edge_type=name, layout="csc", size=size)
        assert np.array_equal(row, own.indices) and np.array_equal(pointer, own.indptr)
        pointer, col = store.get_edge_index(edge_type=name, layout="csr", size=size)
        sources = np.repeat(np.arange(size[0]), np.diff(pointer))
        given = sorted(zip(own.indices.tolist(), targets.tolist(), strict=True))
        assert sorted(zip(sources.tolist(), col.tolist(), strict=True)) == given
    row, col, perm = store.coo()
    assert row.keys() == set(graph.edge_types) and not any(one is not None for one in perm.values())


def test_our_loader_reads_a_folder_in_the_producer(tmp_path):
    graph = HeteroGraph.open(shop().save(tmp_path / "graph.fg"))
    whole = graph.to_pyg()
    for time in some([None, "node"]):
        pair = (PygFeatureStore(graph, time, loaded=False), PygGraphStore(graph, time=time))
        options = {"batch_size": 9, "seed": 3, "prefetch": 2}
        seeds = ("user", torch.tensor(graph.nodes["user"].split("train")))
        loader = NeighborLoader(pair, [3, 2], seeds, **options)
        theirs = NeighborLoader(whole, [3, 2], seeds, **options)
        for batch, other in some(zip(loader, theirs, strict=True)):
            for name in some(graph.node_types):
                assert torch.equal(batch[name].n_id, other[name].n_id)
            assert torch.equal(batch["user"].x, other["user"].x)
            assert torch.equal(batch["item"].picture, other["item"].picture)
            assert torch.equal(batch[BUYS].edge_attr, other[BUYS].edge_attr)
            ids = graph.relation(BUYS, time).edge_ids
            assert torch.equal(torch.tensor(ids)[batch[BUYS].e_id], other[BUYS].e_id)


def test_damage_and_replacement_are_noticed(tmp_path):
    folder = shop().save(tmp_path / "graph.fg")
    graph = HeteroGraph.open(folder)
    store = PygFeatureStore(graph, loaded=False)
    seeds = ("user", torch.arange(9))
    loaders = [
        NeighborLoader(graph, [2], seeds, batch_size=4),
        NeighborLoader((store, PygGraphStore(graph)), [2], seeds, batch_size=4),
    ]
    for loader in some(loaders):
        list(loader)
    shop(seed=1).save(folder, overwrite=True)
    for loader in some(loaders):
        with pytest.raises(FormatError, match="while a loader had it open"):
            list(loader)
    with pytest.raises(FormatError, match="while a loader had it open"):
        store.get_tensor(group_name="user", attr_name="x", index=None)
    with pytest.raises(FormatError, match="open it again"):
        PygFeatureStore(graph)


def test_a_flipped_byte_is_found(tmp_path):
    folder = shop().save(tmp_path / "graph.fg")
    graph = HeteroGraph.open(folder)
    entry = next(entry for name, entry in graph.meta["arrays"].items() if entry["shape"] == [60, 5])
    path = folder / entry["file"]
    raw = bytearray(path.read_bytes())
    raw[4096 + 60 * 5 * 4 - 3] ^= 1  # the last row
    path.write_bytes(raw)
    graph = HeteroGraph.open(folder)
    store = PygFeatureStore(graph, loaded=False)
    with pytest.raises(FormatError, match=entry["file"]):
        store.get_tensor(group_name="user", attr_name="x", index=torch.tensor([59]))


@with_pyg_lib
@pytest.mark.parametrize("time", [None, "node"])
def test_pygs_own_loader_over_a_typed_folder(tmp_path, time):
    graph = HeteroGraph.open(shop().save(tmp_path / "graph.fg"))
    pair = (PygFeatureStore(graph, time), PygGraphStore(graph, edge_attr=False, time=time))
    seeds = ("user", torch.arange(20))
    timed = {} if time is None else {"time_attr": "time"}
    if timed:  # of nodes only: the store of a graph with times of both names both
        bare = {name: Relation(one.indptr, one.indices) for name, one in _untimed(graph).items()}
        graph = HeteroGraph.open(HeteroGraph(graph.nodes, bare).save(tmp_path / "bare.fg"))
        pair = (PygFeatureStore(graph, time), PygGraphStore(graph, time=time))
    theirs = pyg_loader.NeighborLoader(pair, [-1, -1], seeds, batch_size=5, **timed)
    ours_ = NeighborLoader(pair, [-1, -1], seeds, batch_size=5, **timed)
    for one, other in some(zip(theirs, ours_, strict=True)):
        for name in some(graph.node_types):
            assert sorted(one[name].n_id.tolist()) == sorted(other[name].n_id.tolist())
        for name in some(graph.edge_types):
            assert sorted(one[name].e_id.tolist()) == sorted(other[name].e_id.tolist())
        assert torch.equal(
            one["user"].x, torch.tensor(graph.nodes["user"].features["x"])[one["user"].n_id]
        )


def _untimed(graph):
    return {name: graph.relation(name) for name in graph.edge_types}


# ---- bad input -----------------------------------------------------------------------------


def test_what_stores_refuse():
    store, graphs = PygFeatureStore(shop()), PygGraphStore(shop(), edge_attr=False)
    with pytest.raises(KeyError, match="no group 'usr'"):
        store.get_tensor(group_name="usr", attr_name="x", index=None)
    with pytest.raises(KeyError, match="no 'z' of 'user'; there is age, x, y, time"):
        store.get_tensor(group_name="user", attr_name="z", index=None)
    assert store.get_tensor_size(group_name="user", attr_name="z") is None
    with pytest.raises(InputError, match="index"):
        store.get_tensor(group_name="user", attr_name="x", index=torch.tensor([60]))
    with pytest.raises(InputError, match="mask of shape"):
        store.get_tensor(group_name="user", attr_name="x", index=torch.ones(3, dtype=torch.bool))
    for call in some(
        [
            lambda: store.put_tensor(torch.ones(2), group_name="a", attr_name="b", index=None),
            lambda: store.remove_tensor(group_name="user", attr_name="x", index=None),
            lambda: graphs.put_edge_index(torch.ones(2, 1), edge_type=BUYS, layout="coo"),
            lambda: graphs.remove_edge_index(edge_type=BUYS, layout="coo"),
        ]
    ):
        with pytest.raises(InputError, match="read-only"):
            call()
    with pytest.raises(KeyError):
        graphs.get_edge_index(edge_type=("a", "b", "c"), layout="coo")
    with pytest.raises(InputError, match="have weights, which PyG does not ask stores for"):
        PygGraphStore(shop()).get_all_edge_attrs()
    with pytest.raises(InputError, match="no node type of the graph has a time"):
        bare = HeteroGraph(
            {"a": NodeTable.of(2)}, {("a", "to", "a"): Relation.of([[0], [1]], 2, 2)}
        )
        PygGraphStore(bare, time="node")
    with pytest.raises(InputError, match="a Graph has no times"):
        PygGraphStore(
            from_pyg(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))), time="node"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_attr": "when"}, "no node type and no relation of the FeatureStore has such"),
        ({"input_time": TIMES}, "input_time was given, but no time_attr"),
        ({"weight_attr": "heavy"}, "no relation of the FeatureStore has such an attribute"),
        ({"input_nodes": "papr"}, "no node type 'papr'; the nearest is 'paper'"),
        ({"num_neighbors": {CITES: [1]}}, "no entry for relation"),
    ],
)
def test_what_pairs_refuse(options, message):
    options = {"num_neighbors": [2], "input_nodes": ("paper", DATA["paper"].train_mask), **options}
    with pytest.raises(InputError, match=message):
        NeighborLoader(stores(DATA), batch_size=4, **options)


def test_stores_that_do_not_fit_together():
    features, graphs = stores(DATA)
    features.put_tensor(torch.ones(3), group_name="reader", attr_name="x", index=None)
    loader = ours((features, graphs))
    assert all(batch["reader"].num_nodes == 0 for batch in some(loader))
    features.put_tensor(torch.ones(3), group_name=("a", "b"), attr_name="x", index=None)
    with pytest.raises(InputError, match="neither a node type nor an edge type"):
        ours((features, graphs))
    with pytest.raises(InputError, match="the GraphStore has no edges"):
        ours((MyFeatureStore(), MyGraphStore()))
    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.ones(3), group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(torch.tensor([[4], [5]]), edge_type=None, layout="coo", size=(9, 9))
    with pytest.raises(
        InputError, match="'x' of the FeatureStore has 3 rows, but there are 9 nodes"
    ):
        NeighborLoader((features, graphs), [2], torch.arange(2))
    with pytest.raises(InputError, match="data is a tuple"):
        NeighborLoader((features, features), [2], torch.arange(2))
