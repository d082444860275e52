"""Graphs that are pickled or copied: a folder by its path and digest, arrays by themselves."""

import copy
import dataclasses
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

from foregather import BatchContents, FormatError, Graph, Loader, StorageError
from foregather.graph.load import load
from foregather.graph.mapped import is_mapped
from foregather.graph.synthetic import synthesize
from tests.loader.graphs import same_batch, small_graph


def equal(a: Graph, b: Graph) -> bool:
    mine, other = a.stored_arrays(), b.stored_arrays()
    return (
        mine.keys() == other.keys()
        and all(np.array_equal(mine[name], other[name]) for name in mine)
        and a.digest == b.digest
    )


@pytest.fixture
def folder(tmp_path):
    synthesize(tmp_path / "g", 200, degree=5, features=6, classes=3, dtype="int8", seed=1)
    return tmp_path / "g"


@pytest.mark.parametrize("twice", [pickle.loads, copy.deepcopy])
def test_a_folder_is_opened_again(folder, twice):
    graph = Graph.open(folder)
    for one in (graph, load(graph)):  # one that was read into memory is the same graph
        made = twice(pickle.dumps(one)) if twice is pickle.loads else twice(one)
        assert type(made) is Graph and made is not one and made.path == folder
        assert equal(made, graph) and is_mapped(made.features.data) and made.checked
    assert len(pickle.dumps(load(graph))) < 1000  # the path, not the arrays


@pytest.mark.parametrize("weights", [None, np.linspace(0, 1, 900)])
def test_arrays_in_memory_are_copied(weights):
    graph = small_graph(edge_weight=weights) if weights is not None else small_graph()
    for made in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert equal(made, graph) and made.path is None
        np.testing.assert_array_equal(made.edge_ids, graph.edge_ids)
        assert not np.shares_memory(made.features.data, graph.features.data)
        with pytest.raises(TypeError):
            made.meta["labels"] = 1  # as frozen as before
        options = {"batch_size": 16, "contents": BatchContents(pyg=False), "shuffle": True}
        pairs = zip(Loader(graph, [3, 2], **options), Loader(made, [3, 2], **options), strict=True)
        assert all(same_batch(a, b) for a, b in pairs)


def test_a_folder_that_holds_another_graph_is_refused(folder):
    data = pickle.dumps(Graph.open(folder))
    shutil.rmtree(folder)
    with pytest.raises((FormatError, StorageError)):
        pickle.loads(data)
    synthesize(folder, 200, degree=5, features=6, classes=3, seed=2)
    with pytest.raises(FormatError, match="the graph that was pickled has the digest"):
        pickle.loads(data)


def test_changed_fields_of_an_opened_graph_are_not_lost(folder):
    graph = dataclasses.replace(Graph.open(folder), labels=np.arange(200) % 2)
    made = pickle.loads(pickle.dumps(graph))
    np.testing.assert_array_equal(made.labels, np.arange(200) % 2)
    np.testing.assert_array_equal(made.features[:], graph.features[:])


def test_a_shallow_copy_is_the_graph():
    graph = small_graph()
    assert copy.copy(graph) is graph


def test_another_process_opens_it(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    (tmp_path / "graph.pickle").write_bytes(pickle.dumps(Graph.open("g")))  # a relative path
    program = (
        "import pickle; g = pickle.loads(open('graph.pickle', 'rb').read())\n"
        "import os; print(g.num_nodes, g.digest)"
    )
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(tmp_path / "graph.pickle", other)
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, cwd=other, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["200", Graph.open(folder).digest]
    assert os.listdir(other) == ["graph.pickle"]
