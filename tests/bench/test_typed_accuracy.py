"""The benchmark of typed accuracy says so where a batch knows an answer."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.typed_data import typed_folder

HERE = Path(__file__).parents[2] / "benchmarks"
HOURS = 3600


@pytest.fixture(scope="module")
def room():
    """The modules of benchmarks/typed_training; skips where there are no typed graphs."""
    pytest.importorskip("torch_geometric")
    pytest.importorskip("scipy")
    typed_folder()
    before = set(sys.modules)
    sys.path.insert(0, str(HERE))
    try:
        yield lambda name: importlib.import_module(f"typed_training.{name}")
    finally:
        sys.path.remove(str(HERE))
        for name in set(sys.modules) - before:
            if name.split(".")[0] in ("typed_training", "common"):
                del sys.modules[name]


@pytest.fixture(scope="module", params=["flights", "tennis"])
def task(request, room):
    return getattr(room("timed"), request.param)(True)


def first(room, task, seconds):
    """A batch of rows that are asked about so much later than they say."""
    side = room("sides").Ours(task, "last", None)
    arguments = side.arguments("test", False)
    arguments["input_time"] = arguments["input_time"] + seconds
    loader = room("sides").HeteroLoader(task.graph, **arguments)
    batch = next(iter(loader))
    batch[task.target].seed_time -= seconds
    return batch


def test_batches_know_no_answer(room, task):
    seen = room("sides").Seen()
    for strategy in ("last", "uniform"):
        side = room("sides").Ours(task, strategy, seen)
        for part in ("train", "val", "test"):
            assert all(task.later(one) is None for one in side.batches(part, 0, train=False))
    assert seen.batches == 2 * (2 + 1 + 1) and seen.nodes > 20_000


def test_an_answer_is_found(room, task):
    assert task.later(first(room, task, 0)) is None
    assert task.later(first(room, task, 20 * 24 * HOURS)) is not None


def test_a_wrong_row_or_label_is_found(room, task):
    sides = room("sides")
    for break_it, sentence in (
        (lambda own: own.input_id.roll(1), "not its rows"),
        (lambda own: 1 - own.y, "not those of its nodes"),
    ):
        batch = first(room, task, 0)
        name = "input_id" if "rows" in sentence else "y"
        batch[task.target][name] = break_it(batch[task.target])
        with pytest.raises(SystemExit, match=sentence):
            sides.checked(batch, task, "test", sides.Seen())


def test_an_early_departure_is_not_known_before_its_flight(room):
    """A plane that left before its time tells nothing about its own flight."""
    task = room("timed").flights(True)
    arrays = room("task").read("nycflights13_graph")
    early = np.flatnonzero((arrays["dep_delay"] < -10) & (arrays["dep_delay"] > -32768))[:200]
    loader = room("sides").HeteroLoader(
        task.graph, [-1, 30], ("flight", early), 50, time="node", temporal_strategy="last"
    )
    left = np.flatnonzero(arrays["dep_delay"] != -32768)
    checked = 0
    for batch in loader:
        departures = batch["departure"]
        of = torch.from_numpy(left)[departures.n_id]
        assert not (of == batch["flight"].n_id[departures.batch]).any()
        assert task.later(batch) is None
        checked += len(of)
    assert checked > 1000
