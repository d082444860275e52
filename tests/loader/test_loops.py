"""Several loops over one Loader: each yields its own batches, however they meet and end."""

import copy
import gc
import os
import pickle
import signal
import sys
import threading

import pytest
import torch

from foregather import InputError, Loader
from foregather.errors import ForegatherError
from tests.loader.loops import (
    BATCHES,
    STORAGES,
    expected,
    is_right,
    loader_of,
    orphans,
    small_folder,
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("loops") / "g")


@pytest.fixture(params=STORAGES)
def loader(graph, request):
    return loader_of(graph, request.param)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert orphans() == []


def whole(graph, loop, epoch, first=0):
    """Whether a loop yields the rest of an epoch, all of it right."""
    numbers = []
    for number, batch in enumerate(loop, first):
        assert is_right(graph, batch, epoch, number)
        numbers.append(number)
    return numbers == list(range(first, BATCHES))


def test_zipped(graph, loader):
    pairs = list(zip(loader, loader, strict=True))
    assert len(pairs) == BATCHES
    for number, pair in enumerate(pairs):  # neither had yielded when the other began
        assert all(is_right(graph, batch, 0, number) for batch in pair)
    assert whole(graph, loader, 1)


def test_nested(graph, loader):
    for number, outer in enumerate(loader):
        assert is_right(graph, outer, 0, number)
        if number in (1, 4):
            assert whole(graph, loader, 1)
        assert loader.state_dict()["batch"] == (0 if number in (1, 4) else (number + 1) % BATCHES)
    assert loader.epoch == 1 and whole(graph, loader, 1)


def test_threads(graph, loader):
    failures = []

    def work():
        try:
            for _ in range(2):
                loop = iter(loader)
                first = next(loop)
                epochs = [e for e in range(7) if is_right(graph, first, e, 0)]
                assert epochs and whole(graph, loop, epochs[0], 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_beside_in_the_middle_of_an_epoch(graph, loader):
    nodes = range(500, 560)
    plain = list(loader_of(graph, "memory").beside(nodes, 20))
    other = loader.beside(nodes, 20)
    for number, batch in enumerate(loader):
        assert is_right(graph, batch, 0, number)
        if number in (0, 3, BATCHES - 1):
            other.set_epoch(0)
            made = list(other)
            assert len(made) == len(plain) == 3
            assert all(torch.equal(a.x, b.x) for a, b in zip(made, plain, strict=True))
        assert loader.state_dict()["epoch"] == (0 if number < BATCHES - 1 else 1)
    for ours, theirs in zip(other, loader, strict=False):  # and side by side
        assert torch.equal(ours.x, torch.from_numpy(graph.features[ours.n_id.numpy()]))
        assert is_right(graph, theirs, 1, theirs.number)


def test_a_loop_that_was_left_and_is_kept_goes_on(graph, loader):
    kept = iter(loader)
    assert is_right(graph, next(kept), 0, 0)
    assert whole(graph, loader, 1)
    assert is_right(graph, next(kept), 0, 1)
    assert is_right(graph, next(iter(loader)), 1, 0)
    assert whole(graph, kept, 0, 2)


def test_a_loop_collected_by_another_thread(graph, loader):
    class Ring:
        pass

    ring = Ring()
    ring.loop, ring.self = iter(loader), ring
    assert is_right(graph, next(ring.loop), 0, 0)
    del ring
    collector = threading.Thread(target=gc.collect)
    collector.start()
    collector.join()
    assert whole(graph, loader, 1)


def test_a_loop_collected_by_a_thread_that_makes_its_batches(graph, loader, monkeypatch):
    """The sampler collects the loop that it samples for; nobody waits for himself."""
    if loader.layout is not None and loader._source.topology is not None:
        pytest.skip("the sampler is not asked where neighbour lists are on disk")
    assert expected(graph, 0) and expected(graph, 1)  # made before the sampler is replaced
    sample = type(loader.sampler).sample_bulk
    dropped, collected = threading.Event(), threading.Event()
    late, taken = 5, 4 if loader.layout is None else 1  # bulks of 1, 2, 2, ...
    if loader.layout is not None and loader.layout.caching == "repack":
        late, taken = 6, 2  # of 2

    def sample_bulk(self, *arguments, **options):
        if options["first_batch"] == late and not collected.is_set():
            assert dropped.wait(600)
            gc.collect()
            collected.set()
        return sample(self, *arguments, **options)

    monkeypatch.setattr(type(loader.sampler), "sample_bulk", sample_bulk)
    gc.disable()
    try:
        ring = [iter(loader)]
        ring.append(ring)
        for number in range(taken):  # where that bulk is made next
            assert is_right(graph, next(ring[0]), 0, number)
        del ring
        dropped.set()
        assert collected.wait(600)
    finally:
        gc.enable()
    assert orphans() == []
    assert whole(graph, loader, 1)


def test_looping_inside_a_transform(graph, loader):
    plain = iter(loader)

    def transform(batch):
        if batch.number == 2:
            inner = loader.beside(range(500, 520), 20)
            inner.transform = None
            assert [len(one.seed_id) for one in inner] == [20]
        return batch

    del plain
    loader.transform = transform
    assert whole(graph, loader, 0)


def test_an_error_in_a_transform(graph, loader):
    def broken(batch):
        if batch.number == 3:
            raise ZeroDivisionError
        return batch

    loader.transform = broken
    with pytest.raises(ZeroDivisionError) as caught:
        whole(graph, loader, 0)
    loader.transform = None
    assert whole(graph, loader, 1)  # while the traceback holds the loop that failed
    assert caught.type is ZeroDivisionError


def test_closed_in_the_middle(graph, loader):
    loop = iter(loader)
    assert is_right(graph, next(loop), 0, 0)
    loader.close()
    assert orphans(0.0) == [] or loader._turns is None
    assert whole(graph, loop, 0, 1)
    loader.close()
    assert whole(graph, loader, 1)


def test_set_epoch_in_the_middle_is_for_the_next_loop(graph, loader):
    for number, batch in enumerate(loader):
        assert is_right(graph, batch, 0, number)
        if number == 2:
            loader.set_epoch(5)
    assert loader.epoch == 5 and whole(graph, loader, 5)
    assert loader.epoch == 6


def test_load_state_dict_in_the_middle_is_for_the_next_loop(graph, loader):
    state = {**loader.state_dict(), "epoch": 2, "batch": 3}
    loop = iter(loader)
    assert is_right(graph, next(loop), 0, 0)
    loader.load_state_dict(state)
    assert whole(graph, loop, 0, 1)
    assert loader.state_dict()["batch"] == 3 and whole(graph, loader, 2, 3)


def test_state_is_that_of_the_loop_that_yielded_last(graph, loader):
    outer, inner = iter(loader), None
    next(outer)
    inner = iter(loader)
    next(inner), next(inner), next(outer)
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 2)
    del outer, inner
    resumed = loader_of(graph, "memory")
    resumed.load_state_dict(state)
    assert whole(graph, resumed, 0, 2)


def test_a_signals_handler_that_closes_the_loader_while_it_waits(graph, loader):
    """SIGALRM comes while the main thread waits for the first batch of a slow sampler."""
    original, waited = Loader._produce, threading.Event()

    def slow(self, *arguments):
        producer = original(self, *arguments)
        take = producer.take

        def take_after_an_alarm():
            if not waited.is_set():
                waited.set()
                os.kill(os.getpid(), signal.SIGALRM)
            return take()

        producer.take = take_after_an_alarm
        return producer

    before = signal.signal(signal.SIGALRM, lambda *_: loader.close())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Loader, "_produce", slow)
            assert whole(graph, loader, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert waited.is_set()


# ---- other processes ---------------------------------------------------------------------------


def test_a_loader_is_not_pickled_or_copied_deeply(loader):
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(InputError, match="cannot be copied or pickled; save state_dict"):
            attempt(loader)
    assert copy.copy(loader).seed == loader.seed


def in_a_fork(work) -> str:
    """What `work` returns in a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_in_the_middle(graph, loader):
    loop = iter(loader)
    assert is_right(graph, next(loop), 0, 0)
    said = in_a_fork(lambda: str(next(loop)))
    assert said == f"{ForegatherError.__name__}: the loader's thread is not in this process; " + (
        "start a new loop here"
    )
    said = in_a_fork(lambda: str(is_right(graph, next(iter(loader)), 1, 0)))
    if loader.layout is None:
        assert said == "True"
    else:
        assert said.startswith("InputError: this Loader reads from disk with threads of process")
    assert whole(graph, loop, 0, 1)


def test_workers_of_a_torch_data_loader(graph, loader, monkeypatch):
    class Worker:
        num_workers = 2

    monkeypatch.setattr(sys.modules["torch.utils.data"], "get_worker_info", Worker)
    with pytest.raises(InputError, match="in each of 2 workers of a torch DataLoader"):
        iter(loader)
