"""Trees: minibatches in which every seed has a tree of its own, against a slow join of such trees.

A tree is, by definition, the minibatch of its seed alone with the input row for its number; the
reference samples it in plain Python.
"""

import json
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import FormatError, InputError
from foregather.graph import Graph
from foregather.sampling import FastGCN, Labor, Neighbor
from foregather.sampling.bulk import Bulk
from foregather.sampling.matrix import MatrixSampler
from tests.helpers_sampling import assert_same, drawn_graph, random_graph, skewed_graph
from tests.sampling.reference import ReferenceNeighbor
from tests.sampling.reference_trees import join_all
from tests.sampling.reference_weighted import labor_bulk, weighted_bulk

GOLDEN = Path(__file__).parents[1] / "golden" / "sampling.json"


def assert_same_trees(got, want):
    assert_same(got, want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.tree, other.tree)
        assert one.tree.dtype == np.uint32 and not one.tree.flags.writeable


@settings(max_examples=40)
@given(data=st.data())
def test_equals_the_reference(data):
    graph = drawn_graph(data, 40, 400)
    nodes = graph.num_nodes
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40]), min_size=1, max_size=3))
    replace = data.draw(st.booleans())
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, 2**62))
    dealt = data.draw(st.lists(st.lists(pairs, max_size=8), min_size=1, max_size=4))
    seeds = [np.array([v for v, _ in batch], np.int64) for batch in dealt]
    rows = [np.array([r for _, r in batch], np.int64) for batch in dealt]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": data.draw(st.integers(0, 99))}
    reference = ReferenceNeighbor(tuple(fanouts), replace)

    def alone(v, row):
        return reference.sample_bulk(graph, [[v]], first_batch=row, **keys)[0]

    fast = Neighbor(fanouts, replace=replace)
    got = fast.sample_trees(graph, seeds, rows, first_batch=7, threads=2, **keys)
    assert (got.seed, got.epoch, got.first_batch) == (keys["seed"], keys["epoch"], 7)
    assert_same_trees(got, join_all(alone, seeds, rows, len(fanouts), first_batch=7))
    for sample in got:  # a tree is in every hop once, and trees ascend in it
        for first, last in zip((0, *sample.num_nodes), sample.num_nodes, strict=False):
            assert (np.diff(sample.tree[first:last].astype(np.int64)) >= 0).all()
        assert (sample.tree[sample.row] == sample.tree[sample.col]).all()
        assert (np.diff(sample.col.astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("replace", [False, True])
def test_weighted_trees(replace):
    graph = random_graph(40, 900, 3, weighted=True, isolated=1)
    seeds, rows = [np.array([5, 5, 39, 0]), np.array([8])], [np.array([9, 2, 3, 4]), np.array([0])]

    def alone(v, row):
        rule = ([4, -1, 2], graph.edge_weight.tolist(), replace, "once")
        return weighted_bulk(graph, [[v]], *rule, seed=6, first_batch=row)[0]

    sampler = Neighbor([4, -1, 2], replace=replace, weights=True)
    got = sampler.sample_trees(graph, seeds, rows, seed=6)
    assert_same_trees(got, join_all(alone, seeds, rows, 3))
    assert got[0].num_nodes[0] == 4 and (got[0].tree == 2).sum() == 1  # the isolated seed


@pytest.mark.parametrize("debias", ["exact", "reference", None])
def test_trees_of_labor(debias):
    graph = random_graph(40, 600, 3, weighted=True)
    seeds, rows = [np.array([5, 5, 7]), np.array([], int)], [np.array([9, 2, 3]), np.array([], int)]

    def alone(v, row):
        rule = ([3, 2], "once", False, debias)
        return labor_bulk(graph, [[v]], *rule, seed=6, first_batch=row)[0]

    got = Labor([3, 2], debias=debias).sample_trees(graph, seeds, rows, seed=6)
    want = join_all(alone, seeds, rows, 2)
    if debias is not None:  # also where there is no edge
        want[1] = changed(want[1], weight=np.empty(0, np.float32))
    assert_same_trees(got, want)


def test_trees_share_no_numbers_where_minibatches_do():
    graph = random_graph(60, 900, 3)
    seeds, rows = [np.array([5, 5, 7, 8])], [np.array([0, 1, 2, 3])]
    made = Labor([3, 2], batch_dependency=4).sample_trees(graph, seeds, rows, seed=6)
    assert_same_trees(made, Labor([3, 2]).sample_trees(graph, seeds, rows, seed=6))
    one, other = (made[0].edge[made[0].tree[made[0].col] == tree] for tree in (0, 1))
    assert not np.array_equal(one, other)  # of the same seed


def test_a_tree_depends_on_its_row_alone():
    graph = skewed_graph(7, 3000, 60_000, skew=3)
    rng = np.random.default_rng(0)
    nodes, sampler = rng.integers(0, 3000, 500), Neighbor([6, 5, 4])

    def trees(order, sizes, threads):
        """The edges of each row's tree as (hop, source, target, edge), by row."""
        cuts = np.cumsum(sizes)[:-1]
        rows = np.split(order, cuts)
        bulk = sampler.sample_trees(
            graph, [nodes[r] for r in rows], rows, seed=1, epoch=2, threads=threads
        )
        found = {}
        for sample, own in zip(bulk, rows, strict=True):
            layer = np.repeat(np.arange(3), sample.num_edges)
            ends = sample.node[sample.row], sample.node[sample.col], sample.edge
            table = np.stack([layer, *ends], 1).astype(np.int64)
            of = sample.tree[sample.col]
            for place, row in enumerate(own.tolist()):
                found[row] = table[of == place].tolist()
        return found

    want = trees(np.arange(500), [500], 1)
    assert trees(rng.permutation(500), [100] * 5, 2) == want
    assert trees(np.arange(500), [1] * 500, 2) == want
    assert trees(np.arange(500)[::-1], [7] * 71 + [3], 3) == want
    assert len({json.dumps(tree) for tree in want.values()}) > 450


def test_arrays_of_a_kernel_are_used_again():
    """Plain minibatches after trees, and the other way round, by one kernel and its shelf."""
    graph, sampler = skewed_graph(1, 300, 4000), Neighbor([3, 2])
    seeds = [np.array([4, 4, 9])]
    plain = sampler.sample_bulk(graph, seeds, seed=1).digest
    trees = sampler.sample_trees(graph, seeds, [np.arange(3)], seed=1).digest
    for _ in range(3):
        again = sampler.sample_bulk(graph, seeds, seed=1)
        assert again[0].tree is None and again.digest == plain
        del again
        joined = sampler.sample_trees(graph, seeds, [np.arange(3)], seed=1)
        assert joined[0].seed_position is None and joined.digest == trees
        del joined


FIXED = skewed_graph(5, 500, 5000)
ROWS = [np.arange(b, 90, 7) for b in range(3)]
SEEDS = [rows * 5 % 500 for rows in ROWS]


@pytest.fixture(scope="module")
def bulk():
    return Neighbor([4, 3]).sample_trees(FIXED, SEEDS, ROWS, seed=11)


def test_golden_digest(bulk):
    # Samples are promised to stay the same for ever; a change here needs a reason in its commit.
    golden, reference = json.loads(GOLDEN.read_text())["neighbor trees"], ReferenceNeighbor((4, 3))

    def alone(v, row):
        return reference.sample_bulk(FIXED, [[v]], seed=11, first_batch=row)[0]

    assert bulk.digest == golden
    assert Bulk(join_all(alone, SEEDS, ROWS, 2), 11, 0, 0).digest == golden
    dealt = changed(bulk[0], tree=bulk[0].tree[::-1].copy())
    assert Bulk([dealt, *bulk.samples[1:]], 11, 0, 0).digest != bulk.digest


def test_save_and_load(bulk, tmp_path):
    path = tmp_path / "b.npz"
    bulk.save(path)
    back = Bulk.load(path)
    assert back.digest == bulk.digest and back.nbytes == bulk.nbytes
    for wrong in (bulk[0].tree[1:], bulk[0].tree.astype(np.int64), bulk[0].tree + 13):
        np.savez(path, **dict(np.load(path)) | {"0.tree": wrong})
        with pytest.raises(FormatError, match="does not fit together"):
            Bulk.load(path)


def test_no_trees_and_no_nodes():
    graph = Graph.from_edge_index(np.zeros((2, 0), np.int64), 3)
    none = Neighbor([2, 2]).sample_trees(graph, [], [], seed=0)
    assert len(none) == 0
    empty, alone = Neighbor([2, 2]).sample_trees(graph, [[], [2, 2]], [[], [0, 1]], seed=0)
    assert empty.num_nodes == (0, 0, 0) and empty.num_edges == (0, 0) and len(empty.tree) == 0
    assert alone.node.tolist() == [2, 2] and alone.tree.tolist() == [0, 1]
    assert alone.num_nodes == (2, 2, 2) and len(alone.edge) == 0


@dataclass(frozen=True)
class Own(Neighbor):
    """Verbs of its own, which no kernel knows."""

    def sample(self, p):
        return p.sample_rows(1)


@dataclass(frozen=True)
class Program(MatrixSampler):
    layer_sizes: tuple[int, ...] = (2,)


def test_what_cannot_be_is_refused():
    graph, one = skewed_graph(1, 30, 90), [np.arange(3)]
    with pytest.raises(InputError, match="seed 2 is node 30, but the graph has 30 nodes"):
        Neighbor([2]).sample_trees(graph, [[0], [1, 2, 30]], [[0], [0, 1, 2]], seed=0)
    for rows in ([[0, 1]], [[0, 1], [2]], [[0, 1, -1]]):
        with pytest.raises(InputError, match="rows must hold one number of at least 0 per seed"):
            Neighbor([2]).sample_trees(graph, one, rows, seed=0)
    with pytest.raises(InputError, match="Neighbor and Labor, not by Own"):
        Own([2]).sample_trees(graph, one, one, seed=0)
    with pytest.raises(InputError, match="this sampler expands per layer"):
        Neighbor([2], expand="per-layer").sample_trees(graph, one, one, seed=0)
    assert not hasattr(Program(), "sample_trees") and not hasattr(FastGCN([2]), "sample_trees")
