"""One launcher for all tests of ranks, and one run of each world."""

import json
from functools import cache

import pytest

from tests.dist import cases
from tests.dist.world import Launcher, World


@pytest.fixture(scope="session")
def launcher():
    with Launcher() as made:
        yield made


@pytest.fixture(scope="session")
def worlds(launcher, tmp_path_factory):
    """What a world of p ranks made of all cases of a task; each world runs once."""

    def of_task(task, cases_of, seconds):
        @cache
        def of_world(size):
            folder = tmp_path_factory.mktemp(f"{task}{size}")
            with World(launcher, size, task, folder) as world:
                codes = world.wait(seconds)
                assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
            parts = [
                json.loads((folder / f"{task}{rank}.json").read_text()) for rank in range(size)
            ]
            return dict(zip(cases_of(size), zip(*parts, strict=True), strict=True))

        return of_world

    return of_task


@pytest.fixture(scope="session")
def results(worlds):
    """What a world of p ranks sampled."""
    return worlds("same", cases.matrix, 600)
