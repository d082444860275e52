"""Benchmarks: every script is in the suite of `make bench`, which knows its arguments."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def suite():
    sys.path.insert(0, str(HERE))
    try:
        spec = importlib.util.spec_from_file_location("benchmarks_run", HERE / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield module.SUITE
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("benchmarks_run", None)


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
