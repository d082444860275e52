"""HeteroLoader.one: the batch of given nodes at once is that of a loader of these nodes."""

import copy

import numpy as np
import pytest

from foregather import HeteroLoader, InputError, LinkLoader
from foregather.sampling import HeteroLabor, HeteroLadies
from tests.loader.hetero.batches import BUYS, same_data, shop

GRAPH = shop()
NODES = [7, 3, 7, 29]
TIMES = np.array([40, 90, 10, 60])
KINDS = {
    "plain": {"num_neighbors": [4, 3]},
    "disjoint": {"num_neighbors": [4, 3], "disjoint": True},
    "node time": {"num_neighbors": [4, 3], "time": "node"},
    "edge time": {"num_neighbors": [4, 3], "time": "edge"},
    "labor": {"sampler": HeteroLabor([4, 3])},
    "ladies": {"sampler": HeteroLadies([8, 8])},
}


def made(kind, **options):
    if kind == "edge time":
        options["input_time"] = np.full(len(GRAPH.nodes["user"].splits["train"]), 50)
    given = {"input_nodes": ("user", "train"), "batch_size": 5, "shuffle": True, "seed": 3}
    return HeteroLoader(GRAPH, **(given | KINDS[kind] | options))


@pytest.mark.parametrize("epoch", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_first_batch_of_a_loader_of_these_nodes(kind, epoch):
    loader = made(kind)
    times = TIMES if kind in ("node time", "edge time") else None
    other = loader.beside(("user", NODES), len(NODES), times)
    other.set_epoch(epoch)
    (want,) = other
    before = copy.deepcopy(loader.state_dict())
    assert same_data(loader.one(NODES, times, epoch), want)
    assert same_data(loader.one(("user", NODES), times, epoch), want)
    assert loader.state_dict() == before
    fresh = HeteroLoader(GRAPH, input_nodes=("user", NODES), batch_size=4, seed=3,
                         input_time=times, **KINDS[kind])  # fmt: skip
    fresh.set_epoch(epoch)
    assert same_data(loader.one(NODES, times, epoch), next(iter(fresh)))


def test_other_types_splits_and_transforms():
    loader = made("plain", transform=lambda batch: batch["user"].n_id)
    (train,) = loader.beside(("user", "train"), len(GRAPH.nodes["user"].splits["train"]))
    assert loader.one("train").tolist() == train.tolist()
    items = made("plain").one(("item", [1, 0]))
    assert items["item"].n_id[:2].tolist() == [1, 0] and items["item"].batch_size == 2


def test_while_a_loop_runs_nothing_changes():
    want, found = list(made("plain")), []
    loader = made("plain")
    for batch in loader:
        found.append(batch)
        loader.one(NODES)
    assert len(found) == len(want) > 1 and all(map(same_data, found, want))


@pytest.mark.parametrize(
    ("nodes", "kind", "options", "words"),
    [
        ([], "plain", {}, "nodes is empty, expected at least one node"),
        ([10**6], "plain", {}, "1000000"),
        ("dev", "plain", {}, "dev"),
        ([1], "edge time", {}, "every input row needs a time"),
        ([1], "plain", {"epoch": -1}, "epoch is -1"),
        ([1], "plain", {"input_time": [1]}, "input_time was given, but nothing says"),
        (("itme", [1]), "plain", {}, "the nearest"),
    ],
)
def test_bad_input_is_one_sentence(nodes, kind, options, words):
    with pytest.raises(InputError, match=words) as caught:
        made(kind).one(nodes, **options)
    assert "\n" not in str(caught.value)


def test_loaders_of_links_have_no_batch_of_nodes():
    with pytest.raises(InputError, match="this is a loader of links"):
        LinkLoader(GRAPH, [2], BUYS).one([1])
