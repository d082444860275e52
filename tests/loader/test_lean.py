"""How many batches there are at once: none, one or more ahead; values stay whatever is kept."""

import gc
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foregather import BatchContents, BudgetError, Graph, InputError, Loader
from foregather.loader import source
from foregather.loader.batches import array_pool
from foregather.loader.batches.assemble import Assembler
from foregather.loader.prefetch import THREAD_NAME
from foregather.train.settings import MemorySettings
from tests.loader.graphs import same_batch
from tests.loader.loops import small_folder
from tests.some import some
from tests.train import runs

PLAIN = BatchContents(pyg=False)


def graph_of(nodes: int = 400, columns: int = 6) -> Graph:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, nodes, (2, 8 * nodes))
    x = rng.random((nodes, columns), np.float32)
    return Graph.from_edge_index(pairs, nodes, x=x, y=rng.integers(0, 4, nodes))


def loader_of(graph: Graph, **options: Any) -> Loader:
    given = {"batch_size": 40, "shuffle": True, "contents": PLAIN, "threads": 2, **options}
    return Loader(graph, [4, 3], None, **given)


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bulk is small enough to be made at once, and every array is recycled."""
    monkeypatch.setattr("foregather.loader.batch_recipe.SMALL_BULK", 0)
    monkeypatch.setattr(array_pool, "_SMALL", 1)


@pytest.fixture
def made(single: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that assembled batches."""
    threads: list[str] = []
    real: Any = Assembler.batch

    def batch(self: Assembler, *arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(self, *arguments)

    monkeypatch.setattr(Assembler, "batch", batch)
    return threads


def settled(made: list[str]) -> int:
    """How many batches were made, once no more are."""
    count = -1
    while count != len(made):
        count = len(made)
        time.sleep(0.15)
    return count


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("leaves", ["rows", "sum"])
def test_batches_are_the_same_however_many_are_ahead(
    joined: bool, leaves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not joined:
        monkeypatch.setattr("foregather.loader.batch_recipe.SMALL_BULK", 0)
    graph, contents = graph_of(), BatchContents(pyg=False, leaves=leaves)
    expected = list(loader_of(graph, prefetch=1, bulk=1, threads=1, contents=contents))
    for ahead in some([0, 1, 2, 5, "auto"]):
        found = list(loader_of(graph, prefetch=ahead, contents=contents))
        assert len(found) == len(expected) == 10
        assert all(same_batch(a, b) for a, b in some(zip(found, expected, strict=True)))


def test_without_prefetch_a_batch_is_made_when_it_is_asked_for(made: list[str]) -> None:
    loop = iter(loader_of(graph_of(), prefetch=0))
    for count in some(range(1, 5)):
        next(loop)
        assert settled(made) == count
    assert set(made) == {threading.current_thread().name}


@pytest.mark.parametrize("large", [True, False])
def test_one_large_batch_is_made_ahead_or_two_small_ones(
    made: list[str], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_LARGE_BATCH", 1 if large else 1 << 40)
    loader = loader_of(graph_of())
    loop = iter(loader)
    for count in some(range(1, 4)):
        next(loop)
        assert settled(made) == count + (1 if large else 2)
    assert set(made) == {THREAD_NAME}
    assert f"(prefetch {1 if large else 2})" in loader.explain()
    asked = loader_of(graph_of(), prefetch=3)
    made.clear()
    loop = iter(asked)
    next(loop)
    assert settled(made) == 4 and "(prefetch 3)" in asked.explain()


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("ahead", [0, 1, "auto"])
def test_what_is_kept_never_changes(ahead: Any) -> None:
    """Parts of some batches, all of others: the pool takes only what nobody refers to."""
    graph = graph_of()
    expected = [b.x.clone() for b in loader_of(graph, prefetch=1)]
    for _ in range(3):
        every = list(loader_of(graph, prefetch=ahead))
        assert all(torch.equal(a.x, b) for a, b in some(zip(every, expected, strict=True)))
    kept, loader = [], loader_of(graph, prefetch=ahead)
    for number, batch in enumerate(loader):
        view = batch.x[3:5] if number % 2 else batch.x.numpy()[3:5]
        kept.append((torch.as_tensor(view), expected[number][3:5]))
        if number % 3 == 0:
            kept.append((batch.x, expected[number]))
    for epoch in range(1, 3):  # other rows go through the pool meanwhile
        loader.set_epoch(epoch)
        sum(int(batch.x.sum()) for batch in loader)
    assert all(torch.equal(mine, theirs) for mine, theirs in some(kept))


@pytest.mark.usefixtures("single")
def test_two_loops_and_one_that_is_left_early() -> None:
    loader = loader_of(graph_of(), prefetch=0, shuffle=False)
    expected = list(loader_of(graph_of(), prefetch=1, shuffle=False))
    for number, _ in enumerate(loader):
        if number == 2:
            break
    gc.collect()
    assert [t for t in threading.enumerate() if t.name == THREAD_NAME] == []
    loader.set_epoch(0)
    other = loader_of(graph_of(), prefetch=0, shuffle=False)
    pairs = zip(zip(loader, other, strict=True), expected, strict=True)
    for (one, two), right in some(pairs):
        assert same_batch(one, right) and same_batch(two, right)


@pytest.mark.usefixtures("single")
def test_errors_of_the_sampler_and_of_a_transform_reach_the_loop() -> None:
    def odd(batch: Any) -> Any:
        if batch.number == 3:
            raise ZeroDivisionError("mine")
        return batch

    taken: list[Any] = []
    with pytest.raises(ZeroDivisionError, match="mine"):
        taken.extend(loader_of(graph_of(), prefetch=0, transform=odd))
    assert len(taken) == 3
    with pytest.raises(KeyboardInterrupt):
        for _ in loader_of(graph_of(), prefetch=0):
            raise KeyboardInterrupt
    assert [t for t in threading.enumerate() if t.name == THREAD_NAME] == []


def test_what_is_said_and_counted_in_a_budget() -> None:
    loader = loader_of(graph_of(), prefetch=0)
    list(loader)
    beside = loader._source._beside  # type: ignore[attr-defined]
    assert beside.total(0) >= 2 * beside.batch
    assert "2 batches of" in loader.explain() and "1 if let go before the next" in loader.explain()
    needs = []
    for ahead in some([0, 1, 2]):
        with pytest.raises(BudgetError) as refused:
            loader_of(graph_of(), prefetch=ahead, memory=1)
        assert refused.value.least is not None
        needs.append(refused.value.least)
        under = loader_of(graph_of(), prefetch=ahead, memory=refused.value.least)
        assert all(
            same_batch(a, b) for a, b in some(zip(under, loader_of(graph_of()), strict=True))
        )
    assert needs[0] < needs[1] < needs[2]


def test_a_run_without_prefetch_has_the_same_weights(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder, found = runs.small_folder(tmp_path_factory), []
    for ahead in some([0, 2]):
        memory = MemorySettings(prefetch=ahead)
        runs.train(runs.settings_of(folder, tmp_path / f"{ahead}", memory=memory))
        found.append(load_file(tmp_path / f"{ahead}" / "model.safetensors"))
    assert all(torch.equal(value, found[1][name]) for name, value in some(found[0].items()))
    disk = MemorySettings(prefetch=0, budget="100MB", storage="features")
    with pytest.raises(InputError, match="prefetch is 0, but parts of the graph are on disk"):
        runs.train(runs.settings_of(folder, tmp_path / "disk", memory=disk))


def test_it_is_for_graphs_in_memory(tmp_path: Path) -> None:
    graph = small_folder(tmp_path / "g")
    with pytest.raises(InputError, match="prefetch is 0, but parts of the graph are on disk; .* 1"):
        Loader(graph, [3, 2], "train", 20, memory="60MB", storage="features", prefetch=0)
    found = list(Loader(graph, [3, 2], "train", 20, prefetch=0, contents=PLAIN))  # it fits
    expected = list(Loader(graph, [3, 2], "train", 20, contents=PLAIN))
    assert all(same_batch(a, b) for a, b in some(zip(found, expected, strict=True)))
    with pytest.raises(InputError, match="prefetch is 0, which does not work with grid="):
        Loader(graph, [3, 2], "train", 20, grid=object(), prefetch=0)  # type: ignore[arg-type]
