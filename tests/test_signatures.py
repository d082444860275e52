"""Signatures stay short, and what is long says what it does, in Python and in C++."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.source.cpp_functions import CppFunction, functions_in

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


def cpp_functions(root: Path) -> dict[Path, list[CppFunction]]:
    """All functions and declarations of a folder's C++, by file."""
    return {
        path.relative_to(root): functions_in(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.[ch]pp"))
    }


@pytest.fixture(scope="module")
def cpp() -> dict[Path, list[CppFunction]]:
    return cpp_functions(PROJECT / "csrc")


def silent(found: dict[Path, list[CppFunction]]) -> set[str]:
    """Functions that are long, with no comment above them, here or at their declaration."""
    declared = {
        one.name for file, own in found.items() if file.suffix == ".hpp" for one in own if one.said
    }
    return {
        f"{file}:{one.line} {one.name}"
        for file, own in found.items()
        for one in own
        if one.lines > MOST_LINES
        and one.name not in declared | {other.name for other in own if other.said}
    }


def crowded(found: dict[Path, list[CppFunction]]) -> set[str]:
    """Functions with many arguments; lambdas of bindings take what Python gives by name."""
    return {
        f"{file}:{one.line} {one.name}"
        for file, own in found.items()
        for one in own
        if one.arguments > MOST_ARGUMENTS and (one.name or file.parts[0] != "python")
    }


def test_so_does_what_is_long_in_cpp(cpp):
    every = [one for own in cpp.values() for one in own]
    assert len(every) > 2000 and sum(one.lines > 1 for one in every) > 1000, "all were looked at"
    assert sum(one.said for one in every if one.name) > 500
    assert silent(cpp) == set()


def test_no_signature_of_cpp_is_long(cpp):
    assert crowded(cpp) == set()


CPP = """
namespace a {
/// Says.
template <typename T, typename U = std::pair<int, int>>
class Map : public Base<T> {
 public:
  Map(int a, std::vector<std::pair<int, T>> b) : a_{a}, b_(b), Base<T>{b} { go(); }
  bool operator==(const Map& other) const = default;
  T operator()(int x) const { return table[x](1, 2, 3); }
  /// Says.
  void step(int many = f(1, 2), bool b = {});

 private:
  std::function<void(int, int)> call_;
  std::array<int, 1 << 3> g_ = {1, 2};
};
template <typename T>
void Map<T>::step(int many, bool b) {
  if (a < b && c > d) {
LONG
  }
}
void other(Thing* self, int a) {
LONG
}
static const char* kNames[] = {"{", "}", R"(')"};  // {
inline auto get() -> std::vector<int> {
  return run([&](int a, int b) { return '{'; });
}
}  // namespace a
"""


def test_functions_of_cpp_are_found():
    """Name, arguments, lines, and whether a comment is above."""
    found = functions_in(CPP.replace("LONG\n", ""))
    assert [(one.name, one.arguments, one.lines, one.said) for one in found] == [
        ("Map::Map", 2, 1, False),
        ("Map::operator==", 1, 0, False),
        ("Map::operator()", 1, 1, False),
        ("Map::step", 2, 0, True),
        ("Map::step", 2, 5, False),
        ("other", 1, 2, False),
        ("get", 0, 3, False),
        ("", 2, 0, True),
    ]


def test_the_checks_of_cpp_can_fail(tmp_path):
    many = ", ".join(f"int a{n}" for n in range(MOST_ARGUMENTS + 1))
    (tmp_path / "python").mkdir()
    (tmp_path / "a.cpp").write_text(CPP.replace("LONG", "    x = 1;\n" * MOST_LINES))
    (tmp_path / "b.cpp").write_text("// Says, but of its own.\nvoid other() {}\n")
    (tmp_path / "c.hpp").write_text(f"void f({many});\nint x = g([]({many}) {{ return 1; }});\n")
    (tmp_path / "python/d.cpp").write_text(f"int x = g([]({many}) {{ return 1; }});\n")
    found = cpp_functions(tmp_path)
    assert {name.split()[-1] for name in silent(found)} == {"other"}
    assert crowded(found) == {"c.hpp:1 f", "c.hpp:2 "}
    with pytest.raises(ValueError, match=r"line 1: \( is not closed"):
        functions_in("void f(int a {}")
