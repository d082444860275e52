"""Commands with faults in some of their calls; `python tests/faults/run.py` tries every call."""

import platform
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults.cases import CASES
from tests.faults.run import KINDS, PLACE, Server, Trial

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the shim"),
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the shim is for glibc"),
]


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        server = Server(Path(folder))
        yield server.seats[0]
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("train", "verify")])
def test_no_fault_makes_a_wrong_result_or_loses_anything(server, name):
    trial = Trial(name, server)
    came = 0
    for number, kind in enumerate(KINDS, 1):  # in other parts of the command for each kind
        calls = trial.count(kind)
        _, wrong, fired = trial.attempt(kind, max(1, calls * number // (len(KINDS) + 1)))
        assert wrong is None, wrong
        came += fired
    assert came >= len(KINDS) - 1  # faults did come


def test_conversions_in_runs_do_sort_on_disk(server):
    """Their faults would otherwise be those of tables that are sorted in memory."""
    trial = Trial("convert triples in runs", server)
    calls = trial.count("ENOSPC")
    server.work = 0
    assert trial.count("ENOSPC") < calls


def test_the_harness_can_fail(server, monkeypatch):
    """A result that differs, a lost file and a traceback are noticed."""
    trial = Trial("convert", server)
    trial.attempt("kill", 1)
    assert trial._compare() is None  # the repeat has made it
    (trial.work / "out/g/labels.npy").write_bytes(b"wrong")
    assert trial._compare() == "exit code 0, but another result"
    assert trial._whole() == "what was made is neither the old nor the new one"
    said = {"code": 2, "fired": 1, "said": "foregather: no\nTraceback (most recent call last)"}
    assert trial._look("EIO", said).startswith("said")
    assert "no sentence" in trial._look("EIO", {**said, "said": ""})
    (trial.work / "out/other/thesis.txt").write_text("gone")
    said["said"] = "foregather: no"
    assert trial._look("EIO", said) == "a file of the user's was changed"
    assert trial._look("short", said).startswith("not tried again")
