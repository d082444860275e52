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


def imported_modules(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules that a file imports, anywhere in it, but for those that only types need."""
    for_types = {
        id(inner)
        for node in parsed(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
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
