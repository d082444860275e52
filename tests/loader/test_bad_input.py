"""Bad input to a Loader and to the models it feeds: each is one sentence, said early."""

import traceback

import numpy as np
import pytest
import torch

from foregather import ForegatherError, InputError, Loader
from foregather.nn.sage import SAGE
from foregather.train.checkpoints.ranks import check_torch
from tests.loader.graphs import grouped, same_batch, small_graph

GRAPH = small_graph()


def loader(**options) -> Loader:
    usual = {"num_neighbors": [4, 3], "batch_size": 8, "pyg": False}
    return Loader(GRAPH, **grouped({**usual, **options}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_nodes": [0, 120]}, "input_nodes holds 120 at position 1, but there are 120 nodes"),
        ({"input_nodes": [-1]}, "input_nodes holds -1"),
        ({"input_nodes": [0.5]}, "whole numbers"),
        ({"input_nodes": ["a"]}, "input_nodes"),
        ({"input_nodes": [[1, 2]]}, "input_nodes"),
        ({"input_nodes": torch.zeros(3)}, "whole numbers"),
        ({"input_nodes": np.ones(3, bool)}, r"a mask of shape \[3\]"),
        ({"num_neighbors": [4, 0]}, "num_neighbors has 0 for layer 1"),
        ({"num_neighbors": [-2]}, "num_neighbors has -2 for layer 0"),
        ({"num_neighbors": [2.5]}, "num_neighbors has 2.5"),
        ({"num_neighbors": []}, "num_neighbors is empty"),
        ({"num_neighbors": [2**31]}, "num_neighbors has 2147483648 .* below 2"),
        ({"num_neighbors": 5}, "num_neighbors is 5, expected fan-outs"),
        ({"num_neighbors": "15"}, "num_neighbors is '15', expected fan-outs"),
        ({"num_neighbors": {"a": [5]}}, "num_neighbors is {'a': .*, expected fan-outs"),
    ],
)
def test_seeds_and_fan_outs(options, message):
    with pytest.raises(InputError, match=message) as caught:
        loader(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple])
def test_fan_outs_may_be_an_array(make):
    made, expected = loader(num_neighbors=make([4, 3])), loader()
    assert all(same_batch(a, b) for a, b in zip(made, expected, strict=True))


def test_repeated_and_empty_seeds_are_fine():
    (batch,) = loader(input_nodes=[5, 5, 9])
    assert batch.n_id[:2].tolist() == [5, 9] and batch.seed_position.tolist() == [0, 0, 1]
    for empty in ([], np.empty(0, np.int64), np.zeros(120, bool), torch.empty(0)):
        assert list(loader(input_nodes=empty)) == []


def test_a_bulk_larger_than_the_epoch():
    made, expected = list(loader(bulk=1000)), list(loader(bulk=1))
    assert len(made) == 15
    assert all(same_batch(a, b) for a, b in zip(made, expected, strict=True))


def test_more_layers_of_neighbours_than_the_model_has():
    torch.manual_seed(0)
    (batch,) = loader(num_neighbors=[3, 3, 2], input_nodes=[1, 2, 3])
    counts = (batch.num_sampled_nodes, batch.num_sampled_edges)
    with pytest.raises(InputError, match="3 layers of neighbours, but the model has 2") as caught:
        SAGE([6, 8, 3])(batch.x, batch.edge_index, *counts)
    assert "\n" not in str(caught.value)
    for widths in ([6, 8, 8, 3], [6, 8, 8, 8, 3]):  # as deep, or deeper: nothing is lost
        model = SAGE(widths, dropout=0.0)
        whole = model(batch.x, batch.edge_index)[:3]
        torch.testing.assert_close(model(batch.x, batch.edge_index, *counts)[:3], whole)


def test_an_error_of_a_transform_ends_in_the_users_own_frame():
    def mine(batch):
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        list(loader(transform=mine))
    assert traceback.extract_tb(caught.tb)[-1].name == "mine"
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert not isinstance(caught.value, ForegatherError)


def test_torch_too_old_for_ranks_is_said_before_training():
    check_torch("2.9.0")
    check_torch("2.13.0+cpu")
    with pytest.raises(InputError, match=r"needs torch 2\.9 or newer.* this is torch 2\.4\.0\+cu"):
        check_torch("2.4.0+cu121")
