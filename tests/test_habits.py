"""Habits of the tests themselves: each of them can fail."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.processes import ROOT

CHECKS = {"raises", "warns", "fail", "fromstring"}


def called(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2]


def checks_itself(function: ast.AST) -> bool:
    """Whether something in it fails a test: an assertion, or a process that must end well."""
    return any(
        isinstance(node, ast.Assert)
        or (
            isinstance(node, ast.keyword)
            and node.arg == "check"
            and ast.unparse(node) == "check=True"
        )
        for node in ast.walk(function)
    ) or any(name in CHECKS or name.startswith("assert_") for name in called(function))


def unchecked(sources: dict[str, str]) -> list[str]:
    """Tests without a check, in themselves or in what they call of the tests' own functions."""
    functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                functions[node.name].append(node)
    good = {name for name, made in functions.items() if any(map(checks_itself, made))}
    while more := {
        name
        for name in functions.keys() - good
        if any(good.intersection(called(one)) for one in functions[name])
    }:
        good |= more
    return sorted(name for name in functions.keys() - good if name.startswith("test_"))


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
