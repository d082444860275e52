"""doctor: a report with a verdict on every line, whatever the machine refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from foregather import _core
from foregather.cli import doctor
from foregather.cli.doctor import Doctor
from foregather.errors import InputError, StorageError
from foregather.observe.disk import Calibration, calibrate, calibration_path

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quick(tmp_path_factory, monkeypatch):
    """Its own cache, and a calibration of a fraction of a second."""
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(doctor, "calibrate", lambda folder, *_: calibrate(folder, 0.2, 32 << 20))


def find(facts, what):
    return next(check for check in facts["checks"] if check["what"] == what)


def test_report(tmp_path):
    command = Doctor(tmp_path, quick=True)
    facts = command.run()
    assert json.loads(json.dumps(facts)) == facts
    text = command.show(facts)
    for line in text.split("\n\n")[0].splitlines():
        assert line.startswith(("good ", "limited ", " "))
    for check in facts["checks"]:
        assert (check["status"] == "limited") == bool(check["advice"])
    assert find(facts, "numpy")["status"] == "good"
    for size in (4, 8, 16, 32, 64, 128, 256):
        assert f"{size} KiB" in text
    assert facts["stored"] == str(calibration_path(tmp_path)) and facts["stored"] in text
    assert Calibration.load(facts["stored"]).to_json() == facts["calibration"]
    assert not list(tmp_path.iterdir())


def test_without_disk(tmp_path):
    command = Doctor(tmp_path, no_disk=True)
    facts = command.run()
    assert facts["calibration"] is None and facts["stored"] is None
    assert "KiB" not in command.show(facts)
    Doctor(tmp_path).run()
    assert "256 KiB" in command.show(command.run())  # the stored one
    calibration_path(tmp_path).write_text("{")
    facts = command.run()
    assert "was ignored" in find(facts, "stored")["found"]
    assert facts["calibration"] is None


def test_a_file_stands_for_its_folder(tmp_path):
    (tmp_path / "graph.npy").write_bytes(b"x")
    assert Doctor(tmp_path / "graph.npy", no_disk=True).run()["reader"]["backend"]
    with pytest.raises(InputError, match="nowhere does not exist"):
        Doctor(tmp_path / "nowhere").run()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no /dev/shm here")
def test_memory_file_system():
    command = Doctor(Path("/dev/shm"))
    assert "is in memory" in command.show(command.run())


def test_refusals_are_findings(tmp_path, monkeypatch):
    refused = {"io_uring": "io_uring is refused here", "pread": None, "buffered": None}
    answer = {"backends": refused, "alignment": 512, "deferred": False}
    monkeypatch.setattr(_core, "probe_reader", lambda _: answer)
    facts = Doctor(tmp_path, no_disk=True).run()
    assert find(facts, "io_uring")["status"] == "limited"
    assert "a pool of pread threads" in find(facts, "io_uring")["advice"]
    assert find(facts, "O_DIRECT")["status"] == "good"
    refused["pread"] = "direct reads are refused"
    facts = Doctor(tmp_path, no_disk=True).run()
    assert "page cache" in find(facts, "O_DIRECT")["advice"]
    assert "buffered reads" in find(facts, "io_uring")["advice"]
    assert facts["reader"]["backend"] == "buffered"


def test_a_disk_that_cannot_be_tested(tmp_path, monkeypatch):
    def fail(*_):
        raise StorageError("no space left")

    monkeypatch.setattr(doctor, "calibrate", fail)
    monkeypatch.setattr(_core, "probe_reader", fail)
    command = Doctor(tmp_path)
    text = command.show(command.run())
    assert "limited  disk test" in text and "limited  reading" in text and "no space left" in text


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path / "file" / "cache"))
    facts = Doctor(tmp_path).run()
    assert facts["calibration"] is not None and facts["stored"] is None
    assert "FOREGATHER_CACHE" in find(facts, "stored")["found"]


def test_packages(monkeypatch):
    have = {"foregather": "0.1.0", "numpy": "1.9.3", "torch": None, "torch-geometric": None}
    machine = {"python": "3.10.0", "packages": {**have, "pyarrow": "99.0.0+local"}}
    checks = {check["what"]: check for check in doctor._check_packages(machine)}
    assert checks["numpy"]["found"] == "1.9.3 is older than 1.26"
    assert checks["torch"]["advice"] == "pip install torch"
    assert "foregather[pyg]" in checks["torch-geometric"]["advice"]
    assert checks["pyarrow"]["status"] == "good"


def test_packages_that_cannot_be_looked_up(monkeypatch):
    """As in a folder of packages that this user may not read."""

    def missing(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", missing)
    machine = {"python": "3.10.0", "packages": dict.fromkeys(doctor.PACKAGES)}
    checks = doctor._check_packages(machine)
    assert all(check["found"] == "not installed" for check in checks[1:])


def test_machine_limits(monkeypatch):
    memory = {"available": 5, "total": 10, "cgroup_limit": 8_000_000_000, "huge_pages": None}
    cpu = {"model": "x", "cores_allowed": 1, "cores_total": 4, "simd": []}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    facts = {"kernel": "6.1", "cpu": cpu, "memory": {**memory, "locked_limit": 8 << 20}}
    checks = {check["what"]: check for check in doctor._check_machine(facts)}
    limited = {name for name, check in checks.items() if check["status"] == "limited"}
    assert limited == {"cores", "simd", "memory", "huge pages", "locked memory"}
    assert "limited to 8 GB" in checks["memory"]["found"]


def test_slow_disk():
    place = {"filesystem": "ext4", "source": "/dev/sda", "free": 10**9, "requests": 4}
    slow = Calibration.from_json(
        {
            "version": 1,
            "rates": [{"block_bytes": 4096, "iops": 120, "depth": 16}],
            **dict.fromkeys(("device", "filesystem", "backend", "date"), "x"),
            **dict.fromkeys(("alignment", "file_bytes", "latency"), 1),
            **dict.fromkeys(("sequential_read", "sequential_write"), 1),
            "notes": [],
        }
    )
    found = doctor._check_disk(place, slow)
    assert [check["what"] for check in found if check["status"] == "limited"] == [
        "disk queue",
        "disk rate",
    ]


def test_flags():
    parsed = tyro.cli(Doctor, args=["/tmp", "--quick", "--no-disk", "--json"])
    assert parsed == Doctor(Path("/tmp"), quick=True, no_disk=True, json=True)
    assert tyro.cli(Doctor, args=[]) == Doctor()


def test_unprivileged(tmp_path):
    """As nobody, in a folder that may not be written to: findings, no traceback."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become nobody")
    script = (
        "import os\nfrom pathlib import Path\nfrom foregather.cli.doctor import Doctor\n"
        "Doctor(Path('/'), no_disk=True).run()\n"  # imports all, in case nobody may not
        "os.setuid(65534)\n"
        "command = Doctor(Path('/'))\nfacts = command.run()\nprint(command.show(facts))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "limited  reading" in done.stdout and "limited  disk test" in done.stdout
