"""Threads of torch: chosen by trial before a run has a folder, and kept when it is resumed."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from foregather.errors import InputError
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import Settings, TrainSettings
from foregather.train.trainers import sampled, torch_threads
from foregather.train.trainers.torch_threads import candidates, check_measured, choose, try_threads
from tests.train.runs import settings_of, small_folder, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def with_threads(folder, run, own, epochs=3):
    made = TrainSettings(epochs=epochs, batch_size=100, threads=2, torch_threads=own)
    return settings_of(folder, run, train=made)


def test_what_is_tried_and_chosen():
    assert candidates(1) == [1]
    assert candidates(2) == [2, 1]
    assert candidates(8) == [8, 7, 4, 1]
    assert choose({2: 1.0, 1: 0.9}) == 1
    assert choose({2: 1.0, 1: 0.97}) == 2  # too little to be sure of
    assert choose({8: 1.0, 7: 0.8, 4: 0.7, 1: 3.0}) == 4


class Clock:
    """A clock that only the steps move: one of two threads takes a second, others two."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0 if torch.get_num_threads() == 1 else 2.0
        return self.now


def test_a_trial_leaves_no_trace(folder, tmp_path):
    with Run.create(with_threads(folder, tmp_path / "r", "all")) as run:
        training, random = run.trainer.training, torch.get_rng_state()
        training.model.eval()
        weights = {name: value.clone() for name, value in training.model.state_dict().items()}
        trial = try_threads(training, 2, Clock())
        assert trial.chosen == 1 and trial.seconds[1] < trial.seconds[2]
        assert torch.get_num_threads() == 2 and not training.model.training
        assert torch.equal(random, torch.get_rng_state())
        assert all(parameter.grad is None for parameter in training.model.parameters())
        for name, value in training.model.state_dict().items():
            assert torch.equal(value, weights[name])
        assert run.trainer.position() == (0, 0)
        assert "torch uses 1 of 2 threads; a step by threads: 2: " in trial.explain()


def test_a_resumed_run_keeps_what_was_chosen(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(torch_threads, "choose", lambda seconds: 1)
    said, calls = [], []

    class Killed(Exception):
        pass

    with pytest.raises(Killed), Run.create(with_threads(folder, tmp_path / "a", "measured")) as run:
        evaluate = run.trainer.evaluate

        def once():
            calls.append(torch.get_num_threads())
            if len(calls) == 2:
                raise Killed
            return evaluate()

        monkeypatch.setattr(run.trainer, "evaluate", once)
        run_loop(run)
    facts = json.loads((tmp_path / "a" / "environment.json").read_text())
    assert facts["threads"] == 1 and facts["torch_threads"]["chosen"] == 1
    assert set(facts["torch_threads"]["seconds"]) == {"1", "2"}

    torch.set_num_threads(2)
    monkeypatch.setattr(sampled, "try_threads", None)  # would fail if it were called
    with Run.resume(tmp_path / "a", say=said.append) as run:
        assert torch.get_num_threads() == 1
        run_loop(run)
    assert calls == [1, 1] and any(text.startswith("resumed from") for text in said)

    # the trial itself changes nothing: the same weights as of a run that was told the number
    train(with_threads(folder, tmp_path / "b", "1"))
    assert torch.get_num_threads() == 1
    mine, other = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_a_run_says_what_it_measured(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(torch_threads, "choose", lambda seconds: 1)
    said = []
    with Run.create(with_threads(folder, tmp_path / "r", "measured"), said.append) as run:
        assert torch.get_num_threads() == 1
        assert run.trainer.training.loader._maker.threads == 2  # those that make batches stay
    assert sum(text.startswith("torch uses 1 of 2 threads") for text in said) == 1


@pytest.mark.parametrize("given", ["0", "-1", "most", ""])
def test_numbers_that_are_none(given):
    with pytest.raises(InputError, match="train.torch_threads is .*expected all, measured, or"):
        Settings(train=TrainSettings(torch_threads=given))


@pytest.mark.parametrize(
    ("changes", "ranks", "typed", "words"),
    [
        ({}, 2, False, "there are 2 ranks"),
        ({}, 1, True, "the graph has node types"),
        ({"method": "full-graph"}, 1, False, "the method is full-graph"),
        ({"task": "link"}, 1, False, "the task is link"),
    ],
)
def test_where_nothing_is_measured(changes, ranks, typed, words):
    train = TrainSettings(torch_threads="measured", **changes)
    settings = Settings(train=train)
    with pytest.raises(InputError, match=words):
        check_measured(settings, ranks, typed)
    check_measured(replace(settings, train=replace(train, torch_threads="2")), ranks, typed)
