"""Lists of edges that are made with a batch, in its thread, equal those that a model makes."""

import pickle
import threading

import pytest
import torch

from foregather import BatchContents, Loader, _core
from foregather.loader.batches.hop_counts import recall
from foregather.loader.batches.lists_ahead import ListsAhead, list_bytes
from foregather.loader.memory.budget import Budget, LoaderNeed
from foregather.loader.prefetch import THREAD_NAME
from foregather.nn import SAGE, accelerate
from foregather.nn.accelerated.hops import Hops, ask_ahead
from foregather.nn.aggregate import Neighborhoods
from foregather.train.fit import Training, evaluate, fit
from tests.loader.loops import STORAGES, loader_of, small_folder
from tests.some import some


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("lists") / "graph")


@pytest.fixture
def built(monkeypatch):
    """What made lists, of how many edges, in which thread; appended to as it happens."""
    found = []

    def counted(name, place):
        real = getattr(_core, name)

        def call(*given):
            found.append((name, given[place], threading.current_thread().name))
            return real(*given)

        monkeypatch.setattr(_core, name, call)

    counted("lists_by_target", 2)
    counted("lists_by_source", 3)
    return found


def made(graph, layers=2):
    torch.manual_seed(0)
    return accelerate(SAGE([graph.features.width, *[8] * (layers - 1), 3], dropout=0.0))


def train(fast, loader):
    """The losses of an epoch, and its last gradients."""
    losses = []
    for batch in some(loader):
        fast.zero_grad()
        loss = fast(batch.x, batch.edge_index)[: batch.batch_size].square().mean()
        loss.backward()
        losses.append(loss.detach())
    assert fast.plain is None, fast.plain
    return [*losses, *(weight.grad for weight in fast.parameters())]


@pytest.mark.parametrize("storage", STORAGES)
def test_the_loop_makes_none_once_a_model_was_called(graph, built, storage):
    fast, loader = made(graph), loader_of(graph, storage)
    train(fast, loader)
    built.clear()
    train(fast, loader)
    assert {thread for *_, thread in built} == {THREAD_NAME}
    names = [name for name, *_ in built]
    assert names.count("lists_by_target") == names.count("lists_by_source") == len(loader)
    assert "lists of edges: made with batches" in loader.explain()


@pytest.mark.parametrize("storage", STORAGES)
def test_they_change_no_bit(graph, monkeypatch, storage):
    fast, loader = made(graph), loader_of(graph, storage)
    ahead = [train(fast, loader) for _ in range(2)]
    monkeypatch.setattr(ListsAhead, "prepare", lambda *_: None)
    fast, loader = made(graph), loader_of(graph, storage)
    late = [train(fast, loader) for _ in range(2)]
    for one, other in some(zip(ahead, late, strict=True)):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("pyg", "edges"), [(False, "tensor"), (True, "tensor"), (True, "EdgeIndex")]
)
def test_they_equal_those_made_late_and_are_as_large_as_counted(graph, pyg, edges):
    pytest.importorskip("torch_geometric")
    contents = BatchContents(pyg=pyg, edge_index=edges)
    loader = loader_of(graph, "memory", contents=contents)
    ask_ahead(loader)
    largest = 0
    for batch in some(loader):
        counts = recall(batch.edge_index)
        assert isinstance(counts.checked, Hops)
        nodes = sum(batch.num_sampled_nodes)
        got = counts.checked.neighborhoods(nodes, nodes)
        assert got.has_by_source
        other = Neighborhoods.of(torch.Tensor(batch.edge_index).long(), nodes, nodes)
        lists = [_tensors(got), _tensors(other)]
        assert all(torch.equal(a, b) for a, b in zip(*lists, strict=True))
        nbytes = sum(one.nbytes for one in lists[0])
        assert list_bytes(nodes, got.num_edges, True) == nbytes
        assert list_bytes(nodes, got.num_edges, False) == sum(x.nbytes for x in lists[0][:2])
        largest = max(largest, nbytes)
    assert loader._maker.ahead.largest == loader._source._beside.lists == largest
    assert "of lists" in loader.explain()


def _tensors(lists):
    by_source = lists.by_source
    return lists.indptr, lists.source, by_source.ptr, by_source.edge, by_source.target


def test_a_batch_shows_nothing_of_them(graph):
    pytest.importorskip("torch_geometric")
    plain, asked = (loader_of(graph, "memory", contents=BatchContents()) for _ in range(2))
    ask_ahead(asked)
    for one, other in some(zip(plain, asked, strict=True)):
        assert recall(other.edge_index).checked is not None
        assert one.to_dict().keys() == other.to_dict().keys()
        assert len(pickle.dumps(one)) == len(pickle.dumps(other))
        assert other.clone().to("cpu").edge_index.equal(one.edge_index)


def test_a_loop_begins_with_what_the_last_one_used(graph, built):
    fast, loader = made(graph), loader_of(graph, "memory")
    train(fast, loader)
    for _ in range(2):  # the first still has them, and nobody uses them
        built.clear()
        list(loader)
    assert not built
    ask_ahead(loader)
    with torch.no_grad():
        for _ in range(2):
            built.clear()
            for batch in some(loader):
                fast(batch.x, batch.edge_index)
    assert {(name, thread) for name, _, thread in built} == {("lists_by_target", THREAD_NAME)}


def test_one_layer_needs_no_lists_by_source(graph, built):
    fast, loader = made(graph, 1), Loader(graph, [3], range(160), 20)
    ask_ahead(loader)
    for _ in range(2):
        built.clear()
        train(fast, loader)
    assert {name for name, *_ in built} == {"lists_by_target"}


def test_fit_has_them_made_from_the_first_batch_on(graph, built):
    fast = made(graph)
    loader = loader_of(graph, "memory", prefetch=1)
    sizes = [batch.num_edges for batch in loader]
    loader.set_epoch(0)
    model = fast.accelerated_model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    fit(Training(model, loader, optimizer, fast=fast), 1)
    own = [(name, edges) for name, edges, thread in built if thread == THREAD_NAME]
    expected = [(name, n) for n in sizes for name in ("lists_by_target", "lists_by_source")]
    assert own == expected
    # the proof is made of a small batch
    assert all(edges < min(sizes) for _, edges, thread in built if thread != THREAD_NAME)


def test_evaluation_beside_asks_for_itself(graph, built):
    fast, loader = made(graph), loader_of(graph, "memory")
    train(fast, loader)
    beside = loader.beside(range(160, 240), 20)
    for _ in range(2):
        built.clear()
        evaluate(fast.accelerated_model, beside, fast=fast)
    assert {(name, thread) for name, _, thread in built} == {("lists_by_target", THREAD_NAME)}


@pytest.mark.parametrize("storage", ["held", "features"])
def test_without_room_in_the_budget_the_model_makes_them(graph, built, monkeypatch, storage):
    loader, fast = loader_of(graph, storage), made(graph)
    expected = train(made(graph), loader_of(graph, storage))
    ask_ahead(loader)
    _take_room(loader, storage, monkeypatch)
    got = train(fast, loader)
    assert THREAD_NAME not in {thread for *_, thread in built[len(built) // 2 :]}
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert loader._maker.ahead.largest == 0
    assert "memory has no room beside batches" in loader.explain()


def _take_room(loader, storage, monkeypatch):
    """Leaves a few bytes for each batch, which is what it needs itself."""
    if storage == "held":
        real = Budget.check
        monkeypatch.setattr(Budget, "check", lambda *given: min(real(*given), 100))
        return
    from foregather.loader.disk import disk_run

    real_check = disk_run._check
    monkeypatch.setattr(disk_run, "_check", lambda *given: min(real_check(*given), 100))


def test_the_room_is_what_a_budget_has_left():
    need = LoaderNeed(tables=1000, sample=100, batch=1600, prefetch=2)
    budget = Budget(20_000, need)
    room = budget.check(bulk=200, batch=1600)
    assert room == (20_000 - 1000 - 200 - 4 * 1600 * 9 // 8) // 4
    assert 1000 + 200 + 4 * (1600 * 9 // 8 + room) <= 20_000


def test_the_room_beside_batches_from_disk_is_within_their_share(graph, monkeypatch):
    from foregather.loader.disk import disk_run

    real, rooms = disk_run._check, []

    def check(layout, nbytes, scratch):
        room = real(layout, nbytes, scratch)
        assert layout.flight * (nbytes + max(0, room)) <= layout.shares["batches"]
        rooms.append(room)
        return room

    monkeypatch.setattr(disk_run, "_check", check)
    list(loader_of(graph, "features"))
    assert max(rooms) > 0
