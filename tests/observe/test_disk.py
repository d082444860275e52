"""Calibration: the cost model is monotone, JSON is checked, measuring leaves nothing behind."""

import json
import math
import os
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.observe import disk
from foregather.observe.disk import (
    BlockRate,
    Calibration,
    aligned_buffer,
    cache_folder,
    calibrate,
    calibration_path,
    find_calibration,
    first_backend,
    implausible,
    load_calibration,
    repaired,
)

SMALL = {"seconds": 0.3, "size": 32 << 20}


def made(iops, **changes):
    rates = tuple(BlockRate(4096 << i, rate, 64) for i, rate in enumerate(iops))
    fields = dict(
        device="test-vda-1.2",
        filesystem="ext4",
        backend="pread",
        alignment=512,
        date="2026-01-02T03:04:05+00:00",
        file_bytes=10**9,
        rates=rates,
        latency=8e-5,
        sequential_read=3e9,
        sequential_write=1e9,
        notes=("a note",),
    )
    return Calibration(**(fields | changes))


rates = st.lists(st.floats(1, 1e7), min_size=1, max_size=7)


@given(rates, st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 1 << 24), st.data())
def test_cost_model_is_monotone(iops, one, two, size, data):
    model = made(iops)
    larger = data.draw(st.integers(size, 1 << 24))
    few, many = sorted((one, two))
    assert 0 <= model.seconds(few, size) <= model.seconds(many, size)
    assert model.seconds(many, size) <= model.seconds(many, larger) * (1 + 1e-12)


@given(rates, st.integers(1, 1 << 24))
def test_cost_model_keeps_to_the_limits(iops, size):
    """Never faster than the best rate and the best bandwidth: max(requests/IOPS, bytes/BW)."""
    model = made(iops)
    floor = max(1 / model.iops, size / model.bandwidth)
    assert model.seconds(1000, size) >= 1000 * floor * (1 - 1e-12)


def test_cost_model_by_hand():
    # 100k reads/s up to 16 KiB, then 2 GB/s: the two straight lines of the rule.
    iops = [min(1e5, 2e9 / (4096 << i)) for i in range(7)]
    model = made(iops)
    assert model.break_even_bytes == 20_000
    assert model.seconds(100_000, 4096) == pytest.approx(1)
    assert model.seconds(100_000, 1) == pytest.approx(1)
    assert model.seconds(1000, 262_144) == pytest.approx(0.131072)
    assert model.seconds(1000, 1 << 20) == pytest.approx(0.524288)
    middle = (model.seconds(1, 65536) + model.seconds(1, 131072)) / 2
    assert model.seconds(1, 98304) == pytest.approx(middle)
    assert model.seconds(0, 4096) == 0
    for bad in ((-1, 4096), (1, 0), (1, -5)):
        with pytest.raises(InputError, match="expected 0 or more requests"):
            model.seconds(*bad)


def test_noise_is_not_charged_to_small_blocks():
    model = made([1000, 50_000, 20_000])  # a stall while 4 KiB was measured
    assert model.seconds(1, 4096) == pytest.approx(1 / 50_000)


@settings(max_examples=50)
@given(rates)
def test_round_trip(tmp_path_factory, iops):
    path = tmp_path_factory.mktemp("calibration") / "c.json"
    model = made(iops)
    assert Calibration.load(model.save(path)) == model
    assert [file.name for file in path.parent.iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("rates", []),
        ("rates", [{"block_bytes": 4096, "iops": 0, "depth": 1}]),
        ("rates", [{"block_bytes": 4096, "iops": math.nan, "depth": 1}]),
        ("rates", [{"block_bytes": 8192, "iops": 5.0, "depth": 1}] * 2),
        ("rates", "4096"),
        ("latency", math.inf),
        ("latency", True),
        ("alignment", -512),
        ("alignment", 512.0),
        ("device", 7),
        ("notes", [1]),
        ("sequential_read", None),
    ],
)
def test_impossible_values(tmp_path, field, value):
    facts = made([5.0]).to_json() | {field: value}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(facts))
    with pytest.raises(FormatError, match=r"c\.json is not a disk calibration"):
        Calibration.load(path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", "[" * 100_000, "\x00", '{"version":1}']
)
def test_corrupt_cache_is_ignored_with_a_note(tmp_path, monkeypatch, text):
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path))
    calibration_path(tmp_path).write_text(text)
    assert load_calibration(tmp_path) is None
    assert find_calibration(tmp_path)[1].startswith("the stored calibration was ignored: ")


def test_binary_cache_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path))
    calibration_path(tmp_path).write_bytes(b"\xff\xfe\x80")
    assert load_calibration(tmp_path) is None


def homeless():
    raise RuntimeError("Could not determine home directory.")


def test_a_calibration_without_copying_is_one_of_an_earlier_release():
    facts = made([5.0], copying=7e9).to_json()
    assert Calibration.from_json(facts).copying == facts.pop("copying") == 7e9
    assert Calibration.from_json(facts) == made([5.0])


def test_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("FOREGATHER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "foregather"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "foregather"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pathlib.Path.home", homeless)
    assert cache_folder().name == f"foregather-{os.getuid()}"
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    assert find_calibration(tmp_path) == (None, "")


def test_save_where_nothing_may_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="set FOREGATHER_CACHE"):
        made([5.0]).save(tmp_path / "file" / "c.json")


@pytest.mark.parametrize("backend", ["io_uring", "pread", "buffered"])
def test_calibrate(tmp_path, monkeypatch, backend):
    reason = _core.probe_reader(str(tmp_path))["backends"][backend]
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path / "cache"))
    found = calibrate(tmp_path, backend=backend, **SMALL)
    assert not list(tmp_path.iterdir())
    assert found.backend == backend
    assert found.file_bytes == 32 << 20
    assert [rate.block_bytes >> 10 for rate in found.rates] == [4, 8, 16, 32, 64, 128, 256]
    assert all(rate.iops > 0 and 1 <= rate.depth <= 128 for rate in found.rates)
    assert found.latency > 0 and found.sequential_read > 0 and found.sequential_write > 0
    assert found.break_even_bytes > 0 and found.copying > 0
    assert any("faster than" in note or "memory" in note for note in found.notes)
    assert found.save() == calibration_path(tmp_path)
    assert load_calibration(tmp_path) == found


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm here")
def test_memory_file_system():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as own:  # others come and go beside it
        found = calibrate(own, **SMALL)
        assert "is a memory file system" in found.notes[0]
        assert not os.listdir(own)


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="some time"):
        calibrate(tmp_path, seconds=0)
    with pytest.raises(InputError, match="nowhere cannot be inspected"):
        calibrate(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"twice that should be free, but only .* are"):
        calibrate(tmp_path, size=1 << 60)
    with pytest.raises(StorageError, match="are needed"):
        calibrate(tmp_path, size=4096)
    with pytest.raises(StorageError, match="no backend can read from this folder: no luck"):
        first_backend({"io_uring": "no", "pread": "no", "buffered": "no luck"})


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_is_left_after_a_failure(tmp_path, monkeypatch, failure):
    open_files = len(os.listdir("/proc/self/fd"))

    def fail(*_):
        raise failure

    monkeypatch.setattr(disk.os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt if failure is KeyboardInterrupt else StorageError):
        calibrate(tmp_path, **SMALL)
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_test_file_is_random(tmp_path):
    with open(tmp_path / "f", "w+b", buffering=0) as file:
        written, rate = disk._write(file, 32 << 20, 5.0, "pread")
        assert (written, rate > 0) == (32 << 20, True)
        assert os.fstat(file.fileno()).st_blocks * 512 >= written  # not sparse
    counts = np.bincount(np.fromfile(tmp_path / "f", np.uint8), minlength=256)
    assert abs(counts / written * 256 - 1).max() < 0.05
    steps = np.fromfile(tmp_path / "f", np.uint64)[:: disk._STEP // 8]
    assert len(set(steps.tolist())) == len(steps)  # no step repeats another


def test_a_slow_disk_gets_a_smaller_file(tmp_path):
    with open(tmp_path / "f", "w+b", buffering=0) as file:
        assert disk._write(file, 1 << 40, 0.0, "buffered")[0] == 32 << 20


@given(st.integers(1, 5 << 20))
@settings(max_examples=20)
def test_aligned_buffer(nbytes):
    buffer = aligned_buffer(nbytes)
    assert buffer.ctypes.data % 4096 == 0
    assert buffer.shape == (nbytes,) and buffer.dtype == np.uint8
    assert not buffer[:: max(1, nbytes // 100)].any()
    buffer[-1] = 7
    view = buffer[-1:]
    del buffer
    assert view[0] == 7


def test_no_buffer():
    for nbytes in (0, -1):
        with pytest.raises(InputError, match="at least 1"):
            aligned_buffer(nbytes)
    with pytest.raises(MemoryError):
        aligned_buffer(1 << 60)


def rates_of(**iops):
    return [BlockRate(int(name[1:]) << 10, value, 64) for name, value in iops.items()]


def test_rates_that_no_disk_has_are_found():
    assert implausible(rates_of(k4=110e3, k8=9.5e3, k32=45e3)) == [1]  # 8 KiB is part of 32 KiB
    assert implausible(rates_of(k4=110e3, k8=100e3, k32=45e3, k256=2e3)) == [3]  # a tenth in bytes
    assert implausible(rates_of(k4=500, k8=500, k32=500, k256=500)) == []  # throttled requests
    assert implausible(rates_of(k4=8e4, k8=4e4, k32=1e4, k256=1.2e3)) == []  # throttled bytes


def test_what_stays_implausible_is_replaced_and_noted():
    rates, notes = repaired(rates_of(k4=110e3, k8=9.5e3, k32=45e3))
    assert [rate.iops for rate in rates] == [110e3, 45e3, 45e3]
    assert len(notes) == 1 and "9,500 reads/s of 8 KiB" in notes[0] and "idle" in notes[0]
    assert implausible(rates) == []
    assert repaired(rates) == (tuple(rates), [])


def test_an_implausible_rate_is_measured_again(tmp_path, monkeypatch):
    """Something else used the disk during the first tests of 8 KiB."""
    asked = []

    def rate(self, block, depth, seconds):
        asked.append(block)
        return 1e3 if block == 8192 and asked.count(8192) <= 2 else 1e9 / block

    monkeypatch.setattr(disk._Bench, "rate", rate)
    found = calibrate(tmp_path, **SMALL)
    assert found.rates[1].iops == 1e9 / 8192 and asked.count(8192) == 4  # two depths, twice
    assert asked.count(4096) == 3  # two depths, and the latency
    assert not any("implausible" in note for note in found.notes)
