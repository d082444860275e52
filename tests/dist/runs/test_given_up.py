"""Over ranks: one gives up its accelerated pass; it is resumed so, and the others follow."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.checkpoints.ranks import _read, is_too_old
from foregather.train.settings import CheckpointSettings, ModelSettings
from tests.dist.runs.test_train_command import (  # noqa: F401 - fixtures
    Runs,
    finish,
    graph,
    records,
    runs,
    settings_of,
)
from tests.some import some
from tests.train.gives_up import STEP

pytestmark = pytest.mark.skipif(is_too_old(), reason="checkpoints of many ranks need torch 2.9")


@pytest.mark.slow
def test_one_rank_gives_up_and_is_resumed_so(graph, runs):  # noqa: F811
    settings = settings_of(
        graph,
        model=ModelSettings("tests.train.gives_up:GivesUp"),
        checkpoint=CheckpointSettings(minutes=1e-9, keep=3),
    )
    settings = replace(settings, train=replace(settings.train, epochs=2))
    with runs.start(2, settings, "whole", TEST_GIVES_UP="1") as world:
        finish(world, 2)
    plain = [record["plain"] for record in some(records(runs.folder / "whole"))]
    assert all("(on rank 1)" in str(text) for text in plain), plain
    with runs.start(2, settings, "died", TEST_GIVES_UP="1", TEST_DIES=str(STEP + 3)) as world:
        assert 0 not in world.wait(600)
    newest = list_checkpoints(runs.folder / "died/checkpoints")[0]
    own = [_read(newest, rank, torch.empty)[1]["accelerated"] for rank in (0, 1)]
    assert own[0] == [] and [one["training"] for one in own[1]] == [True]
    with runs.resume(2, "died", TEST_GIVES_UP="1") as world:
        finish(world, 2)
    whole, died = (
        load_file(runs.folder / name / "model.safetensors") for name in ("whole", "died")
    )
    for name, value in some(whole.items()):
        assert torch.equal(value, died[name]), name
    summary = json.loads((runs.folder / "died/summary.json").read_text())
    assert summary["epochs"] == 2
