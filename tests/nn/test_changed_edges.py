"""Transforms that change edges: counts of hops that do not fit any more cut no layer."""

import numpy as np
import pytest
import torch

from foregather import Graph, Loader
from foregather.errors import InputError
from foregather.nn import SAGE, accelerate
from foregather.train.fit import evaluate
from tests.some import some

nn = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 300, (2, 3000))
    x = rng.standard_normal((300, 8)).astype(np.float32)
    return Graph.from_edge_index(edges, 300, x=x, y=rng.integers(0, 4, 300))


def dropped(batch):
    keep = torch.arange(batch.edge_index.shape[1]) % 20 != 3
    batch.edge_index = batch.edge_index[:, keep]
    return batch


def turned(batch):
    batch.edge_index = batch.edge_index.flip(1)
    return batch


def looped(batch):
    loops = torch.arange(batch.num_nodes).repeat(2, 1)
    batch.edge_index = torch.cat([batch.edge_index, loops], 1)
    return batch


MODELS = {
    "GraphSAGE": lambda: nn.GraphSAGE(8, 16, 3, 4),
    "GCN": lambda: nn.GCN(8, 16, 3, 4),
    "own": lambda: SAGE([8, 16, 16, 4]),
}


@pytest.mark.parametrize("change", [dropped, turned, looped])
@pytest.mark.parametrize("kind", MODELS)
def test_the_model_uses_all_edges_that_are_left(graph, change, kind):
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    fast = accelerate(model)
    right = seen = 0
    for batch in some(Loader(graph, [4, 3, 2], range(200), 32, transform=change)):
        want = model(batch.x, batch.edge_index)[: batch.batch_size]
        assert torch.equal(fast(batch)[: batch.batch_size], want)
        right += int((want.argmax(1) == batch.y[: batch.batch_size]).sum())
        seen += batch.batch_size
    loader = Loader(graph, [4, 3, 2], range(200), 32, transform=change)
    assert evaluate(model, loader) == pytest.approx(right / seen)


def test_a_model_that_needs_counts_is_told(graph):
    class Counting(torch.nn.Module):
        def forward(self, x, edge_index, num_sampled_nodes):
            return x[:, :4]

    loader = Loader(graph, [4, 3, 2], range(200), 32, transform=dropped)
    with pytest.raises(InputError, match=r"Counting needs num_sampled_nodes, but the edges"):
        evaluate(Counting(), loader)
