"""Hot rows: whole lists in memory beside the blocks; the same samples, fewer bytes."""

import numpy as np
import pytest

from foregather import Graph
from foregather.errors import InputError
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from foregather.sampling.disk import DiskTopology
from foregather.sampling.hot import best_rows, count_named, scores
from tests.some import some


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "g"
    synthesize(folder, 60_000, degree=24, features=2, classes=3, seed=5)
    return Graph.open(folder)


def bulks(graph, count=6):
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    return [np.split(order[k * 64 : (k + 1) * 64], 2) for k in range(count)]


def memory_of(graph, share):
    with DiskTopology(graph, 1 << 28) as one:
        return one.shares()["least"] + int(graph.indices.nbytes * share)


@pytest.mark.parametrize("sampler", [Neighbor([5, 3]), Neighbor([4, 4], replace=True)])
@pytest.mark.parametrize("hot", [0.0, 0.5, 1.0])
def test_samples_are_those_of_memory(graph, sampler, hot):
    with DiskTopology(graph, memory_of(graph, 0.4), hot=hot) as topology:
        for number, seeds in enumerate(some(bulks(graph))):
            options = {"seed": 3, "first_batch": 2 * number, "threads": 2}
            ours = topology.sample_bulk(sampler, seeds, **options)
            assert ours.digest == sampler.sample_bulk(graph, seeds, **options).digest
        counters, shares = topology.counters(), topology.shares()
        assert counters["planned_bytes"] == counters["bytes"]
        assert counters["planned_requests"] == counters["requests"]
        assert counters["hits"] + counters["misses"] == counters["picks"]
        assert (counters["hot_hits"] > 0) == (counters["hot_rows"] > 0) == (hot > 0)
        assert counters["hot_held"] + 8 * counters["hot_rows"] <= shares["hot"]
        assert shares["hot"] + shares["cache"] < memory_of(graph, 0.4) - shares["least"]


def test_they_save_bytes(graph):
    read = {}
    for hot in (0.0, 1.0):
        with DiskTopology(graph, memory_of(graph, 0.5), hot=hot, gap=0) as topology:
            for number, seeds in enumerate(bulks(graph, 12)):
                topology.sample_bulk(Neighbor([5, 3]), seeds, seed=3, first_batch=2 * number)
            counters = topology.counters()
            read[hot] = counters["bytes"] - counters["hot_bytes"]
    assert read[1.0] < read[0.0]


def test_the_rows_with_the_best_scores_are_chosen(graph):
    named = count_named(graph)
    assert np.array_equal(named, np.bincount(np.asarray(graph.indices), minlength=len(named)))
    degree = np.diff(np.asarray(graph.indptr))
    worth = scores(named, degree, 5, 1024)
    for memory in (0, 1000, 100_000, 1 << 40):
        rows = best_rows(graph, named, 5, memory)
        assert len(set(rows.tolist())) == len(rows)
        taken = int((degree[rows] * 4 + 16).sum())
        assert taken <= memory
        rest = np.setdiff1d(np.flatnonzero((worth > 0) & (degree > 0)), rows)
        if memory == 1 << 40:
            assert len(rest) == 0
        elif len(rows):  # one percent apart at most, and no room for another of those left out
            assert worth[rows].min() >= 0.98 * worth[rest].max()
            assert memory - taken < 4 * degree.max() + 16


def test_a_short_list_is_worth_one_block_however_many_are_picked():
    named, degree = np.array([8, 8, 8]), np.array([4, 8, 4096])
    assert np.allclose(scores(named, degree, 4, 1024)[:2], [2, 1], rtol=0.01)
    assert scores(named, degree, 4, 1024)[2] == 8 * 4 / 4096


def test_what_has_no_room_is_not_held(graph):
    with DiskTopology(graph, memory_of(graph, 0.02), hot=1.0) as topology:
        assert topology.shares()["hot"] == 0
        topology.sample_bulk(Neighbor([3]), bulks(graph, 1)[0], seed=0)
        assert topology.counters()["hot_scanned"] == 0
    with pytest.raises(InputError, match="hot is 2"):
        DiskTopology(graph, memory_of(graph, 0.1), hot=2)


def test_rows_that_are_not_nodes_are_refused(graph):
    with DiskTopology(graph, memory_of(graph, 0.4)) as topology:
        with pytest.raises(InputError, match="row 60000 is to be held"):
            topology._kernel.hold(np.array([1, 60_000]))
        seeds = bulks(graph, 1)[0]
        ours = topology.sample_bulk(Neighbor([3, 3]), seeds, seed=0)
        assert ours.digest == Neighbor([3, 3]).sample_bulk(graph, seeds, seed=0).digest
