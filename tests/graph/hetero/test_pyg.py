"""PyG's HeteroData: taken and given back bit for bit; what does not fit is named."""

import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from foregather import InputError, MissingDependencyError
from foregather.graph.hetero import HeteroGraph, NodeTable
from tests.graph.hetero.typed_graphs import typed_graph
from tests.some import some

NAMES = st.text(st.sampled_from("ab/ .-ÄC"), min_size=1, max_size=3)
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.int8,
    torch.bool,
)


@st.composite
def data_sets(draw) -> HeteroData:
    """Any HeteroData that a typed graph can hold."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    data = HeteroData()
    types = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))

    def numbers(rows: int) -> torch.Tensor:
        shape = (rows, *draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)])))
        values = torch.from_numpy(rng.integers(-5, 5, shape).astype(np.int64))
        return values.to(draw(st.sampled_from(DTYPES)))

    for name in types:
        nodes = draw(st.integers(0, 6))
        data[name].num_nodes = nodes
        for key in sorted(draw(st.sets(st.sampled_from(["x", "y", "pos", "year", "odd name"])))):
            data[name][key] = numbers(nodes)
        if draw(st.booleans()):
            data[name].time = torch.from_numpy(rng.integers(-9, 9, nodes))
        for key in sorted(draw(st.sets(st.sampled_from(["train_mask", "val_mask", "test_mask"])))):
            data[name][key] = torch.from_numpy(rng.integers(0, 2, nodes).astype(bool))
    ends = st.sampled_from(types)
    for source, name, target in draw(
        st.lists(st.tuples(ends, NAMES, ends), max_size=3, unique=True)
    ):
        sizes = data[source].num_nodes, data[target].num_nodes
        edges = draw(st.integers(0, 12)) if min(sizes) else 0
        store = data[source, name, target]
        pairs = [rng.integers(0, max(1, size), edges) for size in sizes]
        store.edge_index = torch.from_numpy(np.stack(pairs))
        if draw(st.booleans()):
            store.edge_attr = numbers(edges)
        if draw(st.booleans()):
            store.edge_weight = torch.from_numpy(rng.random(edges, np.float32))
        if draw(st.booleans()):
            store.time = torch.from_numpy(rng.integers(-9, 9, edges))
    return data


def assert_same(one: HeteroData, other: HeteroData) -> None:
    assert sorted(one.node_types) == sorted(other.node_types)
    assert sorted(one.edge_types) == sorted(other.edge_types)
    for name in some([*one.node_types, *one.edge_types]):
        first, second = dict(one[name].items()), dict(other[name].items())
        if isinstance(name, str):
            assert one[name].num_nodes == other[name].num_nodes
            first.pop("num_nodes", None), second.pop("num_nodes", None)
        assert first.keys() == second.keys()
        for key, values in first.items():
            assert values.dtype == second[key].dtype
            assert torch.equal(values, second[key]), (name, key)


@settings(deadline=None, max_examples=40)
@given(data=data_sets())
def test_data_comes_back_bit_for_bit(tmp_path_factory, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = HeteroGraph.from_pyg(data)
    assert_same(data, graph.to_pyg())
    folder = tmp_path_factory.mktemp("pyg") / "g"
    opened = HeteroGraph.open(graph.save(folder))
    assert_same(data, opened.to_pyg())
    assert HeteroGraph.from_pyg(opened.to_pyg()).digest == graph.digest == opened.digest
    assert opened.verify().num_edges == graph.num_edges
    if graph.num_edges and any(one.time is not None for one in graph.edges.values()):
        assert_same(data, graph.with_time_order("edge").to_pyg())


def test_data_has_memory_of_its_own():
    data = HeteroData()
    data["a"].x = torch.ones(2, 1)
    graph = HeteroGraph.from_pyg(data)
    made = graph.to_pyg()
    made["a"].x += 1
    assert graph.nodes["a"].features["x"].tolist() == [[1.0], [1.0]]


def test_a_split_with_an_order_stays_a_list():
    data = HeteroData()
    data["a"].num_nodes = 4
    data["a"].train_idx = torch.tensor([3, 1, 1])
    data["a"].val_idx = torch.tensor([0, 2])
    made = HeteroGraph.from_pyg(data).to_pyg()
    assert made["a"].train_idx.tolist() == [3, 1, 1]
    assert made["a"].val_mask.tolist() == [True, False, True, False]


def test_one_type_of_data_is_one_type():
    data = Data(
        x=torch.ones(3, 2),
        y=torch.tensor([0, 1, 2]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        edge_attr=torch.ones(2, 1),
        time=torch.tensor([5, 6, 7]),
        train_mask=torch.tensor([True, False, False]),
        edge_year=torch.tensor([1, 2]),
    )
    with pytest.warns(UserWarning, match="cannot hold edge_year;"):
        graph = HeteroGraph.from_pyg(data)
    assert graph.nodes["node"].time.tolist() == [5, 6, 7]
    assert graph.edges["node", "to", "node"].features.tolist() == [[1.0], [1.0]]
    assert graph.nodes["node"].split("train").tolist() == [0]


def test_what_cannot_be_held_is_named_once():
    data = typed_graph().to_pyg()
    data["paper"].title = ["a"] * 30
    data["paper", "cites", "paper"].note = torch.ones(3)
    data.name = "whole"
    with pytest.warns(UserWarning) as caught:
        HeteroGraph.from_pyg(data)
    assert len(caught) == 1
    words = "cannot hold paper.title, (paper, cites, paper).note, name; look them up"
    assert words in str(caught[0].message)
    assert caught[0].filename == __file__


def broken(**change) -> HeteroData:
    """Two types and a relation, with something wrong."""
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    data["b"].num_nodes = 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 2], [1, 1]])
    for key, value in change.items():
        store = data["a"] if key.startswith("a_") else data["a", "to", "b"]
        store[key.removeprefix("a_").removeprefix("e_")] = value
    return data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"e_edge_index": torch.tensor([[3], [0]])},
            r"relation \(a, to, b\): edge 0 has source 3, but its source type has 3 nodes",
        ),
        ({"e_edge_index": torch.tensor([[0], [2]])}, "has target 2, but its target type has 2"),
        ({"e_edge_index": torch.tensor([0, 1])}, r"expected \[2, edges\]"),
        ({"e_edge_index": None}, "it has no edge_index"),
        ({"e_time": torch.tensor([0.5, 1])}, r"relation \(a, to, b\): time holds float32"),
        ({"e_time": torch.tensor([1])}, r"time has shape \[1\], expected \[2\]"),
        ({"e_edge_weight": torch.tensor([1.0, float("nan")])}, "expected finite numbers"),
        ({"e_edge_attr": torch.ones(3, 1)}, "expected 2 rows, one per edge"),
        ({"a_time": torch.tensor([1.0, 2, 3])}, "node type 'a': time holds float32"),
        ({"a_time": torch.tensor([1, 2])}, "node type 'a': time has shape"),
        ({"a_time": np.array(["2020", "NaT", "2021"], "M8[D]")}, "holds NaT .* at position 1"),
        ({"a_y": torch.ones(2)}, "node type 'a': labels has shape"),
        ({"a_train_mask": torch.ones(3, 2, dtype=torch.bool)}, r"choose one, for .*\[:, 0\]"),
        ({"a_train_idx": torch.tensor([3])}, "split train holds 3"),
        (
            {"a_val_mask": torch.ones(3, dtype=torch.bool), "a_val_idx": torch.tensor([1])},
            "val_mask and val_idx both define",
        ),
        ({"a_x": torch.ones(3, 2).to_sparse()}, "x' is a sparse tensor"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(change, words):
    with pytest.raises(InputError, match=words):
        HeteroGraph.from_pyg(broken(**change))


def test_types_of_relations_must_be_there():
    data = HeteroData()
    data["paper"].num_nodes = 2
    data["paper", "to", "papr"].edge_index = torch.tensor([[0], [1]])
    words = "there is no node type 'papr'; the nearest is 'paper'"
    with pytest.raises(InputError, match=words):
        HeteroGraph.from_pyg(data)


def test_the_number_of_nodes_is_never_guessed():
    data = HeteroData()
    data["a"].name = "x"
    with pytest.raises(InputError, match="node type 'a': it is not known how many nodes"):
        HeteroGraph.from_pyg(data)


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="the data is a list, expected a HeteroData"):
        HeteroGraph.from_pyg([1])


def test_a_feature_with_a_name_of_pyg_is_refused():
    graph = HeteroGraph({"a": NodeTable.of(2, {"y": [1, 2]}, labels=[1, 2])}, {})
    with pytest.raises(InputError, match="node type 'a': the feature 'y' would take the place"):
        graph.to_pyg()


def test_without_pyg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingDependencyError, match=r"foregather\[pyg\]"):
        typed_graph().to_pyg()
