"""One launcher for all tests of ranks, and one run of each world."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from tests.dist import cases
from tests.dist.world import Launcher, World

#: By case, what each rank made of it.
OfWorld = Callable[[int], dict[Any, Any]]
CasesOf = Callable[[int], Sequence[Any]]
OfTask = Callable[[str, CasesOf, float], OfWorld]


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as made:
        yield made


@pytest.fixture(scope="session")
def worlds(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> OfTask:
    """What a world of p ranks made of all cases of a task; each world runs once."""

    def of_task(task: str, cases_of: CasesOf, seconds: float) -> OfWorld:
        @cache
        def of_world(size: int) -> dict[Any, Any]:
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
def results(worlds: OfTask) -> OfWorld:
    """What a world of p ranks sampled."""
    return worlds("same", cases.matrix, 600)
