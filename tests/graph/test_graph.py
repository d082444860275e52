"""Graph: building from edges and PyG, saving, opening, asking."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_undirected

from foregather import Features, FormatError, Graph, InputError, StorageError
from tests.oracle import csc


def example(seed: int = 0, nodes: int = 50, edges: int = 300, **options) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph.from_edge_index(
        rng.integers(0, nodes, (2, edges)),
        nodes,
        x=rng.random((nodes, 4), np.float32),
        y=rng.integers(-1, 3, nodes),
        edge_weight=rng.random(edges),
        edge_attr=rng.integers(0, 9, (edges, 2)).astype(np.int16),
        splits={"train": np.arange(10), "val": torch.tensor([10, 11]), "test": [40]},
        **options,
    )


def test_edges_carry_their_columns():
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 30, (2, 200))
    weight, attr = rng.random(200), rng.random((200, 3))
    graph = Graph.from_edge_index(
        torch.from_numpy(pairs), 30, edge_weight=torch.from_numpy(weight), edge_attr=attr
    )
    order = np.lexsort(pairs)
    np.testing.assert_array_equal(graph.edge_ids, order)
    np.testing.assert_array_equal(graph.indices, pairs[0, order])
    np.testing.assert_array_equal(graph.edge_weight, weight.astype(np.float32)[order])
    np.testing.assert_array_equal(graph.edge_features.data, attr[order])
    np.testing.assert_array_equal(graph.in_degree(), np.bincount(pairs[1], minlength=30))
    np.testing.assert_array_equal(graph.out_degree(), np.bincount(pairs[0], minlength=30))
    assert graph.indices.dtype == np.uint32


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_options_against_plain_python(edges, undirected, self_loops, dedup):
    source, target = [u for u, _ in edges], [v for _, v in edges]
    weight = np.arange(len(edges)) + 2.0
    graph = Graph.from_edge_index(
        np.array([source, target], np.int32).reshape(2, -1),
        10,
        edge_weight=weight,
        edge_attr=weight,
        undirected=undirected,
        self_loops=self_loops,
        dedup=dedup,
    )
    pairs = np.array([source, target]).reshape(2, -1)
    indptr, indices, origin = csc(pairs, 10, undirected, self_loops, dedup)
    np.testing.assert_array_equal(graph.indptr, indptr)
    np.testing.assert_array_equal(graph.indices, indices)
    np.testing.assert_array_equal(graph.edge_ids, origin)
    assert graph.edge_weight.tolist() == [1 if i < 0 else i + 2 for i in origin]
    assert graph.edge_features.data.ravel().tolist() == [0 if i < 0 else i + 2 for i in origin]


def test_undirected_equals_pyg():
    pairs = torch.from_numpy(np.random.default_rng(5).integers(0, 40, (2, 150)))
    graph = Graph.from_edge_index(pairs, 40, undirected=True)
    want = to_undirected(pairs, num_nodes=40)
    rows = np.repeat(np.arange(40), graph.in_degree())
    assert set(zip(graph.indices.tolist(), rows.tolist(), strict=True)) == set(
        map(tuple, want.T.tolist())
    )
    assert graph.num_edges == want.shape[1]
    assert graph.meta["undirected"] is True and graph.meta["duplicates"] == "removed"


@pytest.mark.parametrize(
    "pairs, nodes, message",
    [
        ([[0, 5], [1, 1]], 5, "edge 1 has source 5, but the graph has 5 nodes"),
        ([[0, 1], [1, -2]], 5, "edge 1 has target -2"),
        ([[0, 1], [1, 2**40]], 5, "edge 1 has target 1099511627776"),
        ([[0, -1], [-1, 0]], None, "edge 0 has target -1"),
        ([[0.0, float("nan")], [1, 1]], 5, "whole numbers"),
        ([[0, 1, 2], [1, 1, 1], [0, 0, 0]], 5, "expected \\[2, edges\\]"),
        ([0, 1], 5, "expected \\[2, edges\\]"),
        ([["a"], ["b"]], 5, "expected numbers"),
        ([[0], [0]], -1, "expected a count"),
    ],
)
def test_refuses_bad_edges(pairs, nodes, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edge_index(pairs, nodes)
    with pytest.raises(InputError):
        Graph.from_edge_index(pairs, nodes, undirected=True, self_loops=True)


def test_uint32_edges_are_checked_too():
    pairs = np.array([[0, 7], [1, 0]], np.uint32)
    with pytest.raises(InputError, match="edge 1 has source 7"):
        Graph.from_edge_index(pairs, 5, self_loops=True, undirected=True)


@pytest.mark.parametrize(
    "columns",
    [
        {"x": np.zeros((4, 2))},
        {"y": np.zeros(4)},
        {"edge_weight": np.zeros(3)},
        {"edge_weight": np.array([1, np.nan])},
        {"edge_attr": np.zeros((3, 2))},
        {"splits": {"train": [0, 3]}},
        {"splits": {"train": [0.5]}},
        {"x": np.array([["a"], ["b"], ["c"]])},
    ],
)
def test_refuses_columns_that_do_not_fit(columns):
    with pytest.raises(InputError):
        Graph.from_edge_index([[0, 1], [1, 2]], 3, **columns)


def test_number_of_nodes_is_found():
    pairs = [[0, 1], [1, 2]]
    assert Graph.from_edge_index(pairs).num_nodes == 3
    assert Graph.from_edge_index(pairs, x=np.zeros((7, 1))).num_nodes == 7
    assert Graph.from_edge_index(torch.empty(2, 0)).num_nodes == 0
    empty = Graph.from_edge_index(torch.empty(2, 0), 4, self_loops=True)
    assert empty.indices.tolist() == [0, 1, 2, 3]


def test_labels_are_normalised():
    def stored(y):
        graph = Graph.from_edge_index([[0], [1]], 3, y=y)
        return graph.labels.tolist(), graph.labels.dtype, graph.meta["labels"]

    single = {"kind": "single", "num_classes": 3, "missing": 1}
    assert stored(torch.tensor([[2], [-1], [0]])) == ([2, -1, 0], np.int8, single)
    assert stored(np.array([2, np.nan, 0], np.float32)) == ([2, -1, 0], np.int8, single)
    assert stored(np.array([2.5, 1, 0]))[2]["kind"] == "float"
    whole = {"kind": "single", "num_classes": 3, "missing": 0}  # as with the NaN above
    assert stored(np.array([2.0, 1, 0])) == ([2, 1, 0], np.int8, whole)
    multi = stored(torch.tensor([[1, 0], [0, 0], [1, 1]], dtype=torch.bool))
    assert multi[1:] == (np.uint8, {"kind": "multi", "num_classes": 2, "missing": 0})


def test_from_pyg():
    data = Data(
        x=torch.randn(5, 3, dtype=torch.bfloat16),
        edge_index=torch.tensor([[0, 1, 4], [1, 2, 0]]),
        y=torch.tensor([0, 1, 0, 1, 0]),
        edge_attr=torch.tensor([1.0, 2.0, 3.0]),
        train_mask=torch.tensor([True, False, True, False, False]),
        val_mask=torch.tensor([False, True, False, False, False]),
    )
    graph = Graph.from_pyg(data)
    assert graph.num_nodes == 5 and graph.edge_features.data.tolist() == [[3], [1], [2]]
    assert graph.splits["train"].tolist() == [0, 2] and graph.split("valid").tolist() == [1]
    assert graph.features.dtype == np.float32
    bare = SimpleNamespace(edge_index=np.array([[0], [1]]), train_idx=np.array([1]), num_nodes=6)
    assert Graph.from_pyg(bare).num_nodes == 6
    with pytest.raises(InputError, match="heterogeneous"):
        Graph.from_pyg(HeteroData())
    with pytest.raises(InputError, match="no edge_index"):
        Graph.from_pyg(Data(x=torch.zeros(2, 2)))
    data.train_mask = torch.zeros(5, 10, dtype=torch.bool)
    with pytest.raises(InputError, match="choose one"):
        Graph.from_pyg(data)


def test_save_and_open_are_exact(tmp_path):
    graph = example(undirected=True, self_loops=True)
    path = graph.save(tmp_path / "g")
    opened = Graph.open(path)
    want, have = graph.stored_arrays(), opened.stored_arrays()
    assert want.keys() == have.keys()
    for name in want:
        assert have[name].dtype == want[name].dtype
        np.testing.assert_array_equal(have[name], want[name])
        assert not have[name].flags.writeable
    assert opened.digest == graph.digest and opened.path == path
    assert opened.edge_ids is None
    again = opened.save(tmp_path / "again")
    for file in path.rglob("*"):
        if file.is_file():
            assert (again / file.relative_to(path)).read_bytes() == file.read_bytes()
    with pytest.raises(StorageError, match="exists already"):
        graph.save(path)
    opened.save(path, overwrite=True)  # onto itself
    assert Graph.open(path).digest == graph.digest


def test_scale_and_extra_arrays_survive(tmp_path):
    plain = Graph.from_edge_index([[0], [1]], 2)
    graph = Graph(
        2,
        1,
        plain.indptr,
        plain.indices,
        features=Features(np.ones((2, 3), np.int8), np.full(3, 0.5, np.float32)),
        extra={"mapping": np.array([70, 80])},
    )
    opened = Graph.open(graph.save(tmp_path / "g"))
    assert opened.features[[1]].tolist() == [[0.5, 0.5, 0.5]]
    assert opened.extra["mapping"].tolist() == [70, 80]
    assert opened.digest == graph.digest


def test_digest_tells_graphs_apart():
    assert example(0).digest == example(0).digest
    assert example(0).digest != example(1).digest
    assert example(0).digest != example(0, self_loops=True).digest


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_graph_without_edges(tmp_path, nodes):
    graph = Graph.from_edge_index(np.empty((2, 0), np.int64), nodes, x=np.zeros((nodes, 2)))
    opened = Graph.open(graph.save(tmp_path / "g"))
    assert opened.num_edges == 0 and opened.in_degree().tolist() == [0] * nodes
    assert opened.out_degree().tolist() == [0] * nodes
    assert opened.verify().num_nodes == nodes


def test_value_is_frozen_and_speaks():
    graph = example()
    with pytest.raises(AttributeError):
        graph.num_nodes = 3
    with pytest.raises(TypeError):
        graph.splits["more"] = np.empty(0, np.int64)
    assert "50 nodes, 300 edges" in repr(graph) and "in memory" in repr(graph)
    assert repr(Graph.from_edge_index([[0], [0]], 1)).startswith("Graph(1 node, 1 edge; ")
    assert graph.split("validation").tolist() == [10, 11]
    with pytest.raises(InputError, match="'dev'; the graph has: test, train, val"):
        graph.split("dev")


def test_open_names_what_is_not_a_graph(tmp_path):
    with pytest.raises(StorageError, match="not a folder"):
        Graph.open(tmp_path / "nothing")
    with pytest.raises(FormatError, match=r"no meta\.json"):
        Graph.open(tmp_path)


def test_building_and_verifying_need_neither_torch_nor_pyg():
    script = """
import json, sys
import foregather
foregather.Graph.from_edge_index([[0, 1], [1, 2]], x=[[1.0], [2.0], [3.0]]).verify()
names = [n for n in ("torch", "torch_geometric", "matplotlib", "pyarrow") if n in sys.modules]
print(json.dumps(names))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("closed", ["splits", "."])
def test_a_folder_that_cannot_be_read_is_not_called_incomplete(tmp_path, closed, monkeypatch):
    """As for a user who may not look into it; root may, so the system's answer is stood in for."""
    folder = example().save(tmp_path / "g")
    looked, opened = os.lstat, os.open

    def denied(path):
        if Path(path).parent == folder / closed:
            raise PermissionError(errno.EACCES, "Permission denied")

    def lstat(path, **more):
        denied(path)
        return looked(path, **more)

    def open_(path, flags, mode=0o777, *, dir_fd=None):
        if dir_fd is not None:
            denied(os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path))
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "lstat", lstat)
    monkeypatch.setattr(os, "open", open_)
    with pytest.raises(StorageError, match="Permission denied"):
        Graph.open(folder)
