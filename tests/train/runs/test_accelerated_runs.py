"""Runs with an accelerated model: the same losses, said where it is plain, resumed as begun."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from foregather import Graph, Loader
from foregather.errors import InputError
from foregather.nn import SAGE as SAGEModel
from foregather.train import device
from foregather.train.fit import Training
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import ModelSettings, TrainSettings
from tests.some import some
from tests.train.runs import records, settings_of, small_folder, train

TRAIN = TrainSettings(epochs=2, batch_size=200, threads=1)
SAGE = ModelSettings("torch_geometric.nn:GraphSAGE", hidden=16, dropout=0.0)
NORMED = replace(SAGE, options={"norm": "batch_norm"})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model.safetensors")


def facts(run: Path) -> dict[str, object]:
    return dict(json.loads((run / "environment.json").read_text()))


@pytest.mark.parametrize("model", [SAGE, ModelSettings(hidden=16, dropout=0.0)])
def test_the_losses_are_those_of_the_plain_model(
    graph: Path, tmp_path: Path, model: ModelSettings
) -> None:
    for name, on in (("fast", True), ("plain", False)):
        settings = settings_of(graph, tmp_path / name, model=model)
        train(replace(settings, train=replace(TRAIN, accelerate=on)))
        assert facts(tmp_path / name)["accelerated"] is on
    pairs = zip(records(tmp_path / "fast"), records(tmp_path / "plain"), strict=True)
    for fast, plain in some(pairs):
        assert fast.get("loss", 0) == pytest.approx(plain.get("loss", 0), rel=1e-4)
    plain_weights = weights(tmp_path / "plain")
    for name, value in some(weights(tmp_path / "fast").items()):
        torch.testing.assert_close(value, plain_weights[name], rtol=1e-3, atol=1e-4)


def test_a_model_that_mixes_nodes_runs_as_it_is_and_says_so(graph: Path, tmp_path: Path) -> None:
    said: list[str] = []
    for name, on in (("asked", True), ("plain", False)):
        settings = settings_of(graph, tmp_path / name, model=NORMED)
        train(replace(settings, train=replace(TRAIN, accelerate=on)), said.append)
    assert facts(tmp_path / "asked")["accelerated"] is False
    assert [line for line in said if "runs as it is" in line and "norm" in line.lower()]
    plain = weights(tmp_path / "plain")
    for name, value in some(weights(tmp_path / "asked").items()):
        assert torch.equal(value, plain[name])


def test_a_run_that_began_without_goes_on_without(graph: Path, tmp_path: Path) -> None:
    """Runs of release 0.1 know nothing of it; the last bits of their sums must not change."""
    plain = replace(TRAIN, accelerate=False, epochs=3)
    train(replace(settings_of(graph, tmp_path / "whole", model=SAGE), train=plain))
    begun = replace(settings_of(graph, tmp_path / "begun", model=SAGE), train=plain)

    class Stop(Exception):
        pass

    def stop(text: str) -> None:
        if "epoch 2" in text:
            raise Stop

    with pytest.raises(Stop), Run.create(begun, stop) as run:
        run_loop(run)
    config, known = tmp_path / "begun/config.toml", facts(tmp_path / "begun")
    lines = [x for x in config.read_text().splitlines() if not x.startswith("accelerate")]
    config.write_text("\n".join(lines) + "\n")
    del known["accelerated"]
    (tmp_path / "begun/environment.json").write_text(json.dumps(known))
    with Run.resume(tmp_path / "begun", trust_code=True) as run:
        run_loop(run)
    expected = weights(tmp_path / "whole")
    for name, value in some(weights(tmp_path / "begun").items()):
        assert torch.equal(value, expected[name])


def test_bfloat16_trains_and_is_refused_where_the_processor_has_none(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(
        settings_of(graph, tmp_path / "half", model=SAGE),
        train=replace(TRAIN, precision="bfloat16"),
    )
    monkeypatch.setattr(device, "_cpu_flags", lambda: {"sse2"})
    with pytest.raises(InputError, match=r"train.precision is bfloat16, but this cpu has no"):
        train(settings)
    assert not (tmp_path / "half").exists()
    loader = Loader(Graph.open(graph), [2], "train", 100)
    model = SAGEModel([16, 5])
    with pytest.raises(InputError, match="precision is 'float16', expected 'float32' or"):
        Training(model, loader, torch.optim.SGD(model.parameters(), 0.1), precision="float16")
    monkeypatch.setattr(device, "_cpu_flags", lambda: {"avx512_bf16"})
    train(settings)
    train(replace(settings_of(graph, tmp_path / "full", model=SAGE), train=TRAIN))
    low, full = records(tmp_path / "half")[-1], records(tmp_path / "full")[-1]
    assert low["loss"] == pytest.approx(full["loss"], rel=0.1) and low["loss"] != full["loss"]
    assert all(value.dtype == torch.float32 for value in some(weights(tmp_path / "half").values()))
