"""Signatures stay short, and what is long says what it does, in the package and beside it."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
SOURCES = PROJECT / "src/foregather"

#: Arguments beyond PyG's own; more belong together in a value.
MOST_ARGUMENTS = 12
#: Lines of a function without a docstring.
MOST_LINES = 50
#: Arguments of PyG's and torch's loaders, which keep their names and their place.
OF_PYG = {
    *("data", "graph", "num_neighbors", "input_nodes", "input_time", "batch_size", "shuffle"),
    *("drop_last", "replace", "subgraph_type", "disjoint", "temporal_strategy", "time_attr"),
    *("weight_attr", "transform", "transform_sampler_output", "is_sorted", "filter_per_worker"),
    *("neighbor_sampler", "directed", "batch_sampler", "edge_label_index", "edge_label"),
    *("edge_label_time", "neg_sampling", "neg_sampling_ratio"),
}
#: Where they are: the Loaders, and their twin under PyG's name.
SEATS = {
    *("loader/loader.py", "loader/hetero/hetero_loader.py"),
    *("interop/neighbor_loader.py", "interop/typed/typed_loader.py"),
    *("interop/typed/neighbor_sampler.py", "interop/links/link_neighbor_loader.py"),
    *("loader/links/link_loader.py", "loader/links/hetero_link_loader.py"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(root: Path) -> Iterator[tuple[str, Function, str | None]]:
    """File, function, and the docstring that says what it does: of `__init__` that of its class."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_class = {
            id(one): ast.get_docstring(made)
            for made in ast.walk(tree)
            if isinstance(made, ast.ClassDef)
            for one in made.body
            if isinstance(one, Function) and one.name == "__init__"
        }
        for one in ast.walk(tree):
            if isinstance(one, Function):
                said = ast.get_docstring(one) or of_class.get(id(one))
                yield path.relative_to(root).as_posix(), one, said


def arguments(one: Function, names: set[str]) -> list[str]:
    given = one.args
    every = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in every if name not in {"self", "cls", *names}]


@pytest.fixture(scope="module")
def found() -> list[tuple[str, Function, str | None]]:
    return list(functions(SOURCES))


def test_no_signature_is_long(found):
    assert len(found) > 1000 and {file for file, _, _ in found} > SEATS, "all were looked at"
    long = {
        f"{file}:{one.lineno} {one.name}": len(own)
        for file, one, _ in found
        if len(own := arguments(one, OF_PYG if file in SEATS else set())) > MOST_ARGUMENTS
    }
    assert long == {}


def bare(found: Iterable[tuple[str, Function, str | None]]) -> set[str]:
    """Functions that are long and do not say what they do."""
    return {
        f"{file}:{one.lineno} {one.name}"
        for file, one, said in found
        if (one.end_lineno or 0) - one.lineno + 1 > MOST_LINES and not said
    }


def test_what_is_long_says_what_it_does(found):
    assert bare(found) == set()


@pytest.mark.parametrize("room", ["benchmarks", "examples", "tests"])
def test_so_does_what_is_long_beside_the_package(room):
    """A test's name says what it does, so tests themselves are free."""
    found = [one for one in functions(PROJECT / room) if not one[1].name.startswith("test_")]
    assert len(found) > 10
    assert bare(found) == set()


def test_the_check_of_long_functions_can_fail(tmp_path):
    long = "    a = 1\n" * MOST_LINES
    (tmp_path / "a.py").write_text(f'def f():\n{long}\ndef g():\n    """Says."""\n{long}')
    assert bare(functions(tmp_path)) == {"a.py:1 f"}
