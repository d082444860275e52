"""Small bulks made at once: the batches of the plain way, bit for bit, each with its own memory."""

import gc
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foregather import BatchContents, Graph, Loader
from foregather.loader.batches import pyg_batch
from foregather.loader.batches.joined import can_join, join_batches
from foregather.loader.lookahead import growing_bulks
from foregather.loader.memory.beside import Beside
from foregather.loader.prefetch import ListPrefetcher
from foregather.sampling import Labor, Neighbor
from tests.loader.graphs import small_graph
from tests.some import some

PLAIN = BatchContents(pyg=False, edge_attr=False)
LABELS = ("int8", "uint16", "int32", "int64", "uint64", ">i4", "float32", None)


def graph_of(labels="int64", wide=False, nodes=90, edges=700, seed=0) -> Graph:
    rng = np.random.default_rng(seed)
    y = None if labels is None else rng.integers(0, 5, nodes).astype(labels)
    x = rng.random((nodes, 5), np.float32)
    graph = Graph.from_edge_index(rng.integers(0, nodes, (2, edges)), nodes, x=x, y=y)
    if not wide:
        return graph
    indices = graph.indices.astype(np.int64)
    return Graph(nodes, edges, graph.indptr, indices, graph.features, labels=graph.labels)


def assert_equal(one, other) -> None:
    """All fields, dtypes and strides too."""
    for name in some(f.name for f in fields(one)):
        a, b = getattr(one, name), getattr(other, name)
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), name
            assert a.is_contiguous() and b.is_contiguous()
        else:
            assert a == b and type(a) is type(b), name


def both_ways(loader, epoch, start, count):
    maker = loader._home.furnish(loader._maker)
    assert can_join(maker)
    joined = join_batches(maker, epoch, start, count)
    calls = maker._one_by_one(epoch, start, count, [0], Beside())
    return joined, [batch for call in calls for batch in call()]


@given(data=st.data())
def test_batches_are_those_of_the_plain_way(data):
    graph = graph_of(data.draw(st.sampled_from(LABELS)), data.draw(st.booleans()))
    ids = st.lists(st.integers(0, 89), min_size=1, max_size=60)  # repeats, too
    mask = np.arange(90) % 3 == 0
    inputs = data.draw(st.one_of(st.none(), ids, st.just(mask)))
    rule = data.draw(
        st.sampled_from(
            (
                Neighbor([4, 3]),
                Neighbor([-1]),
                Neighbor([3, 2], replace=True),
                Neighbor([3], weights=np.ones(700, np.float32)),
                Labor([4, 3], debias=None),
            )
        )
    )
    options = {"shuffle": data.draw(st.booleans()), "drop_last": data.draw(st.booleans())}
    contents = BatchContents(pyg=False, labels=data.draw(st.sampled_from(["all", "seeds"])))
    size = data.draw(st.integers(1, 20))
    loader = Loader(graph, None, inputs, size, sampler=rule, contents=contents, **options)
    if len(loader):
        start = data.draw(st.integers(0, len(loader) - 1))
        made = both_ways(loader, data.draw(st.integers(0, 3)), start, data.draw(st.integers(1, 9)))
        assert len(made[0]) >= 1
        for one, other in zip(*made, strict=True):
            assert_equal(one, other)


def test_each_tensor_has_memory_of_its_own():
    """No tensor of a batch is changed by writing to another, or saved with the rest of the bulk."""
    loader = Loader(graph_of(), [4, 3], None, 10, contents=PLAIN)
    batches, again = both_ways(loader, 0, 0, 8)
    spans = []
    for batch in some(batches):
        for name in ("n_id", "x", "y", "edge_index", "e_id", "input_id", "seed_id"):
            tensor = getattr(batch, name)
            assert tensor.untyped_storage().nbytes() == tensor.nbytes
            spans.append((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes))
    spans.sort()
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    batches[0].seed_id.fill_(-1)
    batches[0].n_id.fill_(-1)
    for one, other in some(zip(batches[1:], again[1:], strict=True)):
        assert_equal(one, other)


def test_what_is_kept_stays_as_it_was(monkeypatch):
    """Also where the memory of released batches is used again at once."""
    monkeypatch.setattr("foregather.loader.batches.array_pool._SMALL", 0)
    loader, kept = Loader(graph_of(), [4, 3], None, 10, contents=PLAIN, shuffle=True), []
    for _ in range(4):
        for batch in some(loader):
            parts = (batch.x, batch.y[1:], batch.edge_index[:, 1:])
            kept.append([(part, part.clone()) for part in parts])
            del batch
            gc.collect()
    for part, copy in some(pair for pairs in kept for pair in pairs):
        assert torch.equal(part, copy)


@pytest.mark.parametrize(
    "options",
    [
        {"contents": BatchContents(pyg=False, norm="gcn")},
        {"contents": BatchContents(pyg=False)},  # the graph has edge features
        {"disjoint": True},
        {"expand": "per-layer"},
        {"memory": "1GB"},
        {"sampler": Labor([3])},
    ],
)
def test_others_are_not_joined(options):
    settings = {"contents": PLAIN, **options}
    if "sampler" not in options:
        settings["num_neighbors"] = [3]
    loader = Loader(small_graph(), **settings)
    assert not can_join(loader._home.furnish(loader._maker))
    assert can_join(Loader(small_graph(), [3], contents=PLAIN)._maker)


def test_a_sampler_of_ones_own_is_asked():
    class Counted(Neighbor):
        asked = 0

        def sample_bulk(self, *arguments, **options):
            Counted.asked += 1
            return super().sample_bulk(*arguments, **options)

    loader = Loader(graph_of(), sampler=Counted([3, 2]), batch_size=10, contents=PLAIN)
    plain = Loader(graph_of(), [3, 2], batch_size=10, contents=PLAIN)
    for one, other in some(zip(loader, plain, strict=True)):
        assert_equal(one, other)
    assert Counted.asked == 4  # bulks of 1, 2, 4 and 2


@given(st.integers(0, 50), st.integers(0, 60), st.integers(1, 20))
def test_bulks_grow_and_cover_all(first, end, bulk):
    made = list(growing_bulks(first, end, lambda: bulk))
    assert [n for start, count in made for n in range(start, start + count)] == [*range(first, end)]
    sizes = [count for _, count in made]
    assert sizes[:-1] == [min(bulk, 2**i) for i in range(len(sizes))][:-1]
    assert all(0 < size <= bulk for size in sizes)


def test_large_samples_are_made_few_at_a_time(monkeypatch):
    asked = []
    sample = Neighbor.sample_bulk

    def counted(self, graph, seeds, **options):
        asked.append(len(seeds))
        return sample(self, graph, seeds, **options)

    monkeypatch.setattr(Neighbor, "sample_bulk", counted)
    options = {"batch_size": 2, "contents": PLAIN, "bulk": 8, "threads": 4}
    plain = list(Loader(graph_of(), [3, 2], **options))
    assert asked == [1, 2, 4, 8, 8, 8, 8, 6]
    asked.clear()
    monkeypatch.setattr("foregather.loader.batch_recipe._LARGE_SAMPLE", 1)
    few = list(Loader(graph_of(), [3, 2], **options))
    assert asked == [1, *[2] * 22]
    for one, other in some(zip(few, plain, strict=True)):
        assert_equal(one, other)


def test_what_is_held_beside_the_graph_is_stated():
    loader = Loader(graph_of(), [4, 3], None, 10, contents=PLAIN, prefetch=3)
    assert loader.explain() == "all of the graph is in memory"
    largest = max(batch.nbytes for batch in some(loader))
    beside = loader._source._beside
    assert 0 < beside.batch <= largest and beside.tables > 0
    assert beside.total(3) == beside.tables + beside.together * beside.sample + 4 * beside.batch
    assert "; beside it up to " in loader.explain() and "(prefetch 3)" in loader.explain()


def calls(*lists):
    """A function for each list."""
    return iter([lambda one=one: one for one in lists])


@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_lists_are_taken_one_by_one(capacity):
    made = ListPrefetcher(calls(["a"], ["b", "c", "d"], ["e"]), capacity)
    made.start()
    taken = [made.take() for _ in range(3)]
    assert taken == ["a", "b", "c"]
    rest = [made.take() for _ in range(4)]
    assert rest == ["d", "e", None, None]
    made.close()
    made = ListPrefetcher(calls(["a", "b"]), capacity)
    made.start()
    assert made.take() == "a"
    made.close()
    assert made.take() is None  # what was taken and not asked for is dropped


def test_data_is_that_of_setting_each_field(monkeypatch):
    batch = next(iter(Loader(graph_of(), [3], batch_size=8, contents=PLAIN)))
    kind, direct = pyg_batch._data_class()
    assert direct, "PyG's store is no mapping any more"
    quick = pyg_batch.to_pyg(batch)
    monkeypatch.setattr(pyg_batch, "_data_class", lambda: (kind, False))
    slow = pyg_batch.to_pyg(batch)
    assert list(quick.keys()) == list(slow.keys()) and repr(quick) == repr(slow)
    assert quick.num_nodes == slow.num_nodes == batch.num_nodes and quick.batch is None
    quick.extra = 1
    assert "extra" in quick and "extra" not in slow
