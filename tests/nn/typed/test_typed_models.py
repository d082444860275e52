"""Typed models of other shapes: accelerated and equal, with everything that the model has."""

import copy
import warnings

import pytest
import torch
from torch import nn

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
    outcome,
    shop,
    started,
    typed_batches,
    ways,
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


class Plain(nn.Module):
    """A model for one type, to be made one for many by `to_hetero`."""

    def __init__(self, kind=pyg.SAGEConv, **options):
        super().__init__()
        self.one, self.two = kind((-1, -1), 8, **options), kind((-1, -1), 3, **options)
        self.skip = pyg.Linear(-1, 3)

    def forward(self, x, edge_index):
        h = self.one(x, edge_index).relu()
        return self.two(h, edge_index) + self.skip(h)


def to_hetero(model, metadata):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pyg.to_hetero(model, metadata)


@pytest.mark.parametrize("kind", ["SAGEConv", "GATConv", "GraphConv"])
def test_models_made_by_to_hetero(kind, batch):
    options = {"add_self_loops": False} if kind == "GATConv" else {}
    made = to_hetero(Plain(getattr(pyg, kind), **options), (TYPES[:2], RELATIONS[:3]))

    class Users(nn.Module):
        def __init__(self):
            super().__init__()
            self.made = made

        def forward(self, x_dict, edge_index_dict):
            x_dict = {name: x_dict[name] for name in TYPES[:2]}
            return self.made(x_dict, {name: edge_index_dict[name] for name in RELATIONS[:3]})

    assert ways(assert_same(started(Users(), batch), batch)) == {"kernel"}


def test_models_of_pyg_made_by_to_hetero(batch):
    model = to_hetero(pyg.GraphSAGE((-1, -1), 8, 2, 3), (TYPES[:2], RELATIONS[:3]))
    small = batch.node_type_subgraph(TYPES[:2])
    model = started(model, small)
    fast = accelerate(model)
    out = fast(small.x_dict, {name: batch.edge_index_dict[name] for name in RELATIONS[:3]})
    assert fast.plain is None, fast.plain
    expected = model(small.x_dict, small.edge_index_dict)["user"]
    assert_near(out["user"][: batch["user"].batch_size], expected[: batch["user"].batch_size])


class Residual(nn.Module):
    """Rows of different layers meet: residuals, and a join of all layers."""

    def __init__(self, join):
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], 6) for name in TYPES})
        convs = [{name: pyg.SAGEConv(6, 6) for name in RELATIONS} for _ in range(2)]
        self.convs = nn.ModuleList(map(hetero, convs))
        self.last, self.join = nn.Linear(18 if join else 6, 3), join

    def forward(self, x_dict, edge_index_dict):
        x_dict = {name: self.inputs[name](x) for name, x in x_dict.items()}
        layers = [x_dict["user"]]
        for conv in self.convs:
            made = conv(x_dict, edge_index_dict)
            x_dict = x_dict | {name: x_dict[name] + rows.relu() for name, rows in made.items()}
            layers.append(x_dict["user"])
        return self.last(torch.cat(layers, dim=1) if self.join else x_dict["user"])


@pytest.mark.parametrize("join", [True, False])
def test_rows_of_different_layers_meet(join, found):
    model = started(Residual(join), found[0])
    for one in some(found):
        assert_same(model, one)


def test_with_one_node_of_a_type_rows_that_meet_are_computed_plain(batch):
    """A row of one node could be taken for a constant that is added to all rows."""
    one = typed_batches(shop(), [1, 1], ("user", [3]), 1)[0]
    model = started(Residual(True), batch)
    fast = accelerate(model)
    fast(batch.x_dict, batch.edge_index_dict)
    out = fast(one.x_dict, one.edge_index_dict)
    assert torch.equal(out, model(one.x_dict, one.edge_index_dict))
    assert fast.plain is None  # others still are accelerated


class Shared(nn.Module):
    """One convolution for all relations and layers, and a model that gives several things."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(WIDTHS[name], 6) for name in TYPES})
        self.conv = pyg.SAGEConv(6, 6)

    def forward(self, x_dict, edge_index_dict):
        h = {name: self.inputs[name](x) for name, x in x_dict.items()}
        for _ in range(2):
            new = dict.fromkeys(h, 0)
            for name, edges in edge_index_dict.items():
                new[name[2]] = new[name[2]] + self.conv((h[name[0]], h[name[2]]), edges).tanh()
            h = {name: h[name] if isinstance(rows, int) else rows for name, rows in new.items()}
        return h


def test_one_convolution_for_everything(batch):
    fast = assert_same(started(Shared(), batch), batch)
    assert ways(fast) == {"kernel"}
    out = fast(batch.x_dict, batch.edge_index_dict)
    assert out["user"].shape[0] == batch["user"].batch_size
    assert out["item"].shape[0] == 0


def test_a_detached_layer(batch):
    class Detached(Layers):
        def forward(self, x_dict, edge_index_dict):
            h = self.convs[0](x_dict, edge_index_dict)
            h = {**x_dict, **{name: rows.detach() for name, rows in h.items()}}
            return self.convs[1](h, edge_index_dict)["user"]

    assert_same(started(Detached(sage), batch), batch)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_hops_and_layers_that_disagree(depth, hops):
    one = typed_batches(shop(), [3] * hops)[0]
    model = started(Layers(sage, depth), one)
    assert_same(model, one)


def test_an_unmodified_model_keeps_its_weights_and_names(batch):
    model = started(Layers(sage), batch)
    before = copy.deepcopy(model.state_dict())
    fast = accelerate(model)
    fast(batch)
    assert fast.plain is None
    assert list(fast.state_dict()) == list(before)
    for name, value in some(before.items()):
        assert torch.equal(fast.state_dict()[name], value)
    assert "forward" not in model.convs[0].convs[BUYS].__dict__
    other = Layers(sage).double()
    other.load_state_dict(fast.state_dict())
    got = other(batch.x_dict, batch.edge_index_dict)
    assert_near(got, model(batch.x_dict, batch.edge_index_dict))


def test_training_is_the_same_step_by_step(found):
    losses = []
    for wrap in (lambda model: model, accelerate):
        torch.manual_seed(3)
        model = started(Layers(sage), found[0])
        run = wrap(model)
        optimizer = torch.optim.Adam(run.parameters(), 0.05, weight_decay=0.1)
        losses.append([])
        for _ in range(2):
            for one in found:
                optimizer.zero_grad()
                rows = run(one.x_dict, one.edge_index_dict)[: one["user"].batch_size]
                loss = nn.functional.cross_entropy(rows, one["user"].y[: len(rows)])
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert len(set(losses[0])) == 6


def test_convolutions_without_sizes_are_given_some_first(batch):
    """Two are never called: no edge leads to tags, so that only their given rows could be read."""

    class Drops(Layers):
        def forward(self, x_dict, edge_index_dict):
            h = self.convs[0](x_dict, edge_index_dict)
            return self.convs[1](h, {n: e for n, e in edge_index_dict.items() if n != OF})["user"]

    torch.manual_seed(0)
    model = Drops(sage).double()
    fast = accelerate(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccelerateWarning)
        for _ in range(3):
            out = fast(batch.x_dict, batch.edge_index_dict)
    assert fast.plain is None
    assert "training: accelerated" in fast.explain()
    assert out.shape[0] == batch["user"].batch_size
    expected = model(batch.x_dict, batch.edge_index_dict)
    assert_near(out, expected[: batch["user"].batch_size])


@pytest.mark.parametrize("takes", ["dicts", "batch"])
def test_models_that_trim_by_themselves(takes, batch):
    from torch_geometric.utils import trim_to_layer

    class Trims(Layers):
        def forward(self, x_dict, edge_index_dict, nodes=None, edges=None):
            for place, conv in enumerate(self.convs):
                if nodes is not None:
                    x_dict, edge_index_dict, _ = trim_to_layer(
                        place, nodes, edges, x_dict, edge_index_dict
                    )
                made = conv(x_dict, edge_index_dict)
                x_dict = {**x_dict, **{name: rows.relu() for name, rows in made.items()}}
            return x_dict["user"]

    class Named(Trims):
        def forward(self, x_dict, edge_index_dict, num_sampled_nodes_dict, num_sampled_edges_dict):
            counts = num_sampled_nodes_dict, num_sampled_edges_dict
            return super().forward(x_dict, edge_index_dict, *counts)

    class Takes(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, batch):
            counts = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
            return self.inner(batch.x_dict, batch.edge_index_dict, *counts)

    torch.manual_seed(0)
    model = Named(sage).double() if takes == "dicts" else Takes(Trims(sage).double())
    fast, seeds = accelerate(model), batch["user"].batch_size
    fast(batch)
    out = fast(batch)
    assert fast.plain is None, fast.plain
    assert "kernels" in fast.explain()
    inner = model if takes == "dicts" else model.inner
    counts = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
    expected = inner(batch.x_dict, batch.edge_index_dict, *counts)
    assert_near(out[:seeds], expected[:seeds])


def test_dropout_is_drawn_in_training_and_not_in_evaluation(batch):
    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.drop = Layers(sage), nn.Dropout(0.5)

        def forward(self, x_dict, edge_index_dict):
            return self.drop(self.layers(x_dict, edge_index_dict))

    model = started(Drops(), batch)
    fast, seeds = accelerate(model), batch["user"].batch_size
    torch.manual_seed(5)
    out = fast(batch.x_dict, batch.edge_index_dict)
    assert (out == 0).any()
    torch.manual_seed(5)
    scores = model.layers(batch.x_dict, batch.edge_index_dict)[:seeds]
    assert_near(out, model.drop(scores))  # drawn for the same rows
    fast.eval()
    assert_near(fast(batch), model(batch.x_dict, batch.edge_index_dict)[:seeds])
    assert fast.explain().count("accelerated") == 2


@pytest.mark.slow
def test_compiled(batch):
    model = started(Layers(sage), batch)
    expected = model(batch.x_dict, batch.edge_index_dict)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.compile(accelerate(model), backend="eager")
        got = made(batch.x_dict, batch.edge_index_dict)
    seeds = batch["user"].batch_size
    assert_near(got[:seeds], expected[:seeds])


def test_norms_over_the_rows_needed(batch):
    class Normed(Layers):
        def __init__(self):
            super().__init__(sage)
            self.norms = nn.ModuleDict({n: nn.BatchNorm1d(6) for n in ("user", "item")})

        def forward(self, x_dict, edge_index_dict):
            h = self.convs[0](x_dict, edge_index_dict)
            h = {**x_dict, **{name: self.norms[name](rows) for name, rows in h.items()}}
            return self.convs[1](h, edge_index_dict)["user"]

    model = started(Normed(), batch)
    fast = assert_same(model, batch, plain=True)
    assert "norms.item (BatchNorm1d) mixes nodes" in fast.plain or "norms.user" in fast.plain
    assert_same(model.eval(), batch)
    needed = accelerate(started(Normed(), batch).train(), norms="needed")
    out = needed(batch.x_dict, batch.edge_index_dict)
    assert out.shape[0] == batch["user"].batch_size
    assert "norms.user: statistics over the rows" in needed.explain()


def test_gradients_reach_what_they_reach_in_the_plain_model(batch):
    """None and zeros are not the same to an optimizer with weight decay."""
    model = started(Layers(sage), batch)
    fast = accelerate(copy.deepcopy(model))
    _, mine = outcome(fast, batch, "user")
    _, theirs = outcome(model, batch, "user")
    assert mine.keys() == theirs.keys()
    dead = f"convs.1.convs.<{'___'.join(BUYS)}>.lin_l.weight"
    assert dead not in mine
    assert f"convs.1.convs.<{'___'.join(LIKES)}>.lin_l.weight" in mine
    assert f"convs.1.convs.<{'___'.join(BOUGHT)}>.lin_l.weight" in mine
