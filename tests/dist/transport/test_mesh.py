"""The groups of a grid as torch's DeviceMesh: who is along which dimension, ours and given."""

import json

import numpy as np
import pytest

from tests.dist.sampling.test_same import serial
from tests.dist.world import World


@pytest.mark.parametrize("size", [2, 4])
def test_grids_and_meshes_are_the_same_groups(launcher, tmp_path, size):
    with World(launcher, size, "meshes", tmp_path) as world:
        assert world.wait(600) == [0] * size, "".join(world.output(r) for r in range(size))
    parts = [json.loads((tmp_path / f"meshes{rank}.json").read_text()) for rank in range(size)]
    for c in (1, 2):
        table = np.arange(size).reshape(size // c, c)
        for kind in ("own", "given"):
            found = {}
            for rank, part in enumerate(parts):
                sums, mesh, digests = part[f"{kind} {c}"]
                row, column = divmod(rank, c)
                assert mesh == table.tolist()
                # along "column" are the p/c ranks of a grid column, along "row" the c of a row
                assert sums == [int((table[:, column] + 1).sum()), int((table[row] + 1).sum())]
                found |= digests
            assert found == serial("plain", 8, "once")
    for part in parts:
        assert "in order, of shape [p/c, c]" in part["reversed"]


def test_no_rank_has_a_group_before_all_have_joined_it(launcher, tmp_path):
    with World(launcher, 3, "slow_to_join", tmp_path) as world:
        assert world.wait(600) == [0] * 3, "".join(world.output(r) for r in range(3))


@pytest.mark.parametrize("size", [1, 2])
def test_channels_are_closed_in_any_order(launcher, tmp_path, size):
    with World(launcher, size, "channels_in_turn", tmp_path) as world:
        assert world.wait(600) == [0] * size, "".join(world.output(r) for r in range(size))
