"""Which typed batches are accelerated: counts by every way, other loaders, odd shapes."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.interop.neighbor_loader import NeighborLoader
from foregather.nn import accelerate
from tests.nn.accelerate_cases import assert_near
from tests.nn.typed.typed_cases import (
    BOUGHT,
    BUYS,
    LIKES,
    OF,
    RELATIONS,
    TYPES,
    Layers,
    assert_same,
    in_double,
    shop,
    started,
    typed_batches,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


def sage(name, width):
    return pyg.SAGEConv((-1, -1), width)


@pytest.fixture(scope="module")
def batch():
    return typed_batches(shop(), [4, 3])[0]


@pytest.fixture
def model(batch):
    return started(Layers(sage), batch)


class Counted(Layers):
    """Takes counts, and does nothing with them."""

    def forward(self, x_dict, edge_index_dict, num_sampled_nodes_dict=None, **more):
        assert more.keys() <= {"num_sampled_edges_dict"}
        return super().forward(x_dict, edge_index_dict)


class Takes(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, batch):
        return self.inner(batch.x_dict, batch.edge_index_dict)


def test_counts_by_every_way(batch, model):
    seeds = batch["user"].batch_size
    expected = model(batch.x_dict, batch.edge_index_dict)[:seeds]
    fresh = {name: edges.clone() for name, edges in batch.edge_index_dict.items()}
    counts = {
        name: getattr(batch, name) for name in ("num_sampled_nodes_dict", "num_sampled_edges_dict")
    }
    counted = Counted(sage).double()
    counted.load_state_dict(model.state_dict())
    calls = [
        (model, lambda fast: fast(batch)),
        (model, lambda fast: fast(batch.x_dict, batch.edge_index_dict)),
        (model, lambda fast: fast(x_dict=batch.x_dict, edge_index_dict=batch.edge_index_dict)),
        (counted, lambda fast: fast(batch.x_dict, fresh, **counts)),
        (Takes(model), lambda fast: fast(batch)),
        (Takes(model), lambda fast: fast(batch.clone())),
    ]
    for made, call in some(calls):
        fast = accelerate(made)
        got = call(fast)
        assert fast.plain is None, fast.plain
        assert got.shape[0] == seeds
        assert_near(got, expected)


def test_without_counts_it_runs_plain(batch, model):
    fast = accelerate(model)
    fresh = {name: edges.clone() for name, edges in batch.edge_index_dict.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = fast(batch.x_dict, fresh)
    assert torch.equal(got, model(batch.x_dict, fresh))
    assert "how many nodes and edges" in fast.plain


@pytest.mark.parametrize("kind", ["bidirectional", "induced"])
def test_subgraphs_without_hops_run_plain(kind, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tags have no relation back
        one = typed_batches(shop(), [4, 3], subgraph_type=kind)[0]
    fast = accelerate(model)
    assert torch.equal(fast(one), model(one.x_dict, one.edge_index_dict))
    assert "how many nodes and edges" in fast.plain


@pytest.mark.parametrize("change", ["nodes", "edges", "order", "length", "type", "negative"])
def test_counts_that_do_not_fit_are_not_used(change, batch, model):
    one = copy.deepcopy(batch)
    nodes, edges = one["user"].num_sampled_nodes, one[LIKES].num_sampled_edges
    if change == "nodes":
        nodes[0], nodes[1] = nodes[0] - 1, nodes[1] + 1
    elif change == "edges":
        edges[0], edges[1] = edges[0] - 1, edges[1] + 1
    elif change == "order":
        one[LIKES].edge_index = one[LIKES].edge_index.flip(1)
    elif change == "length":
        edges.append(0)
    elif change == "type":
        del one["tag"].num_sampled_nodes
    else:
        nodes[0], nodes[1] = nodes[0] + nodes[1] + 1, -1
    fast = accelerate(Takes(model))
    assert torch.equal(fast(one), model(one.x_dict, one.edge_index_dict))
    assert "do not fit" in fast.plain


def test_edges_changed_in_place_are_not_taken_for_the_batchs(model):
    one = typed_batches(shop(), [4, 3])[0]
    one[LIKES].edge_index[0, 0] = 0
    fast = accelerate(model)
    assert torch.equal(
        fast(one.x_dict, one.edge_index_dict), model(one.x_dict, one.edge_index_dict)
    )
    assert "how many nodes and edges" in fast.plain


def test_edges_under_another_name_are_not_taken_for_the_batchs(batch):
    """The counts of a relation are not those of another between the same types."""
    other = ("user", "follows", "user")
    model = started(Layers(sage), batch)
    made = Layers(sage, relations=[BUYS, BOUGHT, other, OF]).double()
    edges = {other if name == LIKES else name: e for name, e in batch.edge_index_dict.items()}
    made(batch.x_dict, edges)
    fast = accelerate(made)
    assert torch.equal(fast(batch.x_dict, edges), made(batch.x_dict, edges))
    assert "how many nodes and edges" in fast.plain
    assert model is not made


def test_edges_of_a_hop_in_another_order(batch, model):
    """Kernels need ascending targets; the modules' own code does not."""
    one = copy.deepcopy(batch)
    start, parts = 0, []
    for count in one[LIKES].num_sampled_edges:
        parts.append(torch.randperm(count) + start)
        start += count
    one[LIKES].edge_index = one[LIKES].edge_index[:, torch.cat(parts)]
    fast = accelerate(Takes(model))
    got = fast(one)
    assert fast.plain is None
    assert "its own code" in fast.explain()
    assert_near(got, model(one.x_dict, one.edge_index_dict)[: len(got)])


def test_some_relations_of_a_batch(batch):
    kept = {name: batch.edge_index_dict[name] for name in (BOUGHT, BUYS)}
    model = started(Layers(sage), batch)
    fast = accelerate(model)
    got = fast(batch.x_dict, kept)
    assert fast.plain is None
    assert got.shape[0] == batch["user"].batch_size
    assert_near(got, model(batch.x_dict, kept)[: len(got)])


@pytest.mark.parametrize("options", [{"disjoint": True}, {"time": "edge"}, {"replace": True}])
def test_trees_and_times(options, model):
    if "time" in options:
        rng = np.random.default_rng(0)
        pairs = rng.integers(0, 90, (2, 900))
        when = rng.integers(0, 50, 900)
        tables = {
            name: NodeTable.of(90, {"x": rng.random((90, width), np.float32)})
            for name, width in (("user", 9), ("item", 4))
        }
        edges = {
            BUYS: Relation.of(pairs, 90, 90, time=when),
            BOUGHT: Relation.of(pairs[::-1], 90, 90, time=when),
        }
        graph = HeteroGraph(tables, edges)
        options = options | {"input_time": rng.integers(20, 50, 90)}
        model = Layers(sage, relations=[BUYS, BOUGHT])
    else:
        graph = shop()
    found = typed_batches(graph, [3, 2], ("user", np.arange(90)), **options)
    model = started(model, found[0])
    for one in some(found):
        assert_same(model, one)


def test_batches_of_pygs_own_loader(model):
    pytest.importorskip("pyg_lib")
    from torch_geometric.loader import NeighborLoader as Theirs

    found = next(iter(Theirs(shop().to_pyg(), [4, 3], input_nodes="user", batch_size=25)))
    found = in_double(found)
    fast = accelerate(model)
    got = fast(found)
    assert fast.plain is None or "do not fit" in fast.plain, fast.plain
    assert_near(got[:25], model(found.x_dict, found.edge_index_dict)[:25])


def test_batches_as_pygs_own_loader_has_them(batch, model):
    """Other tensors, counts in the batch, edges of a hop not by target."""
    one = batch.clone()
    for name in RELATIONS:
        parts = one[name].edge_index.split(one[name].num_sampled_edges, dim=1)
        one[name].edge_index = torch.cat([part.flip(1) for part in parts], dim=1)
    fast = accelerate(Takes(model))
    got = fast(one)
    assert fast.plain is None
    assert_near(got, model(one.x_dict, one.edge_index_dict)[: len(got)])


def test_the_drop_in_loader(model):
    loader = NeighborLoader(shop().to_pyg(), [4, 3], input_nodes="user", batch_size=25)
    fast = accelerate(model)
    for one, _ in zip(loader, range(2), strict=False):
        in_double(one)
        got = fast(one.x_dict, one.edge_index_dict)
        assert fast.plain is None
        assert got.shape[0] == one["user"].batch_size
        assert_near(got, model(one.x_dict, one.edge_index_dict)[: len(got)])


def test_seeds_of_another_type():
    """Only users lead to items here, so that tags are reached in one hop and users in two."""
    found = typed_batches(shop(), [3, 3], "item", 20)
    model = started(Layers(sage, read="item"), found[0])
    for one in some(found[:3]):
        assert_same(model, one, read="item")


def test_types_without_nodes_and_relations_without_edges():
    rng = np.random.default_rng(0)
    tables = {
        name: NodeTable.of(number, {"x": rng.random((number, 5), np.float32)})
        for name, number in (("user", 60), ("item", 0), ("tag", 4))
    }
    edges = {
        BUYS: Relation.of(np.empty((2, 0), np.int64), 60, 0),
        BOUGHT: Relation.of(np.empty((2, 0), np.int64), 0, 60),
        LIKES: Relation.of(rng.integers(0, 60, (2, 300)), 60, 60),
        OF: Relation.of(np.empty((2, 0), np.int64), 4, 0),
        ("tag", "marks", "user"): Relation.of(np.array([[0, 1], [5, 50]]), 4, 60),
    }
    graph = HeteroGraph(tables, edges)
    found = typed_batches(graph, [3, 2], "user", 7)
    model = started(Layers(sage, relations=list(edges)), found[0])
    fast = accelerate(model)
    for one in some(found):
        got = fast(one.x_dict, one.edge_index_dict)
        assert fast.plain is None
        assert got.shape[0] == one["user"].batch_size
        assert_near(got, model(one.x_dict, one.edge_index_dict)[: len(got)])


def test_two_relations_that_share_their_edges_run_plain():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 60, (2, 300))
    again = ("user", "follows", "user")
    graph = HeteroGraph(
        {"user": NodeTable.of(60, {"x": rng.random((60, 5), np.float32)})},
        {LIKES: Relation.of(pairs, 60, 60), again: Relation.of(pairs, 60, 60)},
    )
    one = typed_batches(graph, [99, 99], "user", 7)[0]
    one[again].edge_index = one[LIKES].edge_index
    model = started(Layers(sage, relations=[LIKES, again]), one)
    fast = accelerate(Takes(model))
    assert torch.equal(fast(one), model(one.x_dict, one.edge_index_dict))
    assert "share the memory of their edges" in fast.plain


def test_a_batch_without_rows_of_a_type_that_the_model_makes_itself(batch):
    class Embeds(nn.Module):
        def __init__(self):
            super().__init__()
            self.tags, self.layers = nn.Embedding(30, 5), Layers(sage)

        def forward(self, batch):
            x_dict = {name: batch[name].x for name in TYPES[:2]}
            x_dict["tag"] = self.tags(batch["tag"].n_id)
            return self.layers(x_dict, batch.edge_index_dict)[: batch["user"].batch_size]

    torch.manual_seed(0)
    model = Embeds().double()
    model(batch)
    fast = accelerate(model)
    assert_near(fast(batch), model(batch))
    assert fast.plain is None, fast.plain
