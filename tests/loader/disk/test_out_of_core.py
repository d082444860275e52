"""Out of core: the Loader under a budget yields the batches of the Loader in memory."""

import threading
import time

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader, _core
from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.synthetic import synthesize
from foregather.loader.memory.layout import held_bytes
from foregather.loader.prefetch import THREAD_NAME
from foregather.sampling import Labor, Ladies, Neighbor, RandomWalk, Saint
from tests.kernel import undisturbed
from tests.loader.loops import force

MB = 1_000_000


@pytest.fixture(scope="module", params=["float32", "float16", "int8"])
def graph(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / request.param
    synthesize(folder, 20_000, degree=8, features=96, classes=5, dtype=request.param, seed=3)
    return Graph.open(folder)


OPTIONS = {"shuffle": True, "seed": 7, "contents": BatchContents(pyg=False), "threads": 2}


def make(graph, **options):
    return Loader(graph, [4, 3], "train", 128, **{**OPTIONS, **options})


def least(graph, **options):
    """The minimum that the error names."""
    with pytest.raises(BudgetError) as caught:
        make(graph, memory=1, **options)
    text = str(caught.value)
    return int(text.rsplit("(", 1)[1].split(" ")[0])


def assert_same(ours, theirs):
    assert ours.number == theirs.number
    for name in ("n_id", "x", "y", "edge_index", "e_id", "input_id", "edge_weight"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert (a is None) == (b is None), name
        assert a is None or (a.dtype == b.dtype and torch.equal(a, b)), name


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
@pytest.mark.parametrize("extra", [0, 300_000, 3 * MB])
def test_batches_equal_those_in_memory(graph, storage, extra):
    memory = least(graph, storage=storage, bulk=4) + extra
    loader = make(graph, storage=storage, memory=memory, bulk=4)
    plain = make(graph)
    for _ in range(2):  # the second epoch starts with a full cache
        count = 0
        for ours, theirs in zip(loader, plain, strict=True):
            assert_same(ours, theirs)
            count += 1
        assert count == len(plain)
    assert (loader.layout.features == "disk") == (storage != "topology")
    assert (loader.layout.topology == "disk") == (storage != "features")
    if storage == "topology":
        assert loader.layout.shares["features"] == graph.features.nbytes
        assert loader.counters()["topology"]["bytes"] > 0
    assert sum(loader.layout.shares.values()) <= memory
    loader.close()


def test_counters_equal_the_plan(graph):
    loader = make(graph, storage="features", memory=least(graph, storage="features") + MB)
    for _ in loader:
        pass
    counted, planned = loader.counters()["features"], loader.planned()[0]
    assert (counted["requests"], counted["bytes"]) == (planned.requests, planned.bytes)
    assert (counted["rows"], counted["hits"]) == (planned.rows, planned.hits)
    assert 0 < planned.block_bound <= planned.blocks
    assert "predicted" in loader.explain() and "measured" in loader.explain()


@pytest.mark.parametrize("storage", ["features", "disk"])
@pytest.mark.parametrize("way", ["row", "repack"])
def test_the_kernel_counts_the_bytes_of_the_plan(graph, storage, way):
    """All that the process reads from disk in an epoch is what was planned."""
    if _core.probe_reader(str(graph.path))["backends"]["pread"] is not None:
        pytest.skip("no direct reads here: the page cache hides reads from the count")
    memory = least(graph, storage=storage, bulk=4) + 60 * MB
    loader = make(graph, storage=storage, memory=memory, bulk=4)
    force(loader, way)
    list(loader)  # what is mapped (labels, seeds) is in the page cache after it

    def epoch():
        start = _read(loader)["topology"]
        loader.close()  # an empty cache: this epoch reads as well
        for _ in loader:
            pass
        counted = _read(loader)
        return counted["features"], counted["features"] + counted["topology"] - start

    (features, counted), moved, _ = undisturbed(epoch, lambda found: found[1])
    assert moved == counted
    assert features == loader.planned()[0].bytes > 0


def _read(loader):
    counters = loader.counters()
    return {part: counters.get(part, {}).get("bytes", 0) for part in ("features", "topology")}


def test_the_plan_before_is_the_plan_of_the_first_epoch(graph):
    loader = make(graph, storage="features", memory=least(graph, storage="features") + MB)
    before = loader.plan(0)
    assert loader.counters() == {}, "nothing was read"
    for _ in loader:
        pass
    assert before.reads == loader.planned()[0]
    assert before.predicted.requests == loader.counters()["features"]["requests"]
    assert "predicted" in before.summary() and "chosen" in before.explain()
    part = loader.plan(0, batches=3)
    assert part.batches <= before.batches and part.reads.requests <= before.reads.requests


def test_a_loop_left_early_and_a_resumed_one(graph):
    memory = least(graph, storage="disk", bulk=3) + MB
    loader = make(graph, storage="disk", memory=memory, bulk=3)
    for batch in loader:
        if batch.number == 4:
            state = loader.state_dict()
            break
    plain = list(make(graph))
    again = make(graph, storage="disk", memory=memory, bulk=3)
    again.load_state_dict(state)
    rest = list(again)
    assert [b.number for b in rest] == list(range(5, len(plain)))
    for ours, theirs in zip(rest, plain[5:], strict=True):
        assert_same(ours, theirs)
    loader.set_epoch(0)  # the loop that was left: an empty cache, the same batches
    for ours, theirs in zip(loader, plain, strict=True):
        assert_same(ours, theirs)
    deadline = time.monotonic() + 10
    while any(t.name == THREAD_NAME for t in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread outlived its loop"
        time.sleep(0.01)


def test_everything_fits(graph):
    loader = make(graph, memory="2GB")
    assert loader.layout is None and loader.counters() == {}
    for ours, theirs in zip(loader, make(graph), strict=True):
        assert_same(ours, theirs)
    with pytest.raises(InputError, match="reads nothing by plan"):
        loader.plan()


def test_auto_goes_to_disk_where_it_must(tmp_path):
    """And only there: with room for all of the graph beside the least, nothing is read."""
    synthesize(tmp_path / "g", 60_000, degree=8, features=96, classes=5, split=(0.1, 0.1, 0.1))
    graph = Graph.open(tmp_path / "g")
    memory, whole = least(graph, storage="features"), held_bytes(graph)
    assert memory < whole
    auto = make(graph, memory=memory)
    assert auto.layout is not None and auto.layout.features == "disk"
    assert make(graph, memory=memory + whole).layout is None


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
@pytest.mark.parametrize(
    "sampler", [Ladies([64, 64]), Labor([4, 3]), RandomWalk(2)], ids=lambda s: type(s).__name__
)
def test_other_samplers(graph, sampler, storage):
    options = {"sampler": sampler, **OPTIONS}
    loader = Loader(graph, None, "train", 512, memory="60MB", storage=storage, **options)
    assert loader.layout.topology == ("memory" if storage == "features" else "disk")
    for ours, theirs in zip(loader, Loader(graph, None, "train", 512, **options), strict=True):
        assert torch.equal(ours.x, theirs.x) and torch.equal(ours.e_id, theirs.e_id)


def test_a_sampler_that_cannot_says_why(graph):
    options = {"sampler": Saint("node", 99), **OPTIONS}
    with pytest.raises(InputError, match="storage is 'disk', but Saint.* counts every edge"):
        Loader(graph, None, "train", 128, memory="60MB", storage="disk", **options)


def test_a_file_that_changes_under_the_loop(tmp_path):
    synthesize(tmp_path / "g", 20_000, degree=8, features=96, classes=5, seed=3)
    graph = Graph.open(tmp_path / "g")
    loader = make(graph, storage="features", memory=least(graph, storage="features"), bulk=1)
    with pytest.raises(StorageError, match=r"features\.npy"):
        for _ in loader:
            with open(tmp_path / "g" / "features.npy", "r+b") as file:
                file.truncate(1 << 20)


def test_bad_input(graph):
    with pytest.raises(InputError, match="storage is 'tape'"):
        make(graph, memory="1GB", storage="tape")
    with pytest.raises(InputError, match="memory="):
        make(graph, storage="disk")
    held = Graph.from_edge_index(np.array([[0, 1], [1, 0]]), x=np.zeros((2, 3), np.float32))
    with pytest.raises(InputError, match="is in memory; save it"):
        Loader(held, [1], None, 1, memory="1GB", storage="features")
    assert isinstance(make(graph).sampler, Neighbor)
