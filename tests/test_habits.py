"""Habits of the tests themselves: each of them can fail."""

import ast
from collections import defaultdict

from tests.processes import ROOT

CHECKS = {"raises", "warns", "fail", "fromstring"}


def look_at(function: ast.AST) -> tuple[bool, set[str]]:
    """Whether something in it fails a test, and the names of all that it calls.

    What fails is an assertion, a process that must end well, or a function that is known to.
    """
    checks, called = False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            checks = True
        elif isinstance(node, ast.keyword) and node.arg == "check":
            checks |= ast.unparse(node) == "check=True"
        elif isinstance(node, ast.Call):
            called.add(ast.unparse(node.func).rpartition(".")[2])
    return checks or any(name in CHECKS or name.startswith("assert_") for name in called), called


def unchecked(sources: dict[str, str]) -> list[str]:
    """Tests without a check, in themselves or in what they call of the tests' own functions."""
    called: dict[str, set[str]] = defaultdict(set)
    good = set()
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                checks, names = look_at(node)
                called[node.name] |= names
                if checks:
                    good.add(node.name)
    while more := {name for name in called.keys() - good if good & called[name]}:
        good |= more
    return sorted(name for name in called.keys() - good if name.startswith("test_"))


def test_every_test_checks_something():
    paths = (ROOT / "tests").rglob("*.py")
    sources = {str(path): path.read_text(encoding="utf-8") for path in paths}
    assert len(sources) > 200
    assert unchecked(sources) == []


def test_the_check_can_fail():
    idle = "def helper():\n    pass\ndef test_a():\n    helper()"
    assert unchecked({"a": idle}) == ["test_a"]
    assert unchecked({"a": idle, "b": "def helper():\n    assert 1 == 2"}) == []
    assert unchecked({"a": "def test_a():\n    with raises(E):\n        pass"}) == []
