"""The examples run, and do what their docstrings say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quickstart(monkeypatch, capsys):
    example = load("1_quickstart")
    monkeypatch.setattr(example, "EPOCHS", 3)
    accuracy = example.main()
    assert accuracy["SAGE"] > 0.6 > 0.3 > accuracy["MLP"] > 2 / example.CLASSES
    assert "SAGE  test accuracy" in capsys.readouterr().out


@pytest.mark.slow
def test_out_of_core(monkeypatch, capsys, tmp_path):
    example = load("2_out_of_core")
    monkeypatch.setattr(example, "NODES", 20_000)
    monkeypatch.setattr(example, "EPOCHS", 2)
    runs = example.main(str(tmp_path), str(tmp_path / "plot.png"))
    whole, tenth = runs.values()
    assert whole["loss"] == tenth["loss"], "storage never changes results"
    assert sum(whole["bytes"]) == 0 < tenth["bytes"][0]
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    assert "hits" in capsys.readouterr().out


def test_full_graph(monkeypatch, capsys):
    example = load("4_full_graph")
    monkeypatch.setattr(example, "NODES", 3_000)
    monkeypatch.setattr(example, "EPOCHS", 30)
    monkeypatch.setattr(example, "DEPTH", 4)
    found = example.main()
    assert found["test"] > 0.5 > 5 / example.CLASSES
    out = capsys.readouterr().out
    assert "chosen: single" in out and "test accuracy" in out


def test_pyg_backend(monkeypatch, capsys, tmp_path):
    example = load("8_pyg_backend")
    monkeypatch.setattr(example, "NODES", 4_000)
    losses = example.main(str(tmp_path))
    assert losses["disk"] == losses["memory"] and losses["disk"][1] < losses["disk"][0]
    out = capsys.readouterr().out
    assert "others 0" in out and "rows from the plan 0" not in out


def test_any_model(monkeypatch, capsys):
    example = load("7_any_model")
    monkeypatch.setattr(example, "NODES", 1_000)
    monkeypatch.setattr(example, "EPOCHS", 15)
    assert min(example.main().values()) > 0.4
    assert capsys.readouterr().out.count("test accuracy") == 4


def test_typed(monkeypatch, capsys):
    example = load("6_typed")
    monkeypatch.setattr(example, "FLIGHTS", 3000)
    monkeypatch.setattr(example, "AIRPORTS", 20)
    alone, together = example.main().values()
    assert together > alone + 0.05
    assert "test accuracy" in capsys.readouterr().out


def test_every_example_says_what_to_expect():
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    expected = ["1_quickstart", "2_out_of_core", "3_multi_rank", "4_full_graph", "5_custom_sampler"]
    assert sorted(names) == [*expected, "6_typed", "7_any_model", "8_pyg_backend"]
    for name in names:
        text = (EXAMPLES / f"{name}.py").read_text()
        told = text.split('"""')[1]
        assert text.startswith('"""') and ("accuracy" in told or "loss" in told)
        assert len(text.splitlines()) <= 120
