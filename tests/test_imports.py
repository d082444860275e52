"""Imports: rooms import one way, `import foregather` does no work, the core links no torch."""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import foregather
from foregather import _core
from tests.processes import ROOT as PROJECT
from tests.processes import python_path

ROOT = Path(foregather.__file__).parent
BASE = {"errors", "files", "old_spellings", "targets", "units", "_core", "observe"}
#: The flow; a room imports those before it.
FLOW = ("graph", "sampling", "plan", "gather", "loader", "nn", "dist", "pipeline", "train")
ALLOWED = {
    "errors": set(),
    "renamed": set(),
    "old_spellings": {"errors"},
    "units": {"errors"},
    "files": {"errors"},
    "targets": {"errors", "files"},
    "observe": {"errors", "files", "targets", "units", "_core"},
    **{room: BASE | set(FLOW[:place]) for place, room in enumerate(FLOW)},
    "interop": BASE | set(FLOW),
    "cli": BASE | set(FLOW),
    "__init__": {"errors", "graph", "sampling", "loader", "train", "observe", "renamed"},
    "__main__": {"cli"},
    "bench": set(),
}


@cache
def parsed(path: Path) -> list[ast.AST]:
    """All nodes of a file; three tests walk the same ones."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    yield
    parsed.cache_clear()


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in parsed(path):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("foregather.")}
    return rooms


def test_rooms_import_one_way():
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert room in ALLOWED, f"{path} is in a room that has no place in the flow"
        wrong = imported_rooms(path) - ALLOWED[room] - {room}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}, which is against the flow"


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("foregather", *parts)).removesuffix(".__init__")] = path
    return found


def imported_modules(path: Path, known: dict[str, Path], types: bool = False) -> set[str]:
    """Modules that a file imports, anywhere in it; those that only types need if `types`."""
    for_types = {
        id(inner)
        for node in parsed(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types
        for inner in ast.walk(node)
    }
    found = set()
    for node in parsed(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & known.keys()) or {str(node.module)}
    return found & known.keys()


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle, or nothing."""
    done: set[str] = set()
    path: list[str] = []

    def walk(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for other in sorted(graph[name]):
            if found := walk(other):
                return found
        path.pop()
        done.add(name)
        return []

    for name in sorted(graph):
        if found := walk(name):
            return found
    return []


def test_modules_import_without_cycles():
    """Imports inside functions count: a lazy import hides a cycle, it does not remove it."""
    known = modules()
    graph = {name: imported_modules(path, known) - {name} for name, path in known.items()}
    assert len(graph) > 150
    assert find_cycle(graph) == []


def test_the_cycle_check_can_fail():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


#: Cycles that only types close, and why each is there.
CYCLES_OF_TYPES = {
    # a part of a class is in a module of its own, and is given the whole
    ("loader.batch_recipe", "loader.batches.joined"),
    ("loader.disk.disk_run", "loader.disk.epoch_plan", "loader.disk.out_of_core"),
    ("train.hetero.final", "train.trainers.typed"),
    ("train.links.check_links", "train.links.final_links", "train.trainers.linking"),
    ("train.runs.final_scores", "train.trainers.sampled"),
    # what a grid does while it is made and left; the grid is handed to it
    tuple(f"dist.transport.{name}" for name in ("agreement", "last_word", "mesh", "rank_grid")),
    # checks of sections of the settings are given all settings
    (
        *("train.hetero.typed_settings", "train.links.link_settings"),
        *("train.settings.full_graph_settings", "train.settings.settings"),
    ),
}


def all_cycles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Modules that reach each other, by name, for each set of them."""
    reached = {}
    for name in graph:
        seen, waiting = set[str](), [name]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[name] = seen
    return {
        tuple(sorted(other for other in seen if name in reached[other]))
        for name, seen in reached.items()
        if name in seen
    }


def test_types_close_no_cycles_but_those_with_a_reason():
    """The package itself is left out: it tells type checkers where each of its names is."""
    known = {name: path for name, path in modules().items() if name != "foregather"}
    graph = {
        name: imported_modules(path, known, types=True) - {name} for name, path in known.items()
    }
    found = {
        tuple(name.removeprefix("foregather.") for name in cycle) for cycle in all_cycles(graph)
    }
    assert found == CYCLES_OF_TYPES


def test_all_cycles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"f", "d"}, "f": set()}
    assert all_cycles(graph) == {("b", "c"), ("d", "e")}
    assert all_cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def sources() -> list[Path]:
    """All that is read by people who change foregather."""
    rooms = ("src", "csrc", "tests", "benchmarks", "examples")
    found = [path for room in rooms for path in (PROJECT / room).rglob("*.*")]
    return [path for path in found if path.suffix in {".py", ".c", ".cpp", ".hpp"}]


def test_no_file_is_long():
    assert len(sources()) > 500
    for path in sources():
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 400, f"{path.relative_to(PROJECT)} has {lines} lines, expected at most 400"


def crowded(paths: list[Path], room: str, most: int) -> dict[str, int]:
    """Folders of a room with more files than that, besides their sub-folders."""
    named = [path for path in paths if path.name != "__init__.py"]
    counts = Counter(path.parent.relative_to(PROJECT) for path in named)
    return {str(at): n for at, n in counts.items() if at.parts[0] == room and n > most}


@pytest.mark.parametrize(("room", "most"), [("src", 20), ("csrc", 20), ("tests", 30)])
def test_no_room_is_crowded(room, most):
    """About 15 files a room; what belongs together goes into a sub-room before there are 20.

    Tests mirror the rooms, with helpers of their own beside them.
    """
    assert crowded(sources(), room, most) == {}
    assert crowded(sources(), room, 10) != {}


def strays(source: str, names: set[str]) -> set[str]:
    """Modules that a file of tests imports under another name than `tests.…`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + str(node.module or ""))
    return {name for name in found if name.split(".")[0] in {"", *names}}


def test_tests_import_each_other_by_one_name():
    """A module with two names is loaded twice, with two of each of its classes."""
    names = {"common"} | {path.stem for path in (PROJECT / "tests").rglob("*")}
    for path in (PROJECT / "tests").rglob("*.py"):
        wrong = strays(path.read_text(encoding="utf-8"), names)
        assert not wrong, f"{path.relative_to(PROJECT)} imports {wrong}, expected tests.…"


def test_the_check_of_names_can_fail():
    source = "import dist.world\nfrom common.report import Report\nfrom . import cases"
    names = {"dist", "common", "os"}
    assert strays(source, names) == {"dist.world", "common.report", "."}
    assert strays("from tests.dist import world\nimport torch.distributed", names) == set()


def test_processes_that_tests_start_find_what_this_one_finds(monkeypatch):
    """A copy of the project leads them to its own core by PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["copy/site", str(PROJECT), ""]))
    assert python_path().split(os.pathsep) == [str(PROJECT), "copy/site"]


def test_the_import_check_can_fail(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("from foregather.cli import main\nimport foregather.loader.loader\n")
    assert imported_rooms(bad) == {"cli", "loader"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_is_light():
    code = (
        "import sys, foregather; heavy = {'torch', 'torch_geometric', 'pyarrow', 'matplotlib',"
        " 'tyro', 'tqdm', 'scipy'}; print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


def test_converters_need_no_torch():
    code = (
        "import sys, foregather.graph.convert.run, foregather.graph.synthetic, foregather.cli.main;"
        " print(sorted({'torch', 'torch_geometric', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


def test_the_core_links_no_torch_and_no_openmp():
    needed = subprocess.run(["ldd", _core.__file__], capture_output=True, text=True, check=True)
    # without the addresses, which are random and may well hold a "c10"
    names = " ".join(line.split("(")[0] for line in needed.stdout.splitlines())
    assert "libc.so" in names
    for library in ("torch", "c10", "omp", "gomp"):
        assert library not in names
    assert _core.__file__.endswith(".abi3.so"), "one module for every CPython from 3.10 on"
