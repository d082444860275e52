"""DiskTopology: the same bits as in memory for every option, and clear errors for every fault."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import BudgetError, FormatError, InputError, StorageError
from foregather.graph import Graph
from foregather.graph.synthetic import synthesize, synthetic_arrays
from foregather.sampling import disk
from foregather.sampling.disk import DiskTopology
from foregather.sampling.full import Full
from foregather.sampling.layerwise import Ladies
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.walk import RandomWalk
from tests.sampling.test_bulk import GOLDEN, make
from tests.sampling.test_neighbor import assert_same, random_graph

BACKENDS = ("io_uring", "pread", "buffered")
LEAST = 3_000_000  # enough for the small graphs here, and little enough for few cached blocks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """1.2M edges: 4.8 MB of sources, several windows of the smallest staging buffers."""
    path = tmp_path_factory.mktemp("disk") / "g"
    synthesize(path, 60_000, degree=20, features=0, classes=4, seed=3)
    return path


@pytest.fixture
def own(folder, tmp_path):
    """A copy that a test may damage."""
    return Path(shutil.copytree(folder, tmp_path / "g"))


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
    graph = random_graph(data.draw(st.integers(0, 10**6)), nodes, edges, skew=3)
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
        with DiskTopology(Path(folder) / "g", **options) as topology:
            for _ in range(2):  # the second time with a cache
                threads = data.draw(st.integers(1, 3))
                got = topology.sample_bulk(rule, seeds, **keys, threads=threads)
                assert_same(got, rule.sample_bulk(graph, seeds, **keys))
                assert got[0].node.dtype == graph.indices.dtype


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
def test_backends_blocks_threads_and_bulk_sizes_change_nothing(folder, backend, memory):
    if not works(folder, backend):
        pytest.skip(f"{backend} does not work here")
    graph = Graph.open(folder)
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


def test_counters_add_up(folder):
    graph = Graph.open(folder)
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


def test_gaps_save_requests(folder):
    graph = Graph.open(folder)
    facts = {}
    for gap in (0, 1 << 20):
        with DiskTopology(graph, LEAST, gap=gap) as topology:
            topology.sample_bulk(Neighbor([8, 5]), seeds_of(graph), seed=3)
            facts[gap] = topology.counters()
    assert facts[1 << 20]["requests"] < facts[0]["requests"]
    assert facts[1 << 20]["bytes"] > facts[0]["bytes"]


def test_a_small_budget_takes_more_passes(folder):
    graph = Graph.open(folder)
    rule, seeds = Neighbor([20, 20]), seeds_of(graph, 120, 40)
    with DiskTopology(graph, "12MB") as topology:
        got = topology.sample_bulk(rule, seeds, seed=3)
        assert topology.counters()["passes"] > 2
    assert_same(got, rule.sample_bulk(graph, seeds, seed=3))


def test_the_cache_keeps_what_most_passes_need(folder):
    # The same seeds again and again, and others once: the cache must end up with the former.
    graph = Graph.open(folder)
    often = [np.arange(100)]
    with DiskTopology(graph, LEAST, gap=0) as topology:
        assert 50 < topology.shares()["slots"] < graph.indices.nbytes // 4096 // 2
        for turn in range(6):
            topology.sample_bulk(Neighbor([5]), often, seed=1)
            other = [np.arange(turn * 5000, turn * 5000 + 2000)]
            topology.sample_bulk(Neighbor([5]), other, seed=1)
        before = topology.counters()
        topology.sample_bulk(Neighbor([5]), often, seed=1)
        after = topology.counters()
    assert after["bytes"] == before["bytes"]


# ---- faults ------------------------------------------------------------------------------------


def test_the_budget_error_says_the_minimum(folder):
    with pytest.raises(BudgetError, match="at least [0-9]+ bytes") as caught:
        DiskTopology(folder, "1MB")
    least = int(str(caught.value).split("at least ")[1].split()[0])
    with pytest.raises(BudgetError):
        DiskTopology(folder, least - 1)
    with DiskTopology(folder, least) as topology:
        assert topology.shares()["least"] == least
        rule, graph = Neighbor([3, 2]), topology.graph
        seeds = [np.arange(50)]
        assert_same(
            topology.sample_bulk(rule, seeds, seed=1), rule.sample_bulk(graph, seeds, seed=1)
        )


def test_a_minibatch_too_large_for_the_budget(folder):
    rule, seeds = Neighbor([-1, -1]), [np.arange(2000)]
    with (
        DiskTopology(folder, LEAST) as topology,
        pytest.raises(BudgetError, match="at least [0-9]+ bytes") as caught,
    ):
        topology.sample_bulk(rule, seeds, seed=1)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    with DiskTopology(folder, least) as topology:
        got = topology.sample_bulk(rule, seeds, seed=1)
        assert_same(got, rule.sample_bulk(topology.graph, seeds, seed=1))


def test_the_budget_holds(folder):
    code = """
        import resource, sys
        import numpy as np
        from foregather.sampling.disk import DiskTopology
        from foregather.sampling.neighbor import Neighbor
        def resident():
            return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
        folder, memory = sys.argv[1], int(sys.argv[2])
        rule, rng = Neighbor([10, 10]), np.random.default_rng(0)
        with DiskTopology(folder, 4_000_000) as topology:
            topology.sample_bulk(rule, [np.arange(3)], seed=1)
        before = resident()
        results = 0
        with DiskTopology(folder, memory) as topology:
            for turn in range(4):
                seeds = [rng.integers(0, 60_000, 200) for _ in range(8)]
                made = topology.sample_bulk(rule, seeds, seed=turn, threads=2)
                results = max(results, made.nbytes)
                del made
        print(resident() - before, results)
    """
    for memory in (16_000_000, 32_000_000):
        command = [sys.executable, "-c", textwrap.dedent(code), str(folder), str(memory)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown, results = (int(n) for n in done.stdout.split())
        # results are allocated with a quarter to spare, and node for all edges being new
        assert grown < memory + 2 * results + 8_000_000


@pytest.mark.parametrize(
    "sampler", [Ladies([64, 64]), RandomWalk(length=3), Full(2)], ids=lambda s: type(s).__name__
)
def test_other_samplers_are_refused(folder, sampler):
    topology = DiskTopology(folder, LEAST)
    with topology, pytest.raises(InputError, match="in memory or mapped"):
        topology.sample_bulk(sampler, [np.arange(3)], seed=1)


def test_options_that_are_not_uniform_are_refused(folder, monkeypatch):
    @dataclass(frozen=True)
    class Other(Neighbor):
        weighted: bool = False

    monkeypatch.setattr(disk, "Neighbor", Other)
    with DiskTopology(folder, LEAST) as topology:
        topology.sample_bulk(Other([2]), [np.arange(3)], seed=1)
        with pytest.raises(InputError, match="weighted=True"):
            topology.sample_bulk(Other([2], weighted=True), [np.arange(3)], seed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 5000}, "block is 5000"),
        ({"block": 2048}, "block is 2048"),
        ({"block": 1 << 21}, "block is 2097152"),
        ({"gap": -1}, "gap is -1"),
        ({"depth": 0}, "depth is 0"),
        ({"backend": "floppy"}, "backend is 'floppy'"),
        ({"memory": "lots"}, "not a number"),
    ],
)
def test_bad_options(folder, options, message):
    with pytest.raises(InputError, match=message):
        DiskTopology(folder, **{"memory": LEAST, **options})


def test_a_graph_in_memory_and_a_closed_topology_are_refused(folder):
    with pytest.raises(InputError, match="save it first"):
        DiskTopology(random_graph(1, 10, 20))
    topology = DiskTopology(folder, LEAST)
    topology.close()
    topology.close()
    with pytest.raises(InputError, match="closed"):
        topology.sample_bulk(Neighbor([2]), [np.arange(3)], seed=1)


@pytest.mark.parametrize("wrong", [-1, 60_000])
def test_seeds_that_are_no_nodes(folder, wrong):
    topology = DiskTopology(folder, LEAST)
    with topology, pytest.raises(InputError, match=f"seed 1 is node {wrong}"):
        topology.sample_bulk(Neighbor([2]), [np.array([0, wrong])], seed=1)


def test_a_file_that_changed_is_refused(own):
    rule, seeds = Neighbor([3]), [np.arange(9)]
    file = own / "indices.npy"
    whole = file.read_bytes()
    with DiskTopology(own, LEAST) as topology:
        topology.sample_bulk(rule, seeds, seed=1)
        os.truncate(file, len(whole) // 2)
        with pytest.raises(StorageError, match=r"indices\.npy was replaced or written to"):
            topology.sample_bulk(rule, seeds, seed=1)
        (own / "other").write_bytes(whole)
        (own / "other").replace(file)
        with pytest.raises(StorageError, match="open the topology again"):
            topology.sample_bulk(rule, seeds, seed=1)
        file.unlink()
        with pytest.raises(StorageError, match="is gone"):
            topology.sample_bulk(rule, seeds, seed=1)
    with pytest.raises(FormatError, match="missing"):
        DiskTopology(own, LEAST)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_read_that_fails_is_raised_and_the_next_one_works(own, backend, monkeypatch):
    if not works(own, backend):
        pytest.skip(f"{backend} does not work here")
    rule, file = Neighbor([10, 10]), own / "indices.npy"
    whole = file.read_bytes()
    with DiskTopology(own, LEAST, backend=backend) as topology:
        seeds = seeds_of(topology.graph)
        want = rule.sample_bulk(topology.graph, seeds, seed=1)
        monkeypatch.setattr(topology, "_check_unchanged", lambda: None)
        os.truncate(file, 4096 * 100)  # the end is met in the middle of a pass
        with pytest.raises(StorageError, match=r"indices\.npy ends at byte .* truncated"):
            topology.sample_bulk(rule, seeds, seed=1)
        with open(file, "r+b") as out:
            out.write(whole)
        assert_same(topology.sample_bulk(rule, seeds, seed=1), want)


def test_an_id_out_of_range_is_named(own):
    graph = Graph.open(own)
    position = int(graph.indptr[777])
    with open(own / "indices.npy", "r+b") as file:
        file.seek(4096 + 4 * position)
        file.write(np.uint32(60_000).tobytes())
    with DiskTopology(own, "30MB") as topology:
        for _ in range(2):
            message = rf"indices\.npy holds node 60000 at position {position},"
            with pytest.raises(FormatError, match=message):
                topology.sample_bulk(Neighbor([-1]), [np.array([777])], seed=1)
        topology.sample_bulk(Neighbor([-1]), [np.array([778])], seed=1)  # still usable


def test_a_damaged_indptr_is_named(own):
    with open(own / "indptr.npy", "r+b") as file:
        file.seek(4096 + 8 * 500)
        file.write(np.int64(0).tobytes())
    with pytest.raises(FormatError, match="indptr has 0 at position 500"):
        DiskTopology(own, LEAST)


@pytest.mark.parametrize("refused", [("io_uring",), ("io_uring", "pread")])
def test_refusals_lead_down_the_ladder(folder, monkeypatch, refused):
    real = _core.BlockReader

    def reader(path, backend, depth, name):
        if backend in refused:
            raise StorageError("refused")
        return real(path, backend, depth, name)

    monkeypatch.setattr(disk._core, "BlockReader", reader)
    with DiskTopology(folder, LEAST) as topology:
        assert topology.backend == BACKENDS[len(refused)]
        topology.sample_bulk(Neighbor([3]), [np.arange(9)], seed=1)


def test_an_interrupt_ends_a_bulk(folder):
    rule = Neighbor([20, 20, 5])

    def ring(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with DiskTopology(folder, "100MB") as topology:
            seeds = seeds_of(topology.graph, 40, 400)
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                topology.sample_bulk(rule, seeds, seed=1)
                pytest.fail("the bulk was not interrupted")
            cut = topology.counters()["picks"]
            got = topology.sample_bulk(rule, seeds[:2], seed=1)
            assert_same(got, rule.sample_bulk(topology.graph, seeds[:2], seed=1))
            assert cut < 40 * sum(len(s.row) for s in got)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
