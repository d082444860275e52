"""foregather train over ranks: one run folder, exact resume after kills and signals, clear ends."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

from foregather import BatchContents, Graph, Loader
from foregather.cli.main import main
from foregather.cli.training.train_ranks import restarted_run
from foregather.errors import InputError
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.sampling import Neighbor
from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.checkpoints.ranks import _read, is_too_old
from foregather.train.metrics import loss_of
from foregather.train.runs.run import Run
from foregather.train.settings import (
    CheckpointSettings,
    GridSettings,
    ModelSettings,
    Settings,
    TrainSettings,
    write_settings,
)
from tests.dist.world import World
from tests.processes import ROOT

NODES, BATCH = 1500, 50
DISTURBED = ModelSettings("tests.dist.rank_command:Disturbed")
pytestmark = pytest.mark.skipif(is_too_old(), reason="checkpoints of many ranks need torch 2.9")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "small"
    synthesize(path, NODES, degree=8, features=16, classes=5, seed=0)
    return path


def settings_of(graph, **changes):
    made = Settings(
        graph=str(graph),
        model=ModelSettings(hidden=16),
        train=TrainSettings(epochs=3, batch_size=BATCH, threads=1),
        grid=GridSettings(timeout=300, topology="partitioned"),
        checkpoint=CheckpointSettings(minutes=0),
    )
    return replace(made, **changes)


class Runs:
    """Starts `foregather train` on real ranks, in folders of its own."""

    def __init__(self, launcher, folder):
        self.launcher, self.folder, self.count = launcher, folder, 0

    def world(self, size, arguments, **env):
        self.count += 1
        place = self.folder / f"world{self.count}"
        place.mkdir()
        command = json.dumps(["train", *arguments, "--json"])
        return World(self.launcher, size, "command", place, TEST_COMMAND=command, **env)

    def start(self, size, settings, name, **env):
        config = self.folder / f"{name}.toml"
        config.write_text(write_settings(settings))
        return self.world(size, [str(config), "--run", str(self.folder / name)], **env)

    def resume(self, size, name, **env):
        options = ["--resume", str(self.folder / name), "--trust-code"]
        return self.world(size, options, **env)

    def whole(self, size, settings, name):
        """A run that nobody disturbs; its folder."""
        with self.start(size, settings, name) as world:
            finish(world, size)
        return self.folder / name


@pytest.fixture
def runs(launcher, tmp_path):
    return Runs(launcher, tmp_path)


def finish(world, size):
    assert world.wait(600) == [0] * size, "\n".join(world.output(rank) for rank in range(size))


def records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def checkpoints(run):
    return {path.name for path in list_checkpoints(run / "checkpoints")}


def wait_until(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)


def assert_close(run, other):
    """Up to rounding: ranks add gradients in an order that may differ after a start."""
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (run, other))
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.allclose(value, theirs[name], rtol=1e-4, atol=1e-5), name
    for a, b in zip(records(run), records(other), strict=True):
        assert a["epoch"] == b["epoch"] and a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def oracle(graph, ranks, epochs):
    """The same steps in one process: the mean over ranks' batches of (mean loss times share)."""
    opened = Graph.open(graph)
    nodes = len(opened.split("train"))
    loader = Loader(
        opened, None, "train", BATCH, sampler=Neighbor([10, 5]), shuffle=True,
        contents=BatchContents(labels="seeds", pyg=False),
    )  # fmt: skip
    torch.manual_seed(0)
    model = SAGE([16, 16, 5], 0.0)
    optimizer, found = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(epochs):
        batches, right, total = iter(loader), 0.0, 0.0
        while step := list(islice(batches, ranks)):
            seeds = sum(batch.batch_size for batch in step)
            optimizer.zero_grad()
            for batch in step:
                scores = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = loss_of(scores, batch.y) * batch.batch_size
                (loss / seeds).backward()
                right = right + int((scores.argmax(1) == batch.y).sum())
                total = total + loss.item()
            optimizer.step()
        found.append((total / nodes, right / nodes))
    return model.state_dict(), found


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [
        (2, GridSettings(timeout=300, topology="partitioned")),
        (3, GridSettings(timeout=300)),  # auto: there is room for all neighbour lists
        (4, GridSettings(timeout=300, topology="partitioned", replication=2)),
        (2, GridSettings(timeout=300, topology="partitioned", weights="sharded")),
    ],
)
def test_a_run_over_ranks_is_the_mean_over_their_batches(graph, runs, ranks, grid):
    train = TrainSettings(epochs=2, batch_size=BATCH, threads=1, valid="")
    model = ModelSettings(hidden=16, dropout=0.0)
    folder = runs.whole(ranks, settings_of(graph, train=train, model=model, grid=grid), "r")
    weights, expected = oracle(graph, ranks, 2)
    for name, value in load_file(folder / "model.safetensors").items():
        assert torch.allclose(value, weights[name], rtol=1e-4, atol=1e-5), name
    rows = [record["rows"] for record in records(folder)]
    assert max(rows) < 1.1 * min(rows)  # what the model was tried on does not count
    for record, (loss, right) in zip(records(folder), expected, strict=True):
        assert record["loss"] == pytest.approx(loss, rel=1e-4)
        assert record["train"] == pytest.approx(right, abs=0.003)
        assert record["sent"] == record["sent_sampling"] + record["sent_features"] > 0
        assert (record["sent_sampling"] > 0) == (grid.topology == "partitioned")
        phases = record["phases"]  # features cross in both; picks only where rows are elsewhere
        assert {"frontier", "picks", "plan", "gather", "gather (links)"} <= set(phases)
        assert ("picks (links)" in phases) == (grid.topology == "partitioned")
        assert all(spent > 0 for spent in phases.values())
        assert not any("phase" in name for name in record["beside"])
    names = {entry.name for entry in folder.iterdir()}
    assert {"config.toml", "environment.json", "summary.json", "trace.json"} <= names
    if grid.weights == "replicated":  # dropout of each rank has random numbers of its own
        path = list_checkpoints(folder / "checkpoints")[0]
        own = [_read(path, rank, torch.empty)[1]["random"] for rank in range(ranks)]
        assert len({state["torch"].numpy().tobytes() for state in own}) == ranks
        assert len({state["numpy"][1].numpy().tobytes() for state in own}) == ranks
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["ranks"] == ranks
    assert environment["topology"] == ("replicated" if ranks == 3 else "partitioned")
    assert not [name for name in names if "partial" in name]


class Further(torch.nn.Module):
    """A model that does not show its layers, and has one more than it says."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.inner = SAGE([in_channels, 16, 16, out_channels])

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


@pytest.mark.parametrize("final", ["exact", "sampled", "cannot"])
def test_what_epochs_sent_is_what_the_ledger_has(graph, runs, final):
    train = TrainSettings(2, BATCH, threads=1, final="exact" if final == "cannot" else final)
    model = ModelSettings(f"{__name__}:Further") if final == "cannot" else None
    settings = settings_of(graph, train=train, **({"model": model} if model else {}))
    with runs.start(2, settings, "r", TEST_LEDGER=str(runs.folder)) as world:
        finish(world, 2)
    closed = [
        sum(map(int, (runs.folder / f"ledger-{rank}").read_text().split())) for rank in (0, 1)
    ]
    summary = json.loads((runs.folder / "r" / "summary.json").read_text())
    told = [(r["sent"], r["beside"]["sent"]) for r in records(runs.folder / "r")]
    assert summary["sent"] == sum(closed) > 0
    assert summary["beside"]["sent"] >= sum(beside for _, beside in told) > 0
    assert summary["sent"] == sum(sent for sent, _ in told) + summary["beside"]["sent"]
    assert told[0][0] > told[1][0], "what was fetched to try the model was sent for the first epoch"
    assert summary["scored"] == ("exact" if final == "exact" else "sampled")
    assert ("why_sampled" in summary) == (final == "cannot")
    if final == "cannot":
        assert "Further looks further than its 2 layers" in summary["why_sampled"]


@pytest.mark.parametrize("evaluate", ["sampled", "exact"])
def test_early_stopping_is_the_same_on_all_ranks(graph, runs, evaluate):
    train = TrainSettings(30, BATCH, evaluate=evaluate, patience=2, threads=1)
    settings = settings_of(graph, train=train)
    settings = replace(settings, optimizer=replace(settings.optimizer, lr=1e-12))
    folder = runs.whole(2, settings, "r")
    found = records(folder)
    assert len(found) < 30 and all("valid" in record for record in found)
    split = len(Graph.open(graph).split("valid"))
    right = found[0]["valid"] * split  # a whole number of nodes: each was judged once
    assert right == pytest.approx(round(right), abs=1e-6)
    assert json.loads((folder / "summary.json").read_text())["test"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "weights"), [(2, "replicated"), (3, "replicated"), (2, "sharded")]
)
def test_killed_at_random_moments(graph, runs, ranks, weights):
    settings = settings_of(
        graph,
        checkpoint=CheckpointSettings(minutes=1e-3, keep=2),
        grid=GridSettings(timeout=300, weights=weights),
        train=TrainSettings(epochs=4, batch_size=BATCH, threads=1),
    )
    began = time.monotonic()
    whole = runs.whole(ranks, settings, "whole")
    took = time.monotonic() - began
    moments, run, resumes = random.Random(ranks), runs.folder / "killed", 0
    for number in range(3):
        again, before = run.exists(), checkpoints(run)
        resumes += again
        world = runs.resume(ranks, "killed") if again else runs.start(ranks, settings, "killed")
        with world:
            wait_until(run.exists)
            if number % 2:  # while it trains; else at any moment, the start included
                wait_until(lambda: checkpoints(run) != before or not world._running())  # noqa: B023
            time.sleep(moments.uniform(0.0, 0.5 * took))
            if left := world._running():  # some may have come to their end by then
                world.signal(moments.choice(left), signal.SIGKILL)
            time.sleep(1)  # leaving kills the others, as torchrun does
    with runs.resume(ranks, "killed") as world:
        finish(world, ranks)
    assert resumes >= 2
    assert_close(whole, run)


@pytest.mark.slow
def test_torchrun_starts_the_ranks_again(graph, runs, monkeypatch):
    settings = settings_of(graph, model=DISTURBED, run=str(runs.folder / "r"))
    config = runs.folder / "r.toml"
    config.write_text(write_settings(settings))
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *options,
            "-m",
            "foregather",
            "train",
            config,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TEST_DISTURB": f"{int(signal.SIGKILL)} 1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "resumed from checkpoint-00000001-00000000" in done.stderr
    assert "rank 1 (last seen" in done.stderr and "died or stopped" in done.stderr
    assert_close(runs.whole(2, replace(settings, run=""), "whole"), runs.folder / "r")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    with pytest.raises(InputError, match="name the folder with run ="):
        restarted_run("")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_one_rank_stops_all(graph, runs, number, code):
    settings = settings_of(graph, model=DISTURBED)
    run = runs.folder / "r"
    with runs.start(2, settings, "r", TEST_DISTURB=f"{int(number)} 1") as world:
        assert world.wait(600) == [code, code], world.output(0) + world.output(1)
    newest = list_checkpoints(run / "checkpoints")[0]
    steps = -(-len(Graph.open(graph).split("train")) // (2 * BATCH))
    epoch, batch = divmod(14, steps)
    assert newest.name == f"checkpoint-{epoch:08d}-{batch:08d}"
    with runs.resume(2, "r") as world:
        finish(world, 2)
    assert_close(runs.whole(2, settings, "whole"), run)


@pytest.mark.slow
def test_another_number_of_ranks_is_refused(graph, runs):
    folder = runs.whole(2, settings_of(graph), "r")
    with runs.resume(3, "r") as world:
        assert world.wait(600) == [2, 2, 2]
        said = world.output(0)
        assert "r was started on 2 ranks, but here are 3" in said and "start 2, or" in said
        assert world.output(1) == world.output(2) == ""
    with pytest.raises(InputError, match="was started on 2 ranks, but here are 1"):
        Run.resume(folder)


def test_errors_name_the_rank(graph, runs, tmp_path):
    settings = settings_of(graph, model=DISTURBED)
    with runs.start(2, settings, "r", TEST_DISTURB="nothing 1") as world:
        codes = world.wait(600)
        assert codes[1] == 1 and codes[0] == 2
        assert "foregather: rank 1:" in world.output(1) and "the model has nothing" in world.output(
            1
        )
        assert "rank 1 (last seen" in world.output(0) and "Traceback" not in world.output(0)
    with runs.start(2, replace(settings, graph=str(tmp_path / "none")), "s") as world:
        assert world.wait(600) == [2, 2]
        assert "foregather: rank 0:" in world.output(0) and world.output(1) == ""
    assert not (tmp_path / "s").exists()
    with runs.start(2, settings_of(graph), "r") as world:
        assert world.wait(600) == [2, 2]
        assert "already exists; continue with --resume" in world.output(0)


@pytest.mark.slow
def test_a_rank_whose_disk_is_full_stops_nobody(graph, runs):
    settings = settings_of(graph, model=DISTURBED)
    with runs.start(2, settings, "r", TEST_DISTURB="full 1") as world:
        finish(world, 2)
    run = runs.folder / "r"
    kept = [path.name for path in list_checkpoints(run / "checkpoints")]
    assert kept == ["checkpoint-00000001-00000000", "checkpoint-00000000-00000000"]
    assert not list((run / "checkpoints").glob("*.partial"))
    with runs.resume(2, "r") as world:
        finish(world, 2)
    assert_close(runs.whole(2, settings, "whole"), run)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["shared.safetensors", "ranks/shard-00002*"])
def test_a_damaged_checkpoint_falls_back(graph, runs, part):
    whole, run = (runs.whole(2, settings_of(graph), name) for name in ("whole", "r"))
    newest = list_checkpoints(run / "checkpoints")[0]
    (damaged,) = newest.glob(part)
    data = bytearray(damaged.read_bytes())
    data[-3] ^= 1
    damaged.write_bytes(data)
    with runs.world(2, ["--resume", str(run)]) as world:
        finish(world, 2)
    assert_close(whole, run)
    assert list_checkpoints(run / "checkpoints")[0].name == newest.name
    assert not list((run / "checkpoints").glob("*.partial"))


@pytest.mark.slow
def test_settings_that_ranks_may_change_when_they_resume(graph, runs, capsys):
    folder = runs.whole(2, settings_of(graph), "r")
    options = ["--resume", str(folder), "--grid.topology", "replicated"]
    with runs.world(2, options) as world:
        finish(world, 2)
    with runs.world(2, ["--resume", str(folder), "--grid.wire", "int8"]) as world:
        assert world.wait(600) == [2, 2]
        assert "grid.wire was 'exact' and is 'int8'" in world.output(0)
    assert main(["train", "--graph", str(graph), "--grid.replication", "0"]) == 2
    assert "grid.replication is 0, expected 1 or more" in capsys.readouterr().err
