"""A short run of the fuzzer; `python tests/fuzz.py --executions 1000000` is the long one."""

import os
import signal

import pytest

from tests.fuzz import fuzz
from tests.fuzzing.fuzz_cases import make_cases


@pytest.mark.slow
def test_damaged_files_are_refused_or_read(tmp_path):
    refused = {}
    for name, case in make_cases(tmp_path).items():
        refused[name] = sum(case.execute(number, name) for number in range(8))
    assert len(refused) > 100 and sum(refused.values()) > 4 * len(refused)


def test_good_files_are_read(tmp_path):
    cases = make_cases(tmp_path)
    assert len(cases) > 100
    for case in cases.values():
        case.path.write_bytes(case.mend(case.good))
        case.read()


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError()])
def test_the_fuzzer_finds_exceptions(monkeypatch, error):
    def wrong(*arguments):
        raise error

    monkeypatch.setattr("tests.fuzzing.fuzz_cases.read_settings", wrong)
    found = fuzz(5000, "config.toml")["config.toml"]
    assert len(found.failures) == 20 and found.executions == 20


def test_the_fuzzer_survives_crashes_and_goes_on(monkeypatch, tmp_path):
    def crash(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("tests.fuzzing.fuzz_cases.read_settings", crash)
    found = fuzz(2, "config.toml", keep=tmp_path / "kept.json")["config.toml"]
    assert found.failures == [(0, "the process ended with -9"), (1, "the process ended with -9")]
    monkeypatch.undo()
    found = fuzz(30, "config.toml", keep=tmp_path / "kept.json")["config.toml"]
    assert found.executions == 30 and len(found.failures) == 2 and found.refused > 10
