"""Accelerated models give the plain model's rows and gradients: PyG's models and own classes."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from foregather.nn import SAGE, accelerate
from tests.nn.accelerate_cases import WIDTH, assert_near, assert_same, one_batch, ways

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def batch():
    return one_batch()


@pytest.fixture(autouse=True)
def same_weights():
    torch.manual_seed(3)


MODELS = {
    "sage": lambda **o: pyg.GraphSAGE(WIDTH, 16, 3, 5, **o),
    "sage-max": lambda **o: pyg.GraphSAGE(WIDTH, 16, 3, 5, aggr="max", **o),
    "gcn": lambda **o: pyg.GCN(WIDTH, 16, 3, 5, **o),
    "gin": lambda **o: pyg.GIN(WIDTH, 16, 3, 5, **o),
    "gat": lambda **o: pyg.GAT(WIDTH, 16, 3, 8, heads=4, **o),
    "gat2": lambda **o: pyg.GAT(WIDTH, 16, 3, 8, heads=2, v2=True, **o),
    "edge": lambda **o: pyg.EdgeCNN(WIDTH, 16, 3, 5, **o),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_models_of_pyg(kind, training, batch):
    fast = assert_same(MODELS[kind]().double().train(training), batch)
    assert ways(fast) == ({"pair"} if kind in ("edge", "sage-max") else {"kernel"})


@pytest.mark.parametrize("jk", ["last", "cat", "max", "lstm"])
@pytest.mark.parametrize("kind", ["sage", "gcn", "gat"])
def test_jumping_knowledge(kind, jk, batch):
    assert_same(MODELS[kind](jk=jk).double(), batch)


@pytest.mark.parametrize("act", ["relu", "elu", "leaky_relu", "tanh", "gelu", "prelu", None])
def test_activations(act, batch):
    assert_same(MODELS["sage"](act=act, act_first=True).double(), batch)


@pytest.mark.parametrize(
    "norm",
    ["batch_norm", "layer_norm", "graph_norm", "pair_norm", "instance_norm", "diff_group_norm"],
)
def test_norms_over_nodes_are_found(norm, batch):
    options = {"groups": 2} if norm == "diff_group_norm" else {}
    model = MODELS["sage"](norm=norm, norm_kwargs=options).double()
    assert "norms.0" in str(assert_same(model, batch, plain=True).plain)


def test_the_mean_over_nodes_is_found(batch):
    model = MODELS["sage"](norm=pyg.MeanSubtractionNorm()).double()
    assert "norms.0 (MeanSubtractionNorm)" in str(assert_same(model, batch, plain=True).plain)


@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_norms_of_evaluation_are_not_over_nodes(norm, batch):
    options = {"track_running_stats": True} if norm == "instance_norm" else {}
    model = MODELS["gin"](norm=norm, norm_kwargs=options).double()
    model(batch.x, batch.edge_index)  # running statistics
    assert_same(model.eval(), batch)


def test_norms_of_rows(batch):
    model = MODELS["sage"](norm="layer_norm", norm_kwargs={"mode": "node"}).double()
    assert_same(model, batch)
    assert_same(MODELS["sage"](norm=nn.LayerNorm(16)).double(), batch)


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", "graph_norm", "pair_norm"])
@pytest.mark.parametrize("kind", ["sage", "gin"])
def test_norms_over_the_rows_needed(kind, norm, batch):
    model = MODELS[kind](norm=norm).double()
    fast = accelerate(model, norms="needed")
    out = fast(batch.x, batch.edge_index)
    assert fast.plain is None
    assert out.shape[0] == batch.batch_size
    assert "statistics over the rows" in fast.explain()
    whole = model(batch.x, batch.edge_index)[: batch.batch_size]
    assert not torch.allclose(out, whole)  # named, and so not silently other


def test_needed_norms_are_over_the_rows_needed(batch):
    """One layer deep, by hand."""
    model = pyg.Sequential(
        "x, edge_index",
        [
            (pyg.SAGEConv(WIDTH, 8), "x, edge_index -> x"),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            (pyg.SAGEConv(8, 3), "x, edge_index -> x"),
        ],
    ).double()
    shallow = one_batch([4, 3])
    fast = accelerate(model, norms="needed")
    got = fast(shallow.x, shallow.edge_index)
    first, norm, _, last = (module for module in model.children())
    near = sum(shallow.num_sampled_nodes[:2])
    rows = first(shallow.x, shallow.edge_index)[:near]
    rows = functional.batch_norm(rows, None, None, norm.weight, norm.bias, True)
    edges = shallow.edge_index[:, : shallow.num_sampled_edges[0]]
    expected = last((rows.relu(), rows.relu()[: shallow.batch_size]), edges)
    assert_near(got, expected)


def test_more_layers_than_hops():
    shallow = one_batch([4, 3])
    for depth in (3, 5):
        fast = assert_same(pyg.GraphSAGE(WIDTH, 8, depth, 3).double(), shallow)
        steps = next(iter(fast._verdicts.values())).steps
        assert [step.behind for step in steps] == list(range(depth))[::-1]
        assert_same(pyg.GCN(WIDTH, 8, depth, 3, jk="cat").double(), shallow)


def test_fewer_layers_than_hops(batch):
    for depth in (1, 2):
        fast = assert_same(pyg.GCN(WIDTH, 8, depth, 3).double(), batch)
        assert fast(batch.x, batch.edge_index).shape[0] == batch.batch_size


def test_our_own_model(batch):
    fast = assert_same(SAGE([WIDTH, 16, 16, 4], dropout=0.0).double(), batch)
    assert ways(fast) == {"kernel"}
    assert_same(
        SAGE([WIDTH, 16, 16, 4], dropout=0.0).double(),
        batch,
        num_sampled_nodes=batch.num_sampled_nodes,
        num_sampled_edges=batch.num_sampled_edges,
    )


class Residual(nn.Module):
    """Residuals of every kind, parallel branches, and a convolution used twice."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.begin = nn.Linear(WIDTH, 8)
        self.one, self.two = pyg.SAGEConv(8, 8), pyg.GCNConv(8, 8)
        self.end = nn.Linear(24 if kind == "cat" else 8, 4)

    def forward(self, x, edge_index):
        x = self.begin(x).relu()
        first = self.one(x, edge_index)
        if self.kind == "sum":
            x = first + x
            x = x + self.one(x, edge_index) * 0.5
        elif self.kind == "branches":
            x = first.relu() - self.two(x, edge_index)
            x = torch.maximum(self.two(x, edge_index), self.one(x, edge_index)) + x
        elif self.kind == "gate":
            gate = first.sigmoid()
            x = gate * x + (1 - gate) * first
            x = torch.where(self.two(x, edge_index) > 0, x, -x)
        elif self.kind == "lerp":
            x = torch.lerp(x, first, 0.3)
            x = torch.add(self.two(x, edge_index), x, alpha=2.0)
        elif self.kind == "in place":
            first += x
            x = first.relu()
            x = self.two(x, edge_index).add_(x)
        elif self.kind == "cat":
            second = self.two(first, edge_index)
            x = torch.cat([x, first, second], dim=-1)
        return self.end(x)


@pytest.mark.parametrize("kind", ["sum", "branches", "gate", "lerp", "in place", "cat"])
def test_rows_that_meet_outside_convolutions(kind):
    shallow = one_batch([4, 3])
    assert_same(Residual(kind).double(), shallow)
    assert_same(Residual(kind).double(), one_batch([4, 3, 2]))


def test_branches_of_different_depth(batch):
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (pyg.SAGEConv(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x, edge_index):
            short = self.a(x, edge_index)
            long = self.c(self.b(self.a(x, edge_index).relu(), edge_index).relu(), edge_index)
            return short + long

    fast = assert_same(Branches().double(), batch)
    steps = next(iter(fast._verdicts.values())).steps
    assert [step.behind for step in steps] == [0, 2, 1, 0]


def test_a_detached_path_keeps_enough_rows(batch):
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = pyg.SAGEConv(WIDTH, WIDTH), pyg.SAGEConv(WIDTH, WIDTH)

        def forward(self, x, edge_index):
            x = self.a(x, edge_index)
            return x + self.b(x.detach().relu(), edge_index)

    assert_same(Detached().double(), batch)


def test_sequential(batch):
    model = pyg.Sequential(
        "x, edge_index",
        [
            (nn.Dropout(0.0), "x -> x"),
            (pyg.GCNConv(WIDTH, 16), "x, edge_index -> x1"),
            nn.ReLU(inplace=True),
            (pyg.GCNConv(16, 16), "x1, edge_index -> x2"),
            nn.ReLU(inplace=True),
            (lambda x1, x2: [x1, x2], "x1, x2 -> xs"),
            (pyg.JumpingKnowledge("cat", 16, num_layers=2), "xs -> x"),
            nn.Linear(32, 4),
        ],
    )
    assert_same(model.double(), batch)


@pytest.mark.parametrize("block", ["res+", "res", "dense", "plain"])
def test_deep_gcn_layers(block, batch):
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.begin, wide = nn.Linear(WIDTH, 8), 8
            self.layers = nn.ModuleList()
            for _ in range(3):
                conv, norm = pyg.SAGEConv(wide, 8), nn.LayerNorm(wide if block == "res+" else 8)
                self.layers.append(pyg.DeepGCNLayer(conv, norm, nn.ReLU(), block))
                wide = wide + 8 if block == "dense" else 8
            self.end = nn.Linear(wide, 4)

        def forward(self, x, edge_index):
            x = self.begin(x)
            for layer in self.layers:
                x = layer(x, edge_index)
            return self.end(x)

    assert_same(Deep().double(), batch)


def test_weights_and_features_of_edges(batch):
    assert_same(MODELS["gcn"]().double(), batch, edge_weight=batch.edge_weight)
    gat = pyg.GAT(WIDTH, 16, 3, 8, heads=2, edge_dim=3).double()
    fast = assert_same(gat, batch, edge_attr=batch.edge_attr)
    assert ways(fast) <= {"pair", "square"}


def test_a_model_without_convolutions(batch):
    fast = accelerate(nn.Sequential(nn.Linear(WIDTH, 3)).double())
    assert torch.equal(fast(batch.x), fast.accelerated_model(batch.x))
    mlp = accelerate(pyg.MLP([WIDTH, 8, 3]).double())
    assert mlp(batch.x).shape[0] == batch.num_nodes


def test_pna_and_others_run(batch):
    degree = torch.ones(10, dtype=torch.long)
    model = pyg.PNA(
        WIDTH, 8, 3, 4, aggregators=["mean", "max"], scalers=["identity"], deg=degree
    ).double()
    assert_same(model, batch)


def test_a_real_graph(data_folder):
    import numpy as np

    from foregather import Graph
    from tests.nn.accelerate_cases import batches

    with np.load(data_folder / "cora.npz", allow_pickle=False) as z:
        edges, count, y = z["edge_index"].astype(np.int64), int(z["num_nodes"]), z["y"]
    rows = np.random.default_rng(0).normal(size=(count, WIDTH)).astype(np.float32)
    graph = Graph.from_edge_index(edges, count, x=rows, y=y.astype(np.int64))
    for batch in batches(graph, [5, 5, 5], np.arange(0, 200), 100):
        for make in MODELS.values():
            assert_same(make().double(), batch)
