"""Plain graphs as one type and one relation: the same arrays, digest and folder, and back."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from foregather import Features, Graph, InputError, ReadOptions, convert
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE
from foregather.graph.synthetic import synthesize
from tests.some import some


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    return Graph.from_edge_index(
        rng.integers(0, 40, (2, 200)),
        40,
        x=rng.random((40, 4), np.float32),
        y=rng.integers(-1, 3, 40),
        edge_weight=rng.random(200),
        edge_attr=rng.random((200, 2)),
        splits={"train": np.arange(9), "valid": [11], "test": [30, 12]},
    )


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_a_plain_graph_is_one_type_and_one_relation(graph, tmp_path, where):
    if where == "folder":
        typed = HeteroGraph.open(graph.save(tmp_path / "g"))
        assert typed.path == tmp_path / "g" and typed.checked
    else:
        typed = HeteroGraph.from_graph(graph)
        assert typed.path is None
    assert typed.digest == graph.digest
    assert typed.node_types == (PLAIN_TYPE,) and typed.edge_types == (PLAIN_RELATION,)
    table, relation = typed.nodes[PLAIN_TYPE], typed.relation(PLAIN_RELATION)
    np.testing.assert_array_equal(table.features["x"], graph.features.data)
    np.testing.assert_array_equal(table.labels, graph.labels)
    np.testing.assert_array_equal(table.split("val"), [11])
    for name in some(("indptr", "indices")):
        np.testing.assert_array_equal(getattr(relation, name), getattr(graph, name))
    np.testing.assert_array_equal(relation.weights, graph.edge_weight)
    np.testing.assert_array_equal(relation.features, graph.edge_features.data)
    assert typed.as_graph().digest == graph.digest
    assert typed.verify().num_edges == 200
    again = pickle.loads(pickle.dumps(typed))
    assert again.digest == graph.digest and again.as_graph().digest == graph.digest


def test_a_plain_graph_stays_plain_when_it_is_saved(graph, tmp_path):
    graph.save(tmp_path / "one")
    HeteroGraph.from_graph(graph).save(tmp_path / "two")
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    for file in some(files):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert json.loads((tmp_path / "two/meta.json").read_text())["version"] == 1


def test_a_plain_graph_with_more_is_a_typed_one(graph, tmp_path):
    typed = HeteroGraph.from_graph(graph)
    nodes = {**typed.nodes, "other": NodeTable(3)}
    more = HeteroGraph(nodes, typed.edges)
    assert more.digest != graph.digest
    opened = HeteroGraph.open(more.save(tmp_path / "g"))
    assert opened.node_types == ("node", "other")
    with pytest.raises(InputError, match="2 node types and 1 relation, expected one of each"):
        opened.as_graph()


def test_scaled_rows_stand_for_the_same_numbers(graph, tmp_path):
    graph.save(tmp_path / "g")
    convert(tmp_path / "g", tmp_path / "q", dtype="int8")
    typed, plain = HeteroGraph.open(tmp_path / "q"), Graph.open(tmp_path / "q")
    np.testing.assert_array_equal(typed.nodes["node"].rows()[:], plain.features[:])
    assert typed.to_pyg()["node"].x.dtype.is_floating_point
    nodes = {**typed.nodes, "other": NodeTable(1)}
    opened = HeteroGraph.open(HeteroGraph(nodes, typed.edges).save(tmp_path / "two"))
    np.testing.assert_array_equal(opened.nodes["node"].rows()[:], plain.features[:])
    assert opened.verify().num_nodes == 41


def test_original_ids_are_kept(tmp_path):
    (tmp_path / "names.csv").write_text("source,target\nann,bob\nbob,zoë\n")
    convert(tmp_path / "names.csv", tmp_path / "g", reading=ReadOptions(ids="string"))
    table = HeteroGraph.open(tmp_path / "g").nodes["node"]
    assert sorted(table.ids) == ["ann", "bob", "zoë"]


def test_one_type_and_one_relation_are_a_plain_graph(graph):
    typed = HeteroGraph.from_graph(graph)
    again = HeteroGraph({"a": typed.nodes["node"]}, {("a", "b", "a"): typed.edges[PLAIN_RELATION]})
    plain = again.as_graph()
    for name, values in some(graph.stored_arrays().items()):
        np.testing.assert_array_equal(plain.stored_arrays()[name], values)
    assert plain.meta["labels"] == graph.meta["labels"]


@pytest.mark.parametrize(
    ("table", "relation", "words"),
    [
        ({"time": np.zeros(1, np.int64)}, {}, "has times, which a plain graph does not hold"),
        ({}, {"time": np.zeros(1, np.int64)}, "has times, which a plain graph does not hold"),
        ({"features": {"a": np.zeros((1, 1))}}, {}, "features a, but a plain graph holds one"),
        ({"features": {"x": np.zeros((1, 1, 1))}}, {}, "features x, but a plain graph holds one"),
    ],
)
def test_what_a_plain_graph_cannot_hold_is_refused(table, relation, words):
    edges = Relation(np.array([0, 1]), np.zeros(1, np.uint32), **relation)
    graph = HeteroGraph({"a": NodeTable(1, **table)}, {("a", "r", "a"): edges})
    with pytest.raises(InputError, match=words):
        graph.as_graph()


def test_scaled_edge_features_are_refused(graph):
    scaled = Features(np.ones((200, 1), np.int8), np.ones(1, np.float32))
    with pytest.raises(InputError, match="int8 with a scale, which a relation cannot hold"):
        HeteroGraph.from_graph(replace(graph, edge_features=scaled))


def test_edge_ids_that_are_no_list_of_the_callers_are_left_out():
    loops = Graph.from_edge_index([[0, 1], [1, 0]], 2, self_loops=True)
    assert HeteroGraph.from_graph(loops).edges[PLAIN_RELATION].edge_ids is None
    both = Graph.from_edge_index([[0, 1], [1, 2]], 3, undirected=True)
    assert HeteroGraph.from_graph(both).edges[PLAIN_RELATION].edge_ids is None
    mixed = Graph.from_edge_index([[1, 0], [0, 0]], 2)
    assert HeteroGraph.from_graph(mixed).edges[PLAIN_RELATION].edge_ids.tolist() == [1, 0]


def test_digests_of_plain_graphs_are_those_they_always_had(tmp_path):
    """Taken before there were typed graphs."""
    digest = "4eef2855cd105d42"
    synthesize(tmp_path / "g", 500, degree=4, features=4, classes=3, seed=5)
    assert Graph.open(tmp_path / "g").digest == digest
    assert HeteroGraph.open(tmp_path / "g").digest == digest
    small = Graph.from_edge_index([[0, 1, 1], [1, 0, 0]], 2, x=np.ones((2, 1), np.float32))
    assert small.digest == "60d0c6bb0d17f970"
