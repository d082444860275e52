"""What someone who knew only the pages found: each is refused, or plain, or equal."""

import warnings

import pytest
import torch
from torch import nn

from foregather import BatchContents, InputError, Loader
from foregather.errors import AccelerateWarning
from foregather.nn import accelerate
from tests.nn.accelerate_cases import WIDTH, assert_near, batches, one_batch, random_graph
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def batch():
    return one_batch([4, 3])


@pytest.mark.parametrize("kind", [pyg.GraphSAGE, pyg.GCN, pyg.GAT])
def test_second_derivatives_are_refused(batch, kind):
    """With chosen inputs torch's own refusal was pruned away, and the result was wrong."""
    torch.manual_seed(0)
    fast = accelerate(kind(WIDTH, 8, 2, 3).double())
    x = batch.x.clone().requires_grad_()
    out = fast(x, batch.edge_index)[: batch.batch_size]
    with pytest.raises(InputError, match="gradients of gradients, which the kernels do not have"):
        torch.autograd.grad(out.pow(2).sum(), x, create_graph=True)
    out = fast(x, batch.edge_index)[: batch.batch_size]
    (slope,) = torch.autograd.grad(out.pow(2).sum(), x)
    assert slope.abs().sum() > 0


class Kept(nn.Module):
    """Keeps a running mean of hidden rows: a buffer, or an attribute."""

    def __init__(self, buffer):
        super().__init__()
        self.one, self.two = pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, 3)
        if buffer:
            self.register_buffer("mean", torch.zeros(8))
        else:
            self.mean = torch.zeros(8).double()

    def forward(self, x, edge_index):
        h = self.one(x, edge_index)
        out = self.two(h - self.mean, edge_index)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return out


@pytest.mark.parametrize("buffer", [True, False])
def test_statistics_that_show_only_later(buffer):
    found = batches(random_graph(), [4, 3])[:3]
    plain, model = (Kept(buffer).double() for _ in range(2))
    model.load_state_dict(plain.state_dict())
    fast = accelerate(model)
    with pytest.warns(AccelerateWarning, match="keeps mean, which is made of more rows"):
        fast(found[0])
    plain(found[0].x, found[0].edge_index)
    for one in some(found[1:]):
        assert_near(fast(one)[: one.batch_size], plain(one.x, one.edge_index)[: one.batch_size])


def test_ties_of_maxima_divide_the_gradient_as_pyg_does():
    torch.manual_seed(0)
    plain = pyg.GraphSAGE(WIDTH, 8, 2, 3, aggr="max").double()
    fast, slopes = accelerate(plain), []
    first, second = batches(random_graph(), [4, 3])[:2]
    fast(first.x, first.edge_index)
    for model in (plain, fast):
        x = second.x.clone().clamp_(max=0.1).requires_grad_()
        model(x, second.edge_index)[: second.batch_size].pow(2).sum().backward()
        slopes.append(x.grad)
    assert fast.plain is None
    assert_near(slopes[1], slopes[0])


def test_sparse_features_run_plain(batch):
    plain = pyg.GCN(WIDTH, 8, 2, 3).double()
    fast = accelerate(plain)
    out = fast(batch.x.to_sparse(), batch.edge_index)
    assert fast.plain == "x is a sparse tensor"
    assert_near(out, plain(batch.x.to_sparse(), batch.edge_index))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_that_are_no_numbers_do_not_decide_the_proof(value):
    (found,) = batches(random_graph(), [4, 3], seeds=list(range(20)), size=20)
    found.x[::3] = value
    fast = accelerate(pyg.GraphSAGE(WIDTH, 8, 2, 3).double())
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccelerateWarning)
        fast(found)
    assert fast.plain is None


def test_a_hook_added_later_is_proven_again(batch):
    torch.manual_seed(0)
    plain = pyg.GraphSAGE(WIDTH, 8, 2, 3).double()
    fast = accelerate(plain)
    fast(batch)
    plain.convs[0].register_forward_hook(lambda module, given, out: out - out.mean(0))
    with pytest.warns(AccelerateWarning):
        out = fast(batch)
    assert_near(out[: batch.batch_size], plain(batch.x, batch.edge_index)[: batch.batch_size])


class ReadsRows(nn.Module):
    """Reads x outside its convolutions."""

    def __init__(self, how):
        super().__init__()
        self.one, self.two, self.how = pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, 3), how

    def forward(self, x, edge_index):
        out = self.two(self.one(x, edge_index).relu(), edge_index)
        return out + (x.mean(0).sum() if self.how == "mean" else x.shape[0])


def without_leaves(**options):
    contents = BatchContents(leaves="sum", pyg=True, **options)
    loader = Loader(random_graph(), [4, 3], None, 25, contents=contents, threads=1)
    try:
        return next(iter(loader))
    finally:
        loader.close()


@pytest.mark.parametrize("how", ["mean", "count"])
def test_without_rows_of_leaves_a_model_that_reads_all_rows_is_refused(how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        with pytest.raises(InputError, match="sums in place of the rows of leaves, which this"):
            accelerate(ReadsRows(how))(without_leaves())


@pytest.mark.parametrize("change", ["in place", "replaced"])
def test_sums_of_rows_that_were_changed_are_refused(change):
    found = without_leaves()
    fast = accelerate(pyg.GraphSAGE(WIDTH, 8, 2, 3))
    fast(found)
    if change == "in place":
        found.x.mul_(2)
    else:
        found.x = found.x * 2
    with pytest.raises(InputError, match="x is not the tensor of the batch"):
        fast(found)
