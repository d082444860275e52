"""Disjoint trees from neighbour lists on disk: the bits of memory, and a budget held."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import InputError
from foregather.sampling import DiskTopology, Excluded, Labor, Ladies, Neighbor
from foregather.sampling.fused import leaves_out_anywhere
from foregather.sampling.on_disk.disk_habits import tree_bytes
from tests.helpers_sampling import assert_same, random_graph, skewed_graph

SAMPLERS = {
    "uniform": Neighbor([4, 3]),
    "again": Neighbor([5, -1], replace=True),
    "deep": Neighbor([2, 2, 2]),
    "weighted": Neighbor([4, 3], weights=True),
    "labor": Labor([4, 3], debias=None),
    "labor alike": Labor([3, 5], layer_dependency=True, debias="reference", batch_dependency=3),
}


def assert_same_trees(got, want):
    """The bits of samples, their trees too."""
    assert_same(got, want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.tree, other.tree)
        assert one.tree.dtype == other.tree.dtype


def left_out_of(graph, seeds, rng):
    """Edges of the seeds of trees and of others, twice, and what is no edge."""
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    targets, sources, trees = [], [], []
    for ids in seeds:
        tree = np.repeat(np.arange(len(ids)), 4)
        degree = np.diff(graph.indptr)[ids[tree]]
        own = graph.indptr[:-1][ids[tree]] + rng.integers(0, 1 << 30, len(tree)) % (degree + 1)
        any_edge = rng.integers(0, graph.num_edges, len(ids))
        edge = np.concatenate([own[degree > 0], own[degree > 0], any_edge]) % graph.num_edges
        other = rng.integers(0, graph.num_nodes, (2, len(ids)))
        targets.append(np.concatenate([target[edge], other[0]]))
        sources.append(np.concatenate([graph.indices[edge].astype(np.int64), other[1]]))
        places = [tree[degree > 0], tree[degree > 0], np.arange(len(ids)), np.arange(len(ids))]
        trees.append(np.concatenate(places))
    return Excluded.pairs(targets, sources, trees)


@settings(max_examples=40)
@given(data=st.data(), name=st.sampled_from(sorted(SAMPLERS)), out=st.booleans())
def test_equals_memory(data, name, out):
    sampler = SAMPLERS[name]
    nodes = data.draw(st.integers(1, 300))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    graph = random_graph(
        nodes,
        data.draw(st.integers(1, 4000)),
        data.draw(st.integers(0, 10**6)),
        weighted=name == "weighted",
        wide=data.draw(st.booleans()),
        isolated=data.draw(st.integers(0, 1)),
    )
    ids = st.lists(st.integers(0, nodes - 1), max_size=12)
    seeds = [np.array(s, np.int64) for s in data.draw(st.lists(ids, min_size=1, max_size=5))]
    rows = [rng.integers(0, 2**40, len(one)) for one in seeds]
    options = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": 3, "first_batch": 7}
    if out and leaves_out_anywhere(sampler):
        options["exclude"] = left_out_of(graph, seeds, rng)
    want = sampler.sample_trees(graph, seeds, rows, **options)
    threads = data.draw(st.sampled_from([1, 2]))
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "g")
        with DiskTopology(Path(folder) / "g", "6MB") as topology:
            for _ in range(2):  # from disk, then from a cache
                got = topology.sample_trees(sampler, seeds, rows, threads=threads, **options)
                assert_same_trees(got, want)
            assert topology.counters()["bytes"] >= 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("trees") / "g"
    skewed_graph(5, 3000, 90_000).save(path)
    return path


@pytest.mark.parametrize("name", ["uniform", "labor"])
def test_trees_do_not_depend_on_the_budget(folder, name):
    sampler, rng = SAMPLERS[name], np.random.default_rng(2)
    seeds = [rng.integers(0, 3000, 60) for _ in range(4)]
    rows = [np.arange(60) + 60 * b for b in range(4)]
    made = {}
    for memory in ("3MB", "30MB"):
        with DiskTopology(folder, memory, hot=0.9) as topology:
            out = left_out_of(topology.graph, seeds, np.random.default_rng(8))
            made[memory] = topology.sample_trees(sampler, seeds, rows, seed=1, exclude=out)
            want = sampler.sample_trees(topology.graph, seeds, rows, seed=1, exclude=out)
            plain = sampler.sample_trees(topology.graph, seeds, rows, seed=1)
            assert topology.counters()["bytes"] > 0
        assert_same_trees(made[memory], want)
    assert any(not np.array_equal(a.edge, b.edge) for a, b in zip(want, plain, strict=True))


def test_trees_and_other_minibatches_take_turns(folder):
    rng = np.random.default_rng(4)
    seeds, rows = [rng.integers(0, 3000, 20)], [np.arange(20)]
    with DiskTopology(folder, "6MB") as topology:
        for sampler in (SAMPLERS["uniform"], SAMPLERS["labor"], SAMPLERS["uniform"]):
            trees = topology.sample_trees(sampler, seeds, rows, seed=1)
            assert_same_trees(trees, sampler.sample_trees(topology.graph, seeds, rows, seed=1))
            whole = topology.sample_bulk(sampler, seeds, seed=1)
            assert_same(whole, sampler.sample_bulk(topology.graph, seeds, seed=1))


def test_what_trees_take_besides_is_counted(folder):
    with DiskTopology(folder, "6MB") as topology:
        seeds, rows = [np.arange(50)], [np.arange(50)]
        made = topology.sample_trees(SAMPLERS["uniform"], seeds, rows, seed=1)
        assert tree_bytes(made) > made.nbytes + 50 * 1000
        assert tree_bytes(topology.sample_bulk(SAMPLERS["uniform"], seeds, seed=1)) == 0


def test_what_cannot_be_is_refused(folder):
    ids = [np.array([3, 4])]
    with DiskTopology(folder, "6MB") as topology:

        def sample(sampler=Neighbor([2]), rows=ids, **options):  # noqa: B008
            return topology.sample_trees(sampler, ids, rows, seed=1, **options)

        with pytest.raises(InputError, match="disjoint trees are sampled by Neighbor and Labor"):
            sample(Ladies([3]))
        with pytest.raises(InputError, match="need expand='once'"):
            sample(Neighbor([2], expand="per-layer"))
        for rows in ([np.array([3])], [np.array([-1, 2])]):
            with pytest.raises(InputError, match="one number of at least 0 per seed"):
                sample(rows=rows)
        for sampler in (Neighbor([2]), Labor([2])):
            with pytest.raises(InputError, match="left out of a topology on disk by their two"):
                sample(sampler, exclude=Excluded.edges([[0]], [[0]]))
            with pytest.raises(InputError, match="need the tree of every entry"):
                sample(sampler, exclude=Excluded.pairs([[0]], [[0]]))
            with pytest.raises(InputError, match="exclude names tree 2"):
                sample(sampler, exclude=Excluded.pairs([[0]], [[0]], [[2]]))
            with pytest.raises(InputError, match="exclude has source 3000"):
                sample(sampler, exclude=Excluded.pairs([[0]], [[3000]], [[1]]))
        with pytest.raises(InputError, match="draws from tables of whole rows"):
            out = Excluded.pairs([[0]], [[0]], [[0]])
            sample(Neighbor([2], weights=np.ones(topology.graph.num_edges)), exclude=out)
        with pytest.raises(InputError, match="node 3000"):
            topology.sample_trees(Neighbor([2]), [np.array([3000])], [np.array([0])], seed=1)
        assert len(sample()) == 1  # and it goes on
