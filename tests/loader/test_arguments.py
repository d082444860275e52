"""Loader: its arguments, understood or refused by name."""

import re
from dataclasses import replace as replaced

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from foregather import BatchContents, BudgetError, InputError, MissingDependencyError
from foregather.graph import Graph
from foregather.loader.batches.batch import Batch
from foregather.loader.loader import Loader
from foregather.sampling import Neighbor
from tests.loader.graphs import same_batch
from tests.loader.test_loader import GRAPH, ONCE, plain, plain_as_pyg


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"time_attr": "t"},
            "time_attr='t' of PyG is not supported; a Graph has no times; use HeteroLoader",
        ),
        ({"num_workers": 4}, "num_workers=4 .* use threads= and prefetch="),
        ({"weight_attr": "w"}, "weight_attr='w' .* use weight_attr='edge_weight'"),
        ({"weight_attr": "edge_weight"}, "set weights= on the sampler"),
        ({"subgraph_type": "induced"}, "subgraph_type"),
        ({"disjoint": True}, "disjoint trees are sampled by Neighbor and Labor"),
        ({"disjoint": True, "memory": "1GB"}, "disjoint trees are sampled by Neighbor and Labor"),
        ({"disjoint": 2}, "disjoint is 2, expected one of False, True"),
        ({"input_time": torch.zeros(3)}, "input_time"),
        ({"num_neighbors": [2]}, "both given"),
        ({"sampler": None}, "neither num_neighbors nor sampler"),
        ({"sampler": object()}, "sampler"),
        ({"replace": True}, "options of the sampler"),
        ({"expand": "twice"}, "expand is 'twice'"),
        ({"labels": "some"}, "labels is 'some'"),
        ({"norm": "sage"}, "norm is 'sage'"),
        ({"edge_index": "sparse"}, "edge_index is 'sparse'"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"bulk": 0}, "bulk is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_arguments_are_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        plain(**options)


def test_arrays_that_are_not_in_batches_are_named():
    assert plain().explain() == "all of the graph is in memory"
    graph = replaced(GRAPH, extra={"mapping": np.arange(120), "age": np.arange(120)})
    loader = plain(graph)
    assert loader.explain().endswith("\nnot in batches: age, mapping (look them up by n_id)")
    batch = next(iter(loader))
    assert not hasattr(batch, "age") and not hasattr(batch, "mapping")


def test_other_arguments():
    plain(num_workers=0, persistent_workers=False, disjoint=False, time_attr=None)
    with pytest.raises(TypeError, match="nonsense"):
        plain(nonsense=1)
    with pytest.raises(InputError, match="graph is a Data, expected a Graph; use"):
        Loader(Data(), sampler=ONCE)
    with pytest.raises(InputError, match="epoch is -1"):
        plain().set_epoch(-1)
    loader = plain()
    assert (loader.batch_size, loader.data, loader.graph) == (8, GRAPH, GRAPH)
    assert loader.dataset == range(50) and loader.sampler is ONCE


def test_memory_is_judged_beforehand():
    with pytest.raises(BudgetError, match="7 batches per bulk and 2 ahead need") as caught:
        plain(memory=2000)
    minimum = int(re.search(r"need .* \((\d+) bytes\)", str(caught.value)).group(1))
    assert len(list(plain(memory=minimum))) == 7  # what the message says is enough
    with pytest.raises(BudgetError, match="give more"):
        plain(memory=minimum - 1)
    assert plain(bulk="auto", memory="1GB").bulk == 7
    assert plain(bulk="auto", memory=minimum - 1).bulk < 7
    assert plain(bulk=3, memory="1GB").bulk == 3


def test_without_pyg(monkeypatch):
    monkeypatch.setattr("foregather.loader.options.has_pyg", lambda: False)
    monkeypatch.setattr("foregather.loader.batches.pyg_batch.has_pyg", lambda: False)
    assert isinstance(next(iter(plain_as_pyg())), Batch)
    for options in ({"pyg": True}, {"edge_index": "EdgeIndex"}):
        with pytest.raises(MissingDependencyError, match=r"foregather\[pyg\]"):
            plain_as_pyg(**options)


def test_fan_outs_make_the_built_in_sampler():
    for a, b in zip(plain(sampler=None, num_neighbors=[4, 3, 2]), plain(), strict=True):
        assert same_batch(a, b)


def test_weight_attr_samples_by_the_weights_of_the_graph():
    rng = np.random.default_rng(0)
    pairs, weight = rng.integers(0, 40, (2, 600)), rng.random(600)
    graph = Graph.from_edge_index(pairs, 40, edge_weight=weight)
    options = {
        "num_neighbors": [3, 2],
        "batch_size": 8,
        "contents": BatchContents(pyg=False),
        "seed": 5,
    }
    loader = Loader(graph, weight_attr="edge_weight", **options)
    assert loader.sampler == Neighbor([3, 2], weights=True)
    want = Neighbor([3, 2], weights=graph.edge_weight).sample_bulk(graph, [np.arange(8)], seed=5)
    batch = next(iter(loader))
    assert batch.e_id.tolist() == want[0].edge.tolist()
    without = Loader(Graph.from_edge_index(pairs, 40), weight_attr="edge_weight", **options)
    with pytest.raises(InputError, match="the graph has no edge_weight"):
        next(iter(without))


@pytest.mark.parametrize("given", [5, 2.5, "10,5", b"ab"])
def test_fan_outs_that_are_no_list(given):
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match=r"num_neighbors is .*, expected fan-outs, one per layer"):
        Loader(graph, given)


@pytest.mark.parametrize("given", [[1.5], [None], ["3"], [[1]], [2**70], [0.0], [np.nan]])
def test_fan_outs_that_are_no_numbers(given):
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError):
        Loader(graph, given)
