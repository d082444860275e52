"""DiskTopology with samplers of whole lists: the bits of memory, planned reads, a budget held."""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import BudgetError, FormatError, InputError, StorageError
from foregather.sampling import (
    Cluster,
    DiskTopology,
    Excluded,
    FastGCN,
    Full,
    Labor,
    Ladies,
    MatrixSampler,
    Neighbor,
    RandomWalk,
    Saint,
)
from foregather.sampling.disk import reads_by_position, reads_from_disk
from foregather.sampling.on_disk.array_ranges import plan_ranges
from tests.helpers_sampling import assert_same, random_graph


@dataclass(frozen=True)
class Squares(MatrixSampler):
    """A user's own sampler: picks by squared values."""

    layer_sizes: tuple[int, ...] = (3, 2)

    def norm(self, p):
        """Weighs entries."""
        return p.values * p.values


SAMPLERS = {
    "weighted": Neighbor([4, 3], weights=True),
    "weighted again": Neighbor([4, -1], weights=True, replace=True, expand="per-layer"),
    "labor": Labor([4, 3]),
    "labor alike": Labor([3, 5], layer_dependency=True, debias="reference", batch_dependency=2),
    "labor bare": Labor([2, -1], debias=None, expand="per-layer"),
    "ladies": Ladies([20, 15]),
    "ladies reference": Ladies([9, -1], debias="reference"),
    "fastgcn": FastGCN([30, 20]),
    "fastgcn bare": FastGCN([12], debias=None),
    "walk": RandomWalk(3, walks=2),
    "saint walk": Saint("walk", 6, length=2, normalise=False),
    "saint node": Saint("node", 25, normalise=False),
    "saint edge": Saint("edge", 14, normalise=False),
    "own": Squares(),
    "full": Full(2),
}


@settings(max_examples=40)
@given(data=st.data(), name=st.sampled_from(sorted(SAMPLERS)))
def test_equals_memory(data, name):
    sampler = SAMPLERS[name]
    needs = name.startswith("weighted")
    nodes = data.draw(st.integers(2, 400))
    graph = random_graph(
        nodes,
        data.draw(st.integers(1, 4000)),
        data.draw(st.integers(0, 10**6)),
        weighted=needs or data.draw(st.booleans()),
        wide=data.draw(st.booleans()),
        isolated=data.draw(st.integers(0, 1)),
    )
    ids = st.lists(st.integers(0, nodes - 1), max_size=12)
    seeds = [np.array(s, np.int64) for s in data.draw(st.lists(ids, min_size=1, max_size=5))]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": data.draw(st.integers(0, 99))}
    first = data.draw(st.integers(0, 10**6))
    want = sampler.sample_bulk(graph, seeds, **keys, first_batch=first)
    options = {
        "gap": data.draw(st.sampled_from([0, 4096, 1 << 20])),
        "depth": data.draw(st.sampled_from([1, 64])),
        "hot": data.draw(st.sampled_from([0.0, 0.9])),
    }
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "g")
        with DiskTopology(Path(folder) / "g", "6MB", **options) as topology:
            threads = data.draw(st.integers(1, 3))
            got = topology.sample_bulk(sampler, seeds, **keys, first_batch=first, threads=threads)
            assert_same(got, want)
            assert got[0].node.dtype == graph.indices.dtype
            alone = [
                topology.sample_bulk(sampler, [one], **keys, first_batch=first + i)[0]
                for i, one in enumerate(seeds)
            ]  # any bulk size
            assert_same(alone, list(want))
            facts = topology.counters()
            assert facts["requests"] == facts["planned_requests"]
            assert facts["bytes"] == facts["planned_bytes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "g"
    random_graph(3000, 60_000, 4, weighted=True).save(path)
    return path


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_small_budget_reads_more_and_samples_the_same(folder, name):
    graph, sampler = Graph.open(folder), SAMPLERS[name]
    rng = np.random.default_rng(1)
    seeds = [rng.integers(0, 3000, 40) for _ in range(8)]
    want = sampler.sample_bulk(graph, seeds, seed=5)
    read = []
    for memory in ("5MB", "200MB"):
        with DiskTopology(graph, memory, hot=0.0) as topology:
            assert_same(topology.sample_bulk(sampler, seeds, seed=5), want)
            read.append(topology.counters()["bytes"])
            parts = topology.shares()
            parts.pop("least")
            assert sum(parts.values()) <= {"5MB": 5_000_000, "200MB": 200_000_000}[memory]
    assert read[0] >= read[1] > 0


def test_the_announced_minimum_is_the_minimum(folder):
    graph, seeds = Graph.open(folder), [np.arange(2500)]
    sampler = Ladies([500, 500])
    with DiskTopology(graph, "4MB") as topology, pytest.raises(BudgetError) as refused:
        topology.sample_bulk(sampler, seeds, seed=1)
    least = int(re.search(r"at least (\d+)", str(refused.value))[1])
    while True:  # the next layer may look at more
        try:
            with DiskTopology(graph, least) as topology:
                got = topology.sample_bulk(sampler, seeds, seed=1)
            break
        except BudgetError as error:
            assert error.least > least
            least = error.least
    assert_same(got, sampler.sample_bulk(graph, seeds, seed=1))
    with DiskTopology(graph, least - 1) as topology, pytest.raises(BudgetError):
        topology.sample_bulk(sampler, seeds, seed=1)


def test_held_lists_save_reads(folder):
    graph, sampler = Graph.open(folder), Labor([5, 5])
    seeds = [np.arange(b * 100, b * 100 + 100) for b in range(6)]
    read = {}
    for hot in (0.0, 0.9):
        with DiskTopology(graph, "6MB", hot=hot, gap=0) as topology:
            topology.sample_bulk(sampler, seeds, seed=5)  # what is held is read here
            before = topology.counters()
            topology.sample_bulk(sampler, seeds, seed=5, epoch=1)
            after = topology.counters()
            read[hot] = after["bytes"] - before["bytes"]
            assert (after["hot_hits"] > 0) == (hot > 0) == (after["hot_rows"] > 0)
            assert after["picks"] == after["hits"] + after["misses"]
    assert read[0.9] < read[0.0]


def test_links_that_are_left_out(folder):
    graph, rng = Graph.open(folder), np.random.default_rng(3)
    targets = [rng.integers(0, 3000, 60) for _ in range(3)]
    rows = [[graph.indices[graph.indptr[t] : graph.indptr[t + 1]] for t in ts] for ts in targets]
    sources = [
        np.array([row[len(row) // 2] if len(row) else 0 for row in some], np.int64) for some in rows
    ]
    exclude = Excluded.pairs(targets, sources)
    sampler = Labor([5, 5])
    want = sampler.sample_bulk(graph, targets, seed=2, exclude=exclude)
    assert want.digest != sampler.sample_bulk(graph, targets, seed=2).digest
    with DiskTopology(graph, "30MB") as topology:
        assert_same(topology.sample_bulk(sampler, targets, seed=2, exclude=exclude), want)
        with pytest.raises(InputError, match="tables of whole rows"):
            by_weight = Neighbor([5], weights=True)
            topology.sample_bulk(by_weight, targets, seed=2, exclude=exclude)


def test_one_topology_serves_both_kinds(folder):
    graph, seeds = Graph.open(folder), [np.arange(50), np.arange(9)]
    with DiskTopology(graph, "20MB") as topology:
        for sampler in (
            Neighbor([4, 4]),
            Labor([4, 4]),
            Neighbor([4, 4]),
            FastGCN([9]),
            Labor([3]),
        ):
            got = topology.sample_bulk(sampler, seeds, seed=1)
            assert_same(got, sampler.sample_bulk(graph, seeds, seed=1))
    with pytest.raises(InputError, match="closed"):
        topology.sample_bulk(Labor([3]), seeds, seed=1)


def test_what_cannot_be_sampled_says_why(folder):
    graph = Graph.open(folder)
    cases = {
        "counts every edge": Saint("node", 9),
        "does not say which rows": Cluster(np.zeros(3000, np.int64)),
    }
    with DiskTopology(graph, "20MB") as topology:
        for reason, sampler in cases.items():
            assert not reads_from_disk(sampler)
            with pytest.raises(InputError, match=reason):
                topology.sample_bulk(sampler, [np.arange(3)], seed=1)
        for wrong in (np.array([3000]), np.array([-1])):
            for sampler in (Labor([3]), RandomWalk(2)):
                with pytest.raises(InputError, match=r"3000 nodes"):
                    topology.sample_bulk(sampler, [wrong], seed=1)
    for name, sampler in SAMPLERS.items():
        assert reads_from_disk(sampler) and not reads_by_position(sampler), name
    assert not reads_from_disk(Neighbor([3], weights=True), leaves_out=True)
    assert reads_from_disk(Labor([3]), leaves_out=True)


def test_damage_and_change_are_found(folder, tmp_path):
    own = Path(shutil.copytree(folder, tmp_path / "g"))
    graph, seeds = Graph.open(own), [np.arange(3000)]
    with DiskTopology(graph, "60MB", hot=0.0) as topology:
        topology.sample_bulk(Labor([3]), seeds, seed=1)
        with (own / "edge_weight.npy").open("r+b") as file:
            file.seek(4096 + 8000)
            byte = file.read(1)
            file.seek(4096 + 8000)
            file.write(bytes([byte[0] ^ 4]))
        with pytest.raises(StorageError, match="edge_weight.npy was replaced or written to"):
            topology.sample_bulk(Labor([3]), seeds, seed=1)
    with (
        DiskTopology(Graph.open(own), "60MB", hot=0.0) as topology,
        pytest.raises(FormatError, match=r"edge_weight\.npy"),
    ):
        topology.sample_bulk(Labor([3]), seeds, seed=1)


@settings(max_examples=50)
@given(
    counts=st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 400_000)), min_size=1),
    gap=st.sampled_from([0, 4096, 100_000]),
)
def test_a_plan_covers_its_ranges(counts, gap):
    start, stop, at = [], [], 4096
    for free, size in counts:
        at += free
        start.append(at)
        at += size
        stop.append(at)
    size = -(-at // 4096) * 4096
    plan = plan_ranges(np.array(start), np.array(stop), gap, size)
    assert (plan.offset % 4096 == 0).all() and (plan.offset + plan.length <= size).all()
    assert (np.diff(plan.offset) >= plan.length[:-1]).all(), "sorted, and no byte twice"
    file_byte = np.concatenate(
        [np.arange(o, o + n) for o, n in zip(plan.offset, plan.length, strict=True)]
    )
    for begin, end, place in zip(start, stop, plan.where, strict=True):
        assert file_byte[place] == begin
        assert file_byte[place + end - begin - 1] == end - 1
