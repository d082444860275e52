"""nn/hetero/encode: numbers, missing numbers, categories, learned rows and relative times."""

import json

import numpy as np
import pytest
import torch

from foregather import HeteroLoader, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable
from foregather.nn.hetero.encode import TypeEncoder
from foregather.nn.hetero.model import TypedModel
from foregather.nn.hetero.schema import ArraySchema, Schema, TypeSchema
from foregather.train.hetero.describe_arrays import check_schema, describe_arrays, set_numbers
from tests.some import some
from tests.train.hetero.shop import shop
from tests.train.hetero.tasks import classes_of


def of(nodes, meta=None, **options):
    graph = HeteroGraph(nodes, {}, meta or {})
    name = next(iter(graph.nodes))
    task = classes_of(graph, name, 2)
    schema = describe_arrays(graph, task, **options)
    model = TypedModel(schema, [], 5, 0.0).double()
    set_numbers(model, graph)
    return graph, model


def test_numbers_are_standardised_and_missing_ones_marked():
    rng = np.random.default_rng(0)
    x = rng.normal(7, 3, (50, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 2] = 4.0  # a constant column
    _, model = of({"a": NodeTable.of(50, {"x": x})})
    encoder = model.encoders[0]
    rows = encoder._numbers({"x": torch.from_numpy(x)}, 50, None).numpy()
    want = (x - np.nanmean(x, 0)) / np.where(np.nanstd(x, 0) > 0, np.nanstd(x, 0), 1)
    assert np.allclose(rows[:, :3], np.nan_to_num(want))
    assert (rows[:, 3:] == np.isnan(x)).all()


def test_numbers_without_missing_ones_have_no_indicator():
    _, model = of({"a": NodeTable.of(4, {"x": np.arange(8, dtype=np.uint8).reshape(4, 2)})})
    assert model.encoders[0].linear.in_features == 2


def test_large_whole_numbers_keep_their_differences():
    times = 1_600_000_000_000_000_000 + np.arange(4) * 1000  # float32 would make them equal
    _, model = of({"a": NodeTable.of(4, {"t": times})})
    rows = model.encoders[0]._numbers({"t": torch.from_numpy(times)}, 4, None)
    assert len(rows.unique()) == 4


def test_scaled_rows_are_standardised_as_what_they_stand_for():
    q = np.array([[1, -2], [3, 4], [-5, 0]], np.int8)
    scale = np.array([0.5, 0.25], np.float32)
    graph, model = of({"a": NodeTable(3, {"x": q}, scales={"x": scale})})
    batch = next(iter(HeteroLoader(graph, [1], "a", 3)))
    rows = model.encoders[0]._numbers(batch["a"], 3, None).numpy()
    want = q * scale.astype(np.float64)
    assert np.allclose(rows, (want - want.mean(0)) / want.std(0))


def test_categories_have_a_row_each_and_one_for_missing():
    names = {"categories": {"a": {"kind": ["p", "q"]}}}
    graph, model = of({"a": NodeTable.of(3, {"kind": [-1, 0, 1]})}, names)
    batch = next(iter(HeteroLoader(graph, [1], "a", 3)))
    rows = model.encoders[0](batch["a"], 3)
    assert torch.equal(rows, model.encoders[0].categories[0].weight[[0, 1, 2]])
    with pytest.raises(InputError, match="holds category 2, but there are names of 2"):
        of({"a": NodeTable.of(1, {"kind": [2]})}, names)


def test_a_type_without_arrays_has_learned_rows():
    graph, model = of({"a": NodeTable.of(7)})
    batch = next(iter(HeteroLoader(graph, [1], ("a", np.array([5, 2])), 2)))
    assert torch.equal(model.encoders[0](batch["a"], 2), model.encoders[0].learned.weight[[5, 2]])


def test_arrays_of_any_shape_and_kind_are_used():
    arrays = {
        "image": np.zeros((4, 2, 3), np.float16),
        "flag": np.array([True, False, True, True]),
        "count": np.arange(4, dtype=np.int64),
        "none": np.zeros((4, 0), np.float32),
    }
    graph, model = of({"a": NodeTable.of(4, arrays)})
    assert model.encoders[0].linear.in_features == 6 + 1 + 1
    batch = next(iter(HeteroLoader(graph, [1], "a", 4)))
    assert model.encoders[0](batch["a"], 4).shape == (4, 5)


def test_infinite_numbers_are_refused():
    x = np.array([[1.0], [np.inf]])
    with pytest.raises(InputError, match="node type 'a': array 'x' holds inf for node 1"):
        of({"a": NodeTable.of(2, {"x": x})})


def test_relative_time_tells_how_long_ago():
    encoder = TypeEncoder(TypeSchema("a", 3, (), True), 4, span=100).double()
    since = torch.tensor([0, 10, 90])
    rows = encoder._numbers({"n_id": torch.arange(3)}, 3, since)
    assert rows.shape == (3, 13) and len({tuple(one) for one in rows.tolist()}) == 3
    again = encoder._numbers({"n_id": torch.arange(3)}, 3, since)
    assert torch.equal(rows, again)  # a function of the difference alone
    with pytest.raises(InputError, match="encode_time is True, but no node type has times"):
        of({"a": NodeTable.of(2)}, encode_time=True)


def test_a_schema_survives_json():
    graph = shop()
    schema = describe_arrays(graph, classes_of(graph, "user", 3), "asked", True)
    assert Schema.from_dict(schema.as_dict()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema
    for broken in some(
        [{"classes": 0}, {"target": "usr"}, {"span": -1}, {"edges": [["a", "b", "c"]]}]
    ):
        with pytest.raises(ValueError, match="impossible|not there"):
            Schema.from_dict(json.loads(json.dumps(schema.as_dict())) | broken)


BASE = Schema(
    "a",
    2,
    (TypeSchema("a", 3, (ArraySchema("k", 0, False, 2, "d"), ArraySchema("x", 4)), True),),
    (("a", "to", "a"),),
    10,
)


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        (("k", 0, False, 3, "d"), {}, "'k' of node type 'a' has another width"),
        (("k", 0, False, 2, "e"), {}, "categories of 'k' .* have other names in g"),
        (("x", 4, True), {}, "'x' of node type 'a' has missing numbers"),
        (("y", 1), {}, "'y' of node type 'a' is in g, but not"),
        (None, {"timed": False}, "'a' has no times in g"),
    ],
)
def test_graphs_that_a_model_is_not_for(arrays, options, words):
    mine = {one.name: one for one in BASE.nodes[0].arrays}
    if arrays is not None:
        mine[arrays[0]] = ArraySchema(*arrays)
    kind = TypeSchema("a", 5, tuple(mine.values()), options.get("timed", True))
    with pytest.raises(InputError, match=words):
        check_schema(BASE, Schema("a", 2, (kind,), BASE.edges, 10), "g", True)
    check_schema(BASE, BASE, "g", True)
