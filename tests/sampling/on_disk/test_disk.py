"""DiskTopology: the same bits as in memory for every option, and counters that add up."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import BudgetError
from foregather.graph import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.sampling.disk import DiskTopology
from foregather.sampling.neighbor import Neighbor
from foregather.units import parse_size
from tests.helpers_sampling import assert_same, skewed_graph
from tests.sampling.test_bulk import GOLDEN, make

BACKENDS = ("io_uring", "pread", "buffered")
LEAST = 3_000_000  # enough for the small graphs here, and little enough for few cached blocks


def seeds_of(graph, batches=6, size=60):
    rng = np.random.default_rng(8)
    return [rng.integers(0, graph.num_nodes, size) for _ in range(batches)]


def works(folder, backend):
    return _core.probe_reader(str(folder))["backends"][backend] is None


@settings(max_examples=40)
@given(data=st.data())
def test_equals_memory(data):
    nodes = data.draw(st.integers(1, 3000))
    edges = data.draw(st.integers(0, 20_000))
    graph = skewed_graph(data.draw(st.integers(0, 10**6)), nodes, edges, skew=3)
    if data.draw(st.booleans()):
        graph = Graph(nodes, edges, graph.indptr, graph.indices.astype(np.int64))
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40, 70]), min_size=1, max_size=3))
    rule = Neighbor(
        fanouts,
        replace=data.draw(st.booleans()),
        expand=data.draw(st.sampled_from(["once", "per-layer"])),
    )
    ids = st.lists(st.integers(0, nodes - 1), max_size=12)
    seeds = [np.array(s, np.int64) for s in data.draw(st.lists(ids, min_size=1, max_size=4))]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": data.draw(st.integers(0, 99))}
    keys["first_batch"] = data.draw(st.integers(0, 10**6))
    options = {
        "memory": data.draw(st.sampled_from(["3MB", "8MB", "50MB"])),
        "block": data.draw(st.sampled_from([4096, 8192, 65536])),
        "gap": data.draw(st.sampled_from([0, 4096, 1 << 20])),
        "depth": data.draw(st.sampled_from([1, 3, 64])),
    }
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "g")

        def compare(memory):
            with DiskTopology(Path(folder) / "g", **options | {"memory": memory}) as topology:
                for _ in range(2):  # the second time with a cache
                    threads = data.draw(st.integers(1, 3))
                    got = topology.sample_bulk(rule, seeds, **keys, threads=threads)
                    assert_same(got, rule.sample_bulk(graph, seeds, **keys))
                    assert got[0].node.dtype == graph.indices.dtype

        memory = parse_size(options["memory"])
        for _ in range(6):  # a layer that is too large says what it takes, and so does the next
            try:
                compare(memory)
                break
            except BudgetError as error:
                least = int(re.search(r"at least (\d+)", str(error))[1])
                assert least > memory
                memory = least
        else:
            pytest.fail(f"{memory} bytes are not enough, after six that were said to be")


@pytest.mark.parametrize("expand", ["once", "per-layer"])
@pytest.mark.parametrize("replace", [False, True])
def test_golden_digests(tmp_path, expand, replace):
    made = synthetic_arrays(3000, degree=12, features=0, classes=3, seed=4)
    Graph(3000, len(made.indices), made.indptr, made.indices).save(tmp_path / "g")
    rule = Neighbor([5, 4], expand=expand, replace=replace)
    seeds = [np.arange(b, 3000, 97) for b in range(5)]
    with DiskTopology(tmp_path / "g", "4MB") as topology:
        digest = topology.sample_bulk(rule, seeds, seed=11, epoch=3, first_batch=7).digest
    golden = json.loads(GOLDEN.read_text())
    assert digest == golden[f"neighbor {expand} {'with' if replace else 'without'} replacement"]
    assert digest == make(Graph.open(tmp_path / "g"), expand=expand, replace=replace).digest


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("memory", [LEAST, 30_000_000])
def test_backends_blocks_threads_and_bulk_sizes_change_nothing(disk_folder, backend, memory):
    if not works(disk_folder, backend):
        pytest.skip(f"{backend} does not work here")
    graph = Graph.open(disk_folder)
    rule, seeds = Neighbor([8, 5, 3]), seeds_of(graph)
    want = list(rule.sample_bulk(graph, seeds, seed=3, epoch=2))
    for block, threads, k in ((4096, 1, 6), (16384, 2, 4), (1 << 18, 5, 1)):
        with DiskTopology(graph, memory, backend=backend, block=block) as topology:
            assert topology.backend == backend
            got = []
            for first in range(0, len(seeds), k):
                part = seeds[first : first + k]
                keys = {"seed": 3, "epoch": 2, "first_batch": first, "threads": threads}
                got += list(topology.sample_bulk(rule, part, **keys))
            assert_same(got, want)


def test_rows_of_more_than_16_bits(tmp_path):
    degrees = np.zeros(100, np.int64)
    degrees[[3, 4, 5, 31, 32, 63, 99]] = [65_534, 65_535, 65_536, 70_000, 1, 200_000, 65_535]
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    rng = np.random.default_rng(2)
    rows = [np.sort(rng.integers(0, 100, d)) for d in degrees]
    graph = Graph(100, int(indptr[-1]), indptr, np.concatenate(rows).astype(np.uint32))
    graph.save(tmp_path / "g")
    seeds = [np.arange(100), np.array([5, 6, 31, 32, 99, 64])]
    with DiskTopology(tmp_path / "g", "60MB") as topology:
        for fanouts in ([7, 50], [-1]):
            rule = Neighbor(fanouts)
            got = topology.sample_bulk(rule, seeds, seed=1)
            assert_same(got, rule.sample_bulk(graph, seeds, seed=1))


def test_counters_add_up(disk_folder):
    graph = Graph.open(disk_folder)
    rule, seeds = Neighbor([8, 5]), seeds_of(graph)
    with DiskTopology(graph, "20MB", gap=0) as topology:
        bulk = topology.sample_bulk(rule, seeds, seed=3)
        first = topology.counters()
        picks = sum(len(s.row) for s in bulk)
        positions = [
            np.concatenate([s.edge[: s.num_edges[0]] for s in bulk]),
            np.concatenate([s.edge[s.num_edges[0] :] for s in bulk]),
        ]
        blocks = [np.unique((4096 + 4 * p) // 4096) for p in positions]
        both = len(np.intersect1d(*blocks))
        assert first["picks"] == picks == first["hits"] + first["misses"]
        assert (first["passes"], first["blocks"]) == (2, len(blocks[0]) + len(blocks[1]))
        assert first["block_hits"] == both  # all of the first layer fits the cache
        assert first["bytes"] == 4096 * (first["blocks"] - both)  # each block once, nothing else
        topology.sample_bulk(rule, seeds, seed=3)
        again = topology.counters()
        assert again["bytes"] == first["bytes"] and again["hits"] == first["hits"] + picks
        for counted in (first, again):
            assert counted["requests"] == counted["planned_requests"]
            assert counted["bytes"] == counted["planned_bytes"]


def test_gaps_save_requests(disk_folder):
    graph = Graph.open(disk_folder)
    facts = {}
    for gap in (0, 1 << 20):
        with DiskTopology(graph, LEAST, gap=gap) as topology:
            topology.sample_bulk(Neighbor([8, 5]), seeds_of(graph), seed=3)
            facts[gap] = topology.counters()
    assert facts[1 << 20]["requests"] < facts[0]["requests"]
    assert facts[1 << 20]["bytes"] > facts[0]["bytes"]


def test_a_small_budget_takes_more_passes(disk_folder):
    graph = Graph.open(disk_folder)
    rule, seeds = Neighbor([20, 20]), seeds_of(graph, 120, 40)
    with DiskTopology(graph, "12MB") as topology:
        got = topology.sample_bulk(rule, seeds, seed=3)
        assert topology.counters()["passes"] > 2
    assert_same(got, rule.sample_bulk(graph, seeds, seed=3))


def test_the_cache_keeps_what_most_passes_need(disk_folder):
    # The same seeds again and again, and others once: the cache must end up with the former.
    graph = Graph.open(disk_folder)
    often = [np.arange(100)]
    with DiskTopology(graph, LEAST, gap=0, hot=0) as topology:
        assert 50 < topology.shares()["slots"] < graph.indices.nbytes // 4096 // 2
        for turn in range(6):
            topology.sample_bulk(Neighbor([5]), often, seed=1)
            other = [np.arange(turn * 5000, turn * 5000 + 2000)]
            topology.sample_bulk(Neighbor([5]), other, seed=1)
        before = topology.counters()
        topology.sample_bulk(Neighbor([5]), often, seed=1)
        after = topology.counters()
    assert after["bytes"] == before["bytes"]
