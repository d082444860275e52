"""The Loader with repacked bulks: the batches in memory, the bytes of the plan, no file left."""

import errno
import re
import threading
import time

import pytest
import torch

from foregather import BatchContents, BudgetError, Graph, Loader, _core
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures
from foregather.graph.synthetic import synthesize
from foregather.loader.disk import out_of_core
from foregather.loader.prefetch import THREAD_NAME
from foregather.plan import choose
from tests.gather.faulty import FaultyRepack
from tests.loader.loops import force


@pytest.fixture(scope="module", params=["float32", "int8"])
def graph(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / request.param
    synthesize(folder, 20_000, degree=8, features=96, classes=5, dtype=request.param, seed=3)
    return Graph.open(folder)


def make(graph, forced="repack", **options):
    """The least memory with room to sweep and a small cache."""
    settings = {
        "shuffle": True,
        "seed": 7,
        "contents": BatchContents(pyg=False),
        "threads": 2,
        "bulk": 4,
    } | options
    if forced is None:
        return Loader(graph, [4, 3], "train", 128, **settings)
    settings = {"storage": "features"} | settings
    with pytest.raises(BudgetError) as caught:
        Loader(graph, [4, 3], "train", 128, memory=1, **settings)
    for more in range(17_000_000, 60_000_000, 200_000):
        memory = caught.value.least + more
        loader = Loader(graph, [4, 3], "train", 128, memory=memory, **settings)
        if loader._source._with_sweep(FeatureFile.of(graph)) is not None:
            break
    if forced != "any":
        force(loader, forced)
    return loader


def names(graph):
    return sorted(path.name for path in graph.path.iterdir())


def assert_equal_epoch(loader, graph):
    plain = make(graph, None)
    plain.set_epoch(loader.epoch)
    for ours, theirs in zip(loader, plain, strict=True):
        assert torch.equal(ours.x, theirs.x) and torch.equal(ours.n_id, theirs.n_id)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["features", "disk"])
def test_batches_equal_those_in_memory(graph, storage):
    before = names(graph)
    loader = make(graph, storage=storage)
    for epoch in range(2):  # the second starts with a full cache
        announced = loader.plan(epoch) if epoch == 0 else None
        start = loader.counters().get("features", {})
        assert_equal_epoch(loader, graph)
        counted, planned = loader.counters()["features"], loader.planned()[0]
        moved = {name: counted[name] - start.get(name, 0) for name in counted}
        assert (moved["requests"], moved["bytes"]) == (planned.requests, planned.bytes)
        assert (moved["rows"], moved["hits"]) == (planned.rows, planned.hits)
        assert moved["bytes"] + moved["written"] == loader.planned()[1].bytes
        assert moved["requests"] + moved["writes"] == loader.planned()[1].requests
        assert moved["sweeps"] > 2
        assert moved["written"] >= planned.misses * (graph.features.nbytes // len(graph.features))
        if announced is not None:
            assert announced.reads == planned
    assert isinstance(loader._source._features, RepackFeatures)
    assert sum(loader.layout.shares.values()) <= loader.layout.memory
    assert loader._source._features.memory_bytes <= sum(
        loader.layout.shares[name] for name in ("cache", "staging", "sweep")
    )
    assert names(graph) == before
    loader.close()


def test_it_is_shown_and_used_where_it_is_chosen(graph, monkeypatch):
    """Which way is cheapest is tested with `choose`; here it says that repacking is."""
    loader = make(graph, None, memory="80MB", storage="features")
    text = loader.plan(0).explain()
    assert "repack " in text and text.count("<- chosen") == 1

    def choice(*arguments, **options):
        return choose(*arguments, **options).using("repack")

    monkeypatch.setattr(out_of_core, "choose", choice)
    loader = make(graph, "any")
    assert_equal_epoch(loader, graph)
    assert loader.layout.caching == "repack"
    assert re.search(r"repack .* <- chosen", loader.explain())
    assert "measured" in loader.explain()
    assert "cache" in loader.layout.summary() and "sweep" in loader.layout.summary()


def spoil(monkeypatch, **options):
    class Spoilt(FaultyRepack):
        def __init__(self, *arguments, **given):
            super().__init__(*arguments, **(given | options))

    monkeypatch.setattr(out_of_core, "RepackFeatures", Spoilt)


def test_a_full_disk(graph, monkeypatch):
    """From the third bulk on there is no room: the same batches, read row by row."""
    faults = _core.testing.Faults()
    loader = make(graph)
    spoil(monkeypatch, write_faults=faults)
    plain = make(graph, None)
    for number, (ours, theirs) in enumerate(zip(loader, plain, strict=True)):
        if number == 8:
            faults.fail(0, 1 << 40, errno.ENOSPC, 1 << 40)
        assert torch.equal(ours.x, theirs.x)
    counted, planned = loader.counters()["features"], loader.planned()[0]
    assert counted["sweeps"] >= 2 and counted["refused"] >= 1
    assert (counted["requests"], counted["bytes"]) == (planned.requests, planned.bytes)
    assert "bulks were read row by row: cannot write to a scratch file" in loader.explain()


def test_a_loop_left_early_ends_its_sweep(graph, monkeypatch):
    faults = _core.testing.Faults()
    loader = make(graph, bulk=2, prefetch=1)
    spoil(monkeypatch, faults=faults, depth=1)
    before = names(graph)
    for number, _ in enumerate(loader):
        if number == 0:
            faults.delay(0, 1 << 40, 30, 1 << 40)  # the next sweep takes minutes
        if number == 1:
            break
    start = time.monotonic()
    while any(t.name == THREAD_NAME for t in threading.enumerate()):
        assert time.monotonic() < start + 30, "a thread outlived its loop"
        time.sleep(0.01)
    assert names(graph) == before
    monkeypatch.undo()
    loader.set_epoch(0)
    assert_equal_epoch(loader, graph)
