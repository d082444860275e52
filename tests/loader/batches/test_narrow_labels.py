"""Labels that are looked up in a narrow copy: the same batches, and no copy without need."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import Graph, Loader
from foregather.loader.batches import narrow_labels
from foregather.loader.batches.narrow_labels import NarrowLabels
from tests.loader.graphs import small_graph


@pytest.fixture(autouse=True)
def worth(monkeypatch):
    monkeypatch.setattr(narrow_labels, "_WORTH", 100)


@pytest.mark.parametrize(
    ("low", "high", "width"),
    [(-1, 9, 1), (0, 127, 1), (-129, 5, 2), (0, 1 << 15, 4), (-3, 1 << 31, 8), (0, 1 << 62, 8)],
)
def test_batches_have_the_labels_of_the_graph(low, high, width):
    labels = np.random.default_rng(1).integers(low, high, 900)
    labels[:2] = low, high
    graph = replace(small_graph(900, 9000), labels=labels)
    loader = Loader(graph, [4, 3], batch_size=100, seed=1)
    for _ in range(2):
        for batch in loader:
            assert batch.y.dtype == torch.int64
            assert batch.y.tolist() == labels[batch.n_id.numpy()].tolist()
    narrow = loader._maker.assembler.narrow
    assert narrow.of(labels, 0).itemsize == width  # 18 batches have looked up more than 900
    assert graph.labels is labels


def test_labels_written_between_two_loops_arrive():
    labels = np.zeros(900, np.int64)
    graph = replace(small_graph(900, 9000), labels=labels)
    loader = Loader(graph, [4, 3], batch_size=100, seed=1)
    for _ in range(2):
        assert {int(y) for batch in loader for y in batch.y} == {0}
    assert loader._maker.assembler.narrow.of(labels, 0).itemsize == 1
    labels[:] = 5
    assert {int(y) for batch in loader for y in batch.y} == {5}


def test_no_copy_before_as_many_were_looked_up():
    labels, narrow = np.arange(500), NarrowLabels()
    assert narrow.of(labels, 499) is labels and narrow.of(labels, 1) is labels
    made = narrow.of(labels, 1)
    assert made.dtype == np.int16 and made.tolist() == labels.tolist()
    assert narrow.of(labels, 9) is made
    other = np.arange(500)
    assert narrow.of(other, 9) is other  # of another graph


def test_what_is_narrow_small_or_no_integer_stays():
    for labels in (np.arange(99), np.zeros(500, np.int8), np.zeros(500, np.uint32), np.zeros(500)):
        narrow = NarrowLabels()
        for _ in range(3):
            assert narrow.of(labels, 1000) is labels


def test_no_copy_under_a_budget_or_of_a_file(tmp_path):
    replace(small_graph(900, 9000), labels=np.arange(900)).save(tmp_path / "graph")
    graph = Graph.open(tmp_path / "graph")
    for memory in ("60MB", "1GB"):
        loader = Loader(graph, [4], batch_size=100, memory=memory)
        assert loader._maker.assembler.narrow is None
        assert next(iter(loader)).y.dtype == torch.int64
        loader.close()
    narrow = NarrowLabels()
    for _ in range(3):
        assert narrow.of(graph.labels, 1000) is graph.labels
