"""fit and evaluate: learning, kinds of labels, and losses that are no numbers."""

import numpy as np
import pytest
import torch

from foregather import Graph, Loader, NumericError, Training, evaluate, fit
from foregather.errors import InputError
from foregather.nn import SAGE
from foregather.train.metrics import accuracy, check_classes, count_classes
from tests.loader.graphs import grouped


def graph_of(labels):
    """Features that tell the class, random edges."""
    rng = np.random.default_rng(0)
    nodes = len(labels)
    x = rng.normal(size=(nodes, 6)).astype(np.float32)
    first = labels if labels.ndim == 1 else labels[:, 0]
    x[:, 0] += 3 * first
    splits = {"train": np.arange(nodes // 2), "valid": np.arange(nodes // 2, nodes)}
    pairs = rng.integers(0, nodes, (2, 4 * nodes))
    return Graph.from_edge_index(pairs, nodes, x=x, y=labels, splits=splits)


def training_of(graph, lr=0.05, **options):
    torch.manual_seed(0)
    options = {"shuffle": True, "labels": "seeds", "pyg": False, **options}
    loader = Loader(graph, [4, 4], "train", 50, **grouped(options))
    model = SAGE([6, 16, count_classes(graph)], dropout=0.0)
    return Training(model, loader, torch.optim.Adam(model.parameters(), lr=lr))


@pytest.mark.parametrize("options", [{}, {"labels": "all"}, {"pyg": True}])
def test_learning_and_the_best_epoch(options):
    if options.get("pyg"):
        pytest.importorskip("torch_geometric")
    training = training_of(graph_of(np.arange(400) % 2), **options)
    valid = training.loader.beside("valid")
    before = evaluate(training.model, valid)
    history = fit(training, 8, valid=valid)
    assert len(history) == 8 and history[-1]["loss"] < history[0]["loss"]
    assert max(record["valid"] for record in history) > max(0.85, before)
    assert all(0 <= record["waited"] <= record["seconds"] for record in history)
    training.model.load_state_dict(training.best)
    assert evaluate(training.model, valid) == max(record["valid"] for record in history)
    assert fit(training, 8) is training.history, "nothing is left to do"


def test_several_classes_a_node():
    labels = (np.random.default_rng(1).random((300, 3)) < 0.5).astype(np.int64)
    training = training_of(graph_of(labels))
    history = fit(training, 5)
    assert history[-1]["loss"] < history[0]["loss"] and 0 < history[-1]["train"] <= 1


def test_missing_labels_are_not_learnt():
    labels = np.arange(300) % 2
    labels[:100] = -1
    history = fit(training_of(graph_of(labels)), 2)
    assert np.isfinite(history[-1]["loss"])


def test_losses_that_are_no_numbers():
    with pytest.raises(NumericError, match="of epoch 1; try a smaller learning rate"):
        fit(training_of(graph_of(np.arange(200) % 2), lr=1e30), 3)


def test_labels_that_are_no_classes():
    graph = graph_of(np.arange(200) % 2)
    with pytest.raises(InputError, match="no labels"):
        count_classes(Graph.from_edge_index(np.zeros((2, 1), int), 2))
    with pytest.raises(InputError, match="expected classes"):
        count_classes(graph_of(np.linspace(0, 1, 200)))
    batch = next(iter(training_of(graph).loader))
    with pytest.raises(InputError, match="gives 1 columns of scores, but the labels have 2"):
        check_classes(SAGE([6, 4, 1]), batch, 2)
    check_classes(SAGE([6, 4, 2]), batch, 2)
    scores = np.eye(2, dtype=np.float32)[np.arange(200) % 2]
    assert accuracy(scores, graph.labels, graph.split("train")) == 1.0
