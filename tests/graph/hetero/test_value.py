"""Typed graphs as values: what fits together, what is refused, names, numbers of types."""

import numpy as np
import pytest

from foregather import InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation, TextIds
from foregather.graph.links.links import Links
from tests.graph.hetero.typed_graphs import CITES, typed_graph
from tests.some import some


def no_edges(targets: int) -> Relation:
    return Relation(np.zeros(targets + 1, np.int64), np.empty(0, np.uint32))


def test_types_are_numbered_by_name():
    nodes = {name: NodeTable(1) for name in ("z", "B", "a b", "ä")}
    edges = {(end, "r", "z"): no_edges(1) for end in ("z", "a b", "B")}
    graph = HeteroGraph(nodes, edges)
    assert graph.node_types == ("B", "a b", "z", "ä")
    assert graph.edge_types == (("B", "r", "z"), ("a b", "r", "z"), ("z", "r", "z"))
    assert (graph.num_nodes, graph.num_edges) == (4, 0)


def test_a_graph_cannot_be_changed():
    graph = typed_graph()
    with pytest.raises(AttributeError):
        graph.nodes = {}
    with pytest.raises(TypeError):
        graph.nodes["x"] = NodeTable(1)
    with pytest.raises(TypeError):
        graph.nodes["paper"].features["x"] = np.zeros(1)


def test_asking_for_what_is_not_there_names_the_nearest():
    graph = typed_graph()
    with pytest.raises(InputError, match="there is no node type 'papr'; the nearest is 'paper'"):
        graph.table("papr")
    with pytest.raises(InputError, match="the graph has: author, paper, place"):
        graph.table("xyz")
    with pytest.raises(InputError, match=r"the nearest is '\(paper, cites, paper\)'"):
        graph.relation(("paper", "cite", "paper"))
    for wrong in some((7, "paper", ("paper",), (["paper"], "cites", "paper"), None)):
        with pytest.raises(InputError, match="there is no relation"):
            graph.relation(wrong)
    with pytest.raises(InputError, match="there is no split 'dev'; the node type has: test, train"):
        graph.table("paper").split("dev")
    with pytest.raises(InputError, match="there is no feature 'y'; the node type has: words, x"):
        graph.table("paper").rows("y")
    assert graph.relation(list(CITES)).num_edges == 120
    assert graph.table("paper").split("validation").tolist() == [29]
    assert graph.table("paper").rows("words").width == 6


def test_one_is_no_plural():
    graph = HeteroGraph(
        {"a": NodeTable(2)},
        {("a", "r", "a"): Relation.of([[0], [1]], 2, 2)},
        links={("a", "r", "a"): {"train": Links.of([[0], [1]], 2, 2, negatives=[[1], [0]])}},
    )
    said = "HeteroGraph(1 node type (a 2), 1 relation with 1 edge, 1 link; "
    assert repr(graph).startswith(said)
    assert repr(graph.links_of("train")) == "Links(1 link, 1 negative)"


def test_times_of_a_level_that_the_graph_lacks_are_refused():
    graph = HeteroGraph({"a": NodeTable(2)}, {("a", "r", "a"): no_edges(2)})
    with pytest.raises(InputError, match="no node type of the graph has a time"):
        graph.relation(("a", "r", "a"), "node")
    with pytest.raises(InputError, match="no relation of the graph has times of its edges"):
        graph.with_time_order("edge")
    with pytest.raises(InputError, match="time is 'tree', expected 'node' or 'edge'"):
        graph.relation(("a", "r", "a"), "tree")


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", " ", "a__b", "Ä", "文字", "'\"", "x" * 4096, "nodes/0", "a\\b", "~"]
)
def test_any_name_that_can_be_shown_is_fine(name):
    graph = HeteroGraph({name: NodeTable(1)}, {(name, name, name): no_edges(1)})
    assert graph.relation((name, name, name)).num_edges == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty name"),
        ("a\nb", "not printable"),
        ("\x1b[2J", "not printable"),
        ("\0", "not printable"),
        ("\ud800", "not printable"),
        ("x" * 4097, "4097 characters"),
        (3, "is a int, expected a string"),
        (None, "expected a string"),
        (b"a", "expected a string"),
    ],
)
def test_a_name_that_cannot_be_kept_is_refused(name, words):
    with pytest.raises(InputError, match=words):
        HeteroGraph({name: NodeTable(1)}, {})
    with pytest.raises(InputError, match=words):
        HeteroGraph({"a": NodeTable(1)}, {("a", name, "a"): no_edges(1)})
    with pytest.raises(InputError, match=words):
        NodeTable(1, {name: np.zeros(1)})


@pytest.mark.parametrize("edge_type", ["a", ("a", "b"), ("a", "r", "a", "a"), 5])
def test_an_edge_type_is_three_names(edge_type):
    with pytest.raises(InputError, match="is not three names"):
        HeteroGraph({"a": NodeTable(1)}, {edge_type: no_edges(1)})


def test_a_relation_fits_its_types():
    nodes = {"a": NodeTable(2), "b": NodeTable(3)}
    with pytest.raises(InputError, match=r"relation \(a, r, b\): indptr has 2 rows, but node type"):
        HeteroGraph(nodes, {("a", "r", "b"): no_edges(2)})
    with pytest.raises(InputError, match=r"relation \(a, r, bb\): there is no node type 'bb'"):
        HeteroGraph(nodes, {("a", "r", "bb"): no_edges(3)})
    timed = Relation(
        np.zeros(4, np.int64),
        np.empty(0, np.uint32),
        time=np.empty(0, np.int64),
        order="time",
        time_level="node",
    )
    with pytest.raises(InputError, match="its times are those of node type 'a', which has none"):
        HeteroGraph(nodes, {("a", "r", "b"): timed})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_nodes": -1}, "expected a count"),
        ({"num_nodes": True}, "expected a count"),
        ({"num_nodes": 2.0}, "expected a count"),
        ({"features": {"x": np.zeros((3, 1))}}, "feature 'x' has shape \\[3, 1\\], expected 2"),
        ({"features": {"x": np.array(["a", "b"])}}, "expected an array of numbers"),
        ({"features": {"x": [1, 2]}}, "feature 'x' is list"),
        ({"labels": np.zeros(3)}, "labels has shape"),
        ({"time": np.zeros(2)}, "time is float64"),
        ({"time": np.zeros(3, np.int64)}, "time is int64 of shape \\[3\\]"),
        ({"splits": {"train": np.zeros(2, np.int32)}}, "split 'train' is int32"),
        ({"ids": np.zeros(1, np.int64)}, "ids is int64 of shape \\[1\\]"),
        ({"ids": TextIds.of(["a"])}, "there are 1 ids for 2 nodes"),
        ({"scales": {"x": np.ones(1, np.float32)}}, "a scale of feature 'x', but no such"),
    ],
)
def test_a_table_fits_together(fields, words):
    with pytest.raises(InputError, match=words):
        NodeTable(**{"num_nodes": 2, **fields})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": [1.5, 2]}, "time holds float64"),
        ({"time": np.array(["2020", "NaT"], "M8[s]")}, "NaT \\(no time\\) at position 1"),
        ({"splits": {"a/b": [0]}}, "split name 'a/b'"),
        ({"splits": {"train": [2]}}, "split train holds 2"),
        ({"features": {"x": np.zeros((2, 1), np.longdouble)}}, "at most 64 bits"),
        ({"features": {"x": 3}}, "expected 2 rows"),
        ({"ids": [1.5, 2]}, "expected whole numbers"),
    ],
)
def test_what_is_given_to_a_table_is_checked(options, words):
    with pytest.raises(InputError, match=words):
        NodeTable.of(2, **options)


def test_int8_rows_stand_for_scaled_numbers():
    table = NodeTable(
        2, {"x": np.array([[2], [-4]], np.int8)}, scales={"x": np.array([0.5], np.float32)}
    )
    assert table.rows()[[1, 0]].tolist() == [[-2.0], [1.0]]


def test_text_ids_keep_strings():
    words = ["", "ä/ö", "a", "x" * 1000]
    ids = TextIds.of(words)
    assert list(ids) == words
    assert np.asarray(ids).tolist() == words
    with pytest.raises(InputError, match="node 4 has no id"):
        ids[4]
