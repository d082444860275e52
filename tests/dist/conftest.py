"""One launcher for all tests of ranks, and one run of each world."""

import json
from functools import cache

import pytest
from dist import cases
from dist.world import Launcher, World


@pytest.fixture(scope="session")
def launcher():
    with Launcher() as made:
        yield made


@pytest.fixture(scope="session")
def results(launcher, tmp_path_factory):
    """What a world of p ranks made of all its cases; each world runs once."""

    @cache
    def of_world(size):
        folder = tmp_path_factory.mktemp(f"world{size}")
        with World(launcher, size, "same", folder) as world:
            codes = world.wait(240)
            assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
        parts = [json.loads((folder / f"same{rank}.json").read_text()) for rank in range(size)]
        return dict(zip(cases.matrix(size), zip(*parts, strict=True), strict=True))

    return of_world
