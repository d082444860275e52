"""Graphs from SciPy, networkx and pairs of names, against what these packages say themselves."""

import numpy as np
import pytest

from foregather import Graph, convert
from foregather.errors import FormatError, InputError

sparse = pytest.importorskip("scipy.sparse")


def edges_of(graph):
    """(source, target, weight) of every edge, sorted."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    weights = graph.edge_weight if graph.edge_weight is not None else np.ones(graph.num_edges)
    rows = zip(graph.indices.tolist(), targets.tolist(), weights.tolist(), strict=True)
    return sorted(rows)


def matrix(weighted=True):
    rng = np.random.default_rng(0)
    row, col = rng.integers(0, 30, 90), rng.integers(0, 30, 90)
    pairs = np.unique(np.stack([row, col]), axis=1)
    values = rng.integers(1, 9, pairs.shape[1]) if weighted else np.ones(pairs.shape[1])
    return sparse.coo_matrix((values.astype(np.float32), pairs), shape=(30, 30))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("weighted", [True, False])
def test_scipy(tmp_path, kind, weighted):
    given = matrix(weighted)
    expected = sorted(zip(given.row.tolist(), given.col.tolist(), given.data.tolist(), strict=True))
    sparse.save_npz(tmp_path / "a.npz", given.asformat(kind))
    convert(tmp_path / "a.npz", tmp_path / "g")
    for graph in (
        Graph.from_scipy(given.asformat(kind)),
        Graph.from_scipy(tmp_path / "a.npz"),
        Graph.open(tmp_path / "g"),
    ):
        assert graph.num_nodes == 30 and edges_of(graph) == expected
        assert (graph.edge_weight is not None) == weighted


def test_scipy_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="as many rows as columns"):
        Graph.from_scipy(sparse.csr_matrix((3, 4)))
    with pytest.raises(InputError, match="complex128, expected real ones"):
        Graph.from_scipy(sparse.eye(4, dtype=complex) * 1j)
    with pytest.raises(InputError, match="expected a sparse matrix of SciPy"):
        Graph.from_scipy(np.eye(3))
    np.savez(tmp_path / "x.npz", edge_index=np.zeros((2, 1), int))
    with pytest.raises(InputError, match="not a file of scipy.sparse.save_npz"):
        Graph.from_scipy(tmp_path / "x.npz")
    sparse.save_npz(tmp_path / "b.npz", sparse.bsr_matrix(np.eye(4)))
    with pytest.raises(FormatError, match="do not make a sparse matrix|format 'bsr'"):
        convert(tmp_path / "b.npz", tmp_path / "g")
    good = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    for change in (
        {"indptr": np.array([0, 2, 1])}, {"indptr": np.array([0, 1])}, {"shape": np.array([2, 3])},
        {"data": np.ones(3)}, {"indptr": np.array([1, 1, 2])},
    ):  # fmt: skip
        np.savez(tmp_path / "c.npz", **({"shape": np.array([2, 2]), **good} | change))
        with pytest.raises(FormatError):
            convert(tmp_path / "c.npz", tmp_path / "g")
    np.savez(tmp_path / "c.npz", shape=np.array([2, 2]), **{**good, "indices": np.array([0, 7])})
    with pytest.raises((InputError, FormatError)):
        convert(tmp_path / "c.npz", tmp_path / "g")


def test_names(tmp_path):
    graph = Graph.from_edges([("Ann", "Bob"), ("Bob", "Zoë"), ("Ann", "Zoë")], x=np.eye(3))
    assert graph.original_ids([2, 0]) == ["Zoë", "Ann"]
    assert graph.nodes_of(["Bob"]).tolist() == [1] and graph.num_features == 3
    assert edges_of(graph) == [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)]
    graph.save(tmp_path / "g")
    assert Graph.open(tmp_path / "g").nodes_of(["Zoë"]).tolist() == [2]
    weighted = Graph.from_edges([(7, 9, 0.5), (9, 7, 2)])
    assert edges_of(weighted) == [(0, 1, 0.5), (1, 0, 2.0)]
    assert weighted.original_ids([0, 1]).tolist() == [7, 9]
    for bad in ([("a", 1)], [(1.5, 2.5)], [("a", "b"), ("a", "b", 1)], [("a",)]):
        with pytest.raises(InputError):
            Graph.from_edges(bad)
    assert Graph.from_edges([]).num_nodes == 0


class Networkx:
    """What is used of a graph of networkx, which need not be installed."""

    def __init__(self, directed):
        self.nodes = ["b", "a", "alone"]
        self._edges = [("b", "a", {"w": 2.0}), ("a", "a", {"w": 3.0})]
        self._directed = directed

    def is_directed(self):
        return self._directed

    def edges(self, data):
        assert data
        return self._edges


def test_networkx():
    one = Graph.from_networkx(Networkx(True), weight="w")
    assert edges_of(one) == [(0, 1, 2.0), (1, 1, 3.0)] and one.num_nodes == 3
    both = Graph.from_networkx(Networkx(False), weight="w")
    assert edges_of(both) == [(0, 1, 2.0), (1, 0, 2.0), (1, 1, 3.0)], "a loop is not doubled"
    assert both.original_ids([2]) == ["alone"]
    with pytest.raises(InputError, match="has no 'cost'"):
        Graph.from_networkx(Networkx(True), weight="cost")
    with pytest.raises(InputError, match="expected a graph of networkx"):
        Graph.from_networkx({})


def test_networkx_itself():
    networkx = pytest.importorskip("networkx")
    graph = Graph.from_networkx(networkx.karate_club_graph())
    assert graph.num_nodes == 34 and graph.num_edges == 2 * 78


def test_counts():
    pairs = np.array([[0, 1], [1, 2]])
    graph = Graph.from_edge_index(pairs, x=np.zeros((3, 5)), y=np.array([0, -1, 6]))
    assert (graph.num_features, graph.num_classes, graph.num_classes) == (5, 7, 7)
    assert Graph.from_edge_index(pairs, y=np.zeros((3, 4))).num_classes == 4
    assert Graph.from_edge_index(pairs, y=np.zeros(3, np.float32)).num_classes == 1
    bare = Graph.from_edge_index(pairs)
    assert (bare.num_features, bare.num_classes) == (0, 0)
