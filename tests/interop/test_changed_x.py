"""`x` of a Data that is changed while its loader runs: batches hold its rows as they are now."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PygLoader

from foregather.interop.pyg import NeighborLoader

N = 300


def data(x=None) -> Data:
    rng = np.random.default_rng(0)
    x = torch.arange(N * 4.0).view(N, 4) if x is None else x
    return Data(x=x, edge_index=torch.tensor(rng.integers(0, N, (2, 2000))), num_nodes=N)


def as_array(x):
    return x if isinstance(x, np.ndarray) else x.detach().numpy()


def stale(loader, d, change) -> int:
    """Batches whose rows are not those of `x` when they arrive."""
    wrong = 0
    for batch in loader:
        wrong += not np.array_equal(as_array(batch.x), as_array(d.x)[batch.n_id.numpy()])
        change(d)
    return wrong


def add(d):
    d.x += 1


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(N * 4.0).view(N, 4),
        torch.arange(N * 4.0).view(4, N).t(),  # the engine has a copy of it
        torch.arange(N * 4.0).view(N, 4).half(),
        torch.arange(N * 4.0).view(N, 4).double(),
        np.arange(N * 4, dtype=np.float32).reshape(N, 4),
    ],
    ids=["float32", "transposed", "float16", "float64", "numpy"],
)
def test_rows_are_those_of_now(x):
    d = data(x.copy() if isinstance(x, np.ndarray) else x.clone().as_strided(x.shape, x.stride()))
    loader = NeighborLoader(d, [5, 5], batch_size=20)
    assert stale(loader, d, lambda d: None) == 0
    assert stale(loader, d, add) == 0  # in every batch
    add(d)
    assert stale(loader, d, lambda d: None) == 0  # between loops
    d.x = d.x * 2
    assert stale(loader, d, add) == 0  # another x


def test_two_loops_see_it_both():
    d = data()
    loader = NeighborLoader(d, [5, 5], batch_size=20)
    first = iter(loader)
    next(first)
    d.x += 1
    assert stale(loader, d, add) == 0
    assert stale(first, d, add) == 0


def test_a_gradient_that_is_asked_for_later_arrives():
    d = data()
    loader = NeighborLoader(d, [5], batch_size=20)
    d.x.requires_grad_()
    next(iter(loader)).x.sum().backward()
    assert d.x.grad is not None and d.x.grad.sum() > 0


def test_an_x_of_inference_mode():
    with torch.inference_mode():
        d = data(torch.rand(N, 4))
        assert stale(NeighborLoader(d, [5], batch_size=20), d, add) == 0


def test_pyg_shows_the_same():
    pytest.importorskip("pyg_lib")
    d = data()
    assert stale(PygLoader(d, [5, 5], batch_size=20), d, add) == 0
