"""The drop-in NeighborLoader where PyG's other code takes hold of it."""

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, SequentialSampler, SubsetRandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import CachedLoader, ImbalancedSampler, PrefetchLoader, ZipLoader
from torch_geometric.loader import NeighborLoader as PygNeighborLoader
from torch_geometric.nn import GCN, GraphConv, GraphSAGE
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.utils import to_undirected

from foregather import Graph, InputError
from foregather.interop.pyg import NeighborLoader
from foregather.loader.loader import Loader
from foregather.sampling import Labor
from tests.some import some


def example(nodes: int = 50, edges: int = 300) -> Data:
    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(nodes, 4, generator=generator),
        y=torch.randint(0, 3, (nodes,), generator=generator),
        edge_index=torch.randint(0, nodes, (2, edges), generator=generator),
        edge_attr=torch.arange(edges),
    )


def check(data: Data, batch: Data) -> None:
    """Edges are the graph's own, by target, and attributes are theirs."""
    assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
    assert torch.equal(batch.edge_attr, batch.e_id) and torch.equal(batch.x, data.x[batch.n_id])
    assert (batch.edge_index[1].diff() >= 0).all()


def test_is_a_loader_of_pyg_and_says_so():
    loader = NeighborLoader(example(), [2], batch_size=10, num_workers=2, worker_init_fn=print)
    assert isinstance(loader, PygNeighborLoader) and isinstance(loader, Loader)
    assert repr(loader) == "NeighborLoader()" and len(loader) == 5
    assert loader.num_workers == 2 and loader.drop_last is False and loader.batch_size == 10
    assert loader.dataset == range(50) and loader.node_sampler.num_neighbors == (2,)
    assert loader.multiprocessing_context is None


def test_a_call_gives_the_batch_of_positions():
    data = example()
    loader = NeighborLoader(data, [-1], torch.tensor([7, 3, 9]), batch_size=2, seed=1)
    batch = loader([2, 0])
    assert batch.n_id[:2].tolist() == [9, 7] and batch.input_id.tolist() == [2, 0]
    check(data, batch)
    sampled = NeighborLoader(data, [2, 2], seed=1)
    assert torch.equal(sampled([4, 5]).n_id, sampled(torch.tensor([4, 5])).n_id)
    before = [sampled([node]).e_id.tolist() for node in range(50)]
    sampled.set_epoch(1)
    assert before != [sampled([node]).e_id.tolist() for node in range(50)]
    with pytest.raises(InputError, match="index holds 3 at position 0"):
        loader([3])
    graph = Graph.from_pyg(data)
    assert torch.equal(NeighborLoader(graph, [-1])([4]).x[0], data.x[4])


@pytest.mark.parametrize("model", [GraphSAGE, GCN])
@pytest.mark.parametrize("cache", [False, True])
def test_inference_of_pygs_models(model, cache):
    data = example()
    net = model(4, 8, 2, 3).eval()
    loader = NeighborLoader(data, [-1], batch_size=16)
    found = net.inference(loader, cache=cache)
    if model is GraphSAGE:  # a GCN normalises by the degrees in a batch, with PyG's loader too
        torch.testing.assert_close(found, net(data.x, data.edge_index))
    assert found.shape == (50, 3) and "n_id" not in data


@pytest.mark.parametrize("in_workers", [False, True])
def test_zip_cached_and_prefetch_loaders(in_workers):
    data = example()
    parts = torch.arange(30), torch.arange(30, 50)
    loaders = [NeighborLoader(data, [3], part, seed=0) for part in parts]
    both = ZipLoader(loaders, batch_size=8, filter_per_worker=in_workers)
    assert len(both) == 3 and repr(both).count("NeighborLoader()") == 2
    for number, (first, second) in enumerate(both):
        for part, batch in zip(parts, (first, second), strict=True):
            check(data, batch)
            seeds = part[:20][8 * number : 8 * number + 8]
            assert torch.equal(batch.n_id[: batch.batch_size], seeds)
    cached = CachedLoader(NeighborLoader(data, [3], batch_size=20, shuffle=True, seed=0))
    assert [batch.n_id.tolist() for batch in cached] == [batch.n_id.tolist() for batch in cached]
    for batch in PrefetchLoader(NeighborLoader(data, [3], batch_size=20), torch.device("cpu")):
        check(data, batch)


def test_a_sampler_of_torch_deals_the_seeds():
    data = example()
    sampler = SubsetRandomSampler(range(0, 50, 2))
    loader = NeighborLoader(data, [3], batch_size=10, sampler=sampler)
    assert len(loader) == 3 and loader.sampler is sampler
    first, again = ([batch.input_id for batch in loader] for _ in range(2))
    assert torch.cat(first).sort()[0].tolist() == list(range(0, 50, 2))
    assert not torch.equal(torch.cat(first), torch.cat(again))
    nodes = torch.arange(50).flip(0)
    batches = BatchSampler(SequentialSampler(range(7)), 3, drop_last=False)
    loader = NeighborLoader(data, [3], nodes, batch_sampler=batches)
    assert [batch.seed_id.tolist() for batch in loader] == [[49, 48, 47], [46, 45, 44], [43]]
    assert [batch.input_id.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    for options in ({"shuffle": True}, {"batch_sampler": batches}):
        with pytest.raises(InputError, match="decides the order"):
            NeighborLoader(data, [3], sampler=sampler, **options)
    with pytest.raises(InputError, match="sampler holds 60 at position 0"):
        next(iter(NeighborLoader(data, [3], sampler=[60])))
    with pytest.raises(InputError, match="so neither can a position in it"):
        loader.state_dict()


def test_a_seed_given_twice_has_two_rows():
    """Over-sampling weighs classes by repeating seeds: the rows must be there to be counted."""
    data = example()
    seeds = torch.tensor([4, 7, 4, 4, 9, 7])
    conv = GraphConv(4, 3)
    for fanouts in ([-1], [3, 2]):
        (batch,) = NeighborLoader(data, fanouts, seeds, batch_size=6, seed=0)
        check(data, batch)
        assert torch.equal(batch.n_id[:6], seeds) and batch.batch_size == 6
        assert batch.num_sampled_nodes[0] == 6
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert sum(batch.num_sampled_edges) == batch.num_edges
        out = conv(conv(batch.x, batch.edge_index).repeat(1, 2)[:, :4], batch.edge_index)[:6]
        torch.testing.assert_close(out[[0, 1]], out[[2, 5]])
    (whole,) = NeighborLoader(data, [-1, -1], seeds, batch_size=6)
    wanted = conv(conv(data.x, data.edge_index).repeat(1, 2)[:, :4], data.edge_index)[seeds]
    found = conv(conv(whole.x, whole.edge_index).repeat(1, 2)[:, :4], whole.edge_index)[:6]
    torch.testing.assert_close(found, wanted)
    y = (torch.arange(100) < 10) * 1
    imbalanced = Data(edge_index=torch.empty(2, 0, dtype=torch.long), y=y, num_nodes=100)
    sampler = ImbalancedSampler(imbalanced.y)
    loader = NeighborLoader(imbalanced, [-1], batch_size=10, sampler=sampler)
    assert 25 < sum(int(batch.y.sum()) for batch in loader) < 75


@pytest.mark.parametrize("fanouts", [[-1, -1], [2, 2]])
@pytest.mark.parametrize("kind", ["bidirectional", "induced", SubgraphType.induced])
def test_kinds_of_subgraphs(kind, fanouts):
    data = example()
    drawn = NeighborLoader(data, fanouts, batch_size=10, seed=3, subgraph_type="directional")
    made = NeighborLoader(data, fanouts, batch_size=10, seed=3, subgraph_type=kind)
    for one, batch in some(zip(drawn, made, strict=True)):
        assert torch.equal(one.n_id, batch.n_id) and torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, batch.e_id) and "num_sampled_edges" not in batch
        pairs = {tuple(pair) for pair in batch.n_id[batch.edge_index].t().tolist()}
        if kind == "bidirectional":
            sampled = {tuple(pair) for pair in one.n_id[one.edge_index].t().tolist()}
            assert pairs == sampled | {(b, a) for a, b in sampled} and len(pairs) == batch.num_edges
            own = data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]
            back = data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index.flip(0)]
            assert (own.all(0) | back.all(0)).all()
        else:
            check(data, batch)
            among = torch.isin(data.edge_index, batch.n_id).all(0)
            assert batch.e_id.sort()[0].tolist() == torch.nonzero(among).flatten().tolist()


def test_kinds_of_subgraphs_with_repeats_and_models():
    data = example()
    data.edge_index = to_undirected(data.edge_index)
    data.edge_attr = torch.arange(data.num_edges)
    seeds, conv = torch.tensor([3, 8, 3]), GraphConv(4, 3)
    wanted = conv(data.x, data.edge_index)[seeds]
    for kind in SubgraphType:
        (batch,) = NeighborLoader(data, [-1], seeds, batch_size=3, subgraph_type=kind)
        if kind == SubgraphType.directional:
            torch.testing.assert_close(conv(batch.x, batch.edge_index)[:3], wanted)
        assert torch.equal(batch.n_id[:3], seeds) and torch.equal(batch.edge_attr, batch.e_id)
    old = NeighborLoader(data, [-1], seeds, batch_size=3, directed=False)
    assert next(iter(old)).num_edges == batch.num_edges
    with pytest.raises(InputError, match="needs a PyG Data in memory"):
        NeighborLoader(Graph.from_pyg(data), [-1], subgraph_type="induced")
    with pytest.raises(InputError, match="only works with num_neighbors"):
        NeighborLoader(data, sampler=Labor([2]), subgraph_type="induced")


def test_a_sampler_output_can_be_changed():
    data = example()

    def drop_last_layer(out):
        nodes, edges = sum(out.num_sampled_nodes[:2]), out.num_sampled_edges[0]
        out.node, out.edge = out.node[:nodes], out.edge[:edges]
        out.row, out.col = out.row[:edges], out.col[:edges]
        out.num_sampled_nodes = out.num_sampled_nodes[:2]
        out.num_sampled_edges = out.num_sampled_edges[:1]
        return out

    for batch in NeighborLoader(
        data, [3, 2], batch_size=10, transform_sampler_output=drop_last_layer
    ):
        check(data, batch)
        assert batch.num_nodes == sum(batch.num_sampled_nodes) and len(batch.num_sampled_nodes) == 2


def test_factors_of_a_sampler_are_not_overwritten():
    data = example()
    data.edge_weight = torch.rand(300)
    loader = NeighborLoader(data, sampler=Labor([3]), batch_size=25, seed=0)
    inside = Loader(Graph.from_pyg(data), sampler=Labor([3]), batch_size=25, seed=0)
    for batch, other in some(zip(loader, inside, strict=True)):
        assert torch.equal(batch.edge_weight, other.edge_weight)
        assert not torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
    data.heavy = torch.rand(300) + 0.1
    for batch in NeighborLoader(data, [3], batch_size=25, weight_attr="heavy"):
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
    del data.edge_weight
    for batch in NeighborLoader(data, [3], batch_size=25, weight_attr="heavy"):
        assert "edge_weight" not in batch


def test_layers_name_the_edges_of_the_data():
    data = example()
    for batch in NeighborLoader(data, [3, 2], batch_size=10, expand="per-layer"):
        for layer in batch.layers:
            assert torch.equal(data.edge_index[:, layer.e_id], batch.n_id[layer.edge_index])
            assert torch.equal(layer.edge_attr, layer.e_id)
        assert torch.equal(batch.edge_attr, batch.e_id) and batch.edge_index is None


def test_threads_and_cores():
    loader = NeighborLoader(example(), [3, 2], batch_size=10, threads=1, seed=0)
    with loader.enable_multithreading(2):
        assert loader._maker.threads == loader._maker.assembler.threads == 2
        inside = [batch.n_id for batch in loader]
    loader.set_epoch(0)
    assert all(torch.equal(a, b.n_id) for a, b in zip(inside, loader, strict=True))
    assert loader._maker.threads == 1
    with pytest.raises(InputError, match="there are none"), loader.enable_cpu_affinity([0]):
        pass


def test_nodes_without_edges():
    (batch,) = NeighborLoader(Data(x=torch.rand(3, 2)), [-1], batch_size=3)
    assert batch.num_nodes == 3 and batch.edge_index.shape == (2, 0)
    np.testing.assert_array_equal(batch.n_id, [0, 1, 2])


def test_weights_of_zero():
    """Rows that are taken whole need no weight; where one of several is to be drawn, they do."""
    edges = torch.tensor([[1, 3, 0, 4], [2, 2, 1, 3]])
    data = Data(num_nodes=5, edge_index=edges, edge_weight=torch.tensor([0.0, 1.0, 0.0, 1.0]))
    (batch,) = NeighborLoader(data, [1, 1], torch.tensor([2]), weight_attr="edge_weight")
    assert batch.n_id.tolist() == [2, 3, 4] and batch.edge_weight.tolist() == [1.0, 1.0]
    (batch,) = NeighborLoader(data, [1], torch.tensor([1]), weight_attr="edge_weight")
    assert batch.n_id.tolist() == [1, 0] and batch.edge_weight.tolist() == [0.0]
    data.edge_weight = torch.tensor([0.0, 0.0, 0.0, 1.0])
    with pytest.raises(InputError, match="all 2 edges into node 2 are 0"):
        next(iter(NeighborLoader(data, [1], weight_attr="edge_weight")))
