"""A Loader over ranks: one rank's batches, dealt out; equal steps; gradients by DDP."""

import json

import numpy as np
import pytest
from dist import rank_train
from dist.world import World

from foregather import InputError


def run(launcher, folder, size, task, name):
    with World(launcher, size, task, folder) as world:
        codes = world.wait(240)
        assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
    return [json.loads((folder / f"{name}{rank}.json").read_text()) for rank in range(size)]


def serial(rule, size, bulk, epochs):
    loader = rank_train.loader_of(rank_train.train_graph(), rule, size, bulk)
    return [[rank_train.digest(batch) for batch in loader] for _ in range(epochs)]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_batches_are_those_of_one_rank(launcher, tmp_path, size):
    if size == 2:  # from a folder, of which a rank reads its block
        rank_train.train_graph().save(tmp_path / "graph")
    parts = run(launcher, tmp_path, size, "batches", "batches")
    assert set(parts[0]) >= {"owner", "replicated", "ladies", "fastgcn", "paper"}
    for name, _, _, _, rule, batch_size, bulk in rank_train.LOADERS:
        if name not in parts[0]:
            continue
        wanted = serial(rule, batch_size, bulk, 4)
        steps = -(-len(wanted[0]) // size)
        for rank, part in enumerate(parts):
            one, two, resumed, after, length = part[name]
            assert length == len(one) == len(two) == len(after) == steps
            assert len(resumed) == steps - 1
            for epoch, found, first in ((0, one, 0), (1, two, 0), (2, resumed, 1), (3, after, 0)):
                for step, batch in enumerate(found, first):
                    number = step * size + rank
                    assert batch[0] == number
                    if number < len(wanted[epoch]):
                        assert batch[2:] == wanted[epoch][number][2:], (name, epoch, step)
        for step in range(steps):
            shares = [part[name][0][step][1] for part in parts]
            seeds = [part[name][0][step][2] for part in parts]
            real = [step * size + rank < len(wanted[0]) for rank in range(size)]
            assert np.isclose(sum(shares), size)
            assert [share > 0 for share in shares] == real
            weights = np.array(seeds) * real
            assert np.allclose(shares, size * weights / weights.sum())


def test_ranks_train_to_the_same_weights_and_loss(launcher, tmp_path):
    losses = {}
    for size in (1, 2, 4):
        folder = tmp_path / str(size)
        folder.mkdir()
        parts = run(launcher, folder, size, "train", "train")
        assert all(part["weights"] == parts[0]["weights"] for part in parts)
        losses[size] = parts[0]["losses"]
    assert losses[1][-1] < 0.8 * losses[1][0]
    for size in (2, 4):
        assert np.allclose(losses[size], losses[1], rtol=0.1)


def test_fewer_batches_than_ranks(launcher, tmp_path):
    parts = run(launcher, tmp_path, 2, "no_seeds", "none")
    assert parts == [[[2.0], 0], [[0.0], 0]]


def test_memory_does_not_go_with_a_grid():
    with pytest.raises(InputError, match="memory= and bulk='auto' do not go with grid="):
        rank_train.loader_of(
            rank_train.train_graph(), "once", 8, 2, grid=object(), memory="1GB"
        )
