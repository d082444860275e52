"""Any module trains on the full graph in chunks as PyG trains it at once, or is refused."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from foregather.errors import InputError
from foregather.pipeline import FullGraph, Meter, Runtime, infer_scores, planned
from foregather.pipeline.split import check
from foregather.pipeline.split.graph_values import graph_inputs
from foregather.pipeline.split.sample import feature_rows, induced_graph
from foregather.pipeline.split.split import split_model
from tests.pipeline.cases import CLASSES, WIDTH, double, small_graph
from tests.pipeline.modules import (
    HOPS,
    MODULES,
    Jumping,
    Light,
    Tied,
    adam,
    furthest,
    sgd,
    train_whole,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")
EVERY = MODULES | HOPS


def made(name, seed=0):
    torch.manual_seed(seed)
    with double():
        return EVERY[name]().double()


def scores_of(model, graph):
    weight = next(model.parameters())
    inputs = graph_inputs(model, graph, weight.dtype, weight.device)
    with torch.no_grad():
        return model.eval()(feature_rows(graph, weight), **inputs)


@pytest.mark.parametrize("name", EVERY)
def test_any_module_trains_as_pyg_does(name):
    graph, model = small_graph(), made(name)
    if name == "EGConv":
        graph = small_graph(seed=3)
    for chunks in (1, 5):
        whole, parts = copy.deepcopy(model), copy.deepcopy(model)
        make = sgd if "batch norm" in name else adam
        run = FullGraph(graph, parts, chunks, optimizer=make)
        losses = [report.loss for report in run.fit(3)]
        assert np.allclose(losses, train_whole(whole, graph, 3, make), rtol=1e-10, atol=1e-12)
        assert furthest(whole, parts) < 1e-10
        assert torch.allclose(run.infer(), scores_of(whole, graph), rtol=1e-9, atol=1e-10)
        assert run.weights().keys() == model.state_dict().keys()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 99), st.integers(2, 9), st.sampled_from(["GAT", "tied", "jumping", "edges"]))
def test_chunks_never_change_what_a_module_learns(seed, chunks, name):
    graph, model = small_graph(40, 150, seed), made(name, seed)
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    losses = [report.loss for report in FullGraph(graph, parts, chunks, seed=seed).fit(2)]
    assert np.allclose(losses, train_whole(whole, graph, 2), rtol=1e-9)
    assert furthest(whole, parts) < 1e-9


@pytest.mark.parametrize("recompute", ["dense", "all"])
def test_recomputing_changes_nothing(recompute):
    graph, model = small_graph(), made("jumping")
    runs = []
    for one in ("none", recompute):
        parts = copy.deepcopy(model)
        parts.drop = 0.4
        run = FullGraph(graph, parts, 4, runtime=Runtime(recompute=one))
        run.fit(2)
        runs.append(parts)
    assert furthest(*runs) == 0


def test_edge_weights_are_those_of_the_graph():
    rng = np.random.default_rng(0)
    graph = small_graph(edge_weight=rng.random(260).astype(np.float32))
    model = made("GCN")
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    FullGraph(graph, parts, 4).fit(2)
    train_whole(whole, graph, 2)
    assert furthest(whole, parts) < 1e-10
    plain = copy.deepcopy(model)
    train_whole(plain, small_graph(), 2)
    assert furthest(whole, plain) > 1e-4  # weights matter


def test_other_modes_take_modules_too():
    graph, model = small_graph(), made("GAT")
    exact, fast = copy.deepcopy(model), copy.deepcopy(model)
    FullGraph(graph, exact, 3).fit(3)
    run = FullGraph(graph, fast, 3, "fast", meter=Meter(every=1, error=9, cosine=-1))
    readings = [report.reading for report in run.fit(3)]
    assert all(one.cosine > 0.5 and one.length > 0 for one in readings)
    assert 0 < furthest(exact, fast) < 0.1
    one = copy.deepcopy(model)
    FullGraph(graph, one, 3, "fast", runtime=Runtime(abreast=3)).fit(3)  # nothing is stale
    assert furthest(exact, one) < 1e-10


def test_dropout_is_drawn_by_chunk_and_epoch():
    graph = small_graph()
    torch.manual_seed(0)
    model = Jumping(0.5).double()
    runs = [FullGraph(graph, copy.deepcopy(model), 4, seed=seed) for seed in (1, 1, 2)]
    losses = [[report.loss for report in run.fit(2)] for run in runs]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(runs[0].infer(), runs[1].infer())  # no dropout in evaluation


def test_gradients_are_shortened_as_torch_does():
    graph, model = small_graph(), made("jumping")
    runs = []
    for clip in (0.0, 0.05):
        whole, parts = copy.deepcopy(model), copy.deepcopy(model)

        def make(weights, clip=clip):
            held = list(weights)
            optimizer = torch.optim.SGD(held, 0.5)
            if clip:
                optimizer.register_step_pre_hook(
                    lambda *_: nn.utils.clip_grad_norm_(held, clip) and None
                )
            return optimizer

        run = FullGraph(graph, parts, 4, optimizer=lambda weights: torch.optim.SGD(weights, 0.5))
        run.clip = clip
        run.fit(3)
        train_whole(whole, graph, 3, make)
        assert furthest(whole, parts) < 1e-10
        runs.append(parts)
    assert furthest(*runs) > 1e-3


def test_a_state_goes_on_to_the_same_weights():
    graph, model = small_graph(), made("jumping")
    one, two = copy.deepcopy(model), copy.deepcopy(model)
    long, short = FullGraph(graph, one, 3), FullGraph(graph, two, 3)
    long.fit(4)
    short.fit(2)
    state = short.state_dict()
    three = FullGraph(graph, copy.deepcopy(model), 3)
    three.load_state_dict(state)
    three.fit(2)
    assert all(torch.equal(a, three.weights()[n]) for n, a in long.weights().items())


def test_the_planner_plans_a_module():
    graph, model = small_graph(), made("GraphSAGE")
    options, text = planned(graph, model, mode="exact")
    FullGraph(graph, model, **options).fit(1)
    assert "chunks" in text


def test_scores_need_no_labels():
    graph, model = small_graph(), made("GAT")
    from dataclasses import replace

    bare = replace(graph, labels=None, splits={})
    assert torch.allclose(infer_scores(bare, model, 4), scores_of(model, graph), atol=1e-10)


def test_lazy_weights_get_their_shapes():
    model = pyg.GraphSAGE(-1, 6, 2, CLASSES)
    run = FullGraph(small_graph(), model, 3)
    assert run.fit(1)[0].loss > 0 and model.convs[0].lin_l.weight.shape == (6, WIDTH)


# ---- what cannot be cut ----------------------------------------------------------------------


class Pooled(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.conv, self.how = pyg.SAGEConv(WIDTH, CLASSES), how

    def forward(self, x, edge_index):
        out = self.conv(x, edge_index)
        return self.how(out, edge_index)


REFUSED = {
    "a mean over nodes": (lambda: Pooled(lambda x, e: x - x.mean(0)), "mean.*over all nodes"),
    "a sum by hand": (
        lambda: Pooled(lambda x, e: torch.zeros_like(x).index_add(0, e[1], x[e[0]])),
        "reads rows of other nodes outside propagate",
    ),
    "softmax over nodes": (
        lambda: Pooled(lambda x, e: F.softmax(x, 0)),
        "softmax, which mixes nodes",
    ),
    "a look at rows": (lambda: Pooled(lambda x, e: x * x.sum().item()), "over all nodes"),
    "other order": (lambda: Pooled(lambda x, e: x.flip(0)), "flip, which mixes nodes"),
    "pair norm": (lambda: pyg.GCN(WIDTH, 6, 2, CLASSES, norm="pair"), "'norms.0'.*over all nodes"),
    "graph norm": (lambda: pyg.GCN(WIDTH, 6, 2, CLASSES, norm="graph"), "'norms.0'"),
    "layer norm of the graph": (lambda: pyg.GCN(WIDTH, 6, 2, CLASSES, norm="layer"), "'norms.0'"),
    "global attention": (
        lambda: pyg.GPSConv(WIDTH, pyg.SAGEConv(WIDTH, WIDTH), heads=1),
        "module|attention|mixes",
    ),
    "weights of edges that are normalised": (
        lambda: pyg.PDNConv(WIDTH, CLASSES, 2, 4),
        "over all nodes|outside propagate",
    ),
    "edges the other way": (
        lambda: pyg.DirGNNConv(pyg.SAGEConv(WIDTH, CLASSES)),
        "edges that are not those of the graph",
    ),
    "no convolution": (lambda: MLP(), "never reads rows of other nodes"),
    "a pair": (lambda: Pooled(lambda x, e: (x, x)), "returns tuple, expected one tensor"),
    "too few columns in": (lambda: pyg.GCN(WIDTH + 1, 6, 2, CLASSES), "fails on a small graph"),
}


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        return self.lin(x)


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_nodes_elsewhere_is_refused_with_its_place(name):
    make, why = REFUSED[name]
    with pytest.raises(InputError, match=why) as caught:
        FullGraph(small_graph(), make().double(), 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a mean over nodes", "pair norm", "edges the other way"])
def test_one_chunk_takes_what_is_refused_in_chunks(name):
    graph, model = small_graph(), REFUSED[name][0]().double()
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    losses = [report.loss for report in FullGraph(graph, parts, 1).fit(3)]
    assert np.allclose(losses, train_whole(whole, graph, 3), rtol=1e-10)
    assert furthest(whole, parts) < 1e-10


def test_a_directed_module_fits_a_graph_of_both_directions():
    graph = small_graph(30, 80)
    from foregather import Graph

    pairs = np.stack([graph.indices, np.repeat(np.arange(30), graph.in_degree())]).astype(np.int64)
    both = Graph.from_edge_index(
        np.concatenate([pairs, pairs[::-1]], 1), 30, x=graph.features[np.arange(30)],
        y=graph.labels, splits={"train": np.arange(30)},
    )  # fmt: skip
    model = REFUSED["edges the other way"][0]().double()
    with pytest.raises(InputError, match="edges that are not those"):
        split_model(model, both)  # the small graph of the check has one direction


def test_more_stages_than_hops_are_refused():
    from foregather.pipeline.passes.segments import cut_layers

    layers = split_model(Tied(), small_graph())
    with pytest.raises(InputError, match="there are 9 stages but 4 layers.* at its 3 propagate"):
        cut_layers(layers, 9)


def test_a_part_of_the_graph_has_its_edges_and_what_they_carry():
    graph = small_graph(edge_weight=np.random.default_rng(1).random(260))
    whole = graph_inputs(Light(), graph, torch.float64, torch.device("cpu"))["edge_index"].numpy()
    x, attr, weight = (np.asarray(v[:]) for v in (graph.features, graph.edge_features,
                                                  graph.edge_weight))  # fmt: skip
    for most in (8, 32):
        part = induced_graph(graph, most, 7)
        assert 8 <= part.num_nodes <= most
        rows = np.asarray(part.features[:])
        node = np.array([int(np.flatnonzero((x == row).all(1))[0]) for row in some(rows)])
        assert np.unique(node).size == node.size
        inside = np.isin(whole, node).all(0)
        assert 0 < part.num_edges == inside.sum()
        target = np.repeat(np.arange(part.num_nodes), part.in_degree())
        pairs = np.stack([node[np.asarray(part.indices, np.int64)], node[target]])
        ours = {(s, t, w, *a) for s, t, w, a in zip(*pairs.tolist(), part.edge_weight[:].tolist(),
                part.edge_features[:].tolist(), strict=True)}  # fmt: skip
        kept = (*whole[:, inside].tolist(), weight[inside], attr[inside])
        theirs = {
            (s, t, np.float32(w).item(), *np.float32(a).tolist())
            for s, t, w, a in zip(*kept, strict=True)
        }
        assert ours == theirs


def test_there_is_no_part_without_edges_or_with_hardly_any_nodes():
    x = np.zeros((20, WIDTH))
    assert induced_graph(type(small_graph()).from_edge_index([[], []], 20, x=x), 32, 0) is None
    assert induced_graph(type(small_graph()).from_edge_index([[0], [1]], 3, x=x[:3]), 32, 0) is None


def test_a_model_that_differs_on_the_graph_itself_is_found(monkeypatch):
    seen = []

    def spy(model, make, graph, *given):
        seen.append((graph.num_nodes, given))
        return true(model, make, graph, *given)

    true = check._compare
    monkeypatch.setattr(check, "_compare", spy)
    split_model(made("GCN"), small_graph())
    assert {training for _, (training, _) in seen} == {True, False}
    assert {nodes for nodes, _ in seen} == {31, 32}
    monkeypatch.setattr(check, "_compare", lambda model, make, graph, *given: (
        _differ() if graph.num_nodes == 32 else true(model, make, graph, *given)))  # fmt: skip
    with pytest.raises(InputError, match="other scores"):
        split_model(made("GCN"), small_graph())


def _differ():
    raise InputError("other scores")
