"""Which batches are accelerated: counts by every way, other loaders, models that take batches."""

import warnings

import pytest
import torch
from torch import nn

from foregather.nn import SAGE, accelerate
from foregather.nn.arguments import call_arguments
from foregather.train.metrics import forward
from tests.nn.accelerate_cases import (
    WIDTH,
    assert_near,
    batches,
    in_double,
    one_batch,
    random_graph,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def batch():
    return one_batch([4, 3])


def made(**options):
    torch.manual_seed(0)
    return pyg.GraphSAGE(WIDTH, 8, 2, 3, **options).double()


def test_counts_by_every_way(batch):
    model = made()
    expected = model(batch.x, batch.edge_index)[: batch.batch_size]
    known = {"num_sampled_nodes": batch.num_sampled_nodes}
    counts = {f"{name}_per_hop": getattr(batch, name) for name in (*known, "num_sampled_edges")}
    fresh = batch.edge_index.clone()
    calls = [
        lambda fast: fast(batch),
        lambda fast: fast(batch.clone()),  # as of another loader: other tensors, with counts
        lambda fast: fast(batch.x, batch.edge_index),
        lambda fast: fast(x=batch.x, edge_index=batch.edge_index),
        lambda fast: fast(batch.x, fresh, **counts),
        lambda fast: fast(batch.x, fresh, None, None, None, None, *counts.values()),
    ]
    for call in some(calls):
        fast = accelerate(model)
        got = call(fast)
        assert fast.plain is None, fast.plain
        assert got.shape[0] == batch.batch_size
        assert_near(got, expected)


def test_without_counts_it_runs_plain(batch):
    model = made()
    fast = accelerate(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = fast(batch.x, batch.edge_index.clone())
    assert torch.equal(got, model(batch.x, batch.edge_index))
    assert "how many nodes and edges" in fast.plain
    assert "not proven yet" in fast.explain()


def test_edges_changed_in_place_are_not_taken_for_the_batchs(batch):
    edges = one_batch([4, 3]).edge_index
    edges[0, 0] = 0
    fast = accelerate(made())
    assert fast(batch.x, edges).shape[0] == batch.num_nodes


@pytest.mark.parametrize("change", ["nodes", "edges", "order", "sum"])
def test_counts_that_do_not_fit_are_not_used(change, batch):
    nodes, edges = list(batch.num_sampled_nodes), list(batch.num_sampled_edges)
    index = batch.edge_index.clone()
    if change == "nodes":
        nodes[0], nodes[1] = nodes[0] - 1, nodes[1] + 1
    elif change == "edges":
        edges[0], edges[1] = edges[0] - 1, edges[1] + 1
    elif change == "order":
        index = index.flip(1)
    else:
        edges[1] += 1
    model = made()
    fast = accelerate(model)
    counts = {"num_sampled_nodes_per_hop": nodes, "num_sampled_edges_per_hop": edges}
    try:
        expected = model(batch.x, index, **counts)
    except (RuntimeError, IndexError):
        pytest.skip("the model cannot trim by these counts either")
    assert torch.equal(fast(batch.x, index, **counts), expected)
    assert "do not fit" in fast.plain


def test_edges_of_a_hop_in_another_order(batch):
    """Kernels need ascending targets; the modules' own code does not."""
    model = made()
    start, parts = 0, []
    for count in batch.num_sampled_edges:
        parts.append(torch.randperm(count) + start)
        start += count
    index = batch.edge_index[:, torch.cat(parts)]
    fast = accelerate(model)
    got = fast(
        batch.x,
        index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    assert fast.plain is None
    assert "its own code" in fast.explain()
    assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])


def test_models_that_take_the_batch(batch):
    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made()

        def forward(self, batch):
            return self.inner(batch.x, batch.edge_index)

    model = Takes()
    fast = accelerate(model)
    got = fast(batch)
    assert fast.plain is None
    assert got.shape[0] == batch.batch_size
    assert_near(got, model(batch)[: batch.batch_size])
    plain = batches(random_graph(), [4, 3], pyg=False)[0]
    single = accelerate(Takes().float())
    assert single(plain).shape[0] == plain.batch_size
    assert single.plain is None


def test_models_that_trim_by_themselves(batch):
    from torch_geometric.utils import trim_to_layer

    class Trims(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, 8)])

        def forward(self, x, edge_index, num_sampled_nodes, num_sampled_edges):
            for place, conv in enumerate(self.convs):
                x, edge_index, _ = trim_to_layer(
                    place, num_sampled_nodes, num_sampled_edges, x, edge_index
                )
                x = conv(x, edge_index).relu()
            return x

    model = Trims().double()
    fast = accelerate(model)
    got = fast(batch)
    assert fast.plain is None, fast.plain
    args, named = call_arguments(model, batch, torch.float64)
    assert_near(got, model(*args, **named)[: batch.batch_size])


def test_training_uses_it_as_any_model(batch):
    single = batches(random_graph(), [4, 3], pyg=False)[0]
    model = SAGE([WIDTH, 8, 3], dropout=0.0)
    fast = accelerate(model)
    got = forward(fast, single)
    assert fast.plain is None
    torch.testing.assert_close(got, forward(model, single))


def test_edge_index_of_pyg(batch):
    from torch_geometric import EdgeIndex

    model = made()
    edges = EdgeIndex(batch.edge_index, sparse_size=(batch.num_nodes,) * 2, sort_order="col")
    fast = accelerate(model)
    got = fast(
        batch.x,
        edges,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    assert fast.plain is None, fast.plain
    assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])


def test_hops_of_one_node_run_plain():
    alone = one_batch([4, 3], size=1)
    model = made()
    fast = accelerate(model)
    assert torch.equal(fast(alone.x, alone.edge_index), model(alone.x, alone.edge_index))
    assert "one node" in fast.plain


def test_batches_of_pygs_own_loader():
    pytest.importorskip("pyg_lib")
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    rng = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(300, WIDTH, generator=rng),
        edge_index=torch.randint(300, (2, 2000), generator=rng),
    )
    model = made()
    fast = accelerate(model)
    for found in some(NeighborLoader(data, [4, 3], batch_size=50)):
        batch = in_double(found)
        got = fast(batch)
        assert got.shape[0] == batch.batch_size
        assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])
    assert fast.plain is None


def test_training_with_jumping_knowledge():
    """PyG's models fail on the counts by which they would trim what is joined later."""
    single = batches(random_graph(), [4, 3], pyg=False)[0]
    model = pyg.GraphSAGE(WIDTH, 8, 2, 3, jk="cat")
    fast = accelerate(model)
    torch.testing.assert_close(forward(fast, single), forward(model, single))
    assert fast.plain is None
