"""Exact inference with a hub: in any budget from the true minimum on, and always the same rows."""

import numpy as np
import pytest
import torch

from foregather import Graph, infer
from foregather.errors import BudgetError, InputError
from foregather.nn import SAGE
from foregather.train import infer as module

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


def test_a_budget_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    graph, model = make_graph(tmp_path / "g"), SAGE([WIDTH, 16, 4])
    monkeypatch.setattr("foregather.train.exact.layers.gathered", None)
    with pytest.raises(BudgetError, match="give at least that"):
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
