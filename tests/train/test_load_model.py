"""Loading a trained model from the folder of its run: damage is said in a sentence."""

import json
import shutil

import pytest
import torch

from foregather.errors import FormatError
from foregather.pipeline.state import load_state
from foregather.train.runs.run import Run
from foregather.train.runs.run_folder import load_model
from foregather.train.runs.run_loop import run_loop
from tests.fuzzing.fuzz_cases import make_cases
from tests.train.runs import settings_of, small_folder, train


@pytest.fixture
def run(tmp_path):
    return make_cases(tmp_path)["model, environment.json"].path.parent


def test_a_whole_folder(run):
    model, settings = load_model(run)
    assert settings.graph == "g" and sum(p.numel() for p in model.parameters()) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"threads": "one"},
        {"threads": 0},
        {"model": {"width": 3}},
        {"model": {"width": 3, "classes": 2, "depth": 1}},
        {"model": {"width": 1 << 40, "classes": 2}},
        {"graph": None},
    ],
)
@pytest.mark.parametrize("use", [load_model, Run.resume])
def test_an_environment_that_cannot_be(run, change, use):
    path = run / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match="environment.json of run is damaged"):
        use(run)
    path.write_text("{")
    with pytest.raises(FormatError, match="environment.json of run is damaged"):
        use(run)


def test_a_model_of_another_size_takes_no_memory(run):
    path = run / "environment.json"
    facts = json.loads(path.read_text())
    facts["model"]["width"] = 1 << 30  # a terabyte of weights
    path.write_text(json.dumps(facts))
    with pytest.raises(FormatError, match="does not fit its model"):
        load_model(run)


def test_a_state_with_other_parts(tmp_path):
    from safetensors.torch import save_file

    save_file({"other:w": torch.ones(1)}, tmp_path / "s", {"epoch": "1"})
    with pytest.raises(FormatError, match="holds 'other:w', expected weights"):
        load_state(tmp_path / "s")


def test_a_lost_model_is_made_again_from_the_checkpoint(tmp_path, tmp_path_factory):
    folder = tmp_path / "run"
    train(settings_of(small_folder(tmp_path_factory), folder))
    made = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    words = "has finished, but its model.safetensors is missing; train --resume .* makes it again"
    with pytest.raises(FormatError, match=words):
        load_model(folder)
    with Run.resume(folder) as again:
        run_loop(again)
    assert (folder / "model.safetensors").read_bytes() == made
    (folder / "model.safetensors").unlink()
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(FormatError, match=r"is missing; restore the file, or train again"):
        load_model(folder)
    (folder / "summary.json").unlink()
    with pytest.raises(FormatError, match="has not finished; continue it with train --resume"):
        load_model(folder)
