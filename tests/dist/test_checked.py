"""A file altered on one rank: wrong batches never arrive, and every rank says whose file it is."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from foregather import Features, FormatError
from foregather.dist import FeatureBlock
from foregather.dist.sampling.partition import Partition
from tests.dist import rank_train
from tests.dist.world import World
from tests.flip import flip, places

END = 600  # seconds; only a rank that hangs takes so long


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The graph of the ranks' tests, with rows that fill some blocks."""
    graph, rng = rank_train.train_graph(), np.random.default_rng(0)
    rows = Features(rng.random((graph.num_nodes, 64), np.float32))
    return replace(graph, features=rows).save(tmp_path_factory.mktemp("copies") / "g")


@pytest.mark.parametrize("name", ["indptr", "indices", "features"])
def test_the_block_of_a_rank(made, tmp_path, name):
    """Each rank finds what is wrong in its own block, and nothing else."""
    folder = shutil.copytree(made, tmp_path / "g")
    open_block = FeatureBlock.open if name == "features" else Partition.open
    for _, at, said in places(folder, name):
        flip(folder / f"{name}.npy", at)
        refused = 0
        for block in range(3):
            try:
                open_block(folder, 3, block)
            except FormatError as error:
                refused += 1
                assert said.replace("\\", "") in str(error)
        assert 1 <= refused < (4 if name == "indptr" else 3)  # all of indptr is one block
        flip(folder / f"{name}.npy", at)


@pytest.mark.parametrize(
    ("name", "topology", "storage"),
    [
        ("features", "partitioned", "disk"),
        ("features", "partitioned", "features"),
        ("indices", "partitioned", "memory"),
    ],
)
def test_a_file_altered_on_one_rank(launcher, made, tmp_path, name, topology, storage):
    for rank in range(2):
        shutil.copytree(made, tmp_path / f"graph{rank}")
    blocks = (tmp_path / f"graph1/{name}.npy").stat().st_size // 4096 - 1
    for block in range(blocks):  # every block, so that rank 1 meets one in its part
        flip(tmp_path / f"graph1/{name}.npy", 4096 * (block + 1))
    options = {"TEST_TOPOLOGY": topology, "TEST_STORAGE": storage}
    with World(launcher, 2, "loop_over_copies", tmp_path, **options) as world:
        codes = world.wait(END)
        said = [world.output(rank).strip().splitlines()[-1] for rank in range(2)]
        assert codes == [3, 3], said
    assert not list(tmp_path.glob("copies*.json"))
    assert "FormatError: " in said[1] and f"{name}.npy: block" in said[1]
    assert "RankError" in said[0] and "rank 1" in said[0]


def test_copies_that_are_equal(launcher, made, tmp_path):
    for rank in range(2):
        shutil.copytree(made, tmp_path / f"graph{rank}")
    options = {"TEST_TOPOLOGY": "partitioned", "TEST_STORAGE": "disk"}
    with World(launcher, 2, "loop_over_copies", tmp_path, **options) as world:
        codes = world.wait(END)
        assert codes == [0, 0], [world.output(rank) for rank in range(2)]
