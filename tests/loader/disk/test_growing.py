"""Bulks read from disk begin with one batch and two; the first batch waits for no third bulk."""

import threading
from typing import Any

import pytest

from foregather import BatchContents, Graph, Loader
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.lookahead import planned_bulks
from tests.loader.graphs import same_batch
from tests.loader.loops import BATCHES, force, loader_of, small_folder
from tests.some import some

ON_DISK = ("features", "topology", "disk")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_folder(tmp_path_factory.mktemp("growing") / "g")


def on_disk(graph: Graph, storage: str, **options: Any) -> Loader:
    """Eight batches an epoch, in bulks of up to four."""
    kind: Any = "features" if storage == "repack" else storage
    loader = Loader(
        graph, [3, 2], range(160), 20, shuffle=True, seed=7, threads=1, bulk=4, memory="90MB",
        storage=kind, contents=BatchContents(pyg=False), **options,
    )  # fmt: skip
    if storage == "repack":
        force(loader, "repack")
    return loader


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches were sampled at a time."""
    sizes: list[int] = []
    real: Any = BatchRecipe.sample

    def sample(self: BatchRecipe, dealt: Any, *arguments: Any) -> Any:
        sizes.append(len(dealt))
        return real(self, dealt, *arguments)

    monkeypatch.setattr(BatchRecipe, "sample", sample)
    return sizes


@pytest.mark.parametrize(
    ("first", "end", "bulk", "expected"),
    [
        (0, 20, 8, [(0, 1), (1, 2), (3, 8), (11, 8), (19, 1)]),
        (5, 9, 8, [(5, 1), (6, 2), (8, 1)]),
        (0, 5, 1, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]),
        (3, 3, 8, []),
    ],
)
def test_sizes(first: int, end: int, bulk: int, expected: list[tuple[int, int]]) -> None:
    assert list(planned_bulks(first, end, bulk, False)) == expected
    assert sum(count for _, count in expected) == end - first
    full = list(planned_bulks(first, end, bulk, True))
    assert [number for start, count in full for number in range(start, start + count)] == [
        *range(first, end)
    ]
    assert all(count == bulk for _, count in full[:-1])


@pytest.mark.parametrize("storage", [*ON_DISK, "repack"])
def test_bulks_grow_and_batches_are_the_same(graph: Graph, storage: str, asked: list[int]) -> None:
    expected = list(loader_of(graph, "memory", bulk=1))
    loader = on_disk(graph, storage)
    first = list(loader)
    loader.set_epoch(0)
    asked.clear()
    again = list(loader)
    sizes = [1, 2, 4, 1] if storage != "repack" else [4, 4]
    assert asked == sizes and sum(asked) == BATCHES
    for one, two, right in some(zip(first, again, expected, strict=True)):
        assert same_batch(one, right) and same_batch(two, right)
    loader.close()


@pytest.mark.parametrize("storage", ON_DISK)
def test_what_is_planned_is_what_is_read(graph: Graph, storage: str) -> None:
    planned = on_disk(graph, storage)
    plan = planned.plan(0)
    assert plan.batches == BATCHES
    part = planned.plan(0, 2)
    assert part.batches == (2 if storage == "topology" else 3)  # whole bulks, where one is planned
    planned.close()
    loader = on_disk(graph, storage)
    list(loader)
    announced, read = loader.planned(), loader.counters().get("features")
    if storage == "topology":
        assert plan.reads is None and announced is None
    else:
        assert plan.reads is not None and announced is not None and read is not None
        assert plan.predicted is not None
        assert announced[1].bytes == plan.predicted.bytes == read["bytes"] > 0
        assert announced[1].requests == plan.predicted.requests == read["requests"]
    loader.close()


@pytest.mark.parametrize("storage", ON_DISK)
def test_the_first_batch_waits_for_no_third_bulk(
    graph: Graph, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = on_disk(graph, storage, prefetch=1)
    expected = list(loader)
    loader.set_epoch(0)
    real: Any = BatchRecipe.sample
    go, seen = threading.Event(), []

    def sample(self: BatchRecipe, dealt: Any, epoch: int, start: int, *rest: Any) -> Any:
        seen.append(start)
        if start == 3:
            assert go.wait(300)
        return real(self, dealt, epoch, start, *rest)

    monkeypatch.setattr(BatchRecipe, "sample", sample)
    loop = iter(loader)
    try:
        assert same_batch(next(loop), expected[0])
    finally:
        go.set()
    assert all(same_batch(a, b) for a, b in some(zip(loop, expected[1:], strict=True)))
    assert seen == [0, 1, 3, 7]
    loader.close()
