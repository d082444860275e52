"""Typed models that defeat trimming, each in its own way: refused, or plain, or equal."""

import warnings

import pytest
import torch
from torch import nn

from foregather import InputError
from foregather.errors import AccelerateWarning
from foregather.nn import accelerate
from tests.nn.accelerate_cases import assert_near
from tests.nn.typed.typed_cases import (
    BOUGHT,
    BUYS,
    LIKES,
    OF,
    RELATIONS,
    TYPES,
    WIDTHS,
    Layers,
    assert_same,
    hetero,
    shop,
    started,
    typed_batches,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def found():
    return typed_batches(shop(), [4, 3])[:3]


@pytest.fixture(scope="module")
def batch(found):
    return found[0]


def sage(name, width):
    return pyg.SAGEConv((-1, -1), width)


class Odd(Layers):
    """Does something with hidden rows or edges between two layers."""

    def __init__(self, how):
        super().__init__(sage)
        self.how = how
        self.norm = nn.BatchNorm1d(6)
        self.gate = nn.Linear(6, 1)

    def forward(self, x_dict, edge_index_dict):
        h = x_dict | self.convs[0](x_dict, edge_index_dict)
        h, edges = getattr(self, self.how)(h, dict(edge_index_dict))
        return self.convs[1](h, edges)["user"]

    def degrees(self, h, edges):
        """Reads edge_index itself: degrees of all users."""
        degree = torch.bincount(edges[LIKES][1], minlength=h["user"].shape[0])
        return h | {"user": h["user"] / (1 + degree[: h["user"].shape[0]].unsqueeze(1))}, edges

    def largest_degree(self, h, edges):
        return h | {"user": h["user"] * torch.bincount(edges[LIKES][1]).max()}, edges

    def sources(self, h, edges):
        """Reads rows of the sources of all edges."""
        told = h["item"].index_select(0, edges[BOUGHT][0]).mean(0)
        return h | {"user": h["user"] + told}, edges

    def batch_norm(self, h, edges):
        return h | {"user": self.norm(h["user"])}, edges

    def mean(self, h, edges):
        return h | {"user": h["user"] - h["user"].mean(0)}, edges

    def mean_of_another_type(self, h, edges):
        return h | {"user": h["user"] + h["item"].mean(0)}, edges

    def softmax(self, h, edges):
        return h | {"item": h["item"] * self.gate(h["item"]).softmax(0)}, edges

    def last_row(self, h, edges):
        return h | {"item": h["item"] + h["item"][-1]}, edges

    def rows(self, h, edges):
        return h | {"item": h["item"] * h["item"].shape[0]}, edges

    def dropped_edges(self, h, edges):
        return h, edges | {LIKES: edges[LIKES][:, ::2]}

    def reversed_edges(self, h, edges):
        """Another relation made of the batch's."""
        return h, edges | {LIKES: edges[LIKES].flip(0)}

    def swapped_edges(self, h, edges):
        return h, edges | {LIKES: edges[LIKES].flip(1)}

    def sorted_rows(self, h, edges):
        return h | {"user": h["user"].sort(dim=0).values}, edges

    def all_types(self, h, edges):
        """Mixes types by concatenating all nodes."""
        whole = torch.cat([h["user"], h["item"]])
        whole = whole - whole.mean(0)
        user, item = whole.split([h["user"].shape[0], h["item"].shape[0]])
        return h | {"user": user, "item": item}, edges


@pytest.mark.parametrize(
    "how",
    [
        *("sources", "batch_norm", "mean", "mean_of_another_type", "softmax"),
        *("last_row", "rows", "dropped_edges", "reversed_edges", "swapped_edges", "sorted_rows"),
        "all_types",
    ],
)
def test_what_mixes_rows_stays_plain(how, batch):
    model = started(Odd(how), batch)
    fast = assert_same(model, batch, plain=True)
    assert len(fast.plain) > 20


@pytest.mark.parametrize("how", ["degrees", "largest_degree"])
def test_degrees_are_those_of_all_edges(how, batch):
    """Edges are never taken away from a model, so that its own counts of them stay right."""
    assert_same(started(Odd(how), batch), batch)


class Homogeneous(nn.Module):
    """Puts all types into one graph, as RGCN is often called."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], 6) for name in TYPES})
        self.one = pyg.RGCNConv(6, 6, len(RELATIONS))
        self.two = pyg.RGCNConv(6, 3, len(RELATIONS))

    def forward(self, x_dict, edge_index_dict):
        start, total = {}, 0
        for name, x in x_dict.items():
            start[name], total = total, total + x.shape[0]
        x = torch.cat([self.inputs[name](x) for name, x in x_dict.items()])
        edges, kinds = [], []
        for place, name in enumerate(RELATIONS):
            shift = torch.tensor([[start[name[0]]], [start[name[2]]]])
            edges.append(edge_index_dict[name] + shift)
            kinds.append(torch.full((edges[-1].shape[1],), place))
        index, kind = torch.cat(edges, dim=1), torch.cat(kinds)
        x = self.two(self.one(x, index, kind).relu(), index, kind)
        return x[start["user"] : start["user"] + x_dict["user"].shape[0]]


def test_all_types_in_one_graph(batch):
    fast = assert_same(started(Homogeneous(), batch), batch, plain=True)
    assert "one (RGCNConv) it is called with another edge_index" in fast.plain


class Relational(nn.Module):
    """RGCNConv for one relation at a time."""

    def __init__(self):
        super().__init__()
        widths = [(WIDTHS[source], WIDTHS[target]) for source, _, target in RELATIONS]
        self.one = nn.ModuleList(pyg.RGCNConv(pair, 6, 1) for pair in widths)
        self.two = pyg.RGCNConv((6, 6), 3, 1)

    def forward(self, x_dict, edge_index_dict):
        h = {}
        for conv, name in zip(self.one, RELATIONS, strict=True):
            edges = edge_index_dict[name]
            kind = torch.zeros(edges.shape[1], dtype=torch.int64)
            made = conv((x_dict[name[0]], x_dict[name[2]]), edges, kind)
            h[name[2]] = h.get(name[2], 0) + made
        kind = torch.zeros(edge_index_dict[BOUGHT].shape[1], dtype=torch.int64)
        return self.two((h["item"], h["user"]), edge_index_dict[BOUGHT], kind)


def test_rgcn_for_one_relation_at_a_time(batch):
    fast = assert_same(started(Relational(), batch), batch)
    assert "its own code, on sources and targets" in fast.explain()


class Twice(nn.Module):
    """One HeteroConv in two layers, and called twice in the first."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], 6) for name in TYPES})
        self.conv = hetero({name: pyg.SAGEConv(6, 6) for name in RELATIONS})

    def forward(self, x_dict, edge_index_dict):
        x = {name: self.inputs[name](x) for name, x in x_dict.items()}
        bent = {name: rows.tanh() for name, rows in x.items()}
        one, two = (self.conv(part, edge_index_dict) for part in (x, bent))
        h = x | {name: one[name] * two[name] for name in one}
        return self.conv(h, edge_index_dict)["user"]


def test_a_layer_that_is_called_several_times(found):
    model = started(Twice(), found[0])
    for one in some(found):
        assert_same(model, one)


class ByGiven(nn.Module):
    """Calls relations in the order in which they are given."""

    def __init__(self):
        super().__init__()
        kinds = {"__".join(name): pyg.SAGEConv((-1, -1), 6) for name in RELATIONS}
        self.convs, self.last = nn.ModuleDict(kinds), pyg.SAGEConv((-1, -1), 3)

    def forward(self, x_dict, edge_index_dict):
        h = {}
        for name, edges in edge_index_dict.items():
            made = self.convs["__".join(name)]((x_dict[name[0]], x_dict[name[2]]), edges)
            h[name[2]] = h[name[2]] + made if name[2] in h else made
        return self.last((h["item"], h["user"]), edge_index_dict[BOUGHT])


def test_relations_in_another_order_are_proven_again(batch):
    model = started(ByGiven(), batch)
    fast, seeds = accelerate(model), batch["user"].batch_size
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccelerateWarning)
        for order in some([RELATIONS, [OF, LIKES, BOUGHT, BUYS], [BOUGHT, OF, BUYS, LIKES]]):
            edges = {name: batch.edge_index_dict[name] for name in order}
            got = fast(batch.x_dict, edges)
            assert got.shape[0] == seeds
            assert_near(got, model(batch.x_dict, edges)[:seeds])
    assert fast.plain is None


def test_a_path_that_was_not_proven_is_computed_plain_from_then_on(batch):
    class Turns(Odd):
        turned = False

        def nothing(self, h, edges):
            return h, edges | ({LIKES: edges[LIKES].clone()} if self.turned else {})

    model = started(Turns("nothing"), batch)
    fast = accelerate(model)
    assert fast(batch.x_dict, batch.edge_index_dict).shape[0] == batch["user"].batch_size
    model.turned = True
    with pytest.warns(AccelerateWarning, match="called with another edge_index than those"):
        got = fast(batch.x_dict, batch.edge_index_dict)
    assert_near(got, model(batch.x_dict, batch.edge_index_dict))
    model.turned = False
    assert fast(batch.x_dict, batch.edge_index_dict).shape[0] == got.shape[0]


def test_too_few_rows_of_a_type_are_the_models_own_error(batch):
    model = started(Layers(sage), batch)
    fast = accelerate(model)
    fast(batch.x_dict, batch.edge_index_dict)
    few = batch.x_dict | {"item": batch.x_dict["item"][:3]}
    with pytest.raises((RuntimeError, IndexError, ValueError)), warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        fast(few, batch.edge_index_dict)


def test_second_derivatives_are_refused(batch):
    fast = accelerate(started(Layers(sage), batch))
    x_dict = {name: x.clone().requires_grad_() for name, x in batch.x_dict.items()}
    out = fast(x_dict, batch.edge_index_dict)
    with pytest.raises(InputError, match="gradients of gradients"):
        torch.autograd.grad(out.pow(2).sum(), list(x_dict.values()), create_graph=True)


def test_a_hook_added_later_is_proven_again(batch):
    model = started(Layers(sage), batch)
    fast = accelerate(model)
    fast(batch)
    conv = model.convs[0].convs[LIKES]
    conv.register_forward_hook(lambda module, given, out: out - out.mean(0))
    with pytest.warns(AccelerateWarning):
        out = fast(batch)
    seeds = batch["user"].batch_size
    assert_near(out[:seeds], model(batch.x_dict, batch.edge_index_dict)[:seeds])


def test_a_model_that_skips_relations_without_edges(found):
    """Which relations have edges changes from batch to batch, and with it what is called."""

    class Skips(Layers):
        def forward(self, x_dict, edge_index_dict):
            kept = {name: edges for name, edges in edge_index_dict.items() if edges.numel()}
            return super().forward(x_dict, kept)

    model = started(Skips(sage), found[0])
    fast = accelerate(model)
    few = typed_batches(shop(), {BUYS: [2, 2], BOUGHT: [2, 2], LIKES: [2, 2], OF: [0, 0]})[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        for one in some([found[0], few, found[1], few]):
            seeds = one["user"].batch_size
            got = fast(one.x_dict, one.edge_index_dict)[:seeds]
            assert_near(got, model(one.x_dict, one.edge_index_dict)[:seeds])


def test_a_model_that_needs_an_argument_no_store_has(batch):
    class Needs(Layers):
        def forward(self, x_dict, edge_index_dict, colour_dict):
            return super().forward(x_dict, edge_index_dict)

    with pytest.raises(InputError, match="Needs needs colour_dict, but no type or relation"):
        accelerate(Needs(sage))(batch)
