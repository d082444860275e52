"""Every attribute of a Data arrives as PyG's own loader would slice it, or is refused by name.

The oracle is PyG itself: its NodeLoader with our sampler under it filters with PyG's code.
"""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

from foregather import InputError
from foregather.interop.pyg import NeighborLoader, PygSampler, from_pyg
from foregather.sampling import Neighbor
from tests.some import some

OURS = {"seed_id", "share"}  # what our batches have beside PyG's


def random_data(rng, tmp_path, nodes: int, edges: int) -> Data:
    """A Data with attributes of many kinds, in random order and number."""

    def array(kind, *shape):
        values = rng.normal(size=shape) * 50
        return values.astype(kind)

    mapped = np.memmap(tmp_path / f"{rng.integers(1 << 60)}", "f4", "w+", shape=(nodes, 3))
    mapped[:] = rng.random((nodes, 3))
    choices = {
        "x": lambda: [
            torch.rand(nodes, 4),
            torch.rand(nodes),
            array("f4", nodes, 2),
            mapped,
            torch.rand(nodes, 2).double(),
            torch.rand(nodes, 3).to_sparse(),
            torch.rand(4, nodes).t(),
            torch.rand(nodes, 2).half(),
        ],
        "y": lambda: [
            torch.arange(nodes),
            np.arange(nodes),
            np.arange(nodes)[::-1],
            torch.rand(nodes, 2),
            array("i2", nodes, 1),
        ],
        "train_mask": lambda: [torch.rand(nodes) < 0.5, rng.random(nodes) < 0.5],
        "pos": lambda: [torch.rand(nodes, 3), array("f8", nodes, 3)],
        "edge_attr": lambda: [
            torch.rand(edges, 2),
            array("f2", edges, 2),
            torch.arange(edges),
            torch.rand(edges, 2).to_sparse(),
        ],
        "edge_weight": lambda: [torch.rand(edges), array("f4", edges)],
        "edge_pair_index": lambda: [
            torch.arange(2 * edges).view(2, edges),
            np.arange(2 * edges).reshape(2, edges),
        ],
        "node_index": lambda: [torch.arange(3 * nodes).view(3, nodes)],
        "phase": lambda: [
            torch.rand(nodes, dtype=torch.complex64),
            array("u1", nodes),
            torch.rand(nodes, 2).bfloat16(),
        ],
        "cube": lambda: [torch.rand(nodes, 2, 3), array("f4", edges, 2, 2)],
        "whole": lambda: [
            torch.rand(nodes + edges + 1),
            np.zeros(1),
            3,
            2.5,
            "name",
            {"a": 1},
            torch.tensor(7),
            [1] * (nodes + edges + 1),
        ],
    }
    data = Data(edge_index=torch.from_numpy(rng.integers(0, nodes, (2, edges))), num_nodes=nodes)
    names = list(choices)
    rng.shuffle(names)
    for name in names[: rng.integers(1, len(names) + 1)]:
        made = choices[name]()
        data[name] = made[rng.integers(len(made))]
    return data


def equal(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        same = type(a) is type(b) and a.dtype == b.dtype and a.layout == b.layout
        return same and torch.equal(a.to_dense(), b.to_dense())
    return type(a) is type(b) and bool(np.all(np.asarray(a == b)))


@pytest.mark.parametrize("square", [False, True])  # as many nodes as edges: PyG goes by the name
@pytest.mark.parametrize("seed", range(12))
def test_batches_equal_those_of_pygs_own_filter(seed, square, tmp_path):
    rng = np.random.default_rng([seed, square])
    nodes = int(rng.integers(2, 40))
    edges = nodes if square else nodes + int(rng.integers(1, 80))
    data = random_data(rng, tmp_path, nodes, edges)
    bare = from_pyg(Data(edge_index=data.edge_index, num_nodes=nodes))
    size, fanouts = int(rng.integers(1, nodes + 1)), [-1] * int(rng.integers(1, 4))
    theirs = NodeLoader(data, PygSampler(Neighbor(fanouts), bare), batch_size=size)
    ours = NeighborLoader(data, fanouts, batch_size=size, seed=0)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        mine, other = a.to_dict(), b.to_dict()
        assert [name for name in mine if name not in OURS] == list(other)
        wrong = [name for name in other if not equal(mine[name], other[name])]
        assert not wrong, (wrong, data)
        assert a.num_nodes == b.num_nodes and a.num_edges == b.num_edges


def test_numpy_labels_are_those_of_the_seeds():
    """Seeds 50 to 59 once came with the labels of nodes 0 to 9."""
    edges = torch.randint(0, 60, (2, 300))
    data = Data(x=np.arange(120, dtype="f4").reshape(60, 2), y=np.arange(60), edge_index=edges)
    (batch,) = NeighborLoader(data, [2], torch.arange(50, 60), batch_size=10)
    assert batch.y[:10].tolist() == list(range(50, 60)) and torch.equal(batch.y, batch.n_id)
    assert batch.x[:, 0].tolist() == (2 * batch.n_id).tolist()


class Sparse:
    """Looks like a matrix of another library."""

    def __init__(self, *shape) -> None:
        self.shape = shape


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("names", ["a"] * 30, "names is a list with an entry for each node"),
        ("edge_names", tuple("a" * 90), "edge_names is a tuple with an entry for each edge"),
        ("text", np.array(["a"] * 30), "text holds <U1, which no tensor can"),
        ("when", np.zeros(30, "M8[s]"), "when holds datetime64"),
        ("x", Sparse(30, 4), "x is a Sparse with one row per node"),
        ("rows", Sparse(90, 4), "rows is a Sparse with one row per edge"),
        ("adj", torch.eye(30).to_sparse(), "adj is a sparse tensor"),
    ],
)
def test_what_cannot_be_sliced_is_refused_by_name(name, value, message):
    data = Data(edge_index=torch.randint(0, 30, (2, 90)), num_nodes=30)
    data[name] = value
    with pytest.raises(InputError, match=message):
        NeighborLoader(data, [2])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_other_byte_orders_and_compressed_rows():
    edges = torch.randint(0, 30, (2, 90))
    data = Data(x=np.arange(60, dtype=">f4").reshape(30, 2), edge_index=edges)
    data.counts = torch.rand(30, 5).relu().to_sparse_csr()
    for batch in some(NeighborLoader(data, [3], batch_size=7)):
        assert batch.x[:, 0].tolist() == (2 * batch.n_id).tolist()
        assert batch.counts.layout == torch.sparse_csr
        assert torch.equal(batch.counts.to_dense(), data.counts.to_dense()[batch.n_id])


def test_what_is_replaced_later_is_what_arrives():
    """PyG looks attributes up when a batch is made; a gathered x must not be older than that."""
    data = Data(x=torch.zeros(30, 2), edge_index=torch.randint(0, 30, (2, 90)))
    loader = NeighborLoader(data, [3], batch_size=10)
    assert all((batch.x == 0).all() for batch in loader)
    data.x, data.new = torch.ones(30, 2), torch.arange(30)
    for batch in some(loader):
        assert (batch.x == 1).all() and torch.equal(batch.new, batch.n_id)
    data.names = ["a"] * 30
    with pytest.raises(InputError, match="names is a list"):
        next(iter(loader))


def test_a_learnable_x_has_its_gradient():
    x = torch.nn.Parameter(torch.rand(30, 2))
    data = Data(x=x, edge_index=torch.randint(0, 30, (2, 90)))
    (batch,) = NeighborLoader(data, [-1], batch_size=30)
    batch.x.sum().backward()
    assert torch.equal(x.grad, torch.ones(30, 2))


def test_a_class_of_the_user_stays_its_own():
    class Mine(Data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return 1 if key == "wide" else super().__cat_dim__(key, value, *args, **kwargs)

    data = Mine(edge_index=torch.randint(0, 30, (2, 90)), num_nodes=30)
    data.wide = torch.arange(60).view(2, 30)
    for batch in some(NeighborLoader(data, [3], batch_size=10)):
        assert type(batch) is Mine and torch.equal(batch.wide[0], batch.n_id)


def test_a_number_of_nodes_that_pyg_guesses_too_small():
    """PyG would take y for a value of the whole graph, and hand it on unsliced."""
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.arange(5))
    with pytest.raises(InputError, match=r"edges name 3, and y has 5 rows; set data\.num_nodes"):
        NeighborLoader(data, [2])
    data.num_nodes = 5
    (batch,) = NeighborLoader(data, [2], [4, 2], batch_size=2)
    assert torch.equal(batch.y, batch.n_id)
