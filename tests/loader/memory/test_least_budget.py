"""The announced minimum of a budget is the minimum: it runs, one byte less is refused with it."""

import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.errors import BudgetError
from foregather.graph.synthetic import synthesize
from foregather.sampling import FastGCN, Labor, Ladies, Neighbor

SAMPLERS = {
    "neighbor": lambda: Neighbor([4, 3]),
    "labor": lambda: Labor([4, 3]),
    "ladies": lambda: Ladies([96, 64]),
    "fastgcn": lambda: FastGCN([96, 64]),
}
DTYPES = {"float32": 300, "float16": 600, "int8": 1200}  # with columns: rows of 1,200 bytes


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    made = {}
    for dtype, width in (*DTYPES.items(), ("small", 8)):
        folder = tmp_path_factory.mktemp("graph") / dtype
        number = "float32" if dtype == "small" else dtype
        synthesize(folder, 40_000, degree=40, features=width, classes=5, dtype=number, seed=3)
        made[dtype] = Graph.open(folder)
    return made


def make(graph, sampler, memory, **options):
    options |= {"contents": BatchContents(pyg=False), "sampler": sampler, "threads": 2}
    return Loader(graph, None, "train", 64, seed=7, memory=memory, **options)


def least(graph, sampler, memory, **options):
    with pytest.raises(BudgetError) as caught:
        make(graph, sampler, memory, **options)
    assert f"({caught.value.least} bytes)" in str(caught.value)
    return caught.value.least


@pytest.mark.parametrize("dtype", [*DTYPES, "small"])  # small: it needs less in memory
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_announced_minimum_is_the_minimum(graphs, name, dtype):
    graph, sampler = graphs[dtype], SAMPLERS[name]()
    announced = least(graph, sampler, 1)
    loader = make(graph, sampler, announced)
    batches = iter(loader)
    first = next(batches)
    plain = next(iter(make(graph, SAMPLERS[name](), None)))
    assert torch.equal(first.x, plain.x) and torch.equal(first.n_id, plain.n_id)
    batches.close()
    # the sampler has tables of two threads now, which must not change what is announced
    for other in (sampler, SAMPLERS[name]()):
        assert least(graph, other, announced - 1) == announced
    make(graph, sampler, announced + 1).close()
    loader.close()


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
def test_the_same_for_every_mode(graphs, storage):
    graph, sampler = graphs["float16"], SAMPLERS["neighbor"]()
    for bulk in ("auto", 3):
        announced = least(graph, sampler, 1, storage=storage, bulk=bulk)
        loader = make(graph, sampler, announced, storage=storage, bulk=bulk)
        next(iter(loader))
        loader.close()
        assert least(graph, sampler, announced - 1, storage=storage, bulk=bulk) == announced
