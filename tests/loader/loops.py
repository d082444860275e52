"""Loaders of one small graph in every storage, and what their batches must be."""

import gc
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foregather import BatchContents, BudgetError, Graph, Loader
from foregather.graph.synthetic import synthesize
from foregather.loader.prefetch import THREAD_NAME, Prefetcher
from tests.loader.graphs import same_batch

#: "held" is in memory under a budget; "repack" is features with repacked bulks.
STORAGES = ("memory", "held", "features", "topology", "disk", "repack")
BATCHES = 8


def small_folder(path: Path) -> Graph:
    """A graph in a folder, with a `train` split of which a tenth is used."""
    synthesize(path, 1200, degree=6, features=24, classes=3, seed=5)
    return Graph.open(path)


def loader_of(graph: Graph, storage: str, **options: Any) -> Loader:
    """Eight batches an epoch, with little memory where it counts."""
    settings: dict[str, Any] = {
        "input_nodes": range(160),
        "batch_size": 20,
        "shuffle": True,
        "seed": 7,
        "contents": BatchContents(pyg=False),
        "threads": 1,
        "bulk": 2,
    }
    settings.update(options)
    if storage == "memory":
        return Loader(graph, [3, 2], **settings)
    if storage == "held":
        return Loader(graph, [3, 2], memory="500MB", storage="memory", **settings)
    kind: Any = "features" if storage == "repack" else storage
    memory = _least(graph, kind) + (40_000_000 if storage == "repack" else 20_000)
    loader = Loader(graph, [3, 2], memory=memory, storage=kind, **settings)
    if storage == "repack":
        force(loader, "repack")
    return loader


def force(loader: Loader, caching: str) -> None:
    """Rows are read in this way, whatever it costs."""
    source: Any = loader._source
    source.decide(loader._home.furnish(loader._maker), 0, 0, caching)


@cache
def _least(graph: Graph, storage: Any) -> int:
    with pytest.raises(BudgetError) as caught:
        Loader(graph, [3, 2], range(160), 20, memory=1, storage=storage, bulk=2, threads=1)
    assert caught.value.least is not None
    return caught.value.least


@cache
def expected(graph: Graph, epoch: int) -> tuple[Any, ...]:
    """The batches of an epoch, from memory, alone."""
    loader = loader_of(graph, "memory")
    loader.set_epoch(epoch)
    batches = tuple(loader)
    assert len(batches) == BATCHES
    assert graph.features is not None
    for batch in batches:
        assert (batch.x.numpy() == graph.features[batch.n_id.numpy()]).all()
    return batches


def is_right(graph: Graph, batch: Any, epoch: int, number: int) -> bool:
    """Whether this is the batch of that number, rows and all."""
    assert graph.features is not None
    rows = graph.features[batch.n_id.numpy()]
    return (
        batch.number == number
        and bool((batch.x.numpy() == rows).all())
        and same_batch(batch, expected(graph, epoch)[number])
    )


def feed_threads() -> list[threading.Thread]:
    """Producers that are there, working or not yet."""
    return [t for t in threading.enumerate() if t.name == THREAD_NAME or _is_ours(t)]


def _is_ours(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)  # gone when it has run
    return thread.is_alive() and isinstance(getattr(target, "__self__", None), Prefetcher)


def orphans(seconds: float = 20.0) -> list[threading.Thread]:
    """Producers that are still there when all loops are gone, and had a moment to end."""
    if feed_threads():
        gc.collect()
    deadline = time.monotonic() + seconds
    while (left := feed_threads()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return left
