"""Topology: the external sort gives exactly the CSC of a plain sort, at any budget and skew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.graph.convert.source import EdgeChunk
from foregather.graph.convert.topology import EdgeRules, TopologyWriter, record_dtype
from foregather.graph.on_disk.writer import FolderWriter
from tests.oracle import csc


def build(folder, edge_index, num_nodes, rules, memory, step, wide=False, payload=True):
    features = (3, np.dtype("<f4"))
    dtype = record_dtype(wide, payload, features if payload else None)
    count = edge_index.shape[1]
    weight = np.arange(count, dtype=np.float32) + 2
    rows = np.stack([weight, -weight, weight * 2], axis=1)
    with FolderWriter(folder / "g") as writer:
        topology = TopologyWriter(writer, dtype, rules, memory, threads=2)
        for start in range(0, count, step):
            part = slice(start, start + step)
            chunk = EdgeChunk(edge_index[0, part], edge_index[1, part], weight[part], rows[part])
            topology.add(chunk, num_nodes)
        edges = topology.finish(num_nodes)
        writer.finish(num_nodes, edges)
    names = ("indptr", "indices") + (("edge_weight", "edge_features") if payload else ())
    return topology, {name: np.load(folder / "g" / f"{name}.npy") for name in names}


def check(folder, edge_index, num_nodes, rules, memory, step, wide=False, payload=True):
    topology, got = build(folder, edge_index, num_nodes, rules, memory, step, wide, payload)
    indptr, indices, origin = csc(
        edge_index, num_nodes, rules.undirected, rules.self_loops, rules.dedup
    )
    np.testing.assert_array_equal(got["indptr"], indptr)
    np.testing.assert_array_equal(got["indices"], indices)
    assert got["indices"].dtype == np.uint32
    if payload:
        expected = np.where(origin < 0, 1, origin + 2).astype(np.float32)
        np.testing.assert_array_equal(got["edge_weight"], expected)
        first = np.where(origin < 0, 0, origin + 2).astype(np.float32)
        np.testing.assert_array_equal(got["edge_features"][:, 1], -first)
    ways = 2 if rules.undirected else 1
    balance = edge_index.shape[1] * ways - topology.removed + topology.loops_added
    assert balance == len(indices)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_equals_the_oracle(data, tmp_path_factory):
    num_nodes = data.draw(st.integers(1, 60))
    count = data.draw(st.integers(0, 300))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    skew = data.draw(st.sampled_from([1, 4]))
    edge_index = (num_nodes * rng.random((2, count)) ** skew).astype(np.int64)
    rules = EdgeRules(data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.booleans()))
    memory = data.draw(st.sampled_from([3000, 20_000, 1 << 24]))
    step = data.draw(st.integers(1, 200))
    wide, payload = data.draw(st.booleans()), data.draw(st.booleans())
    folder = tmp_path_factory.mktemp("topology")
    check(folder, edge_index, num_nodes, rules, memory, step, wide, payload)


@pytest.mark.slow
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("dedup", [False, True])
@pytest.mark.parametrize(("hub", "others"), [(0, 10), (5, 10), (9, 9), (9, 10), (4, 3)])
def test_a_row_larger_than_memory(tmp_path, monkeypatch, hub, others, dedup, loops):
    # The smallest limit is lowered so that one row must be cut by source, over and over.
    from foregather.graph.convert import topology as module

    monkeypatch.setattr(module, "_LEAST_GROUP", 512)
    rng = np.random.default_rng(hub)
    edge_index = np.stack([rng.integers(0, others, 4000), np.full(4000, hub)])
    edge_index[1, ::50] = rng.integers(0, 10, 80)
    check(tmp_path, edge_index, 10, EdgeRules(False, loops, dedup), 3000, 333)


def test_rows_do_not_depend_on_memory_or_chunks(tmp_path):
    rng = np.random.default_rng(1)
    edge_index = rng.integers(0, 1000, (2, 5000))
    results = []
    for number, (memory, step) in enumerate([(2000, 77), (50_000, 1000), (1 << 26, 5000)]):
        (tmp_path / str(number)).mkdir()
        rules = EdgeRules(undirected=True, self_loops=True)
        results.append(build(tmp_path / str(number), edge_index, 1000, rules, memory, step)[1])
    for other in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(array, other[name])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([0, -3], [1, 1], "edge 1 has source -3, expected an id of 0 or more"),
        ([0, 1], [1, 4], "edge 1 has target 4, but the graph has 4 nodes"),
        ([0.0, np.nan], [1, 1], "edge 1 has source nan, expected an integer id"),
        ([0.0, 1.5], [1, 1], "edge 1 has source 1.5, expected an integer id"),
        (["a", "b"], [1, 1], "source ids have dtype"),
        ([0.0, 2.0**60], [1, 1], "not exact"),
    ],
)
def test_bad_ids(tmp_path, source, target, message):
    with (
        FolderWriter(tmp_path / "g") as writer,
        pytest.raises(InputError, match=message),
    ):
        topology = TopologyWriter(writer, record_dtype(False, False, None), EdgeRules(), 1 << 20)
        topology.add(EdgeChunk(np.array(source), np.array(target)), 4)
    assert not list(tmp_path.iterdir())


def test_floats_that_are_integers_are_ids(tmp_path):
    check(tmp_path, np.array([[0.0, 1.0], [2.0, 2.0]]), 3, EdgeRules(), 1 << 20, 10)
