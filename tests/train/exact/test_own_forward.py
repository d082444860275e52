"""Nothing is called exact that differs from a model's own `forward` on the whole graph."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.nn.models.basic_gnn import BasicGNN

from foregather import Graph, infer
from foregather.errors import InputError
from foregather.nn import SAGEConv
from foregather.train.runs.run_folder import load_model
from foregather.train.settings import ModelSettings, SamplerSettings
from tests.train.runs import settings_of, train

NODES, WIDTH, EDGE_WIDTH, CLASSES = 120, 6, 3, 3


class _WithEdges(BasicGNN):
    supports_edge_weight = False
    supports_edge_attr = True
    supports_norm_batch = True


class Gen(_WithEdges):
    def init_conv(self, width_in, width_out, **options):
        return pyg.GENConv(width_in, width_out, norm="layer", edge_dim=EDGE_WIDTH)


class Gine(_WithEdges):
    def init_conv(self, width_in, width_out, **options):
        return pyg.GINEConv(torch.nn.Linear(width_in, width_out), edge_dim=EDGE_WIDTH)


class Nn(_WithEdges):
    def init_conv(self, width_in, width_out, **options):
        weights = torch.nn.Linear(EDGE_WIDTH, width_in * width_out)
        return pyg.NNConv(width_in, width_out, weights)


class Plus(pyg.MessagePassing):
    """A user's own: `edge_attr` has a default, and no attribute tells of it."""

    def __init__(self, width_in, width_out):
        super().__init__(aggr="add")
        self.node = torch.nn.Linear(width_in, width_out)
        self.edge = torch.nn.Linear(EDGE_WIDTH, width_out)

    def forward(self, x, edge_index, edge_attr=None):
        return self.propagate(edge_index, x=self.node(x), edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return x_j if edge_attr is None else x_j + self.edge(edge_attr)


class Own(_WithEdges):
    def init_conv(self, width_in, width_out, **options):
        return Plus(width_in, width_out)


class Deaf(Own):
    """One that says of itself that it does not pass edge features on."""

    supports_edge_attr = False


def make_graph(weights: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, NODES - 10, (2, 700))
    y = rng.integers(0, CLASSES, NODES)
    attr = np.eye(CLASSES)[y[pairs[1]]] + 0.3 * rng.normal(size=(700, EDGE_WIDTH))
    return Graph.from_edge_index(
        pairs,
        NODES,
        x=rng.normal(size=(NODES, WIDTH)).astype(np.float32),
        y=y,
        edge_attr=attr.astype(np.float32),
        edge_weight=rng.random(700, np.float32) + 0.1 if weights else None,
        splits={"train": np.arange(60), "valid": np.arange(60, 85), "test": np.arange(85, NODES)},
    )


def whole(model, graph, **more) -> np.ndarray:
    target = np.repeat(np.arange(NODES), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    with torch.no_grad():
        return model.eval()(torch.from_numpy(np.array(graph.features.data)), edges, **more).numpy()


def edge_attr(graph):
    return torch.from_numpy(np.array(graph.edge_features.data))


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", [Gen, Gine, Nn, Own, Deaf])
@pytest.mark.parametrize("hidden", [EDGE_WIDTH, 8])
def test_convolutions_get_the_edge_features_that_their_forward_takes(
    tmp_path, kind, hidden, weights
):
    torch.manual_seed(0)
    graph, model = make_graph(weights), kind(WIDTH, hidden, 2, CLASSES)
    infer(model, graph, tmp_path / "s.npy", batch_size=31)
    expected = whole(model, graph, edge_attr=edge_attr(graph))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-4, atol=1e-5)
    without = kind is not Gine and kind is not Nn and whole(model, graph)
    assert kind in (Deaf, Gine, Nn) or np.abs(expected - without).max() > 0.01


def test_a_run_scores_with_the_edge_features_it_was_trained_with(tmp_path):
    graph = Graph.open(make_graph().save(tmp_path / "g"))
    model = ModelSettings(f"{__name__}:Gen", hidden=EDGE_WIDTH)
    facts = train(settings_of(graph.path, tmp_path / "r", model=model))
    made, _ = load_model(tmp_path / "r", trust_code=True)
    scores = whole(made, graph, edge_attr=edge_attr(graph))
    test = graph.split("test")
    assert facts["scored"] == "exact"
    assert facts["test"] == pytest.approx(np.mean(scores[test].argmax(1) == graph.labels[test]))


def test_models_made_for_no_edge_features_are_computed_without(tmp_path):
    torch.manual_seed(0)
    graph = make_graph()
    for model in (pyg.GAT(WIDTH, 8, 2, CLASSES, v2=True), pyg.GAT(WIDTH, 8, 2, CLASSES)):
        infer(model, graph, tmp_path / "s.npy", overwrite=True, batch_size=31)
        expected = whole(model, graph)
        np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-4, atol=1e-5)


# ---- steps that differ from forward ------------------------------------------------------------


class Shown(torch.nn.Module):
    """A user's model that shows its layers as they are."""

    def __init__(self, in_channels=WIDTH, out_channels=CLASSES):
        super().__init__()
        self.one, self.two = SAGEConv(in_channels, 8), SAGEConv(8, out_channels)

    def forward(self, x, edge_index):
        return self.two(self.one(x, edge_index).relu(), edge_index)

    def layer_steps(self):
        return [
            lambda x, edge_index, n: self.one(x, edge_index)[:n].relu(),
            lambda x, edge_index, n: self.two(x, edge_index)[:n],
        ]


class Forgets(Shown):
    """The ReLU."""

    def layer_steps(self):
        return [
            lambda x, edge_index, n: self.one(x, edge_index)[:n],
            lambda x, edge_index, n: self.two(x, edge_index)[:n],
        ]


class ForgetsLate(Forgets):
    """Its activations are all positive for features of usual size."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.one.own.bias += 12.0


class Weighs(Shown):
    """`forward` takes edge weights, the steps do not."""

    def forward(self, x, edge_index, edge_weight=None):
        return super().forward(x, edge_index) * (1 if edge_weight is None else edge_weight.mean())


class Adds(Shown):
    """`forward` takes edge features, the steps do not."""

    def forward(self, x, edge_index, edge_attr=None):
        return super().forward(x, edge_index) + (0 if edge_attr is None else edge_attr[:, 0].mean())


class Odd(Shown):
    def forward(self, x, adjacencies, sizes):
        return x


@pytest.mark.parametrize("kind", [Forgets, ForgetsLate, Weighs, Adds])
def test_steps_that_differ_from_forward_are_refused(tmp_path, kind):
    torch.manual_seed(0)
    graph = make_graph(weights=True)
    with pytest.raises(InputError, match=f"{kind.__name__} gives other scores layer by layer"):
        infer(kind(), graph, tmp_path / "s.npy")
    assert not list(tmp_path.iterdir())
    infer(Shown(), graph, tmp_path / "s.npy")


def test_a_forward_that_cannot_be_asked_is_refused(tmp_path):
    with pytest.raises(InputError, match="forward of Odd fails on a small graph .*TypeError"):
        infer(Odd(), make_graph(), tmp_path / "s.npy")


def test_a_run_with_such_steps_is_scored_by_sampling(tmp_path):
    graph = Graph.open(make_graph().save(tmp_path / "g"))
    model = ModelSettings(f"{__name__}:Forgets")
    facts = train(settings_of(graph.path, tmp_path / "r", model=model))
    assert facts["scored"] == "sampled"
    assert "Forgets gives other scores layer by layer" in facts["why_sampled"]
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["scored"] == "sampled"


# ---- models that do not show their layers ------------------------------------------------------


class Hidden(torch.nn.Module):
    """Two convolutions that nobody sees."""

    def __init__(self, conv, **options):
        super().__init__()
        self.one, self.two = conv(WIDTH, 8, **options), conv(8, CLASSES, **options)

    def forward(self, x, edge_index, edge_weight=None):
        weight = {} if edge_weight is None else {"edge_weight": edge_weight}
        return self.two(self.one(x, edge_index, **weight).relu(), edge_index, **weight)


class Mean(Hidden):
    """Looks at all nodes of a batch."""

    def forward(self, x, edge_index):
        made = super().forward(x, edge_index)
        return made - made.mean(0)


class Further(Hidden):
    """A hop more than its two layers."""

    def forward(self, x, edge_index):
        x = self.one(x, edge_index)
        return self.two(x + self.one(x[:, :WIDTH], edge_index), edge_index)


class Backwards(Hidden):
    """Looks along edges the other way round."""

    def forward(self, x, edge_index):
        return super().forward(x, edge_index.flip(0))


REFUSED = {
    "GCN": lambda: Hidden(pyg.GCNConv),
    "mean": lambda: Mean(pyg.SAGEConv),
    "further": lambda: Further(pyg.SAGEConv),
    "backwards": lambda: Backwards(pyg.SAGEConv),
    "jumping": lambda: pyg.GCN(WIDTH, 8, 2, CLASSES, jk="cat"),
}


def on_disk(folder) -> Graph:
    return Graph.open(make_graph().save(folder / "g"))


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"memory": "60MB"}], ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_looks_further_is_refused_at_any_batch_size(tmp_path, name, options):
    torch.manual_seed(0)
    with pytest.raises(InputError, match="looks further than its 2 layers .* give it a method"):
        infer(REFUSED[name](), on_disk(tmp_path), tmp_path / "s.npy", layers=2, **options)
    assert not (tmp_path / "s.npy").exists()


def test_hidden_layers_that_look_no_further_are_exact(tmp_path):
    torch.manual_seed(0)
    graph = on_disk(tmp_path)
    jumping = pyg.GraphSAGE(WIDTH, 8, 2, CLASSES, jk="max")
    for model in (Hidden(pyg.SAGEConv), Hidden(pyg.GATConv), jumping):
        expected = whole(model, graph)
        for options in ({}, {"batch_size": 7}, {"memory": "60MB", "storage": "disk"}):
            infer(model, graph, tmp_path / "s.npy", layers=2, overwrite=True, **options)
            np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-4, atol=1e-5)


def test_degrees_may_come_from_the_loader(tmp_path):
    torch.manual_seed(0)
    graph, model = on_disk(tmp_path), Hidden(pyg.GCNConv, normalize=False)
    for number, size in enumerate((None, 7)):
        out = tmp_path / f"{number}.npy"
        infer(model, graph, out, layers=2, norm="gcn", batch_size=size)
    np.testing.assert_allclose(np.load(out), np.load(tmp_path / "0.npy"), rtol=1e-4, atol=1e-5)


def test_model_and_random_numbers_are_left_as_they_were(tmp_path):
    torch.manual_seed(0)
    model = Hidden(pyg.GCNConv)
    random = torch.get_rng_state()
    with pytest.raises(InputError):
        infer(model, on_disk(tmp_path), tmp_path / "s.npy", layers=2)
    assert model.training and torch.equal(torch.get_rng_state(), random)


class HiddenGCN(Hidden):
    def __init__(self, in_channels, out_channels):
        super().__init__(pyg.GCNConv)


def test_exact_evaluation_is_refused_before_the_first_epoch(tmp_path):
    graph, model = on_disk(tmp_path), ModelSettings(f"{__name__}:HiddenGCN")
    settings = settings_of(
        graph.path, tmp_path / "r", model=model, sampler=SamplerSettings(fanouts=(3, 3))
    )
    settings = replace(settings, train=replace(settings.train, evaluate="exact"))
    heard = []
    with pytest.raises(InputError, match="HiddenGCN looks further"):
        train(settings, heard.append)
    assert not any(text.startswith("epoch 1/") for text in heard)
    assert train(settings_of(graph.path, tmp_path / "s", model=model))["scored"] == "sampled"
