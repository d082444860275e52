"""train/tasks: which task labels are for, its loss, its numbers and the best constant answer."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import FormatError, InputError
from foregather.train.metrics import METRICS
from foregather.train.settings import TrainSettings
from foregather.train.tasks.find import find_task, guess_task, task_from
from foregather.train.tasks.goal import Goal, choose_goal, choose_metric
from foregather.train.tasks.numbers import Regression

ALL = np.arange(4)


class Labels:
    """A graph that has labels and splits only."""

    def __init__(self, labels, **splits):
        self.labels = np.asarray(labels)
        self.splits = {"train": np.arange(len(self.labels))} | splits

    def split(self, name):
        if name not in self.splits:
            raise InputError(f"there is no split {name!r}")
        return np.asarray(self.splits[name], np.int64)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([0, 1, 2, -1]), "classification"),
        (np.array([0.5, 1, 2, np.nan], np.float32), "regression"),
        (np.array([[0, 1]] * 4, np.uint8), "multilabel"),
        (np.array([[0, np.nan]] * 4), "multilabel"),
        (np.array([[0, 1.5]] * 4), "regression"),
        (np.array([[0, 7]] * 4), "multilabel"),  # and refused: see below
    ],
)
def test_labels_suggest_a_task(labels, expected):
    assert guess_task(labels) == expected


@pytest.mark.parametrize(
    ("labels", "task", "loss", "message"),
    [
        ([[0, 1]] * 4, "classification", "auto", "2 columns.*use multilabel.*or regression"),
        ([0, 1, 1, 0], "multilabel", "auto", "one per node.*use classification or regression"),
        ([0.5, 1, 1, 0], "classification", "auto", "float64.*set train.task to regression"),
        ([[0, 7]] * 4, "auto", "auto", "hold 7 .*or set train.task to regression"),
        ([0, 1, 1, 0], "auto", "huber", "train.loss is 'huber'.*the task is classification"),
        ([0, 1, 1, 0], "link", "auto", "train.task is 'link'"),
        ([0.5, math.inf, 1, 0], "auto", "auto", "label of node 1 is infinite"),
        (np.zeros((4, 0)), "regression", "auto", "0 columns"),
        (np.zeros((4, 2, 2)), "auto", "auto", r"\[4 x 2 x 2\]"),
    ],
)
def test_labels_that_do_not_fit(labels, task, loss, message):
    with pytest.raises(InputError, match=message):
        find_task(Labels(labels), ALL, task, loss)


@pytest.mark.parametrize(
    ("labels", "metric", "message"),
    [
        ([0, 1, 2, 0], "auc", "two classes, but the labels have 3; use one of accuracy"),
        ([0, 1, 2, 0], "mae", "which is for regression.*use one of accuracy"),
        ([0.5, 1, 2, 0], "accuracy", "the task is regression; use one of mae, rmse, r2"),
        ([1, 1, 0, 0], "auc", "in the split 'valid' all labels are 1"),
        ([[1, 0]] * 3 + [[0, 1]], "average_precision", "no column of labels has both"),
        ([2.5, 2.5, 0, 1.5], "r2", "all its labels are equal"),
    ],
)
def test_metrics_that_do_not_fit(labels, metric, message):
    with pytest.raises(InputError, match=message):
        choose_goal(Labels(labels, valid=[0, 1]), TrainSettings(metric=metric))


def test_usual_metrics():
    names = {"classification": "accuracy", "multilabel": "micro_f1", "regression": "rmse"}
    for labels in ([0, 1, 1, 0], [[0, 1]] * 4, [0.5, 1, 1, 0]):
        task = find_task(Labels(labels), ALL)
        assert choose_metric(task).name == names[task.name]


# ---- regression --------------------------------------------------------------------------------


def test_numbers_are_standardised_by_the_training_split():
    labels = np.array([[2015.0, -3.0], [2017.0, np.nan], [2019.0, -5.0], [1e9, 1e9]])
    task = find_task(Labels(labels), np.array([0, 1, 2]), "regression")
    assert task.mean == (2017.0, -4.0)
    assert task.scale == pytest.approx((np.std([2015, 2017, 2019]), 1.0))
    raw = torch.randn(3, 2)
    finished = task.finish(raw)
    assert np.array_equal(finished.numpy(), task.finish(raw.numpy()))
    known = ~np.isnan(labels[:3])
    away = ((finished.numpy() - labels[:3]) / np.array(task.scale))[known]
    given = torch.from_numpy(labels[:3])
    assert float(task.loss(raw, given)) == pytest.approx((away**2).mean(), rel=1e-4)
    assert float(task.loss_sum(raw, given)) == pytest.approx((away**2).sum(), rel=1e-4)
    one = Regression(task.mean, task.scale, "l1")
    assert float(one.loss(raw, given)) == pytest.approx(abs(away).mean(), rel=1e-4)


def test_whole_numbers_may_be_learned_as_numbers():
    task = find_task(Labels([2000, 2010, -1, -7]), ALL, "regression", "l1")
    assert task.mean == (np.mean([2000, 2010, -7]),)  # -1 is missing in all label files
    assert task.known(np.array([-1, -7, 0])).tolist() == [False, True, True]
    loss = task.loss(torch.zeros(2, 1), torch.tensor([-1, -7]))
    assert float(loss) == pytest.approx((task.mean[0] + 7) / task.scale[0], rel=1e-5)


def test_a_batch_without_a_number_contributes_nothing():
    task = Regression((0.0,), (1.0,))
    scores = torch.ones(2, 1, requires_grad=True)
    loss = task.loss(scores, torch.full((2,), math.nan))
    loss.backward()
    assert loss.item() == 0 and scores.grad.abs().sum() == 0


def test_equal_labels_have_a_scale():
    assert find_task(Labels([1.5] * 4), ALL).scale == (1.0,)


@pytest.mark.parametrize("labels", [[0, 1, 2, 0], [[0, 1]] * 4, [0.5, 1, 1, 0], [[0.5, 1]] * 4])
def test_facts_make_the_same_task(labels):
    task = find_task(Labels(labels), ALL)
    assert task_from(task.facts()) == task


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"name": "other", "width": 2},
        {"name": "classification", "width": -1},
        {"name": "regression", "width": 1, "mean": [0.0], "scale": [0.0], "loss": "l2"},
        {"name": "regression", "width": 2, "mean": [0.0], "scale": [1.0], "loss": "l2"},
        {"name": "regression", "width": 1, "mean": ["x"], "scale": [1.0], "loss": "l2"},
        {"name": "regression", "width": 1, "mean": [0.0], "scale": [1.0], "loss": "l3"},
        "text",
    ],
)
def test_damaged_facts_are_refused(facts):
    with pytest.raises(FormatError, match="the task of the run is damaged"):
        task_from(facts)


# ---- baselines ---------------------------------------------------------------------------------


def reached(labels, metric, **splits):
    graph = Labels(labels, **splits)
    goal = choose_goal(graph, TrainSettings(metric=metric, valid="", test=""))
    return goal.baselines(graph, "train", {"valid": graph.split("valid")})


def test_the_majority_is_that_of_the_training_split():
    found = reached([2, 2, 1, -1, 2, 1, 1], "accuracy", train=[0, 1, 2, 3], valid=[4, 5, 6])
    assert found == {"baseline": {"valid": 1 / 3}, "baseline_is": "majority class"}
    assert reached([0, 1, 0, 1], "auc", valid=[2, 3]) == {
        "baseline": {"valid": 0.5},
        "baseline_is": "chance",
    }


def test_numbers_are_answered_by_mean_or_median():
    labels = [0.0, 0.5, 10.0, 1.5, math.nan]
    assert reached(labels, "rmse", train=[0, 1, 2, 4], valid=[3])["baseline"]["valid"] == 2.0
    assert reached(labels, "mae", train=[0, 1, 2, 4], valid=[3])["baseline"]["valid"] == 1.0
    assert reached(labels[:4], "r2", valid=[0, 1, 2, 3])["baseline"]["valid"] == 0.0


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=1, max_size=12),
    st.sampled_from(["accuracy", "micro_f1", "macro_f1"]),
)
def test_no_constant_labels_are_better(rows, name):
    """Against all sets of labels, on the split that the answer is chosen by."""
    train = np.array(rows)
    metric, width = METRICS[name], train.shape[1]
    if not (train >= 0).any():
        return
    task = find_task(Labels(train), np.arange(len(train)), "multilabel")
    found = task.baseline(metric, train).of(metric, train)
    best = max(
        metric.of(np.tile(np.array(guess, float), (len(train), 1)), train)
        for guess in itertools.product([-1, 1], repeat=width)
    )
    assert found == pytest.approx(best)


def test_without_training_labels_there_is_no_baseline():
    graph = Labels([0, 1, -1, -1], train=[2, 3], valid=[0, 1])
    goal = Goal(find_task(graph, ALL), METRICS["accuracy"])
    assert goal.baselines(graph, "train", {"valid": np.array([0, 1])}) == {}
    assert goal.baselines(graph, "nowhere", {"valid": np.array([0, 1])}) == {}
