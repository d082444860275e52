"""What people put into a Data: converted exactly, or refused in one sentence; no traceback."""

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

from foregather import Graph, InputError
from foregather.interop.pyg import NeighborLoader

EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
X = torch.arange(6.0).view(3, 2)
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def adjacency() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_torch_csr_tensor(EDGES, size=(3, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"edge_index": adjacency()}, r"edge_index is a sparse tensor .*to_edge_index"),
        (lambda: {"edge_index": adjacency().to_sparse_coo()}, "edge_index is a sparse tensor"),
        (lambda: {"edge_index": None, "adj_t": adjacency()}, "its edges in adj_t"),
        (lambda: {"edge_index": None, "adj": adjacency().to_sparse_coo()}, "its edges in adj,"),
        (lambda: {"edge_index": EDGES.float()}, "edge_index holds float32"),
        (lambda: {"edge_index": EDGES - 1}, "edge 0 has source -1"),
        (lambda: {"edge_index": EDGES.t()}, r"shape \[4, 2\], expected \[2, edges\]"),
        (lambda: {"x": X[:2]}, "edge 1 has target 2, but the graph has 2 nodes"),
    ],
)
def test_edges_that_are_none(make, message):
    data = Data(**({"x": X, "edge_index": EDGES} | make()))
    for use in (Graph.from_pyg, lambda data: NeighborLoader(data, [2])):
        with pytest.raises(InputError, match=message):
            use(data)


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("x", lambda: X.to_sparse(), r"x is a sparse tensor \(torch.sparse_coo\).* x.to_dense\(\)"),
        ("x", lambda: X.to_sparse_csr(), "x is a sparse tensor"),
        ("y", lambda: torch.eye(3).to_sparse(), "y is a sparse tensor"),
        ("x", lambda: torch.empty(3, 2, device="meta"), "on meta, which holds no plain numbers"),
        ("x", lambda: X.to(torch.float8_e4m3fn), "float8.* holds no plain numbers"),
        ("x", lambda: X.to(torch.complex64), "x holds complex64"),
        ("x", lambda: torch.zeros(3, 2, 2), r"shape \(3, 2, 2\)"),
    ],
)
def test_features_that_a_graph_cannot_hold(name, make, message):
    """A Graph refuses them; the drop-in loader indexes them as PyG does."""
    data = Data(edge_index=EDGES, num_nodes=3)
    data[name] = value = make()
    with pytest.raises(InputError, match=message):
        Graph.from_pyg(data)
    for batch in NeighborLoader(data, [-1], batch_size=2):
        found = batch[name]
        assert found.dtype == value.dtype and found.layout == value.layout
        if not value.is_meta:
            dense = value.to_dense() if value.layout != torch.strided else value
            mine = found.to_dense() if found.layout != torch.strided else found
            as_bytes = [part.contiguous().view(torch.uint8) for part in (mine, dense[batch.n_id])]
            assert torch.equal(*as_bytes)


@pytest.mark.parametrize(
    "x",
    [
        X.clone().requires_grad_(),
        torch.arange(6.0).view(2, 3).t(),
        torch.arange(12.0).view(3, 4)[:, ::2],
        X[:, 0],
        X.bfloat16(),
        X.double(),
        np.asfortranarray(X.numpy()),
        X.numpy()[::-1],
    ],
    ids=["grad", "transposed", "strided", "1-D", "bfloat16", "double", "fortran", "reversed"],
)
def test_features_of_every_form(x):
    data = Data(x=x, edge_index=EDGES)
    graph = Graph.from_pyg(data)
    whole = torch.as_tensor(np.array(x) if isinstance(x, np.ndarray) else x).detach()
    rows = torch.from_numpy(np.array(graph.features.data))
    assert torch.equal(rows.double(), whole.double().view(3, -1))
    for batch in NeighborLoader(data, [2], batch_size=2):
        assert torch.equal(batch.x.detach(), whole[batch.n_id])


def test_empty_and_bare():
    empty = torch.empty(2, 0, dtype=torch.long)
    for data in (Data(edge_index=empty, num_nodes=0), Data(x=X[:0], edge_index=empty)):
        assert Graph.from_pyg(data).num_nodes == 0 and list(NeighborLoader(data, [2])) == []
    guessed = Data(edge_index=EDGES)
    assert Graph.from_pyg(guessed).num_nodes == 3
    assert [batch.n_id[0].item() for batch in NeighborLoader(guessed, [2])] == [0, 1, 2]
    listed = Data(x=X, edge_index=EDGES.tolist(), train_mask=[True, False, True])
    assert Graph.from_pyg(listed).split("train").tolist() == [0, 2]
    del listed.train_mask
    (batch,) = NeighborLoader(listed, [-1], batch_size=3)
    assert torch.equal(batch.n_id[batch.edge_index], EDGES[:, batch.e_id])
    for wrong in (None, "data", 3):
        with pytest.raises(InputError, match="expected a PyG Data"):
            NeighborLoader(wrong, [2])
        with pytest.raises(InputError, match="no edge_index"):
            Graph.from_pyg(wrong)


def test_what_a_graph_has_no_place_for_is_named():
    data = Data(x=X, edge_index=EDGES, pos=torch.rand(3, 3), kind=torch.arange(4), name="n")
    with pytest.warns(UserWarning, match="a Graph cannot hold kind, pos; look them up"):
        Graph.from_pyg(data)
