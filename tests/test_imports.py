"""Imports: rooms import one way, `import foregather` does no work, the core links no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import foregather
from foregather import _core

ROOT = Path(foregather.__file__).parent
BASE = {"errors", "files", "units", "_core", "observe"}
ALLOWED = {
    "errors": set(),
    "units": {"errors"},
    "files": {"errors"},
    "observe": {"errors", "files", "units", "_core"},
    "graph": BASE,
    "sampling": BASE | {"graph"},
    "plan": BASE | {"graph", "sampling"},
    "gather": BASE | {"graph", "sampling", "plan"},
    "nn": BASE,
    "train": BASE | {"graph", "sampling", "plan", "gather", "nn"},
    "dist": BASE | {"graph", "sampling", "plan", "gather", "train", "nn"},
    "pipeline": BASE | {"graph", "sampling", "plan", "gather", "train", "nn"},
    "interop": BASE | {"graph", "sampling", "plan", "gather", "train", "dist", "pipeline", "nn"},
    "cli": BASE | {"graph", "sampling", "plan", "gather", "train", "dist", "pipeline", "nn"},
    "__init__": {"errors", "graph", "train"},
    "__main__": {"cli"},
}


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_the_import_check_can_fail(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("from foregather.cli import main\nimport foregather.train.loader\n")
    assert imported_rooms(bad) == {"cli", "train"}


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
