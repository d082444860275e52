"""Benchmarks: every script is in the suite of `make bench`, which knows its arguments."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foregather.graph.synthetic import synthesize
from tests.some import some

HERE = Path(__file__).parents[2] / "benchmarks"


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
    scripts = {path.stem for path in HERE.glob("*.py")} - {"run", "paper"}
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
    texts = {
        "good": "print('fine')",
        "bad": "print('skipped: a part'); raise SystemExit(3)",
        "absent": "print('begins'); print('skipped: there is no peer')",
        "last": "print('skipped: a part'); print('the rest ran')",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "SUITE", tuple(module.Entry(name) for name in texts))
    flags = ["run.py", "--quick", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", flags)
    assert module.main() == 1
    *_, good, bad, absent, last, took, failed = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in (good, bad, absent, last)] == [
        *("ran", "failed", "skipped", "ran")
    ]
    assert re.fullmatch(r"ran +\d+\.\d s  good", good) and failed == "failed: bad"
    assert absent.endswith("  absent: there is no peer") and took.startswith("4 runs took ")
    monkeypatch.setattr(sys, "argv", [*flags, "--only", "good", "absent"])
    assert module.main() == 0 and "failed" not in capfd.readouterr().out


def test_no_script_finds_the_files_of_another(module, monkeypatch, tmp_path, capfd):
    text = (
        "import sys, pathlib as p; f = p.Path(sys.argv[1]) / 'graph'; print(f.exists()); f.touch()"
    )
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(text)
    entries = tuple(module.Entry(name, (module.FOLDER,)) for name in ("one", "two"))
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "SUITE", entries)
    monkeypatch.setattr(sys, "argv", ["run.py", "--quick", "--folder", str(tmp_path)])
    assert module.main() == 0
    said = [line for line in capfd.readouterr().out.splitlines() if line in ("True", "False")]
    assert said == ["False", "False"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.py", "two.py"]


def test_files_that_nobody_asked_to_keep_are_removed(module, monkeypatch, tmp_path):
    working_folder = importlib.import_module("common.folder").working_folder
    monkeypatch.chdir(tmp_path)
    with working_folder(None) as folder:
        (folder / "graph").touch()
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())
    with working_folder(tmp_path / "a" / "b") as folder:
        (folder / "graph").touch()
    assert (tmp_path / "a" / "b" / "graph").exists()


def test_a_script_that_cannot_run_says_so_and_is_no_failure(module, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("common.skip").skip("there is no disk")
    assert ended.value.code == 0 and capsys.readouterr().out == f"{module.MARK}there is no disk\n"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["aggregation", "one_node"])
def test_cheap_scripts_run_to_their_end(module, script, monkeypatch, tmp_path, capfd):
    pytest.importorskip("torch_geometric")
    flags = ["--quick", "--folder", str(tmp_path), "--only", script]
    monkeypatch.setattr(sys, "argv", ["run.py", *flags])
    assert module.main() == 0
    assert re.search(rf"^ran +\d+\.\d s  {script}$", capfd.readouterr().out, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_rows_behind_pyg_come_from_every_place(module, tmp_path, capsys):
    pytest.importorskip("torch_geometric")
    backend = importlib.import_module("pyg_backend")
    synthesize(tmp_path / "graph", 2000, degree=8, features=16, classes=3)
    for way in some(backend.WAYS):
        backend.measure(way, str(tmp_path / "graph"), 10**9, 2, 60.0)
        found = json.loads(capsys.readouterr().out)
        assert found["rows"] > 0 and found["batches"] in (1, 2), way  # there may be one only


def test_a_turn_behind_pyg_that_does_not_end_is_cut(module):
    backend = importlib.import_module("pyg_backend")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    cut = backend.finish(child, 0.1, more=0.2)
    assert child.returncode is not None and cut["seconds"] == 0.1 and cut["batches"] == 0
    child = subprocess.Popen(
        [sys.executable, "-c", "print('{\"batches\": 3}')"], stdout=subprocess.PIPE, text=True
    )
    assert backend.finish(child, 60.0) == {"batches": 3}
