"""Models that fewer rows would change: found by the proof, left plain, and named in one warning."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from foregather.errors import AccelerateWarning
from foregather.nn import accelerate
from tests.nn.accelerate_cases import WIDTH, assert_near, one_batch, outcome
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


class Base(nn.Module):
    """Two convolutions, and something between or after them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, 8)
        self.extra = nn.Linear(8, 8)


class GlobalMean(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x - x.mean(dim=0), edge_index)


class MeanAfter(Base):
    def forward(self, x, edge_index):
        x = self.two(self.one(x, edge_index).relu(), edge_index)
        return x / x.abs().max()


class Softmax(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index)
        return self.two(x * functional.softmax(x, dim=0), edge_index)


class LastRow(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x + x[-1], edge_index)


class ReadsEdges(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        near = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        return self.two(near, edge_index)


class Degrees(Base):
    def forward(self, x, edge_index):
        x = self.two(self.one(x, edge_index).relu(), edge_index)
        degree = torch.zeros(x.size(0)).index_add(0, edge_index[1], torch.ones(edge_index.size(1)))
        return x * degree.unsqueeze(1)


class NumberOfRows(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x / x.size(0), edge_index)


class SecondEdges(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x, edge_index.flip(0))


class DropsEdges(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x, edge_index[:, ::2])


class Subset(Base):
    def forward(self, x, edge_index):
        half = x.size(0) // 2
        kept = (edge_index < half).all(dim=0)
        front = self.one(x[:half], edge_index[:, kept])
        x = torch.cat([front, x[half:, :8]])
        return self.two(x, edge_index)


class InPlace(Base):
    def forward(self, x, edge_index):
        x = x[:, :8] * 1.0
        x += self.two(x.clone(), edge_index)
        return self.two(x, edge_index)


class Attends(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index)
        x = functional.softmax(x @ x.t(), dim=-1) @ x
        return self.two(x, edge_index)


class CachedGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = pyg.GCNConv(WIDTH, 8, cached=True)
        self.two = pyg.GCNConv(8, 8, cached=True)

    def forward(self, x, edge_index):
        return self.two(self.one(x, edge_index).relu(), edge_index)


class BatchNorm(Base):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, edge_index):
        return self.two(self.norm(self.one(x, edge_index)).relu(), edge_index)


class ManyHops(nn.Module):
    def __init__(self):
        super().__init__()
        self.hops = pyg.TAGConv(WIDTH, 8, K=2)

    def forward(self, x, edge_index):
        return self.hops(self.hops.lins[0](x).new_zeros(x.shape) + x, edge_index)


class Checkpointed(Base):
    def forward(self, x, edge_index):
        x = checkpoint(self.one, x, edge_index, use_reentrant=False).relu()
        return self.two(x, edge_index)


class Views(Base):
    def forward(self, x, edge_index):
        rows = x.size(0)
        x = self.one(x, edge_index)
        return self.two(x.view(rows, -1), edge_index)


class Attention(Base):
    def __init__(self):
        super().__init__()
        self.one = pyg.GATConv(WIDTH, 8)

    def forward(self, x, edge_index):
        x, (_, alpha) = self.one(x, edge_index, return_attention_weights=True)
        return self.two(x * alpha.mean(), edge_index)


class Pools(Base):
    def forward(self, x, edge_index):
        x = self.two(self.one(x, edge_index).relu(), edge_index)
        return x + pyg.global_add_pool(x, None)


#: Each trap, and what its warning names.
TRAPS = [
    (GlobalMean, "GlobalMean"),
    (MeanAfter, "MeanAfter"),
    (Softmax, "Softmax"),
    (LastRow, "LastRow"),
    (ReadsEdges, "ReadsEdges"),
    (Degrees, "Degrees"),
    (NumberOfRows, "NumberOfRows"),
    (SecondEdges, "two (SAGEConv)"),
    (DropsEdges, "two (SAGEConv)"),
    (Subset, "one (SAGEConv)"),
    (InPlace, "InPlace"),
    (Attends, "Attends"),
    (CachedGCN, "(GCNConv)"),
    (BatchNorm, "norm (BatchNorm1d)"),
    (ManyHops, "hops (TAGConv)"),
    (Checkpointed, ""),
    (Views, "Views"),
    (Attention, "one (GATConv)"),
    (Pools, "Pools"),
]


@pytest.fixture(scope="module")
def batch():
    return one_batch([4, 3])


@pytest.mark.parametrize(("trap", "named"), TRAPS, ids=lambda value: getattr(value, "__name__", ""))
def test_traps_are_found_and_named(trap, named, batch):
    torch.manual_seed(0)
    model, seeds = trap().double(), batch.batch_size
    fast = accelerate(trap().double())
    fast.load_state_dict(model.state_dict())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            got, grads = outcome(fast, seeds, batch.x, batch.edge_index)
    told = [str(one.message) for one in said if one.category is AccelerateWarning]
    assert len(told) == 1
    assert named in told[0]
    assert fast.plain in told[0]
    assert "plain: " in fast.explain()
    for _ in range(2):
        expected, wanted = outcome(model, seeds, batch.x, batch.edge_index)
    assert torch.equal(got, expected)
    for name in some(wanted):
        assert_near(grads[name], wanted[name], name)


class FifthRow(Base):
    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        return self.two(x, edge_index) + self.extra(x[5])


def test_a_row_by_its_number_is_the_same_row(batch):
    """The first rows are computed, so this one is right, and accelerated."""
    model = FifthRow().double()
    fast = accelerate(model)
    got, grads = outcome(fast, 3, batch.x, batch.edge_index)
    assert fast.plain is None
    expected, wanted = outcome(model, 3, batch.x, batch.edge_index)
    assert_near(got, expected)
    assert_near(grads["x"], wanted["x"])


class RowOfResult(Base):
    def forward(self, x, edge_index):
        x = self.two(self.one(x, edge_index).relu(), edge_index)
        return x + x[9]


def test_a_row_that_is_not_there_ends_the_pass(batch):
    model = RowOfResult().double()
    fast = accelerate(model)
    assert torch.equal(
        outcome(fast, 9, batch.x, batch.edge_index)[0],
        outcome(model, 9, batch.x, batch.edge_index)[0],
    )
    assert fast.plain is None
    small = one_batch([4, 3], size=6)  # six seeds: their rows are all that is computed
    torch.manual_seed(2)
    with pytest.warns(AccelerateWarning, match="RowOfResult fails on only the rows needed"):
        got = fast(small.x, small.edge_index)
    after = torch.rand(3)
    torch.manual_seed(2)
    assert torch.equal(got, model(small.x, small.edge_index))
    assert torch.equal(after, torch.rand(3))
    assert "IndexError" in fast.plain


class Wanders(Base):
    """Takes another path when it is told to."""

    path = 0

    def forward(self, x, edge_index):
        x = self.one(x, edge_index).relu()
        if self.path == 1:
            x = self.two(x, edge_index).relu()
        if self.path == 2:
            edge_index = edge_index.clone()
        return self.two(x, edge_index)


@pytest.mark.parametrize(("path", "words"), [(1, "another order"), (2, "another edge_index")])
def test_another_path_after_the_proof(path, words, batch):
    model = Wanders().double()
    fast = accelerate(model)
    fast(batch.x, batch.edge_index)
    fast.path = path
    assert model.path == path
    with pytest.warns(AccelerateWarning, match=words):
        got = fast(batch.x, batch.edge_index)
    assert torch.equal(got, model(batch.x, batch.edge_index))
    assert words in fast.plain


def test_a_module_that_is_replaced_is_proven_again(batch):
    class Normed(Base):
        def __init__(self):
            super().__init__()
            self.norm = nn.Identity()

        def forward(self, x, edge_index):
            return self.two(self.norm(self.one(x, edge_index)), edge_index)

    model = Normed().double()
    fast = accelerate(model)
    fast(batch.x, batch.edge_index)
    model.norm = nn.BatchNorm1d(8).double()
    with pytest.warns(AccelerateWarning, match="norm"):
        got = fast(batch.x, batch.edge_index)
    assert_near(got, model(batch.x, batch.edge_index))


def test_the_models_own_errors_are_its_own(batch):
    fast = accelerate(pyg.GraphSAGE(WIDTH + 1, 8, 2, 3).double())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="shape"):
            fast(batch.x, batch.edge_index)
        assert fast.plain is None


def test_an_error_in_a_pass_leaves_nothing_behind(batch):
    class Fails(Base):
        fails = False

        def forward(self, x, edge_index):
            x = self.one(x, edge_index)
            if self.fails:
                raise KeyError("no")
            return self.two(x, edge_index)

    model = Fails().double()
    fast = accelerate(model)
    first = fast(batch.x, batch.edge_index)
    fast.fails = True
    with pytest.raises(KeyError, match="no"):
        fast(batch.x, batch.edge_index)
    assert all("forward" not in part.__dict__ for part in some(model.modules()))
    fast.fails = False
    assert torch.equal(fast(batch.x, batch.edge_index), first)
