"""DiskTopology: faults and bad input give a clear error, and leave it usable or closed."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

from foregather import _core
from foregather.errors import BudgetError, FormatError, InputError, StorageError
from foregather.graph import Graph
from foregather.sampling import disk
from foregather.sampling.disk import DiskTopology
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.subgraphs.saint import Saint
from tests.helpers_sampling import assert_same, skewed_graph
from tests.sampling.on_disk.test_disk import BACKENDS, LEAST, seeds_of, works


def test_the_budget_error_says_the_minimum(disk_folder):
    with pytest.raises(BudgetError, match="at least [0-9]+ bytes") as caught:
        DiskTopology(disk_folder, "1MB")
    least = int(str(caught.value).split("at least ")[1].split()[0])
    with pytest.raises(BudgetError):
        DiskTopology(disk_folder, least - 1)
    with DiskTopology(disk_folder, least) as topology:
        assert topology.shares()["least"] == least
        rule, graph = Neighbor([3, 2]), topology.graph
        seeds = [np.arange(50)]
        assert_same(
            topology.sample_bulk(rule, seeds, seed=1), rule.sample_bulk(graph, seeds, seed=1)
        )


def test_a_minibatch_too_large_for_the_budget(disk_folder):
    rule, seeds = Neighbor([-1, -1]), [np.arange(2000)]
    with (
        DiskTopology(disk_folder, LEAST) as topology,
        pytest.raises(BudgetError, match="at least [0-9]+ bytes") as caught,
    ):
        topology.sample_bulk(rule, seeds, seed=1)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    with DiskTopology(disk_folder, least) as topology:
        got = topology.sample_bulk(rule, seeds, seed=1)
        assert_same(got, rule.sample_bulk(topology.graph, seeds, seed=1))


def test_the_budget_holds(disk_folder):
    code = """
        import sys
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
        command = [sys.executable, "-c", textwrap.dedent(code), str(disk_folder), str(memory)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown, results = (int(n) for n in done.stdout.split())
        # results are allocated with a quarter to spare, and node for all edges being new
        assert grown < memory + 2 * results + 8_000_000


def test_other_samplers_are_refused(disk_folder):
    topology = DiskTopology(disk_folder, LEAST)
    with topology, pytest.raises(InputError, match="in memory or mapped"):
        topology.sample_bulk(Saint("walk", 3), [np.arange(3)], seed=1)


def test_options_that_are_not_uniform_read_whole_lists(disk_folder, monkeypatch):
    @dataclass(frozen=True)
    class Other(Neighbor):
        weighted: bool = False

    monkeypatch.setattr(disk, "Neighbor", Other)
    with DiskTopology(disk_folder, 2 * LEAST) as topology:
        topology.sample_bulk(Other([2]), [np.arange(3)], seed=1)
        assert "order" in topology.shares()
        topology.sample_bulk(Other([2], weighted=True), [np.arange(3)], seed=1)
        assert "order" not in topology.shares()


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
def test_bad_options(disk_folder, options, message):
    with pytest.raises(InputError, match=message):
        DiskTopology(disk_folder, **{"memory": LEAST, **options})


def test_a_graph_in_memory_and_a_closed_topology_are_refused(disk_folder):
    with pytest.raises(InputError, match="save it first"):
        DiskTopology(skewed_graph(1, 10, 20))
    topology = DiskTopology(disk_folder, LEAST)
    topology.close()
    topology.close()
    with pytest.raises(InputError, match="closed"):
        topology.sample_bulk(Neighbor([2]), [np.arange(3)], seed=1)


@pytest.mark.parametrize("wrong", [-1, 60_000])
def test_seeds_that_are_no_nodes(disk_folder, wrong):
    topology = DiskTopology(disk_folder, LEAST)
    with topology, pytest.raises(InputError, match=f"seed 1 is node {wrong}"):
        topology.sample_bulk(Neighbor([2]), [np.array([0, wrong])], seed=1)


def test_a_file_that_changed_is_refused(own_folder):
    rule, seeds = Neighbor([3]), [np.arange(9)]
    file = own_folder / "indices.npy"
    whole = file.read_bytes()
    with DiskTopology(own_folder, LEAST) as topology:
        topology.sample_bulk(rule, seeds, seed=1)
        os.truncate(file, len(whole) // 2)
        with pytest.raises(StorageError, match=r"indices\.npy was replaced or written to"):
            topology.sample_bulk(rule, seeds, seed=1)
        (own_folder / "other").write_bytes(whole)
        (own_folder / "other").replace(file)
        with pytest.raises(StorageError, match="open the topology again"):
            topology.sample_bulk(rule, seeds, seed=1)
        file.unlink()
        with pytest.raises(StorageError, match="was removed"):
            topology.sample_bulk(rule, seeds, seed=1)
    with pytest.raises(FormatError, match="missing"):
        DiskTopology(own_folder, LEAST)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_read_that_fails_is_raised_and_the_next_one_works(own_folder, backend, monkeypatch):
    if not works(own_folder, backend):
        pytest.skip(f"{backend} does not work here")
    rule, file = Neighbor([10, 10]), own_folder / "indices.npy"
    whole = file.read_bytes()
    with DiskTopology(own_folder, LEAST, backend=backend) as topology:
        seeds = seeds_of(topology.graph)
        want = rule.sample_bulk(topology.graph, seeds, seed=1)
        monkeypatch.setattr(topology, "_check_unchanged", lambda: None)
        os.truncate(file, 4096 * 100)  # the end is met in the middle of a pass
        with pytest.raises(StorageError, match=r"indices\.npy ends at byte .* truncated"):
            topology.sample_bulk(rule, seeds, seed=1)
        with open(file, "r+b") as out:
            out.write(whole)
        assert_same(topology.sample_bulk(rule, seeds, seed=1), want)


def test_an_id_out_of_range_is_named(own_folder):
    graph = Graph.open(own_folder)
    position = int(graph.indptr[777])
    with open(own_folder / "indices.npy", "r+b") as file:
        file.seek(4096 + 4 * position)
        file.write(np.uint32(60_000).tobytes())
    said = r"indices\.npy: block 16 .* match its checksum"
    with DiskTopology(own_folder, "30MB") as topology, pytest.raises(FormatError, match=said):
        topology.sample_bulk(Neighbor([-1]), [np.array([777])], seed=1)
    (own_folder / "checks.json").unlink()  # an unchecked folder
    with DiskTopology(own_folder, "30MB") as topology:
        for _ in range(2):
            message = rf"indices\.npy holds node 60000 at position {position},"
            with pytest.raises(FormatError, match=message):
                topology.sample_bulk(Neighbor([-1]), [np.array([777])], seed=1)
        topology.sample_bulk(Neighbor([-1]), [np.array([778])], seed=1)  # still usable


def test_a_damaged_indptr_is_named(own_folder):
    with open(own_folder / "indptr.npy", "r+b") as file:
        file.seek(4096 + 8 * 500)
        file.write(np.int64(0).tobytes())
    with pytest.raises(FormatError, match="indptr.npy: block 0 .* does not match its checksum"):
        DiskTopology(own_folder, LEAST)
    (own_folder / "checks.json").unlink()  # an unchecked folder
    with pytest.raises(FormatError, match="indptr has 0 at position 500"):
        DiskTopology(own_folder, LEAST)


@pytest.mark.parametrize("refused", [("io_uring",), ("io_uring", "pread")])
def test_refusals_lead_down_the_ladder(disk_folder, monkeypatch, refused):
    real = _core.BlockReader

    def reader(path, backend, depth, name):
        if backend in refused:
            raise StorageError("refused")
        return real(path, backend, depth, name)

    monkeypatch.setattr(disk._core, "BlockReader", reader)
    with DiskTopology(disk_folder, LEAST) as topology:
        assert topology.backend == BACKENDS[len(refused)]
        topology.sample_bulk(Neighbor([3]), [np.arange(9)], seed=1)


def test_an_interrupt_ends_a_bulk(disk_folder):
    rule = Neighbor([20, 20, 5])

    def ring(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with DiskTopology(disk_folder, "100MB") as topology:
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
