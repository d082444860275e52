"""replay: epochs that repeat one, from packed rows; the same bits as without the disk."""

import os

import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.synthetic import synthesize
from foregather.loader.disk import replay as module

OPTIONS = {"shuffle": True, "seed": 7, "contents": BatchContents(pyg=False), "threads": 2}
NAMES = ("n_id", "x", "y", "edge_index", "e_id", "input_id")


@pytest.fixture(scope="module", params=["float32", "int8"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / request.param
    synthesize(path, 6000, degree=8, features=64, classes=5, dtype=request.param, seed=3)
    return path


def make(folder, **options):
    given = {"memory": "40MB", "storage": "features", "bulk": 2, **OPTIONS, **options}
    return Loader(Graph.open(folder), [4, 3], "train", 128, **given)


def plain(folder, **options):
    return Loader(Graph.open(folder), [4, 3], "train", 128, **OPTIONS, **options)


def assert_same(ours, theirs):
    assert ours.number == theirs.number
    for name in NAMES:
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def test_epochs_repeat_the_first_of_their_group(folder):
    loader, once = make(folder, replay=3), plain(folder)
    for epoch in range(5):
        once.set_epoch(epoch - epoch % 3)
        for ours, theirs in zip(loader, once, strict=True):
            assert_same(ours, theirs)
    again = plain(folder, replay=3)  # in memory nothing is packed, and batches are the same
    again.set_epoch(4)
    once.set_epoch(3)
    for ours, theirs in zip(again, once, strict=True):
        assert_same(ours, theirs)


def test_repeated_epochs_read_only_what_was_packed(folder):
    loader = make(folder, replay=4)
    rows = sum(len(batch.x) for batch in loader)
    packed = rows * 64 * 4
    before = loader.counters()["features"]
    pack = loader._source._pack
    assert pack.written == packed and pack.read_bytes == 0
    for turn in (1, 2, 3):
        for _ in loader:
            pass
        assert pack.read_bytes == turn * packed
        assert loader.counters()["features"] == before, "nothing was read from the feature file"
    assert f"{len(loader):,} of {len(loader):,} batches are packed" in loader.explain()
    for _ in loader:  # the next group packs anew
        pass
    assert pack is not loader._source._pack


def test_the_price_is_said_before(folder):
    text = make(folder, replay=5).plan().explain()
    assert "5 epochs use the samples of the first" in text and "not independent" in text
    assert "of scratch" in text and "times the feature file" in text
    assert "replay" not in make(folder).plan().explain()


@pytest.mark.parametrize("stop", [3, 9])
def test_resume_is_exact(folder, stop):
    loader, want = make(folder, replay=2), []
    for epoch in range(2):
        want += [(epoch, batch) for batch in loader]
    first, seen = make(folder, replay=2), 0
    for _ in range(2):
        for _ in first:
            seen += 1
            if seen == stop:
                state = first.state_dict()
    resumed = make(folder, replay=2)
    resumed.load_state_dict(state)
    got = [batch for _ in range(1 if stop > len(loader) else 2) for batch in resumed]
    assert len(got) == len(want) - stop
    for ours, (_, theirs) in zip(got, want[stop:], strict=True):
        assert_same(ours, theirs)
    with pytest.raises(InputError, match="replay"):
        make(folder, replay=3).load_state_dict(state)


def test_a_loop_that_is_left_packs_what_it_saw(folder):
    loader, once = make(folder, replay=2), plain(folder)
    for batch in loader:
        if batch.number == 2:
            break
    for ours, theirs in zip(loader, once, strict=True):  # epoch 1: the rest is read and packed
        assert_same(ours, theirs)
    assert loader._source._pack.has(0)


def test_evaluation_beside_it_is_not_packed(folder):
    loader = make(folder, replay=2)
    valid, once = loader.beside("valid"), plain(folder)
    for _ in range(2):
        once.set_epoch(0)
        for ours, theirs in zip(loader, once, strict=True):
            assert_same(ours, theirs)
            if ours.number == 1:
                assert len(list(valid)) == len(valid)


def test_a_full_disk_reads_by_plan(folder, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("U", (), {"free": 10})())
    loader, once = make(folder, replay=2), plain(folder)
    for _ in range(2):
        once.set_epoch(0)
        for ours, theirs in zip(loader, once, strict=True):
            assert_same(ours, theirs)
    assert "nothing is packed" in loader.explain() and "are needed" in loader.explain()


def test_a_disk_that_fills_up_meanwhile(folder, monkeypatch):
    loader, once, real = make(folder, replay=2), plain(folder), os.pwrite
    calls = []

    def write(*args):
        calls.append(args)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(module.os, "pwrite", write)
    for _ in range(2):
        once.set_epoch(0)
        for ours, theirs in zip(loader, once, strict=True):
            assert_same(ours, theirs)
    assert "No space left on device" in loader.explain()


def test_nothing_is_left_behind(folder):
    before = sorted(os.listdir(folder))
    loader = make(folder, replay=2)
    for _ in loader:
        assert sorted(os.listdir(folder)) == before
    loader.close()
    assert sorted(os.listdir(folder)) == before


def test_damage_and_change_are_found(tmp_path):
    synthesize(tmp_path / "g", 3000, degree=8, features=64, classes=5, seed=3)
    loader = make(tmp_path / "g", replay=3)
    for _ in loader:
        pass
    pack = loader._source._pack
    os.pwrite(pack._descriptor, b"\xff\x00\xff", 100)
    with pytest.raises(FormatError, match="packed rows of batch 0"):
        list(loader)
    loader = make(tmp_path / "g", replay=3)
    for _ in loader:
        pass
    with (tmp_path / "g" / "features.npy").open("r+b") as file:
        file.seek(5000)
        file.write(b"\x01")
    with pytest.raises((StorageError, FormatError)):
        list(loader)


def test_bad_values(folder):
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(InputError, match="replay"):
            make(folder, replay=wrong)
    with pytest.raises(InputError, match="rows of ranks are not packed"):
        make(folder, replay=2, grid=object())
