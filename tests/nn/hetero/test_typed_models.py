"""nn/hetero: models equal PyG's own convolutions, and trimming changes no score."""

import numpy as np
import pytest
import torch
from torch_geometric.nn import HeteroConv, HGTConv, RGCNConv, SAGEConv

from foregather import HeteroLoader, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.nn.hetero.by_name import TYPED_MODELS, make_typed_model
from foregather.nn.hetero.hops import Hops
from foregather.nn.hetero.schema import Schema, TypeSchema
from foregather.train.hetero.describe_arrays import describe_arrays, set_numbers
from tests.some import some
from tests.train.hetero.shop import shop
from tests.train.hetero.tasks import classes_of


def made(kind, layers=2, graph=None, **options):
    graph = graph or shop()
    task = classes_of(graph, "user", 3)
    schema = describe_arrays(graph, task)
    torch.manual_seed(1)
    model = make_typed_model(kind, schema, 8, layers, options=options).double().eval()
    set_numbers(model, graph)
    return graph, model


def untrimmed(batch):
    """The same batch without counts of layers."""
    other = batch.clone()
    for store in other.stores:
        for name in ("num_sampled_nodes", "num_sampled_edges"):
            if name in store:
                del store[name]
    return other


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("fanouts", [[3, 2], [4, 0], [-1, -1, -1]])
@pytest.mark.parametrize("kind", TYPED_MODELS)
def test_trimming_changes_no_score(kind, fanouts, layers):
    if layers > len(fanouts):  # a leaf of the sample has no in-edges in either
        fanouts = [*fanouts, 2]
    graph, model = made(kind, layers)
    loader = HeteroLoader(graph, fanouts, ("user", np.arange(40)), 8)
    for batch in some(loader):
        rows = batch["user"].batch_size
        whole = untrimmed(batch)
        assert len(model(batch)) == rows
        assert torch.allclose(model(batch), model(whole)[:rows], atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("kind", TYPED_MODELS)
def test_layers_compute_only_what_later_ones_need(kind):
    graph, model = made(kind, 2)
    batch = next(iter(HeteroLoader(graph, [4, 4], ("user", np.arange(60)), 10)))
    seen = []
    for layer in model.layers:
        layer.register_forward_hook(lambda _, args, out: seen.append((args, out)))
    model(batch)
    hops = Hops.of(batch, model.schema)
    for place, (args, out) in enumerate(some(seen)):
        assert [len(rows) for rows in args[0]] == hops.nodes_within(2 - place)
        assert [pairs.shape[1] for pairs in args[1]] == hops.edges_within(2 - place)
        assert [len(rows) for rows in out] == hops.nodes_within(1 - place)
    assert hops.nodes_within(2) == [batch[name].num_nodes for name in model.schema.node_types]


def parts_of(model, batch):
    names, edges = model.schema.node_types, model.schema.edges
    counts = [batch[name].num_nodes for name in names]
    x = model.encode(batch, counts)
    return names, counts, x, [batch[name].edge_index for name in edges]


def test_sage_is_pygs_hetero_conv():
    graph, model = made("hetero-sage", 1)
    batch = next(iter(HeteroLoader(graph, [-1], ("user", np.arange(50)), 50)))
    names, counts, x, edges = parts_of(model, batch)
    layer = model.layers[0]
    convs = {name: SAGEConv((8, 8), 8).double() for name in model.schema.edges}
    for mine, theirs in zip(layer.convs, convs.values(), strict=True):
        theirs.load_state_dict(mine.state_dict())
    theirs = HeteroConv(convs, aggr="sum")(
        dict(zip(names, x, strict=True)), dict(zip(model.schema.edges, edges, strict=True))
    )
    for name, rows in zip(names, layer(x, edges, counts), strict=True):
        assert torch.allclose(rows, theirs[name], atol=1e-12)


@pytest.mark.parametrize("bases", [0, 2])
def test_rgcn_is_pygs_rgcn(bases):
    rng = torch.Generator().manual_seed(0)
    edges = tuple(("node", f"r{number}", "node") for number in range(3))
    schema = Schema("node", 2, (TypeSchema("node", 20, (), False),), edges)
    model = make_typed_model("rgcn", schema, 6, 1, options={"bases": bases}).double()
    layer = model.layers[0]
    pairs = [torch.randint(0, 20, (2, 30), generator=rng) for _ in edges]
    conv = RGCNConv(6, 6, 3, num_bases=bases or None).double()
    with torch.no_grad():
        conv.weight.copy_(layer.weight)
        if bases:
            conv.comp.copy_(layer.mix)
        conv.root.copy_(layer.own[0].weight.T)
        conv.bias.copy_(layer.own[0].bias)
    x = torch.randn(20, 6, dtype=torch.float64, generator=rng)
    kinds = torch.arange(3).repeat_interleave(30)
    assert torch.allclose(
        layer([x], pairs, [20])[0], conv(x, torch.cat(pairs, 1), kinds), atol=1e-12
    )


def test_hgt_is_pygs_hgt():
    graph, model = made("hgt", 1, heads=2)
    batch = next(iter(HeteroLoader(graph, [-1], ("user", np.arange(50)), 50)))
    _, counts, x, edges = parts_of(model, batch)
    own = model.layers[0]
    conv = HGTConv(8, 8, (own.types, own.edges), 2).double()
    conv.load_state_dict(own.conv.state_dict())
    theirs = conv(dict(zip(own.types, x, strict=True)), dict(zip(own.edges, edges, strict=True)))
    for place, rows in enumerate(own(x, edges, counts)):
        assert torch.allclose(rows, theirs[own.types[place]], atol=1e-12)


@pytest.mark.parametrize("kind", TYPED_MODELS)
def test_a_batch_without_any_edge(kind):
    graph, model = made(kind)
    batch = next(iter(HeteroLoader(graph, [0, 0], ("user", np.arange(5)), 5)))
    found = model(batch)
    assert found.shape == (5, 3) and bool(found.isfinite().all())


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("rgcn", {"heads": 2}, "rgcn takes bases"),
        ("hgt", {"heads": 3}, "hgt cannot be made with .* hidden 8"),
        ("rgcn", {"bases": "two"}, "bases = 'two', expected a count"),
        ("gat", {}, "the model is 'gat', expected hetero-sage, hgt, rgcn"),
    ],
)
def test_models_that_are_refused(kind, options, words):
    with pytest.raises(InputError, match=words):
        made(kind, **options)


@pytest.mark.filterwarnings("ignore:There exist type names")
def test_names_of_any_kind_are_no_problem():
    """Names that PyG joins by "__" to the same text, or that no module could have."""
    nodes = {
        "a": NodeTable.of(4, labels=[0, 1, 2, 0]),
        "a__b": NodeTable.of(3),
        "x.y": NodeTable.of(2),
    }
    edges = {
        ("a__b", "c", "a"): Relation.of([[0, 1], [0, 1]], 3, 4),
        ("a", "b__c", "a"): Relation.of([[0, 1], [2, 3]], 4, 4),
        ("x.y", "type", "a"): Relation.of([[0, 1], [2, 3]], 2, 4),
    }
    graph = HeteroGraph(nodes, edges)
    task = classes_of(graph, "a", 3)
    for kind in some(TYPED_MODELS):
        model = make_typed_model(kind, describe_arrays(graph, task), 8, 2)
        batch = next(iter(HeteroLoader(graph, [-1, -1], "a", 4)))
        assert model(batch).shape == (4, 3)
