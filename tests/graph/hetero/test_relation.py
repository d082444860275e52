"""Relations: edges in any order become rows by source or by time, and carry their columns."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import InputError
from foregather.errors import FormatError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.graph.hetero.layout import by_time
from tests.graph.hetero.typed_graphs import AT, CITES, WRITES, typed_graph
from tests.some import some

EDGE = ("a", "to", "b")


def edges(sources: int = 6, targets: int = 4):
    one = st.tuples(
        st.integers(0, sources - 1),
        st.integers(0, targets - 1),
        st.integers(-3, 3),
        st.floats(0, 1),
    )
    return st.lists(one, max_size=40)


def oracle(rows, key):
    """Edge numbers sorted by target, then by the key, then as given; and the borders of rows."""
    order = sorted(range(len(rows)), key=lambda e: (rows[e][1], *key(e), e))
    borders = np.searchsorted([rows[e][1] for e in order], np.arange(5))
    return np.array(order, np.int64), borders


@settings(deadline=None, max_examples=60)
@given(edges(), st.lists(st.integers(-3, 3), min_size=6, max_size=6), st.booleans())
def test_rows_are_those_of_a_plain_sort(rows, node_time, stored_by_time):
    pairs = np.array([r[:2] for r in rows], np.int64).reshape(-1, 2).T
    time = np.array([r[2] for r in rows], np.int64)
    weight = np.array([r[3] for r in rows], np.float32)
    relation = Relation.of(
        pairs,
        6,
        4,
        time=time,
        weights=weight,
        features=pairs.T,
        order="time" if stored_by_time else "source",
    )
    graph = HeteroGraph({"a": NodeTable.of(6, time=node_time), "b": NodeTable(4)}, {EDGE: relation})
    keys = {
        None: lambda e: (rows[e][0],),
        "edge": lambda e: (rows[e][2], rows[e][0]),
        "node": lambda e: (node_time[rows[e][0]], rows[e][0]),
    }
    for level, key in some(keys.items()):
        order, borders = oracle(rows, key)
        found = graph.relation(EDGE, level)
        ids = np.arange(len(rows)) if found.edge_ids is None else found.edge_ids
        np.testing.assert_array_equal(ids, order)
        np.testing.assert_array_equal(found.indptr, borders)
        np.testing.assert_array_equal(found.indices, pairs[0, order])
        times = np.array(node_time)[pairs[0]] if level == "node" else time
        np.testing.assert_array_equal(found.time, times[order])
        np.testing.assert_array_equal(found.weights, weight[order])
        np.testing.assert_array_equal(found.features, pairs.T[order])
        assert found.order == ("source" if level is None else "time")
        assert found.time_level == ("node" if level == "node" else "edge")
        assert graph.relation(EDGE, level) is found


@pytest.mark.parametrize("span", [0, 1, 1 << 40, (1 << 63) - 2])
def test_times_of_any_span_are_sorted(span):
    rng = np.random.default_rng(0)
    source = rng.integers(0, 1000, 3000).astype(np.uint32)
    for low in some((-(1 << 62), 0, 5)):
        high = min(low + span, (1 << 63) - 1)
        times = rng.integers(low, high, 3000, endpoint=True)
        times[:2] = low, high
        np.testing.assert_array_equal(by_time(source, times), np.lexsort((source, times)))


def test_a_relation_without_times_is_limited_by_nothing():
    graph = typed_graph()
    for level in some(("node", "edge")):
        found = graph.relation(AT, level)
        assert (found.time, found.order) == (None, "source")
    assert graph.relation(WRITES, "node").time is None  # authors have no time
    assert graph.relation(CITES, "node").time is not None


def test_ways_back_carry_the_same_columns():
    graph = typed_graph()
    both = graph.with_reverse()
    added = both.edge_types[:]
    assert set(added) - set(graph.edge_types) == {
        ("place", "rev_at", "author"),
        ("paper", "rev_cites", "paper"),
    }
    forth, back = both.relation(CITES), both.relation(("paper", "rev_cites", "paper"))
    found = []
    for relation, way in ((forth, 1), (back, -1)):
        target = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
        rows = [relation.indices, target][::way]
        table = np.stack([*rows, relation.time, relation.edge_ids, relation.weights])
        found.append(table[:, np.argsort(relation.edge_ids)])
    np.testing.assert_array_equal(*found)
    timed = graph.with_time_order("edge").with_reverse()
    early = timed.edges["paper", "rev_cites", "paper"]
    assert early.order == "time"
    np.testing.assert_array_equal(early.time, back_by_time(both).time)


def back_by_time(graph: HeteroGraph) -> Relation:
    return graph.relation(("paper", "rev_cites", "paper"), "edge")


def test_rows_do_not_depend_on_threads():
    graph, other = typed_graph(edges=5000), typed_graph(edges=5000)
    for level in some((None, "edge", "node")):
        one, two = graph.relation(CITES, level, threads=1), other.relation(CITES, level, threads=3)
        for name in ("indptr", "indices", "edge_ids", "time", "weights"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_edges_in_order_need_no_ids():
    relation = Relation.of([[0, 1, 0], [0, 0, 1]], 2, 2)
    assert relation.edge_ids is None
    assert relation.indices.dtype == np.uint32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edge_index": [[5], [0]]}, "edge 0 has source 5, but its source type has 5 nodes"),
        ({"edge_index": [[0], [3]]}, "edge 0 has target 3, but its target type has 3 nodes"),
        ({"edge_index": [[-1], [0]]}, "edge 0 has source -1"),
        ({"edge_index": [[0.5], [0]]}, "expected whole numbers"),
        ({"edge_index": [[0, 1]]}, "expected \\[2, edges\\]"),
        ({"time": [0.5]}, "time holds float64, expected whole numbers"),
        ({"time": [float("nan")]}, "time holds float64"),
        ({"time": torch.tensor([1.0])}, "time holds float32"),
        ({"time": np.array(["NaT"], "M8[s]")}, "time holds NaT \\(no time\\) at position 0"),
        ({"time": [np.iinfo(np.int64).min]}, "time holds NaT"),
        ({"time": np.array([1500], "M8[ms]")}, "fractions of a second"),
        ({"time": np.array([1], "m8[s]")}, "a length of time"),
        ({"time": [True]}, "time holds bool"),
        ({"time": np.array([1 << 63], np.uint64)}, "which int64 does not"),
        ({"time": [1, 2]}, "time has shape \\[2\\], expected \\[1\\]"),
        ({"order": "time"}, "order is 'time', but the edges have no time"),
        ({"order": "size"}, "order is 'size'"),
        ({"weights": [float("inf")]}, "expected finite numbers"),
        ({"weights": [1, 2]}, "expected \\[1\\]"),
        ({"features": [[1], [2]]}, "expected 1 rows, one per edge"),
        ({"features": ["a"]}, "expected numbers"),
    ],
)
def test_bad_edges_are_refused_in_a_sentence(options, words):
    given_ = {"edge_index": [[0], [0]], "num_sources": 5, "num_targets": 3, **options}
    with pytest.raises(InputError, match=words):
        Relation.of(**given_)


def test_dates_become_seconds():
    relation = Relation.of([[0], [0]], 1, 1, time=np.array(["1969-12-31T23:59:59"], "M8[ns]"))
    assert relation.time.tolist() == [-1]
    assert relation.time.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indptr": np.array([0, 2, 1, 3])}, "indptr falls at position 2"),
        ({"indices": np.array([1, 0, 1], np.uint32)}, "rows do not ascend by source at position 1"),
        ({"edge_ids": np.array([0, 1, 1])}, "edge_ids does not hold each position"),
        ({"edge_ids": np.array([0, 1, 3])}, "edge_ids does not hold each position"),
        ({"time": np.array([3, 2, 9]), "order": "time"}, "ascend by time at position 1"),
        ({"time": np.full(3, np.iinfo(np.int64).min)}, "time holds NaT"),
        (
            {"time": np.array([7, 7, 8]), "order": "time", "time_level": "node"},
            "time at position 1 is not that of the source",
        ),
    ],
)
def test_damage_is_found_before_a_kernel_walks(change, words):
    made = {"indptr": np.array([0, 2, 2, 3]), "indices": np.array([0, 1, 1], np.uint32), **change}
    nodes = {"a": NodeTable.of(2, time=[7, 8]), "b": NodeTable(3)}
    graph = HeteroGraph(nodes, {EDGE: Relation(**made)})
    with pytest.raises(FormatError, match=words):
        graph.relation(EDGE)


@pytest.mark.parametrize(("dtype", "node"), [(np.uint32, 9), (np.int64, -1)])
def test_ids_beyond_the_sources_are_refused_where_the_graph_is_made(dtype, node):
    nodes = {"a": NodeTable(2), "b": NodeTable(3)}
    made = Relation(np.array([0, 2, 2, 3]), np.array([0, node, 1], dtype))
    words = f"indices holds node {node} at position 1, but node type 'a' has 2 nodes"
    with pytest.raises(InputError, match=words):
        HeteroGraph(nodes, {EDGE: made})
    made = Relation.of([[0], [0]], 1, 3)  # of fewer: all of them are nodes
    assert HeteroGraph(nodes, {EDGE: made}).num_edges == 1


@pytest.mark.parametrize("last", [2, 9])
def test_a_relation_made_for_more_sources_is_refused(last):
    made = Relation.of([[0, last], [0, 1]], 10, 3)
    nodes = {"a": NodeTable(3), "b": NodeTable(3)}
    words = r"\): its ids were made for 10 sources, but node type 'a' has 3 nodes; make it with"
    with pytest.raises(InputError, match=words):
        HeteroGraph(nodes, {EDGE: made})
    if last == 9:
        with pytest.raises(InputError, match="indices holds node 9 at position 1"):
            HeteroGraph(nodes, {EDGE: pickle.loads(pickle.dumps(made))})


def test_what_a_relation_was_made_for_is_kept_in_folders_and_ways_back(tmp_path):
    nodes = {"a": NodeTable.of(4, time=[4, 3, 2, 1]), "b": NodeTable(3)}
    graph = HeteroGraph(nodes, {EDGE: Relation.of([[3, 0], [0, 2]], 4, 3)})
    assert graph.relation(EDGE, "node").num_sources == 4
    back = graph.with_reverse()
    assert {name: one.num_sources for name, one in back.edges.items()} == {
        EDGE: 4,
        (EDGE[2], f"rev_{EDGE[1]}", EDGE[0]): 3,
    }
    graph.save(tmp_path / "g")
    assert HeteroGraph.open(tmp_path / "g").edges[EDGE].num_sources == 4
