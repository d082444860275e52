"""LABOR and layer-wise samplers in HeteroLoader: their weights arrive, their layers can be used."""

import copy
import pickle

import numpy as np
import pytest
import torch

from foregather import Graph, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.loader.loader import Loader
from foregather.sampling import (
    FastGCN,
    HeteroFastGCN,
    HeteroLabor,
    HeteroLadies,
    Labor,
    Ladies,
)
from tests.loader.hetero.batches import same_data, shop
from tests.some import some

GRAPH = shop()
RULES = {
    "labor": HeteroLabor([4, 3]),
    "labor in trees": HeteroLabor([4, 3], disjoint=True),
    "labor with time": HeteroLabor([4, 3], time="node"),
    "labor without weights": HeteroLabor([4, 3], debias=None),
    "ladies": HeteroLadies([9, 7]),
    "ladies without weights": HeteroLadies([9, 7], debias=None),
    "fastgcn": HeteroFastGCN([9, 7], "reference"),
}


def loader(rule, **options):
    given = {"input_nodes": ("user", "train"), "batch_size": 7, "shuffle": True, "seed": 3}
    more = {"input_time": np.arange(30) * 3} if rule.time is not None else {}
    return HeteroLoader(GRAPH, sampler=rule, **{**given, **more, **options})


@pytest.mark.parametrize("name", RULES)
def test_weights_of_the_sampler_are_edge_weight(name):
    rule, met = RULES[name], 0
    made = loader(rule)
    for number, batch in enumerate(some(made)):
        dealt = made._maker.deal(0, number, 1)
        sample = made._maker.sample(dealt, 0, number)[0]
        for link, edges in sample.edges.items():
            store, stored = batch[link], GRAPH.relation(link, rule.time).weights
            met += len(edges.row)
            if edges.weight is not None:
                assert torch.equal(store.edge_weight, torch.from_numpy(np.array(edges.weight)))
            elif stored is not None:
                assert torch.equal(store.edge_weight, torch.from_numpy(stored[edges.edge]))
            else:
                assert "edge_weight" not in store
            assert (rule.debias is None) == (edges.weight is None)
            assert ("layers" in store) == ("edge_index" not in store) == (rule.expand != "once")
    assert met > 50


@pytest.mark.parametrize("name", RULES)
def test_threads_bulks_and_positions_change_nothing(name):
    rule = RULES[name]
    want = list(loader(rule))
    for options in ({"threads": 1}, {"threads": 3, "bulk": 1}, {"prefetch": 0, "bulk": 5}):
        assert all(map(same_data, some(loader(rule, **options)), want))
    halfway, rest = loader(rule), loader(pickle.loads(pickle.dumps(rule)))
    turn = iter(halfway)
    next(turn), next(turn)
    rest.load_state_dict(copy.deepcopy(halfway.state_dict()))
    assert all(map(same_data, some(rest), want[2:]))


@pytest.mark.parametrize("rule", [HeteroLadies([9, 7]), HeteroFastGCN([9, 7])], ids=repr)
def test_layers_are_used_as_the_page_says(rule):
    """Sums by layer equal the sums of the sample, and sizes fit."""
    made = loader(rule)
    batch = next(iter(made))
    sample = made._maker.sample(made._maker.deal(0, 0, 1), 0, 0)[0]
    for link in some(batch.edge_types):
        layers, edges = batch[link].layers, sample.edges[link]
        assert len(layers) == 2
        end = len(edges.row)
        for layer, part in zip((1, 0), layers, strict=True):
            begin = end - edges.num_edges[layer]
            own, end = slice(begin, end), begin
            assert part.edge_index[0].tolist() == edges.row[own].tolist()
            assert part.edge_index[1].tolist() == edges.col[own].tolist()
            assert part.weight.tolist() == edges.weight[own].tolist()
            assert part.e_id.tolist() == batch[link].e_id[own].tolist()
            assert part.size == (
                sample.nodes[link[0]].num_nodes[layer + 1],
                sample.nodes[link[2]].num_nodes[layer],
            )
            if "edge_attr" in batch[link]:
                assert torch.equal(part.edge_attr, batch[link].edge_attr[own])
        assert end == 0
    moved = batch.to("cpu")  # PyG goes through stores, lists and tuples by itself
    assert type(moved[link].layers[0]) is type(batch[link].layers[0])


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        (HeteroLabor([4, 3]), Labor([4, 3])),
        (HeteroLadies([9, 7]), Ladies([9, 7])),
        (HeteroFastGCN([9, 7]), FastGCN([9, 7])),
    ],
    ids=repr,
)
def test_one_type_has_the_batches_of_the_plain_loader(typed, plain):
    rng = np.random.default_rng(0)
    pairs, weights = rng.integers(0, 80, (2, 700)), rng.random(700)
    flat = Graph.from_edge_index(pairs, 80, edge_weight=weights)
    relation = Relation.of(pairs, 80, 80, weights=weights)
    graph = HeteroGraph({"node": NodeTable(80)}, {("node", "to", "node"): relation})
    options = {"batch_size": 9, "shuffle": True, "seed": 5}
    ones = HeteroLoader(graph, sampler=typed, input_nodes="node", **options)
    others = Loader(flat, sampler=plain, **options)
    for one, other in some(zip(ones, others, strict=True)):
        assert torch.equal(one["node"].n_id, other.n_id)
        store = one["node", "to", "node"]
        assert torch.equal(store.edge_weight, other.edge_weight)
        if typed.expand == "once":
            assert torch.equal(store.edge_index, other.edge_index)
            continue
        for layer, wanted in some(zip(store.layers, other.layers, strict=True)):
            assert torch.equal(layer.edge_index, wanted.edge_index)
            assert torch.equal(layer.weight, wanted.weight) and layer.size == wanted.size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": HeteroLadies([5]), "disjoint": True}, "disjoint is an option of the sampler"),
        ({"sampler": HeteroLadies([5]), "time": "node"}, "time is an option of the sampler"),
        ({"sampler": HeteroLadies([5]), "input_time": [0] * 30}, "input_time was given, but"),
        ({"sampler": HeteroLabor([5]), "num_neighbors": [5]}, "both given"),
        ({"sampler": HeteroLabor({("a", "b", "c"): [5]})}, "no relation"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        HeteroLoader(GRAPH, **{"input_nodes": ("user", "train"), "batch_size": 7, **options})
