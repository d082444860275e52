"""A sampler that was used on one graph gives on another what a new sampler gives there."""

import copy
import gc
import os
import pickle
import threading

import numpy as np
import pytest

from foregather import Graph
from foregather.graph.load import load
from foregather.sampling import FastGCN, Full, Labor, Ladies, Neighbor, RandomWalk, Saint
from foregather.sampling.kernel_cache import GraphCache
from tests.helpers_sampling import random_graph

SEEDS = [np.arange(4), np.arange(3, 9)]
SPLITS = {"train": np.arange(12)}


def graphs() -> list[Graph]:
    """Two of one size but with other edges, and a larger one."""
    sizes = [(40, 200, 0), (40, 200, 1), (60, 300, 2)]
    return [random_graph(nodes, edges, seed, weighted=True) for nodes, edges, seed in sizes]


SAMPLERS = {
    "neighbor": lambda: Neighbor([3, 2]),
    "neighbor per layer": lambda: Neighbor([3, 2], expand="per-layer"),
    "neighbor weighted": lambda: Neighbor([3, 2], weights=True),
    "neighbor replace": lambda: Neighbor([3, 2], replace=True, weights=True),
    "labor": lambda: Labor([3, 2]),
    "ladies": lambda: Ladies([8, 8]),
    "fastgcn": lambda: FastGCN([8, 8]),
    "full": lambda: Full(2),
    "walk": lambda: RandomWalk(3),
    "saint node": lambda: Saint("node", 10, coverage=5),
    "saint edge": lambda: Saint("edge", 10, coverage=5),
    "saint walk": lambda: Saint("walk", 4, coverage=5),
}


def digest(sampler, graph, seed=0):
    return sampler.sample_bulk(graph, SEEDS, seed=seed).digest


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_on_a_second_graph_is_like_a_new_one(name):
    made, used = graphs(), SAMPLERS[name]()
    true = [digest(SAMPLERS[name](), graph) for graph in made]
    assert len(set(true)) == len(true)  # else nothing could be told apart
    for which in (0, 1, 0, 2, 1, 2, 0):
        assert digest(used, made[which]) == true[which]


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_equal_graph_that_is_another_object_is_sampled_anew(name):
    first, again = graphs()[0], graphs()[0]
    used = SAMPLERS[name]()
    assert digest(used, first) == digest(used, again) == digest(SAMPLERS[name](), first)


@pytest.mark.parametrize("name", SAMPLERS)
def test_copies_of_a_used_sampler_are_like_new_ones(name):
    first, second, _ = graphs()
    used = SAMPLERS[name]()
    digest(used, first)
    for copied in (copy.copy(used), copy.deepcopy(used), pickle.loads(pickle.dumps(used))):
        assert digest(copied, second) == digest(SAMPLERS[name](), second)
        assert digest(used, first) == digest(SAMPLERS[name](), first)


@pytest.mark.parametrize("kind", ["node", "edge", "walk"])
def test_the_counts_of_saint_are_those_of_the_graph_and_the_seed(kind):
    made, used = graphs(), Saint(kind, 6, coverage=5)
    for graph, seed in [(made[0], 0), (made[1], 0), (made[1], 7), (made[0], 7), (made[2], 0)]:
        new = Saint(kind, 6, coverage=5)
        expected = new.loss_weight(graph, seed=seed)
        np.testing.assert_array_equal(used.loss_weight(graph, seed=seed), expected)
        assert digest(used, graph, seed) == digest(new, graph, seed)


def test_a_graph_that_went_is_not_taken_for_one_in_its_place():
    used = Neighbor([3, 2])
    for seed in range(20):  # a new graph may lie where the last one lay
        graph = random_graph(40, 200, seed)
        assert digest(used, graph) == digest(Neighbor([3, 2]), graph)
        del graph


# ---- the cache itself ----------------------------------------------------------------------------


class Made:
    """What a cache holds, with the number of edges it was made for."""

    def __init__(self, graph: Graph) -> None:
        self.edges = graph.num_edges


@pytest.mark.parametrize("shared", [False, True])
def test_what_was_made_goes_with_the_graph(shared):
    cache, made = GraphCache(shared), graphs()
    held = [cache.get(graph, Made) for graph in made]
    assert len(cache) == (3 if shared else 1)
    assert cache.get(made[2], Made) is held[2]
    assert (cache.get(made[0], Made) is held[0]) == shared
    del made
    gc.collect()
    assert len(cache) == 0


@pytest.mark.parametrize("shared", [False, True])
def test_other_arguments_copies_and_forks_begin_anew(shared, monkeypatch):
    cache, graph = GraphCache(shared), graphs()[0]
    first = cache.get(graph, Made, other=1)
    assert cache.get(graph, Made, other=1) is first
    assert len(copy.copy(cache)) == len(pickle.loads(pickle.dumps(cache))) == 0
    assert copy.deepcopy(cache).get(graph, Made, other=1) is not first
    second = cache.get(graph, Made, other=2)
    assert second is not first and cache.get(graph, Made, other=2) is second
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert cache.get(graph, Made, other=2) is not second


def test_a_graph_with_other_arrays_in_memory_is_the_same_graph_where_that_is_asked(tmp_path):
    graphs()[0].save(tmp_path / "g")
    graph = Graph.open(tmp_path / "g")
    twin = load(graph, ["topology"])
    assert twin is not graph
    exact, alike = GraphCache(), GraphCache(shared=True)
    assert exact.get(graph, Made) is not exact.get(twin, Made)
    assert alike.get(graph, Made, alike=True) is alike.get(twin, Made, alike=True)
    del graph
    gc.collect()
    assert len(alike) == 1  # the twin is there
    del twin
    gc.collect()
    assert len(alike) == 0


def test_several_threads_never_get_what_was_made_for_another_graph():
    cache, made, wrong = GraphCache(), graphs(), []

    def ask(graph):
        for _ in range(300):
            if cache.get(graph, Made).edges != graph.num_edges:
                wrong.append(graph)

    threads = [threading.Thread(target=ask, args=(graph,)) for graph in made[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
