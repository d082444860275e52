"""Folders of runs from strangers: they run no code unless the caller trusts them."""

import subprocess
import sys
from dataclasses import replace

import pytest

from foregather.cli.main import main
from foregather.errors import InputError
from foregather.train.runs.run import Run
from foregather.train.runs.run_folder import load_model
from foregather.train.settings import ModelSettings, SamplerSettings, write_settings
from tests.train.runs import settings_of, small_folder, train

MODULE = """
from pathlib import Path
Path({ran!r}).touch()
from foregather.nn import SAGE
from foregather.sampling import Neighbor

class Net(SAGE):
    def __init__(self, in_channels, out_channels):
        super().__init__([in_channels, 8, out_channels])

def rule():
    return Neighbor([3, 3])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """What exists once the stranger's module was imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stranger.py").write_text(MODULE.format(ran=str(tmp_path / "ran")))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "ran"
    sys.modules.pop("stranger", None)


def forget(ran):
    sys.modules.pop("stranger", None)
    ran.unlink(missing_ok=True)


NAMED = {
    "model.kind": {"model": ModelSettings("stranger:Net")},
    "sampler.kind": {"sampler": SamplerSettings("stranger:rule")},
}


@pytest.mark.slow
@pytest.mark.parametrize("key", NAMED)
def test_code_that_a_run_names_runs_only_if_it_is_trusted(folder, tmp_path, ran, key, capsys):
    settings = settings_of(folder, tmp_path / "r", **NAMED[key])
    train(settings)
    assert ran.exists(), "what the caller names himself runs"
    graph, scores = str(folder), str(tmp_path / "scores.npy")
    commands = [
        ["train", "--resume", str(tmp_path / "r")],
        ["train", f"--resume={tmp_path / 'r'}", "--memory.prefetch", "3"],
    ]
    if key == "model.kind":  # nothing is sampled to infer
        commands.append(["infer", str(tmp_path / "r"), graph, scores])
    name = NAMED[key][key.split(".")[0]].kind
    for command in commands:
        forget(ran)
        capsys.readouterr()
        assert main([*command, "--json"]) == 2
        said = capsys.readouterr().err
        assert f"r names code to run, {key} = '{name}'; pass --trust-code" in said
        assert not ran.exists(), command
    for call in (Run.resume, load_model)[: 2 if key == "model.kind" else 1]:
        with pytest.raises(InputError, match=f"names code to run, {key}"):
            call(tmp_path / "r")
    assert not ran.exists()
    for command in commands:
        forget(ran)
        assert main([*command, "--trust-code", "--json"]) == 0
        assert ran.exists()


def test_what_the_caller_names_is_his_own_word(folder, tmp_path, ran, capsys):
    settings = settings_of(folder, tmp_path / "r", **NAMED["model.kind"])
    (tmp_path / "mine.toml").write_text(write_settings(settings))
    assert main(["train", str(tmp_path / "mine.toml"), "--json"]) == 0
    resume = ["train", "--resume", str(tmp_path / "r"), "--json"]
    assert main([*resume, "--model.kind", "stranger:Net"]) == 0
    assert main([*resume[:1], str(tmp_path / "mine.toml"), *resume[1:]]) == 0
    Run.resume(tmp_path / "r", settings, say=lambda text: None).close()
    forget(ran)
    # flags for one thing are no word for another
    (tmp_path / "r" / "config.toml").write_text(
        write_settings(replace(settings, sampler=SamplerSettings("stranger:rule")))
    )
    assert main([*resume, "--model.kind", "stranger:Net"]) == 2
    assert "sampler.kind = 'stranger:rule'" in capsys.readouterr().err and not ran.exists()


def test_a_report_runs_no_code(folder, tmp_path, ran, capsys):
    train(settings_of(folder, tmp_path / "r"))
    metrics = tmp_path / "r" / "metrics.jsonl"  # as if it had read according to plans
    metrics.write_text(metrics.read_text().replace('"epoch"', '"blocks": 1, "epoch"'))
    for kind in ("stranger:rule", "subprocess:run"):
        options = {"args": ["touch", str(ran)]} if kind == "subprocess:run" else {}
        sampler = SamplerSettings(kind, options=options)
        hostile = settings_of(folder, tmp_path / "r", sampler=sampler, **NAMED["model.kind"])
        (tmp_path / "r" / "config.toml").write_text(write_settings(hostile))
        before = set(sys.modules)
        assert main(["report", str(tmp_path / "r")]) == 0
        assert not ran.exists() and "stranger" not in set(sys.modules) - before
        note = f"no miss curve: the run's sampler is {kind}, and a report runs no code of a run"
        assert note in capsys.readouterr().out
    assert (tmp_path / "r" / "report.html").stat().st_size > 1000


def test_built_in_kinds_need_no_trust(folder, tmp_path, capsys):
    train(settings_of(folder, tmp_path / "r", sampler=SamplerSettings("labor", (5, 5))))
    assert main(["train", "--resume", str(tmp_path / "r"), "--json"]) == 0
    scores = str(tmp_path / "scores.npy")
    assert main(["infer", str(tmp_path / "r"), str(folder), scores, "--json"]) == 0


def test_the_help_names_the_flag():
    for command in ("train", "infer"):
        done = subprocess.run(
            [sys.executable, "-m", "foregather", command, "--help"], capture_output=True, text=True
        )
        assert "--trust-code" in done.stdout
        assert "--said" not in done.stdout
