"""loader/one_batch: the batch of given nodes at once equals the first of a loader, to the bit."""

import numpy as np
import pytest
import torch

from foregather import Graph, Loader
from foregather.errors import InputError
from foregather.graph.synthetic import synthesize
from foregather.loader.options import BatchContents
from foregather.sampling import Cluster, Full, Labor, Ladies, Neighbor, RandomWalk, Saint

NODES = [7, 3, 250, 7]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "g"
    synthesize(path, 300, degree=6, features=8, classes=3, seed=0)
    return path


def equal(one, other):
    assert one.batch_size == other.batch_size
    for name in ("n_id", "x", "y", "edge_index", "e_id", "edge_weight", "input_id", "seed_id"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or torch.equal(mine, theirs), name


def first(loader, epoch):
    loader.set_epoch(epoch)
    batches = iter(loader)
    batch = next(batches)
    batches.close()
    return batch


PLAIN = BatchContents(pyg=False)
SAMPLERS = {
    "neighbor": Neighbor([3, 2]),
    "labor": Labor([3, 2]),
    "full": Full(2),
    "walk": RandomWalk(3),
    "ladies": Ladies([16, 16]),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("epoch", [0, 5])
def test_from_memory_it_is_the_first_batch(folder, name, epoch):
    graph = Graph.open(folder)
    nodes = NODES if name != "walk" else NODES[:3]
    loader = Loader(
        graph, sampler=SAMPLERS[name], input_nodes="train", batch_size=16, seed=9, contents=PLAIN
    )
    own = Loader(
        graph, sampler=SAMPLERS[name], input_nodes=nodes, batch_size=9, seed=9, contents=PLAIN
    )
    equal(loader.one(nodes, epoch), first(own, epoch))


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
def test_from_disk_it_has_the_same_bits(folder, storage):
    graph = Graph.open(folder)
    options = {"sampler": Neighbor([4, 4]), "batch_size": 16, "seed": 2, "contents": PLAIN}
    expected = Loader(graph, None, "train", **options).one(NODES, 3)
    loader = Loader(graph, None, "train", memory="60MB", storage=storage, **options)
    equal(loader.one(NODES, 3), expected)
    batches = iter(loader)
    before = next(batches)  # a loop goes on as if nothing had been asked in between
    equal(loader.one(NODES, 3), expected)
    after = [before, *batches]
    plain = list(Loader(graph, None, "train", **options))
    assert len(after) == len(plain)
    for one, other in zip(after, plain, strict=True):
        equal(one, other)
    loader.close()


def test_position_does_not_change(folder):
    loader = Loader(Graph.open(folder), [2], "train", 16, shuffle=True)
    before = loader.state_dict()
    assert loader.one([1]).batch_size == 1
    assert loader.state_dict() == before


def test_contents_and_transform_are_as_in_loops(folder):
    graph = Graph.open(folder)
    contents = BatchContents(norm="gcn", pyg=False)
    loader = Loader(graph, [3, 3], [5], 1, contents=contents, transform=lambda b: (b, "told"))
    batch, told = loader.one([5])
    assert told == "told"
    equal(batch, next(iter(loader))[0])


def test_bad_input(folder):
    graph = Graph.open(folder)
    loader = Loader(graph, [2], "train", 4)
    for nodes, words in (([], "nodes is empty"), ([300], "300"), ([0.5], "whole|integer")):
        with pytest.raises(InputError, match=words):
            loader.one(nodes)
    with pytest.raises(InputError, match="epoch"):
        loader.one([1], -1)
    for sampler in (Saint("node", 8), Cluster(np.arange(300) % 4)):
        with pytest.raises(InputError, match="chooses the nodes of batches itself"):
            Loader(graph, sampler=sampler, input_nodes="train").one([1])
