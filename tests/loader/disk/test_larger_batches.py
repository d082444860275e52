"""Batches that are larger than the first ones: they take what nobody else has of the budget."""

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.errors import BudgetError
from tests.some import some


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3000, 60_000) ** 3 // 3000**2  # the first nodes have most edges
    edges = np.stack([rng.integers(0, 3000, 60_000), target])
    made = Graph.from_edge_index(edges, 3000, x=rng.random((3000, 64), np.float32))
    folder = tmp_path_factory.mktemp("graph") / "g"
    made.save(folder)
    return Graph.open(folder)


def loader(graph, **options):
    seeds, contents = np.arange(3000)[::-1].copy(), BatchContents(pyg=False)
    return Loader(graph, [-1], seeds, 256, contents=contents, threads=1, **options)


@pytest.mark.parametrize("storage", ["features", "disk"])
def test_a_large_budget_holds_batches_of_any_size(graph, storage):
    made = loader(graph, memory="1GB", storage=storage)
    for ours, plain in some(zip(made, loader(graph), strict=True)):
        assert torch.equal(ours.x, plain.x)
    made.close()


def test_a_small_one_says_what_helps(graph):
    with pytest.raises(BudgetError) as error:
        loader(graph, memory=1000, storage="features")
    made = loader(graph, memory=error.value.least, storage="features")
    with pytest.raises(BudgetError, match=r"like the first ones, .*; use a smaller batch_size"):
        for _ in made:
            pass
    made.close()
