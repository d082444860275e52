"""Dealing by locality: every node once an epoch, and nodes of a batch lie together."""

import numpy as np
import pytest

from foregather import (
    BatchContents,
    Graph,
    HeteroGraph,
    HeteroLoader,
    LinkLoader,
    Loader,
)
from foregather.errors import InputError
from foregather.graph.order import reorder
from foregather.graph.synthetic import synthesize
from foregather.loader.near import Dealer, Near
from foregather.loader.seeds import Seeds
from tests.loader.graphs import same_batch
from tests.some import some


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    home = tmp_path_factory.mktemp("near")
    synthesize(home / "plain", 3000, degree=6, features=8, classes=3, mixing=0.1, community=60)
    reorder(home / "plain", home / "ordered", "communities")
    return Graph.open(home / "ordered")


@pytest.mark.parametrize("rule", [Near(), Near(7, 1), Near(50, 3), Near(10_000, 2), Near(1, 1)])
@pytest.mark.parametrize("count", [1, 7, 500, 3000])
def test_every_node_comes_once_and_any_batch_can_be_computed(graph, rule, count):
    nodes = np.random.default_rng(0).permutation(3000)[:count]
    seeds = Seeds.make(graph, nodes, 64, rule, seed=3)
    for epoch in some((0, 5)):
        batches = [seeds.batch(epoch, k)[0] for k in range(len(seeds))]
        assert sorted(np.concatenate(batches)) == sorted(nodes)
        rows, _, ptr = seeds.run(epoch, len(seeds) // 3, 3)
        assert (rows == np.concatenate(batches[len(seeds) // 3 :][:3])).all()
        assert ptr[-1] == len(rows)
    if count > 100:
        orders = [np.concatenate([seeds.batch(e, k)[0] for k in range(len(seeds))]) for e in (0, 1)]
        assert not (orders[0] == orders[1]).all()


def test_nodes_of_a_batch_lie_together(graph):
    def spread(shuffle):
        seeds = Seeds.make(graph, None, 100, shuffle)
        blocks = [
            len(np.unique(graph.features.rows_of(seeds.batch(0, k)[0]) // 25)) for k in (2, 9)
        ]
        return np.mean(blocks)

    assert spread(Near(50, 1)) < 10 < 40 < spread(True)


def test_batches_from_disk_and_resumed_are_the_same(graph):
    options = {"shuffle": Near(20, 4), "contents": BatchContents(pyg=False), "seed": 4, "bulk": 2}
    first = Loader(graph, [3, 2], "train", 100, **options)
    disk = Loader(graph, [3, 2], "train", 100, memory="60MB", storage="features", **options)
    batches = list(first)
    assert len(batches) > 10
    for one, other in zip(batches, disk, strict=True):
        assert same_batch(one, other)
    disk.close()
    half = Loader(graph, [3, 2], "train", 100, **options)
    for number, _ in enumerate(half):
        if number == 4:
            break
    again = Loader(graph, [3, 2], "train", 100, **options)
    again.load_state_dict(half.state_dict())
    for one, other in zip(batches[5:], again, strict=True):
        assert same_batch(one, other)
    other_rule = Loader(graph, [3, 2], "train", 100, **{**options, "shuffle": Near(20, 5)})
    with pytest.raises(InputError, match="saved with shuffle"):
        other_rule.load_state_dict(half.state_dict())


def test_bad_input_is_one_sentence(graph):
    plain = Graph.open(graph.path.parent / "plain")
    with pytest.raises(InputError, match="rows of the graph are in no order; make one with"):
        Loader(plain, [3], "train", 10, shuffle=Near())
    for wrong in some(({"run": 0}, {"window": 1.5})):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Near(**wrong)
    with pytest.raises(InputError, match="shuffle is 'near'"):
        Loader(graph, [3], "train", 10, shuffle="near")
    links = np.array([[0, 1, 2], [3, 4, 5]])
    with pytest.raises(InputError, match="links are dealt by chance, use shuffle=True"):
        LinkLoader(graph, [3], links, batch_size=2, shuffle=Near())
    with pytest.raises(InputError, match="in no order"):
        HeteroLoader(HeteroGraph.from_graph(graph), [3], "node", 10, shuffle=Near())
    assert Dealer(np.arange(3), 2, Near())._order(0, 0, 0).size == 3
