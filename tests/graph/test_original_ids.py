"""Original ids: from nodes to the ids of the source and back, and what is refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import FormatError, InputError
from foregather.graph import Graph
from foregather.graph.original_ids import id_facts
from tests.some import some


def graph_of(count, **extra):
    graph = Graph.from_edge_index(np.zeros((2, 0), np.int64), num_nodes=count)
    return dataclasses.replace(graph, extra=extra)


def named(names):
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return graph_of(len(names), mapping_bytes=data, mapping_offsets=ends)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(st.text(max_size=8), min_size=1, max_size=40, unique=True), data=st.data())
def test_names_lead_there_and_back(names, data):
    graph = named(names)
    place = {name: node for node, name in enumerate(names)}
    nodes = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=20))
    assert graph.original_ids(nodes) == [names[node] for node in nodes]
    asked = data.draw(st.lists(st.sampled_from(names), max_size=20))
    assert graph.nodes_of(asked).tolist() == [place[name] for name in asked]
    stranger = data.draw(st.text(max_size=8))
    if stranger not in place:
        with pytest.raises(InputError, match="no node has the id"):
            graph.nodes_of([*asked, stranger])


@settings(max_examples=60, deadline=None)
@given(ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40, unique=True))
def test_integers_lead_there_and_back(ids):
    graph = graph_of(len(ids), mapping=np.array(ids, np.int64))
    assert graph.original_ids(range(len(ids))).tolist() == ids
    assert graph.nodes_of(ids[::-1]).tolist() == list(range(len(ids)))[::-1]
    for wrong in some([2**63, max(ids) + 1 if max(ids) + 1 not in ids else 2**70]):
        with pytest.raises(InputError, match="no node has the id"):
            graph.nodes_of([wrong])


def test_a_graph_without_mapping_has_its_own_ids():
    graph = graph_of(5)
    assert graph.original_ids([4, 0]).tolist() == [4, 0]
    assert graph.nodes_of(np.array([3, 1])).tolist() == [3, 1]
    assert id_facts(graph) == {"kind": "same"}
    assert id_facts(graph_of(2, mapping=np.array([9, 4]))) == {"kind": "integers", "example": 9}
    for wrong in ([5], [-1]):
        with pytest.raises(InputError):
            graph.nodes_of(wrong)
        with pytest.raises(InputError):
            graph.original_ids(wrong)


def test_names_of_an_older_partition_go_through_its_order():
    graph = named(["a", "bb", "ccc"])
    moved = dataclasses.replace(
        graph, extra={**graph.extra, "mapping": np.array([2, 0, 1], np.int64)}
    )
    assert moved.original_ids([0, 1, 2]) == ["ccc", "a", "bb"]
    assert moved.nodes_of(["a", "bb", "ccc"]).tolist() == [1, 2, 0]


def test_ids_of_another_kind_are_refused():
    for graph, wrong in some(
        [
            (named(["a"]), "a"),
            (named(["a"]), [0]),
            (named(["a"]), [b"a"]),
            (graph_of(2), ["0"]),
            (graph_of(2), [True]),
            (graph_of(2), [0.0]),
        ]
    ):
        with pytest.raises(InputError):
            graph.nodes_of(wrong)


@pytest.mark.parametrize(
    "extra",
    [
        {"mapping": np.array([1], np.int64)},
        {"mapping": np.array([1.0, 2.0])},
        {"mapping_bytes": np.zeros(4, np.uint8)},
        {"mapping_bytes": np.zeros(4, np.uint8), "mapping_offsets": np.array([0, 2])},
        {"mapping_bytes": np.zeros(4, np.uint8), "mapping_offsets": np.array([0, 2, 9])},
        {"mapping_bytes": np.zeros(4, np.uint8), "mapping_offsets": np.array([3, 2, 4])},
        {"mapping_bytes": np.full(4, 255, np.uint8), "mapping_offsets": np.array([0, 2, 4])},
    ],
)
def test_damaged_mappings_are_refused(extra):
    graph = graph_of(2, **extra)
    with pytest.raises(FormatError):
        graph.original_ids([0, 1])
    with pytest.raises(FormatError):
        graph.nodes_of(["x"] if "mapping_bytes" in extra else [7])
