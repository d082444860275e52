"""Accelerated models on batches without leaf rows: the bits of those with them, or a sentence."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.nn import GAT, GCN, GIN, GraphConv, GraphSAGE, SAGEConv

from foregather import BatchContents, Features, Graph, InputError, Loader
from foregather.nn import SAGE, accelerate
from foregather.train.metrics import forward
from tests.loader.graphs import small_graph
from tests.some import some

WIDTH, HIDDEN = 6, 16


class Convs(torch.nn.Module):
    """Two GraphConvs of PyG."""

    def __init__(self, aggr="add"):
        super().__init__()
        self.one, self.two = GraphConv(WIDTH, HIDDEN, aggr), GraphConv(HIDDEN, 3, aggr)

    def forward(self, x, edge_index, edge_weight=None):
        hidden = self.one(x, edge_index, edge_weight).relu()
        return self.two(hidden, edge_index, edge_weight)


class Takes(torch.nn.Module):
    """A model whose forward takes the batch."""

    def __init__(self):
        super().__init__()
        self.convs = GraphSAGE(WIDTH, HIDDEN, 2, 3)

    def forward(self, batch):
        return self.convs(batch.x, batch.edge_index)


class Encodes(Takes):
    """Changes rows before its first convolution."""

    def forward(self, batch):
        return self.convs(torch.nn.functional.dropout(batch.x, 0.5), batch.edge_index)


MODELS = {
    "sage mean": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3), "sum"),
    "sage sum": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3, aggr="sum", dropout=0.3), "sum"),
    "sage jumps": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3, jk="cat"), "sum"),
    "gin": (lambda: GIN(WIDTH, HIDDEN, 2, 3, norm=None), "sum"),
    "own sage": (lambda: SAGE([WIDTH, HIDDEN, 3]), "sum"),
    "graph conv": (Convs, "weighted"),
    "graph conv mean": (lambda: Convs("mean"), "weighted"),
    "gcn": (lambda: GCN(WIDTH, 32, 2, 3, normalize=False), "weighted"),
    "takes": (Takes, "sum"),
    "one layer": (lambda: GraphSAGE(WIDTH, HIDDEN, 1, 3), "sum"),
}


def batches(graph, leaves, size=8, **options):
    """Batches of a loader, with weights only where sums are weighted."""
    norm = "gcn" if leaves == "weighted" else None
    contents = BatchContents(norm=norm, leaves=leaves, **options)
    return Loader(graph, [4, 3], "train", size, contents=contents, seed=3)


def step(model, batch, call):
    """Scores of the seeds and gradients of a step."""
    torch.manual_seed(1)
    model.zero_grad()
    scores = call(model, batch)[: batch.batch_size]
    scores.square().sum().backward()
    return [scores.detach(), *(part.grad.clone() for part in model.parameters())]


def by_forward(model, batch):
    return forward(model, batch)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("pyg", [False, True])
def test_results_are_those_of_whole_batches(name, pyg):
    make, leaves = MODELS[name]
    torch.manual_seed(0)
    model = make()
    whole, summed = accelerate(copy.deepcopy(model)), accelerate(model)
    graph = small_graph()
    norm = "gcn" if leaves == "weighted" else None
    rows = Loader(graph, [4, 3], "train", 8, contents=BatchContents(norm=norm, pyg=pyg), seed=3)
    for a, b in some(zip(rows, batches(graph, leaves, pyg=pyg), strict=True)):
        wanted = step(whole, a, by_forward)
        assert whole.plain is None
        for found in some([step(summed, b, by_forward)]):
            assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert summed.plain is None


def test_a_model_may_be_called_with_tensors_or_with_the_batch():
    model = accelerate(GraphSAGE(WIDTH, HIDDEN, 2, 3))
    for batch in some(batches(small_graph(), "sum", pyg=False)):
        by_tensors = model(batch.x, batch.edge_index)[: batch.batch_size]
        assert torch.equal(by_tensors, model(batch)[: batch.batch_size])


def test_half_rows_are_added_up_in_float32():
    graph = small_graph()
    half = replace(graph, features=Features(graph.features.data.astype(np.float16)))
    model = GraphSAGE(WIDTH, HIDDEN, 2, 3)
    whole, summed = accelerate(copy.deepcopy(model)), accelerate(model)
    rows = Loader(half, [4, 3], "train", 8, contents=BatchContents(pyg=False), seed=3)
    for a, b in some(zip(rows, batches(half, "sum", pyg=False), strict=True)):
        assert torch.equal(forward(summed, b), forward(whole, a))


def test_one_seed_and_no_new_nodes():
    graph = Graph.from_edge_index(
        np.array([[1, 0, 1], [0, 1, 1]]), 3, x=np.random.default_rng(0).random((3, 6), np.float32)
    )
    model = GraphSAGE(WIDTH, HIDDEN, 2, 3)
    contents = [BatchContents(pyg=False, leaves=leaves) for leaves in ("rows", "sum")]
    rows, sums = (Loader(graph, [2, 2], None, 1, contents=one) for one in contents)
    model.eval()
    for a, b in some(zip(rows, sums, strict=True)):
        wanted = model(a.x, a.edge_index)[: a.batch_size]
        assert torch.allclose(forward(accelerate(model), b), wanted, atol=1e-6)


REFUSED = {
    "GAT": (lambda: GAT(WIDTH, HIDDEN, 2, 3), "sum"),
    "by max": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3, aggr="max"), "sum"),
    "project": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3, project=True), "sum"),
    "weighs": (lambda: GCN(WIDTH, 32, 2, 3), "weighted"),
    "weighs by itself": (lambda: GCN(WIDTH, 32, 2, 3), "sum"),
    "unweighted": (lambda: GraphSAGE(WIDTH, HIDDEN, 2, 3), "weighted"),
    "weighted": (Convs, "gcn sum"),
    "too deep": (lambda: GraphSAGE(WIDTH, HIDDEN, 4, 3), "sum"),
    "encodes": (Encodes, "sum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_rows_of_leaves_is_refused(name):
    make, leaves = REFUSED[name]
    norm = "sum" if leaves == "gcn sum" else leaves
    contents = BatchContents(pyg=False, leaves=norm, norm=None if leaves == "sum" else "gcn")
    batch = next(iter(Loader(small_graph(), [4, 3], "train", 8, contents=contents)))
    model = accelerate(make())
    with pytest.raises(InputError, match=r"sums in place of the rows of leaves.*leaves='rows'"):
        forward(model, batch)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("weighs by itself", "GCNConv.* reads the rows of leaves.*; use leaves='rows'"),
        ("unweighted", "it does not weigh rows, as these sums do; leaves='sum'"),
        ("weighted", "GraphConv.* reads the rows of leaves.*; use leaves='rows'"),
    ],
)
def test_the_advice_names_what_fits(name, advice):
    make, leaves = REFUSED[name]
    norm = "sum" if leaves == "gcn sum" else leaves
    contents = BatchContents(pyg=False, leaves=norm, norm=None if leaves == "sum" else "gcn")
    batch = next(iter(Loader(small_graph(), [4, 3], "train", 8, contents=contents)))
    with pytest.raises(InputError, match=advice):
        forward(accelerate(make()), batch)


def test_changed_rows_and_gradients_of_rows_are_refused():
    model = accelerate(SAGE([WIDTH, HIDDEN, 3]))
    loop = iter(batches(small_graph(), "sum", pyg=False))
    batch = next(loop)
    with pytest.raises(InputError, match="x is not the tensor of the batch"):
        model(batch.x * 2, batch.edge_index)
    batch.x.mul_(2)
    with pytest.raises(InputError, match="x is not the tensor of the batch"):
        model(batch.x, batch.edge_index)
    batch = next(loop)
    with pytest.raises(InputError, match="requires a gradient"):
        model(batch.x.requires_grad_(), batch.edge_index)
    batch = next(loop)
    with pytest.raises(InputError, match="x is torch.float64, and sums"):
        forward(accelerate(SAGE([WIDTH, HIDDEN, 3]).double()), batch, dtype=torch.float64)


def test_rows_of_all_nodes_from_elsewhere_work():
    graph = small_graph()
    model = accelerate(GraphSAGE(WIDTH, HIDDEN, 2, 3))
    rows = Loader(graph, [4, 3], "train", 8, contents=BatchContents(pyg=False), seed=3)
    for a, b in some(zip(rows, batches(graph, "sum", pyg=False), strict=True)):
        x = torch.from_numpy(graph.features[b.n_id])
        assert torch.equal(model(x, b.edge_index), model(a.x, a.edge_index))


def test_a_plain_model_is_refused():
    batch = next(iter(batches(small_graph(), "sum", pyg=False)))
    with pytest.raises(InputError, match="GraphSAGE takes the rows of all nodes"):
        forward(GraphSAGE(WIDTH, HIDDEN, 2, 3), batch)
    with pytest.raises(IndexError):
        SAGEConv(WIDTH, 3)(batch.x, batch.edge_index)
