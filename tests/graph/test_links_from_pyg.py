"""Links of PyG data come with it, are refused by name, or are left out on request."""

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import RandomLinkSplit

from foregather import Graph, HeteroGraph, convert
from foregather.errors import InputError
from tests.some import some

KIND = ("user", "likes", "item")


def plain(**more) -> Data:
    torch.manual_seed(0)
    return Data(x=torch.rand(20, 3), edge_index=torch.randint(0, 20, (2, 90)), **more)


def typed(**more) -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.rand(4, 2), torch.rand(6, 2)
    data[KIND].edge_index = torch.tensor([[0, 1, 2, 3], [5, 4, 3, 2]])
    for name, value in more.items():
        data[KIND][name] = value
    return data


@pytest.mark.parametrize("apart", [False, True])
def test_what_random_link_split_gives(apart):
    how = RandomLinkSplit(0.1, 0.2, add_negative_train_samples=True, split_labels=apart)
    for part, name in some(list(zip(how(plain()), ("train", "valid", "test"), strict=True))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = Graph.from_pyg(part, links=name)
            other = HeteroGraph.from_pyg(part, links=name)
        if apart:
            wanted, wrong = part.pos_edge_label_index, part.neg_edge_label_index
        else:
            there = part.edge_label > 0
            wanted, wrong = part.edge_label_index[:, there], part.edge_label_index[:, ~there]
        for found in (graph.links_of(name), other.links_of(name)):
            assert np.array_equal(found.index, wanted.numpy())
            assert np.array_equal(found.negatives, wrong.numpy()) and wrong.shape[1] > 0
            assert found.labels is None
        assert Graph.from_pyg(part, links=None).links == {}


def test_labels_and_times():
    index = torch.tensor([[0, 1, 3], [5, 5, 0]])
    labels, time = torch.tensor([4, 0, 2]), torch.tensor([7, 8, 9])
    data = typed(edge_label_index=index, edge_label=labels, edge_label_time=time)
    found = HeteroGraph.from_pyg(data).links_of("train", KIND)
    assert np.array_equal(found.index, index.numpy())
    assert found.labels.tolist() == [4, 0, 2] and found.time.tolist() == [7, 8, 9]
    ones = typed(edge_label_index=index, edge_label=torch.tensor([1.0, 0.0, 1.0]))
    found = HeteroGraph.from_pyg(ones, links="test").links_of("test", KIND)
    assert found.index.tolist() == [[0, 3], [5, 0]] and found.negatives.tolist() == [[1], [5]]
    both = typed(edge_label_index=index, edge_label=torch.tensor([0, 1, 1]), edge_label_time=time)
    found = HeteroGraph.from_pyg(both).links_of("train", KIND)
    assert found.index.tolist() == [[1, 3], [5, 0]] and found.time.tolist() == [8, 9]
    part = plain(edge_label_index=index, edge_label_time=time)
    assert Graph.from_pyg(part).links_of("train").time.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"edge_label": torch.ones(3)}, "edge_label, but no edge_label_index that says of which"),
        ({"edge_label_time": torch.ones(3)}, "edge_label_time, but no edge_label_index"),
        (
            {"edge_label_index": torch.zeros(2, 3).long(), "edge_label": torch.ones(2)},
            "edge_label has 2 rows, expected one for each of the 3 links",
        ),
        (
            {"edge_label_index": torch.zeros(2, 3).long(), "edge_label": torch.zeros(3)},
            "so none of them is a link",
        ),
        ({"edge_label_index": torch.full((2, 3), 99)}, "99"),
    ],
)
def test_what_does_not_fit_is_refused(more, words):
    for make in (
        lambda: Graph.from_pyg(plain(**more)),
        lambda: HeteroGraph.from_pyg(typed(**more)),
    ):
        with pytest.raises(InputError, match=words):
            make()


def test_conversion_of_data_with_links(tmp_path):
    data = plain(edge_label_index=torch.tensor([[0, 1], [2, 3]]))
    with pytest.raises(InputError, match="edge_label_index"):
        convert(data, tmp_path / "g")
    convert(plain(), tmp_path / "h")
