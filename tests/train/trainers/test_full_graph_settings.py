"""Settings of full-graph runs: what means nothing, or is promised by sampled runs only."""

from dataclasses import replace

import pytest

from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    FullGraphSettings,
    GridSettings,
    MemorySettings,
    Settings,
    TrainSettings,
    write_settings,
)
from tests.train.trainers.test_full_graph import graph, settings_of  # noqa: F401

BAD = {
    "chunks": (FullGraphSettings(chunks=-1), "full_graph.chunks is -1, expected 0 to"),
    "ways": (FullGraphSettings(ways=0), "full_graph.ways is 0, expected 1 to"),
    "factor": (FullGraphSettings(factor=float("nan")), "full_graph.factor is nan"),
    "memory": (FullGraphSettings(memory="much"), "size is 'much'"),
    "validate": (FullGraphSettings(validate=-1), "full_graph.validate is -1"),
}


@pytest.mark.parametrize("name", BAD)
def test_values_that_mean_nothing(name):
    full, said = BAD[name]
    with pytest.raises(InputError, match=said):
        Settings(full_graph=full)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"memory": MemorySettings("2GB"), "full": FullGraphSettings(mode="fast")},
            "memory.budget is '2GB' with full_graph.mode 'fast', expected mode 'exact'",
        ),
        (
            {"memory": MemorySettings("2GB"), "full": FullGraphSettings(memory="1GB")},
            "memory.budget is '2GB' and full_graph.memory '1GB'; give one of them",
        ),
        ({"memory": MemorySettings(storage="disk")}, "memory.storage is 'disk', but full-graph"),
        ({"grid": GridSettings(weights="sharded")}, "grid.weights is 'sharded', but stages"),
        ({"full": FullGraphSettings(validate=0), "patience": 1}, "train.patience is 1, but"),
    ],
)
def test_promises_of_sampled_runs_are_not_made(changes, said):
    train = TrainSettings(method="full-graph", patience=changes.pop("patience", 0))
    full = changes.pop("full", FullGraphSettings())
    with pytest.raises(InputError, match=said):
        Settings(train=train, full_graph=full, **changes)


def test_a_config_is_checked_in_the_same_words(graph, tmp_path, capsys):  # noqa: F811
    config = tmp_path / "c.toml"
    text = write_settings(settings_of(graph, tmp_path / "r"))
    for old, new, said in (
        (
            'mode = "exact"\nchunks',
            'mode = "exakt"\nchunks',
            "expected one of exact, bounded, fast",
        ),
        (
            "chunks = 4",
            "chunk = 4",
            "unknown key full_graph.chunk; did you mean full_graph.chunks?",
        ),
        (
            'kind = "gcnii"',
            'kind = "mlp"',
            "model.kind is 'mlp', expected gcn, sage, gcnii, resgcn",
        ),
        (
            'kind = "gcnii"',
            'kind = "os:getcwd"',
            "os:getcwd, which makes no model and no list of layers",
        ),
        ("chunks = 4", "chunks = 1000", "chunks"),
    ):
        assert old in text
        config.write_text(text.replace(old, new))
        assert main(["train", str(config)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and said in err, err
    assert not (tmp_path / "r").exists()


def test_the_planner_chooses_chunks_for_a_budget(graph, tmp_path, monkeypatch):  # noqa: F811
    """It is kept with the run, which is resumed with the same chunks and budget."""
    monkeypatch.setattr("foregather.pipeline.whole.budget.resident", lambda: 0)
    budget = MemorySettings("60MB")
    settings = settings_of(graph, tmp_path / "r", FullGraphSettings(validate=0), memory=budget)
    with Run.create(settings, lambda text: None) as run:
        plan, full = run.trainer.plan, run.trainer.full
        run_loop(run)
    assert len(full.chunks) == plan.chunks >= 1 and plan.recompute == "none"
    assert full.engine.stage.runtime.memory == "60MB"
    choice = full.engine.whole.choice
    assert 0 < choice.most <= choice.most + choice.had <= 60 << 20
    small = replace(settings, run=str(tmp_path / "s"), memory=MemorySettings("1MB"))
    with pytest.raises(BudgetError, match="memory is .*, expected at least"):
        Run.create(small, lambda text: None)
