"""PyG's own loaders with our sampler and stores."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NodeSamplerInput

from foregather import Graph, InputError
from foregather.interop.pyg import PygFeatureStore, PygGraphStore, PygSampler, from_pyg
from foregather.sampling import Labor
from tests.sampling.reference import ReferenceNeighbor
from tests.some import some

SAMPLER = ReferenceNeighbor((3, 2))


def example(nodes: int = 60, edges: int = 400) -> Data:
    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(nodes, 5, generator=generator),
        y=torch.randint(0, 3, (nodes,), generator=generator),
        edge_index=torch.randint(0, nodes, (2, edges), generator=generator),
        edge_attr=torch.rand(edges, 2, generator=generator),
        train_mask=torch.arange(nodes) < 20,
    )


def same(a, b) -> bool:
    return torch.equal(a.n_id, b.n_id) and torch.equal(a.edge_index, b.edge_index)


def test_under_node_loader():
    data = example()
    graph = from_pyg(data)
    loader = NodeLoader(data, PygSampler(SAMPLER, graph), torch.tensor([7, 3, 50]), batch_size=2)
    batches = list(loader)
    assert [batch.batch_size for batch in batches] == [2, 1]
    assert torch.cat([batch.input_id for batch in batches]).tolist() == [0, 1, 2]
    for batch in batches:
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert batch.num_sampled_nodes[0] == batch.batch_size
        assert sum(batch.num_sampled_edges) == batch.edge_index.shape[1]
        assert (batch.edge_index[1].diff() >= 0).all()


def test_samples_depend_on_seeds_and_epoch_only():
    data = example()
    sampler = PygSampler(SAMPLER, from_pyg(data), seed=5)
    ordered = NodeLoader(data, sampler, data.train_mask, batch_size=5)
    first, again = list(ordered), list(ordered)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    sampler.set_epoch(1)
    assert not all(same(a, b) for a, b in zip(first, ordered, strict=True))


def test_stores_under_node_loader(tmp_path):
    data = example()
    graph = Graph.open(from_pyg(data).save(tmp_path / "g.fg"))
    stores = (PygFeatureStore(graph), PygGraphStore(graph, edge_attr=False))
    loader = NodeLoader(
        stores,
        PygSampler(SAMPLER, graph),
        torch.arange(20),
        batch_size=8,
        filter_per_worker=False,
    )
    for batch in some(loader):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.n_id])
        sources = graph.indices[batch.e_id].astype(np.int64)
        np.testing.assert_array_equal(sources, batch.n_id[batch.edge_index[0]])


def test_feature_store():
    data = example()
    store = PygFeatureStore(from_pyg(data))
    assert [attr.attr_name for attr in store.get_all_tensor_attrs()] == ["x", "y"]
    assert store.get_tensor_size(group_name=None, attr_name="x", index=None) == (60, 5)
    for index, rows in (
        (torch.tensor([4, 1]), data.x[[4, 1]]),
        (slice(3, 9, 2), data.x[3:9:2]),
        (None, data.x),
    ):
        assert torch.equal(store.get_tensor(group_name=None, attr_name="x", index=index), rows)
    with pytest.raises(KeyError):
        store.get_tensor(group_name=None, attr_name="z", index=None)
    with pytest.raises(InputError, match="60 at position 1"):
        store.get_tensor(group_name=None, attr_name="x", index=torch.tensor([0, 60]))
    with pytest.raises(InputError, match="read-only"):
        store.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    with pytest.raises(InputError, match="read-only"):
        store.remove_tensor(group_name=None, attr_name="x", index=None)
    bare = Graph.from_edge_index(data.edge_index)
    assert PygFeatureStore(bare).get_all_tensor_attrs() == []


def test_graph_store():
    data = example()
    graph = from_pyg(data)
    with pytest.raises(InputError, match="edge features, which PyG does not ask stores for"):
        PygGraphStore(graph)
    store = PygGraphStore(graph, edge_attr=False)
    (attr,) = store.get_all_edge_attrs()
    row, colptr = store.get_edge_index(attr)
    np.testing.assert_array_equal(row, graph.indices)
    np.testing.assert_array_equal(colptr, graph.indptr)
    sources, targets, _ = store.coo()
    order = np.lexsort(data.edge_index.numpy())
    assert torch.equal(torch.stack([sources, targets]), data.edge_index[:, order])
    with pytest.raises(InputError, match="read-only"):
        store.put_edge_index((row, colptr), attr)
    with pytest.raises(InputError, match="read-only"):
        store.remove_edge_index(attr)


def test_added_self_loops_have_no_edge_id():
    data = example()
    loader = NodeLoader(
        Data(edge_index=data.edge_index, num_nodes=60),
        PygSampler(SAMPLER, from_pyg(data, self_loops=True)),
        batch_size=60,
    )
    (batch,) = loader
    assert "e_id" not in batch


def test_edge_weights_come_along_or_are_refused():
    data = example()
    data.edge_weight = torch.rand(400)
    graph = from_pyg(data)
    assert graph.edge_weight is not None
    (batch,) = NodeLoader(data, PygSampler(SAMPLER, graph), batch_size=60)
    assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
    with pytest.raises(InputError, match="cannot tell which belong"):
        PygSampler(SAMPLER, from_pyg(data, self_loops=True))
    with pytest.raises(InputError, match="does not ask a GraphStore for"):
        PygGraphStore(graph)
    bare = from_pyg(example())
    with pytest.raises(InputError, match="Labor gives each edge a factor"):
        PygSampler(Labor([2, 2]), bare).sample_from_nodes(
            NodeSamplerInput(input_id=torch.arange(30), node=torch.arange(30))
        )


def test_refused():
    graph = from_pyg(example())
    with pytest.raises(InputError, match="per-layer"):
        PygSampler(ReferenceNeighbor((2,), expand="per-layer"), graph)
    with pytest.raises(InputError, match="a seed twice"):
        next(iter(NodeLoader(example(), PygSampler(SAMPLER, graph), [1, 1], batch_size=2)))
    with pytest.raises(InputError, match="edges as seeds"):
        PygSampler(SAMPLER, graph).sample_from_edges(None)
