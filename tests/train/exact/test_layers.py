"""Exact inference with a hub: in any budget from the true minimum on, and always the same rows."""

import json

import numpy as np
import pytest
import torch

from foregather import Graph, infer
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.nn import SAGE
from foregather.train import infer as module
from foregather.train.exact.layers import Order, lay_out
from foregather.train.exact.steps import layer_steps
from foregather.train.infer import check_infer
from foregather.train.runs.run_folder import load_model

NODES, WIDTH, DEGREE = 4000, 64, 2000


def make_graph(folder) -> Graph:
    """The shape of a graph with a hub: most nodes point to one."""
    rng = np.random.default_rng(0)
    hub = np.stack([rng.choice(NODES, DEGREE, replace=False), np.full(DEGREE, 17)])
    pairs = np.concatenate([rng.integers(0, NODES, (2, 9000)), hub], axis=1)
    x = rng.normal(size=(NODES, WIDTH)).astype(np.float32)
    Graph.from_edge_index(pairs, NODES, x=x).save(folder)
    return Graph.open(folder)


def whole(model, graph) -> np.ndarray:
    """The oracle: the model in float64, all nodes and edges at once."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    x = torch.from_numpy(np.array(graph.features.data)).double()
    with torch.no_grad():
        made = model.double().eval()(x, edges).numpy()
    model.float()
    return made


def least_of(model, graph, out, **options) -> int:
    """The minimum, by what a budget of nothing is told."""
    with pytest.raises(BudgetError) as told:
        infer(model, graph, out, memory=1000, **options)
    assert told.value.least is not None and f"({told.value.least} bytes)" in str(told.value)
    return told.value.least


def models():
    yield SAGE([WIDTH, 16, 4]), True
    nn = pytest.importorskip("torch_geometric.nn")
    yield nn.GAT(WIDTH, 16, 2, 4, heads=2), True
    yield nn.GraphSAGE(WIDTH, 16, 2, 4, aggr="powermean"), False


@pytest.mark.parametrize("number", range(3))
def test_every_budget_from_the_minimum_on_gives_the_same_rows(tmp_path, number):
    torch.manual_seed(0)
    graph, (model, cut) = make_graph(tmp_path / "g"), list(models())[number]
    out, options = tmp_path / "s.npy", {"storage": "disk"}
    least = least_of(model, graph, out, **options)
    with pytest.raises(BudgetError, match=f"{least} bytes") as told:
        infer(model, graph, out, memory=int(0.8 * least), **options)
    assert ("wants all 2,00" in str(told.value)) != cut, "a row that may be cut need not fit"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g"]
    expected = whole(model, graph)
    for memory in (least, 3 * least, 9 * least):
        facts = infer(model, graph, out, memory=memory, overwrite=True, **options)
        assert facts["bytes"] > 0
        np.testing.assert_allclose(np.load(out), expected, rtol=1e-4, atol=1e-5)


def test_a_budget_that_it_chose_itself_never_fails(tmp_path, monkeypatch):
    torch.manual_seed(0)
    graph, model = make_graph(tmp_path / "g"), SAGE([WIDTH, 16, 4])
    monkeypatch.setattr(module, "usable_memory", lambda: 5000)
    infer(model, graph, tmp_path / "s.npy", memory="auto")
    np.testing.assert_allclose(
        np.load(tmp_path / "s.npy"), whole(model, graph), rtol=1e-4, atol=1e-5
    )


def test_a_row_that_may_be_cut_need_not_fit(tmp_path):
    graph, model = make_graph(tmp_path / "g"), SAGE([WIDTH, 16, 4]).eval()
    order = Order(tmp_path, 10**9, False, "disk", None, 1, None)
    for layer in lay_out(model, layer_steps(model), graph, order):
        assert layer.need.least_work < layer.cost.of(DEGREE, DEGREE, 1) / 4


def test_what_infer_would_refuse_is_known_beforehand(tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    graph, model = make_graph(tmp_path / "g"), nn.GraphSAGE(WIDTH, 16, 2, 4, aggr="powermean")
    least = least_of(model, graph, tmp_path / "s.npy", storage="disk")
    check_infer(model, graph, memory=least, storage="disk")
    with pytest.raises(BudgetError, match=f"{least} bytes"):
        check_infer(model, graph, memory=least - 1, storage="disk")
    assert model.training


def test_training_and_exact_scores_take_the_same_budget(tmp_path):
    """Three batches of the hub's row and all it takes to read them are more than the budget."""
    rng, nodes, width = np.random.default_rng(0), 12_000, 400
    hub = np.stack([rng.choice(nodes, 9000, replace=False), np.full(9000, 17)])
    pairs = np.concatenate([rng.integers(0, nodes, (2, 20_000)), hub], axis=1)
    x = rng.normal(size=(nodes, width)).astype(np.float32)
    splits = {"train": np.arange(60), "valid": np.arange(60, 99), "test": np.arange(99, 140)}
    y = rng.integers(0, 4, nodes)
    Graph.from_edge_index(pairs, nodes, x=x, y=y, splits=splits).save(tmp_path / "g")
    assert 3 * 9000 * width * 4 > 30_000_000
    flags = "--train.epochs 1 --train.batch-size 8 --sampler.fanouts 3 2 --model.hidden 8"
    flags += " --train.evaluate exact --memory.budget 30MB --memory.storage disk --train.threads 1"
    run = ["--graph", str(tmp_path / "g"), "--run", str(tmp_path / "r")]
    assert main(["train", *run, *flags.split()]) == 0
    model, _ = load_model(tmp_path / "r")
    found = json.loads((tmp_path / "r" / "summary.json").read_text())
    scores = whole(model, Graph.open(tmp_path / "g"))
    right = scores[splits["test"]].argmax(1) == y[splits["test"]]
    assert found["scored"] == "exact"
    assert found["test"] == pytest.approx(right.mean())


def test_a_budget_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    graph, model = make_graph(tmp_path / "g"), SAGE([WIDTH, 16, 4])
    monkeypatch.setattr("foregather.train.exact.layers.gathered", None)
    with pytest.raises(BudgetError, match="pass at least that"):
        infer(model, graph, tmp_path / "s.npy", memory="100KB")


def test_a_model_for_other_columns_is_a_sentence(tmp_path):
    graph = make_graph(tmp_path / "g")
    with pytest.raises(InputError, match="layer 1 of SAGE .* fails on rows of 64 columns"):
        infer(SAGE([WIDTH + 1, 16, 4]), graph, tmp_path / "s.npy")
    nn = pytest.importorskip("torch_geometric.nn")
    model = nn.GIN(WIDTH, 16, 2, 4)
    model.convs[1] = nn.GINEConv(torch.nn.Linear(16, 4), edge_dim=3)
    with pytest.raises(InputError, match="layer 2 of GIN .* with the edges of this graph"):
        infer(model, graph, tmp_path / "s.npy")
