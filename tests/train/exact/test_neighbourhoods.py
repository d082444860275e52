"""Models that do not show their layers: parts shrink where they must, and the minimum is true."""

import numpy as np
import pytest
import torch

from foregather import Graph, infer
from foregather.errors import BudgetError, InputError
from foregather.nn import SAGE
from foregather.train.exact.neighbourhoods import largest_neighbourhood

NODES, WIDTH = 600, 64


class Hidden(torch.nn.Module):
    """One that does not show its layers."""

    def __init__(self):
        super().__init__()
        self.inner = SAGE([WIDTH, 8, 4])

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


def make_graph(folder) -> Graph:
    """A chain, and late in it a hub that most nodes point to: the first parts look small."""
    rng = np.random.default_rng(0)
    chain = np.stack([np.arange(NODES - 1), np.arange(1, NODES)])
    hub = np.stack([rng.choice(NODES, 400, replace=False), np.full(400, 550)])
    x = rng.normal(size=(NODES, WIDTH)).astype(np.float32)
    Graph.from_edge_index(np.concatenate([chain, hub], axis=1), NODES, x=x).save(folder)
    return Graph.open(folder)


def whole(model, graph) -> np.ndarray:
    target = np.repeat(np.arange(NODES), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    with torch.no_grad():
        return model.eval()(torch.from_numpy(np.array(graph.features.data)), edges).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["disk", "memory"])
def test_from_the_minimum_on_it_works_and_below_it_is_refused(tmp_path, storage):
    torch.manual_seed(0)
    graph, model, out = make_graph(tmp_path / "g"), Hidden(), tmp_path / "s.npy"
    options = {"layers": 2, "storage": storage, "overwrite": True, "threads": 1}
    with pytest.raises(BudgetError) as told:
        infer(model, graph, out, memory=1000, **options)
    least = told.value.least
    assert least is not None
    with pytest.raises(BudgetError, match=f"{least} bytes"):
        infer(model, graph, out, memory=int(0.8 * least), **options)
    assert not out.exists()
    for memory in (least, 3 * least):
        assert infer(model, graph, out, memory=memory, **options)["way"] == "neighbourhoods"
        np.testing.assert_allclose(np.load(out), whole(model, graph), rtol=1e-4, atol=1e-5)
    infer(model, graph, out, memory=least, batch_size=500, **options)
    np.testing.assert_allclose(np.load(out), whole(model, graph), rtol=1e-4, atol=1e-5)


def test_the_largest_neighbourhood_is_found(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(5):
        pairs = rng.integers(0, 80, (2, 120))
        graph = Graph.from_edge_index(pairs, 80)
        reach = np.eye(80, dtype=bool)
        step = np.zeros((80, 80), bool)
        step[pairs[1], pairs[0]] = True
        for layers in (1, 2, 3):
            reach = reach | (reach.astype(int) @ step.astype(int) > 0)
            found = largest_neighbourhood(graph, layers)
            assert reach[found].sum() == reach.sum(axis=1).max()


class WithEdges(Hidden):
    def forward(self, x, edge_index, edge_attr):
        return self.inner(x, edge_index) + edge_attr.mean()


class Narrow(Hidden):
    def forward(self, x, edge_index):
        return self.inner(x[:, 1:], edge_index)


def test_a_model_that_does_not_fit_the_graph_is_a_sentence(tmp_path):
    graph = make_graph(tmp_path / "g")
    with pytest.raises(InputError, match="WithEdges needs edge_attr"):
        infer(WithEdges(), graph, tmp_path / "s.npy", layers=2)
    with pytest.raises(InputError, match=r"Narrow fails on nodes \d+ and following, .*shapes"):
        infer(Narrow(), graph, tmp_path / "s.npy", layers=2)
