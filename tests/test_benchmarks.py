"""Benchmarks: every script is in the suite of `make bench`, which knows its arguments."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def module():
    sys.path.insert(0, str(HERE))
    try:
        spec = importlib.util.spec_from_file_location("benchmarks_run", HERE / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("benchmarks_run", None)


@pytest.fixture
def suite(module):
    return module.SUITE


def test_every_script_is_in_the_suite(suite):
    scripts = {path.stem for path in HERE.glob("*.py")} - {"run", "before_after"}
    assert {entry.script for entry in suite} == scripts


def test_its_flags_exist(suite):
    for entry in suite:
        text = (HERE / f"{entry.script}.py").read_text()
        for flag in {part for part in (*entry.whole, *entry.quick) if part.startswith("--")}:
            assert re.search(rf'add_argument\(\s*"{flag}"', text), f"{entry.script} has no {flag}"


def test_a_script_says_what_it_asks(suite):
    for entry in suite:
        assert ast.get_docstring(ast.parse((HERE / f"{entry.script}.py").read_text()))


def test_those_that_fail_are_listed_and_do_not_stop_the_others(
    module, monkeypatch, tmp_path, capfd
):
    codes = {"good": 0, "bad": 3, "absent": module.SKIPPED, "last": 0}
    for name, code in codes.items():
        (tmp_path / f"{name}.py").write_text(f"import sys\nsys.exit({code})\n")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "SUITE", tuple(module.Entry(name) for name in codes))
    flags = ["run.py", "--quick", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", flags)
    assert module.main() == 1
    *_, good, bad, absent, last, failed = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in (good, bad, absent, last)] == [
        *("ran", "failed", "skipped", "ran")
    ]
    assert re.fullmatch(r"ran +\d+\.\d s  good", good) and failed == "failed: bad"
    monkeypatch.setattr(sys, "argv", [*flags, "--only", "good", "absent"])
    assert module.main() == 0 and "failed" not in capfd.readouterr().out
