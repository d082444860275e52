"""Full-graph runs in stages and ways, on real ranks: killed and resumed, signals, lost ranks."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from foregather.cli.main import main
from foregather.graph.synthetic import synthesize
from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.checkpoints.ranks import _read, is_too_old
from foregather.train.settings import (
    CheckpointSettings,
    FullGraphSettings,
    GridSettings,
    ModelSettings,
    OptimizerSettings,
    Settings,
    TrainSettings,
    write_settings,
)
from tests.dist.world import World

pytestmark = pytest.mark.skipif(is_too_old(), reason="checkpoints of many ranks need torch 2.9")

CASES = {
    "exact": FullGraphSettings("exact", 4),
    "fast": FullGraphSettings("fast", 4),
    "bounded": FullGraphSettings("bounded", 4, measure=2, error=1e-9),
    "ways": FullGraphSettings("fast", 4, ways=2),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "small"
    synthesize(path, 300, degree=6, features=8, classes=3, seed=0)
    return path


def settings_of(graph, full):
    return Settings(
        graph=str(graph),
        model=ModelSettings("gcnii", hidden=8, layers=4),
        optimizer=OptimizerSettings(schedule="linear"),
        train=TrainSettings(method="full-graph", epochs=5, threads=1),
        grid=GridSettings(timeout=300),
        checkpoint=CheckpointSettings(minutes=0, epochs=2),
        full_graph=full,
    )


class Runs:
    """Starts `foregather train` on two real ranks, in folders of its own."""

    def __init__(self, launcher, folder):
        self.launcher, self.folder, self.count = launcher, folder, 0

    def world(self, arguments, **env):
        self.count += 1
        place = self.folder / f"world{self.count}"
        place.mkdir()
        command = json.dumps([*map(str, arguments), "--json"])
        return World(self.launcher, 2, "command", place, TEST_COMMAND=command, **env)

    def start(self, settings, name, **env):
        config = self.folder / f"{name}.toml"
        config.write_text(write_settings(settings))
        return self.world(["train", config, "--run", self.folder / name], **env)

    def resume(self, name, **env):
        return self.world(["train", "--resume", self.folder / name], **env)


@pytest.fixture
def runs(launcher, tmp_path):
    return Runs(launcher, tmp_path)


def finish(world):
    assert world.wait(600) == [0, 0], world.output(0) + world.output(1)


def state_of(run: Path):
    """All tensors of the last checkpoint of both ranks, and the weights that were delivered."""
    found = dict(load_file(run / "model.safetensors"))
    for rank in (0, 1):
        shared, own = _read(list_checkpoints(run / "checkpoints")[0], rank, None)
        for part in ("weights", "optimizer"):
            found |= {f"{rank}/{part}/{k}": v for k, v in shared["training"][part].items()}
        rows = own["rank"]["history"]["rows"]
        found |= {f"{rank}/history/{layer}": value for layer, value in rows.items()}
    return found


def records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_it_goes_on_to_the_same_weights(graph, runs, case):
    settings, run = settings_of(graph, CASES[case]), runs.folder / "killed"
    with runs.start(settings, "whole") as world:
        finish(world)
    disturb = f"{int(signal.SIGKILL)} 1 3"  # rank 1, in the middle of its fourth epoch
    with runs.start(settings, "killed", TEST_FULL_GRAPH=disturb) as world:
        codes = world.wait(600)
        assert codes[1] == -signal.SIGKILL and codes[0] == 2, world.output(0)
        told = world.output(0)
    assert "rank 0 gives up: rank 1 (last seen in step" in told and "died or stopped" in told
    assert "noticed by rank 0 in step 'epoch 4'" in told
    assert list_checkpoints(run / "checkpoints")[0].name == "checkpoint-00000002-00000000"
    with runs.resume("killed") as world:
        finish(world)
    mine, whole = state_of(run), state_of(runs.folder / "whole")
    assert mine.keys() == whole.keys() and len(mine) > 40
    assert any("history" in name for name in mine) == (case != "exact")
    for name, value in whole.items():
        assert torch.equal(mine[name], value), name
    for a, b in zip(records(run), records(runs.folder / "whole"), strict=True):
        names = ("epoch", "loss", "ran", "valid", "sent", "sent_forward", "staleness")
        assert [a.get(name) for name in names] == [b.get(name) for name in names]
    assert all(record["sent"] > 0 for record in records(run))
    for record in records(run):
        assert {"compute", "exchange" if case == "ways" else "rows"} <= set(record["phases"])
        assert sum(record["phases"].values()) <= record["seconds"] * (1 + 1e-9)


def test_a_signal_to_one_rank_stops_all_after_the_epoch(graph, runs):
    settings = settings_of(graph, CASES["fast"])
    with runs.start(settings, "r", TEST_FULL_GRAPH=f"{int(signal.SIGTERM)} 1 2") as world:
        assert world.wait(600) == [143, 143], world.output(0) + world.output(1)
    newest = list_checkpoints(runs.folder / "r" / "checkpoints")[0].name
    assert newest == "checkpoint-00000003-00000000"  # no regular one: they come every 2 epochs
    with runs.resume("r") as world:
        finish(world)
        assert json.loads(world.output(0))["epochs"] == 5 and world.output(1) == ""
    found = records(runs.folder / "r")
    assert all(sum(record["links"].values()) == record["sent"] for record in found)
    assert [record["epoch"] for record in found if "timeline" in record] == [2]
    assert {task[0] for task in found[1]["timeline"][1]} >= {"receive", "forward", "backward"}
    assert main(["report", str(runs.folder / "r")]) == 0
    page = (runs.folder / "r" / "report.html").read_text()
    assert "Ranks in epoch 2" in page and "Bytes between ranks" in page


def test_ranks_hear_what_cannot_be_written_and_what_differs(graph, runs):
    (runs.folder / "there").write_text("mine")
    flags = ["--depth", "3", "--width", "8", "--epochs", "1", "--run", runs.folder / "r"]
    line = ["train-full", graph, *flags, "--chunks", "4"]
    with runs.world([*line, "--save", runs.folder / "there"]) as world:
        assert world.wait(600) == [2, 2]
        assert "there exists already; pass --overwrite" in world.output(0)
    with runs.world([*line, "--save", runs.folder / "state"]) as world:
        finish(world)
        facts = json.loads(world.output(0))
    assert facts["stages"] == 2 and facts["sent"] > 0 and Path(facts["saved"]).exists()
    with runs.world(
        [*line[:-4], "--run", runs.folder / "s", "--ways", "3", "--chunks", "6"]
    ) as bad:
        assert bad.wait(600) == [2, 2]
        assert "there are 2 ranks, but 3 ways per stage" in bad.output(0)
    assert not (runs.folder / "s").exists()
