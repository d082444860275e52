"""A slow disk: what is said, in a log too, and what is read differently from then on."""

import re
import sys
import time

import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.gather.disk import DiskFeatures
from foregather.graph.synthetic import synthesize
from foregather.loader.disk import out_of_core
from foregather.loader.disk.outlook import outlook
from foregather.observe import progress
from foregather.observe.progress import Progress, quiet
from foregather.plan.cost import ASSUMED_DISK, slowed


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "g"
    synthesize(folder, 20_000, degree=8, features=256, classes=5, seed=3)
    return Graph.open(folder)


@pytest.fixture(autouse=True)
def unmeasured(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path / "cache"))


def make(graph, **options):
    fixed = {"shuffle": True, "seed": 7, "contents": BatchContents(pyg=False), "threads": 1}
    return Loader(graph, [3, 2], range(0, 20_000, 80), 8, **fixed, **options)


def test_the_outlook_names_layout_seconds_and_doctor(graph):
    loader = make(graph, memory=31_840_000, storage="features", bulk=4)
    text = outlook(loader)
    assert "features on disk" in text and re.search(r"predicted to take \d+\.\d s", text)
    assert f"run foregather doctor {graph.path}" in text
    assert loader._source.choice is not None
    loader.close()
    assert outlook(make(graph)) == ""


def test_a_slower_disk_is_read_in_other_blocks_from_the_next_epoch_on(graph, monkeypatch, capfd):
    """As if it did 500 reads a second, whatever their size: fewer, larger ones are better then."""
    real = DiskFeatures.counters
    monkeypatch.setattr(
        DiskFeatures,
        "counters",
        lambda self: {**(now := real(self)), "waiting": now["requests"] / 500},
    )
    monkeypatch.setattr(out_of_core, "_SLOW", 0.1)
    loader, plain = make(graph, memory=31_840_000, storage="features", bulk=4), make(graph)
    blocks = []
    for _ in range(3):
        for ours, theirs in zip(loader, plain, strict=True):
            assert torch.equal(ours.x, theirs.x) and torch.equal(ours.n_id, theirs.n_id)
        summary, cost = loader._source.planned()
        counters, before = loader.counters()["features"], loader._source._before
        assert counters["bytes"] - before["bytes"] == summary.bytes == cost.bytes
        blocks.append(loader.layout.block)
    assert blocks[0] < blocks[1] == blocks[2]
    said = capfd.readouterr().err
    assert "warning: the disk did 500 reads/s" in said and "foregather doctor" in said
    assert "slower than predicted: 500 requests/s" in loader.explain()
    loader.close()


def test_rates_are_only_ever_lowered():
    found = slowed(ASSUMED_DISK, 16 << 10, 500.0)
    assert [rate.iops for rate in found.rates[1:]] == [500.0] * 4
    assert 500.0 <= found.rates[0].iops < 1000
    assert slowed(ASSUMED_DISK, 4096, 1e9) is ASSUMED_DISK
    again = slowed(
        found, 256 << 10, 100.0, smaller=False
    )  # and then bytes turn out to be short as well
    assert again.rates[3].iops == 100.0 < again.rates[1].iops


def test_a_log_has_lines_with_the_time_left(monkeypatch, capfd):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with Progress("training", 1000, "batches", lines=True) as bar:
        bar.advance(250)
        said, end = "", time.monotonic() + 60
        while "none in the last" not in said and time.monotonic() < end:
            time.sleep(0.05)  # nothing advances, and still there are lines
            said += capfd.readouterr().err
    assert re.search(r"training: 250/1,000 batches in \d:\d\d:\d\d, .*/s, .* left", said)
    assert "none in the last" in said
    capfd.readouterr()
    time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_quiet_and_short_work_write_none(monkeypatch, capfd):
    monkeypatch.setattr(progress, "EVERY", 0.02)
    with quiet(), Progress("training", 10, "batches", lines=True):
        time.sleep(0.1)
    with Progress("reading", 10, "rows"):
        time.sleep(0.1)
    assert capfd.readouterr().err == "" and sys.stderr is not None
