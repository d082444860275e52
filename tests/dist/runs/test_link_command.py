"""foregather train for links over ranks: the steps of one rank's batches, exact metrics, resume."""

import json
import random
import signal
import time
from dataclasses import replace
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

from foregather.errors import InputError
from foregather.train.checkpoints.ranks import is_too_old
from foregather.train.links.check_links import check_link_run
from foregather.train.rank_agreement import Together
from foregather.train.settings import CheckpointSettings
from foregather.train.trainers.linking import LinkTrainer
from tests.dist.runs.test_train_command import Runs, checkpoints, finish, records, wait_until
from tests.some import some
from tests.train.links.small_links import link_settings, plain_graph, saved, shop_graph

pytestmark = pytest.mark.skipif(is_too_old(), reason="checkpoints of many ranks need torch 2.9")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    place = tmp_path_factory.mktemp("links")
    return {
        "plain": saved(plain_graph(nodes=50), place / "plain.fg"),
        "bare": saved(plain_graph(features=False), place / "bare.fg"),
        "shop": saved(shop_graph(), place / "shop.fg"),
        "timed": saved(shop_graph(times=True), place / "timed.fg"),
    }


def settings_of(graphs, kind, **changes):
    """Settings of a kind of run; with a last step in which not every rank has links."""
    ways = {
        "sage": ("plain", {}),
        "bare": ("bare", {"link": {"mode": "binary"}}),
        "lightgcn": ("bare", {"model": {"kind": "lightgcn", "hidden": 8}}),
        "distmult": ("shop", {"model": {"kind": "distmult", "hidden": 8}}),
        "typed": ("shop", {"model": {"kind": "rgcn", "hidden": 8, "dropout": 0.0}}),
        "timed": ("timed", {"typed": {"time": "edge", "temporal_strategy": "last"}}),
    }
    name, own = ways[kind]
    made = link_settings(graphs[name], "", **own)
    topology = "auto" if kind in ("typed", "timed") else "partitioned"
    made = replace(made, grid=replace(made.grid, timeout=300, topology=topology))
    made = replace(made, train=replace(made.train, epochs=2, batch_size=50))
    return replace(made, **changes)


def oracle(settings, folder, ranks):
    """The same steps in one process: of the mean loss over all links of a step."""
    trainer = LinkTrainer(settings, folder, lambda _: None, Together())
    training, losses = trainer.training, []
    training.model.train()
    for _ in range(settings.train.epochs):
        batches, total, seen = iter(training.loader), 0.0, 0
        while step := list(islice(batches, ranks)):
            counts = [len(training.labels(batch)) for batch in step]
            training.optimizer.zero_grad()
            for batch, count in zip(step, counts, strict=True):
                loss = training.goal.task.loss(training.scores(batch), training.labels(batch))
                (loss * count / sum(counts)).backward()
                total, seen = total + loss.item() * count, seen + count
            training.optimizer.step()
        losses.append(total / seen)
    return trainer, losses


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("sage", 2),
        pytest.param("sage", 3, marks=pytest.mark.slow),
        pytest.param("bare", 2, marks=pytest.mark.slow),
        ("lightgcn", 3),
        pytest.param("distmult", 2, marks=pytest.mark.slow),
        ("typed", 2),
        pytest.param("timed", 3, marks=pytest.mark.slow),
    ],
)
def test_a_run_over_ranks_is_one_of_all_their_links(graphs, launcher, tmp_path, kind, ranks):
    runs = Runs(launcher, tmp_path)
    settings = settings_of(graphs, kind)
    folder = runs.whole(ranks, settings, "r")
    trainer, losses = oracle(settings, tmp_path, ranks)
    assert len(trainer.data.splits["train"]) % (ranks * settings.train.batch_size) > 0
    last = load_file(folder / "model.safetensors")
    summary = json.loads((folder / "summary.json").read_text())
    if summary["best_epoch"] == settings.train.epochs:  # weights are those of the best epoch
        for name, value in trainer.model.state_dict().items():
            assert torch.allclose(last[name], value, rtol=1e-3, atol=1e-5), name
    found = records(folder)
    assert [one["loss"] for one in found] == pytest.approx(losses, rel=1e-4)
    # what the ranks say of these weights is what one rank says of them: not a mean of means
    trainer.model.load_state_dict(last)
    trainer.training.best = None
    alone = trainer.final_scores()
    for role in some(["valid", "test", "baseline", "candidates", "scored", "metric"]):
        assert summary[role] == alone[role], role
    assert json.loads((folder / "environment.json").read_text())["ranks"] == ranks
    if kind in ("typed", "timed"):  # what only fills the last step is not counted
        assert summary["typed"]["batches"] == settings.train.epochs * _batches(trainer, settings)


def _batches(trainer, settings):
    return -(-len(trainer.data.splits["train"]) // settings.train.batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sage", "lightgcn", "typed"])
def test_killed_and_stopped_runs_end_with_the_same_weights(graphs, launcher, tmp_path, kind):
    runs, moments = Runs(launcher, tmp_path), random.Random(kind)
    settings = settings_of(graphs, kind, checkpoint=CheckpointSettings(minutes=1e-3, keep=2))
    settings = replace(settings, train=replace(settings.train, epochs=8, batch_size=10))
    whole, run = runs.whole(2, settings, "whole"), tmp_path / "killed"
    resumes = 0
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        again, before = run.exists(), checkpoints(run)
        resumes += again
        with (runs.resume if again else lambda n, name: runs.start(n, settings, name))(
            2, "killed"
        ) as world:
            wait_until(lambda: checkpoints(run) != before or not world._running())  # noqa: B023
            time.sleep(moments.uniform(0, 0.3))
            if left := world._running():
                world.signal(moments.choice(left), number)
            if number == signal.SIGTERM:
                world.wait(300)
            time.sleep(0.5)  # leaving kills the others, as torchrun does
    assert resumes
    with runs.resume(2, "killed") as world:
        finish(world, 2)
    first, second = (load_file(one / "model.safetensors") for one in (whole, run))
    for name in some(first):
        assert torch.equal(first[name], second[name]), name
    for one, other in zip(records(whole), records(run), strict=True):
        assert (one["loss"], one["valid"]) == (other["loss"], other["valid"])


@pytest.mark.parametrize(
    ("changes", "typed", "words"),
    [
        ({"grid": {"topology": "partitioned"}}, True, "each of 2 ranks has all of a graph with"),
        ({"grid": {"wire": "int8"}}, True, "grid.wire is 'int8', but ranks that train on a graph"),
        ({"grid": {"weights": "sharded"}}, True, "grid.weights is 'sharded', but links"),
        ({"grid": {"weights": "sharded"}}, False, "grid.weights is 'sharded', but links"),
    ],
)
def test_what_ranks_do_not_do(changes, typed, words):
    with pytest.raises(InputError, match=words):
        check_link_run(link_settings("g", "", **changes), 2, typed)
