"""How many threads make batches: fewer where the loop does not wait; never other batches."""

from typing import Any

import pytest

from foregather import BatchContents, Loader
from foregather.loader import source
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.pace import Pace
from foregather.loader.source import MemorySource
from foregather.train.runs.run import Run
from foregather.train.trainers.sampled import SampledTrainer
from tests.loader.graphs import same_batch, small_graph
from tests.some import some
from tests.train.runs import settings_of, small_folder


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steps(pace: Pace, clock: Clock, count: int, worked: float, waited: float) -> None:
    """Lists of one second each."""
    for _ in range(count):
        clock.now += 1.0
        pace.waited(waited)
        pace.made(worked)


def test_half_of_the_threads_where_nobody_waits() -> None:
    clock = Clock()
    pace = Pace(8, clock)
    steps(pace, clock, 15, worked=0.1, waited=0.0)
    assert pace.threads == 8 and pace.explain() == ""  # not looked at long enough
    steps(pace, clock, 1, worked=0.1, waited=0.0)
    assert pace.threads == 4 and "4 of 8 threads" in pace.explain()
    steps(pace, clock, 100, worked=0.2, waited=0.0)
    assert pace.threads == 4, "it is halved once"
    steps(pace, clock, 24, worked=0.9, waited=0.1)
    assert pace.threads == 8 and pace.settled and "all 8 threads" in pace.explain()
    steps(pace, clock, 100, worked=0.1, waited=0.0)
    assert pace.threads == 8, "for good"


@pytest.mark.parametrize(
    ("worked", "waited"),
    [(0.1, 0.5), (0.1, 0.03), (0.5, 0.0), (1.0, 0.0)],
    ids=["waits", "waits a little", "half busy", "busy"],
)
def test_all_threads_where_somebody_waits_or_works(worked: float, waited: float) -> None:
    clock = Clock()
    pace = Pace(8, clock)
    steps(pace, clock, 200, worked, waited)
    assert pace.threads == 8 and not pace.settled


def test_the_first_batches_of_a_loop_do_not_count() -> None:
    clock = Clock()
    pace = Pace(2, clock)
    for _ in range(20):
        pace.begin()
        steps(pace, clock, 4, worked=0.0, waited=0.0)
        steps(pace, clock, 11, worked=0.0, waited=0.0)
    assert pace.threads == 2
    one = Pace(1, clock)
    steps(one, clock, 200, worked=0.0, waited=0.0)
    assert one.threads == 1 and one.explain() == ""


def loader_of(**options: Any) -> Loader:
    given = {"batch_size": 3, "shuffle": True, "contents": BatchContents(pyg=False), **options}
    return Loader(small_graph(), [3, 2], None, **given)


@pytest.mark.parametrize("joined", [True, False])
def test_batches_stay_the_same_when_threads_change(
    joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(loader_of(threads=1))

    class Restless(Pace):
        def made(self, seconds: float) -> None:
            self.threads = self.threads % self.most + 1

    used: list[int] = []
    real: Any = BatchRecipe.using

    def using(self: BatchRecipe, threads: int) -> BatchRecipe:
        used.append(threads)
        found: BatchRecipe = real(self, threads)
        assert found.threads == found.assembler.threads == threads
        return found

    monkeypatch.setattr(source, "Pace", lambda most: Restless(5))
    monkeypatch.setattr(BatchRecipe, "using", using)
    if not joined:
        monkeypatch.setattr("foregather.loader.batch_recipe.SMALL_BULK", 0)
    found = list(loader_of(bulk=2))
    assert all(same_batch(a, b) for a, b in some(zip(found, expected, strict=True)))
    assert len(set(used)) == 4


def test_threads_that_the_user_gave_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "count_threads", lambda threads: 6)
    asked, free = loader_of(threads=4), loader_of()
    list(asked), list(free)
    for loader, most in some([(asked, 1), (free, 6)]):
        made = loader._source
        assert isinstance(made, MemorySource) and made.pace is not None
        assert made.pace.most == most and made.pace.settled == (most == 1)


def test_what_was_chosen_is_said(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of()
    list(loader)
    made = loader._source
    assert isinstance(made, MemorySource) and "threads" not in loader.explain()
    made.pace = Pace(4)
    made.pace.threads = 2
    assert loader.explain().endswith(
        "; batches are made by 2 of 4 threads, as the loop does not wait for them"
    )
    folder = small_folder(tmp_path_factory)
    with Run.create(settings_of(folder, folder.parent / "run")) as run:
        trainer = run.trainer
        assert isinstance(trainer, SampledTrainer)
        own = trainer.training.loader._source
        assert isinstance(own, MemorySource)
        own.pace = made.pace
        assert "2 of 4 threads" in trainer.explain({"epoch": 1})
        assert trainer.explain({"epoch": 2}) == ""
