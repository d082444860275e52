"""Facts about the machine agree with the standard library, and cgroup limits of both kinds."""

import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from foregather.errors import InputError
from foregather.observe.machine import describe_machine, describe_place, device_id, memory_limit


def test_facts(tmp_path):
    facts = describe_machine(tmp_path)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["python"] == platform.python_version()
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["kernel"] == os.uname().release
    assert facts["cpu"]["cores_allowed"] == len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["memory"]["total"] == pytest.approx(pages, rel=0.01)
    assert 0 < facts["memory"]["available"] <= facts["memory"]["total"]
    assert facts["memory"]["huge_pages"] in ("always", "madvise", "never", None)
    assert "gpus" not in facts


def test_place(tmp_path):
    place = describe_place(tmp_path)
    device = tmp_path.stat().st_dev
    assert place["device"] == f"{os.major(device)}:{os.minor(device)}"
    assert 0 <= place["free"] <= place["total"]
    assert place["filesystem"] != "unknown"
    assert describe_place("/proc")["filesystem"] == "proc"
    with pytest.raises(InputError, match="nowhere cannot be inspected"):
        describe_place(tmp_path / "nowhere")


def test_device_id_names_a_file(tmp_path):
    name = device_id(tmp_path)
    assert name == device_id(tmp_path / ".")
    assert "/" not in name and ":" not in name and " " not in name
    assert device_id("/proc") != name


def test_torch_is_not_imported(tmp_path):
    script = (
        "import sys\nfrom foregather.observe.machine import describe_machine\n"
        "describe_machine('.')\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=600)


def test_gpus_when_asked(tmp_path):
    pytest.importorskip("torch")
    assert isinstance(describe_machine(tmp_path, gpu=True)["gpus"], list)


def group(tmp_path, lines, limits):
    (tmp_path / "cgroup").write_text(lines)
    for name, value in limits.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    return memory_limit(tmp_path / "cgroup", tmp_path / "fs")


def test_limit_v2(tmp_path):
    # The tightest of the group and all above it counts.
    limits = {"a/b/memory.max": "max\n", "a/memory.max": "5000000\n", "memory.max": "9000000\n"}
    assert group(tmp_path, "0::/a/b\n", limits) == 5_000_000


def test_limit_v1(tmp_path):
    lines = "4:memory:/a\n1:cpu,cpuacct:/x\n0::/\n"
    limits = {
        "memory/a/memory.limit_in_bytes": "7000000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cpu/x/memory.limit_in_bytes": "1\n",
    }
    assert group(tmp_path, lines, limits) == 7_000_000


def test_limit_of_a_container_that_sees_only_its_top(tmp_path):
    limits = {"memory/memory.limit_in_bytes": "3000000"}
    assert group(tmp_path, "4:memory:/docker/0123\n", limits) == 3_000_000


@pytest.mark.parametrize("lines", ["", "0::/\n", "garbage\n::\n", "4:memory:/a\n"])
def test_no_limit(tmp_path, lines):
    assert group(tmp_path, lines, {"memory/a/memory.limit_in_bytes": "junk"}) is None
