"""A short run of the fuzzer; `python tests/fuzz.py --executions 1000000` is the long one."""

from tests.fuzz import fuzz


def test_damaged_files_are_refused_or_read():
    for name, (count, failures) in fuzz(3000).items():
        assert count > 20 and not failures, f"{name}: {failures[:3]}"


def test_the_fuzzer_can_fail(monkeypatch):
    def wrong(*arguments):
        raise KeyError("x")

    monkeypatch.setattr("tests.fuzz.read_settings", wrong)
    count, failures = fuzz(5000, "config.toml")["config.toml"]
    assert len(failures) == 20 and count == 20
