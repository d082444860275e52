"""The store: `store[ids]` equals `features[ids]`, within its memory, with SIEVE's decisions."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foregather import BudgetError, FormatError, Graph, InputError, StorageError, _core
from foregather.gather.feature_file import FeatureFile
from foregather.gather.store import Store, open_store, open_stores
from tests.gather.files import random_rows, working, write_rows

PAGE = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def make_graph(path, dtype="float32", width=20, edge_width=3):
    random = np.random.default_rng(0)
    edges = random.integers(0, 300, (2, 900))
    graph = Graph.from_edge_index(
        edges,
        300,
        x=random_rows(dtype, 300, width),
        edge_attr=random_rows("float32", 900, edge_width),
    )
    graph.save(path)
    return Graph.open(path)


calls = st.lists(st.lists(st.integers(0, 299), max_size=80), min_size=1, max_size=6)


@settings(max_examples=50)
@given(
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    width=st.sampled_from([1, 7, 128, 3000]),
    calls=calls,
    slots=st.sampled_from([1, 5, 60, 400]),
    gap=st.sampled_from([0, PAGE, 1 << 16]),
    kind=st.sampled_from([np.int64, np.uint32, list]),
)
def test_equals_features(folder, dtype, width, calls, slots, gap, kind):
    rows = random_rows(dtype, 300, width)
    scale = np.random.default_rng(1).random(width, np.float32) if dtype == "int8" else None
    file = write_rows(folder / "features.npy", rows, scale)
    wanted = rows if scale is None else rows.astype(np.float32) * scale
    least = -(-file.row_bytes // PAGE) * PAGE + PAGE
    memory = least + slots * (file.row_bytes + _core.CallPlanner.SLOT_BYTES)
    for backend in working(folder):
        with Store(file, memory, backend=backend, gap=gap) as store:
            assert store.memory_bytes <= memory
            for ids in calls:
                asked = list(ids) if kind is list else np.array(ids, kind)
                out = store[asked]
                assert out.dtype == store.dtype
                np.testing.assert_array_equal(out, wanted[np.array(ids, np.int64)])
            counted = store.counters()
            assert counted["rows"] == sum(len(set(ids)) for ids in calls)
            assert counted["steps"] == len(calls)


class SlowSieve:
    """SIEVE in words: a list from oldest to newest, visited rows, a hand."""

    def __init__(self, slots):
        self.slots, self.order, self.visited, self.hand = slots, [], set(), 0

    def call(self, rows):
        hits = [row for row in rows if row in self.order]
        self.visited |= set(hits)
        fresh = []
        for row in rows:
            if row in hits or len(fresh) == self.slots:
                continue
            if len(self.order) == self.slots:
                self.evict(fresh)
            self.order.append(row)
            fresh.append(row)
        return hits

    def evict(self, fresh):
        while True:
            if self.hand >= len(self.order):
                self.hand = 0
            row = self.order[self.hand]
            if row in self.visited or row in fresh:
                self.visited.discard(row)
                self.hand += 1
                continue
            self.order.pop(self.hand)
            if self.hand == len(self.order):  # it was the newest: the hand begins again
                self.hand = 0
            return


@settings(max_examples=100)
@given(st.integers(1, 12), st.lists(st.sets(st.integers(0, 40), max_size=15), max_size=30))
@example(
    11, [{*range(1, 7), 20, 22, 23}, {19, 21}, {*range(1, 7), 19, 20, 22, 23, 24}, {0}]
)  # the newest row goes
def test_decisions_are_those_of_sieve(slots, batches):
    geometry = _core.Geometry(41, 512, PAGE, 8 * PAGE, PAGE)
    planner = _core.CallPlanner(geometry, slots, 0, 1 << 20)
    slow = SlowSieve(slots)
    held = {}
    for batch in batches:
        rows = sorted(batch)
        plan, inverse = planner.plan(np.array(rows, np.int64))
        assert inverse is None
        hits = slow.call(rows)
        assert [rows[k] for k in plan.hit_position] == hits
        assert [held[slot] for slot in plan.hit_slot] == hits
        for row, slot in zip(plan.copy_row, plan.copy_slot, strict=True):
            if slot != 0xFFFFFFFF:
                held[int(slot)] = int(row)
        assert sorted(held.values()) == sorted(slow.order)


def test_reads_are_sorted_merged_and_short(folder):
    file = write_rows(folder / "features.npy", random_rows("float32", 300, 1024))  # a row a page
    planner = _core.CallPlanner(file.geometry(), 0, PAGE, 4 * PAGE)
    plan, _ = planner.plan(np.array([90, 3, 1, 200, 201, 202, 203, 204, 91]))
    pages = [
        (int(o) // PAGE - 1, int(n) // PAGE)
        for o, n in zip(plan.request_offset, plan.request_length, strict=True)
    ]
    assert pages == [(1, 3), (90, 2), (200, 4), (204, 1)]


def test_repeats(folder):
    rows = random_rows("float32", 300, 8)
    file = write_rows(folder / "features.npy", rows)
    with Store(file, 1 << 20) as store:
        ids = [7, 7, 3, 7, 299, 3]
        np.testing.assert_array_equal(store[ids], rows[ids])
        out = torch.empty(6, 8)
        assert store.gather(torch.tensor(ids), out) is out
        np.testing.assert_array_equal(out.numpy(), rows[ids])
        assert store.counters()["hits"] == 3 and store.counters()["requests"] <= 3
        np.testing.assert_array_equal(store[5:40:7], rows[5:40:7])
        np.testing.assert_array_equal(store[[]], rows[[]])


def test_bad_ids_and_out(folder):
    rows = random_rows("float32", 300, 8)
    file = write_rows(folder / "features.npy", rows)
    with Store(file, 1 << 20) as store:
        for ids in (np.array([0, 300]), np.array([0, 300], np.uint32)):
            with pytest.raises(InputError, match="300 at position 1, but there are 300 rows"):
                store[ids]
        with pytest.raises(InputError, match="position 1"):
            store[[0, -1]]
        with pytest.raises(InputError, match=r"expected a contiguous tensor of shape \[1, 8\]"):
            store.gather([0], torch.empty(2, 8))
        with pytest.raises(InputError, match="out is float64"):
            store.gather([0], torch.empty(1, 8, dtype=torch.float64))
        np.testing.assert_array_equal(store[[1]], rows[[1]])  # it goes on
        assert store.shape == (300, 8) and len(store) == 300 and store.dtype == np.float32
        assert "300 x 8 float32 on disk" in repr(store)


def test_threads(folder):
    rows = random_rows("float32", 300, 8)
    file = write_rows(folder / "features.npy", rows)
    wrong = []
    with Store(file, 20_000) as store:

        def work(seed):
            random = np.random.default_rng(seed)
            for _ in range(30):
                ids = random.integers(0, 300, 40)
                if not np.array_equal(store[ids], rows[ids]):
                    wrong.append(ids)

        group = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()
    assert not wrong


def test_open_store_of_a_folder(tmp_path):
    graph = make_graph(tmp_path / "g.fg", "float16")
    with open_store(graph, "1MB") as store:
        np.testing.assert_array_equal(store[[5, 1]], graph.features[[5, 1]])
        assert store.memory_bytes <= 1_000_000 and store.num_slots == 300
    with open_store(graph, "1MB", dtype="float32") as store:
        np.testing.assert_array_equal(store[[5]], graph.features[[5]].astype(np.float32))
    with open_store(graph, "1MB", "edge_features") as store:
        np.testing.assert_array_equal(store[[800]], graph.edge_features[[800]])
    with pytest.raises(BudgetError, match="need at least 8277 bytes"):
        open_store(graph, 8000)
    with open_store(graph, 8277) as store:
        np.testing.assert_array_equal(store[[5, 1, 250]], graph.features[[5, 1, 250]])


def test_several_under_one_budget(tmp_path):
    graph = make_graph(tmp_path / "g.fg", width=100)
    stores = open_stores(graph, 60_000)
    assert sum(store.memory_bytes for store in stores.values()) <= 60_000
    np.testing.assert_array_equal(stores["features"][[9, 2]], graph.features[[9, 2]])
    np.testing.assert_array_equal(stores["edge_features"][[9]], graph.edge_features[[9]])
    assert stores["features"].memory_bytes > stores["edge_features"].memory_bytes
    given = open_stores(graph, 60_000, split={"features": 1, "edge_features": 9})
    assert given["features"].num_slots < stores["features"].num_slots
    with pytest.raises(InputError, match="one positive share for each of"):
        open_stores(graph, 60_000, split={"features": 1})
    with pytest.raises(BudgetError, match="features, edge_features need at least"):
        open_stores(graph, 10_000)
    large = open_stores(graph, "1GB")  # more than they can use: every row, and no more
    assert {name: store.num_slots for name, store in large.items()} == {
        "features": 300,
        "edge_features": 900,
    }
    for group in (stores, given, large):
        for store in group.values():
            store.close()


def test_what_has_no_file(tmp_path):
    graph = make_graph(tmp_path / "g.fg")
    memory = Graph.from_edge_index(np.array([[0], [1]]), 2, x=np.ones((2, 3), np.float32))
    with pytest.raises(InputError, match="are in memory, not in a folder"):
        open_store(memory, "1MB")
    bare = Graph.from_edge_index(np.array([[0], [1]]), 2)
    with pytest.raises(InputError, match="the graph has no features"):
        open_store(bare, "1MB")
    with pytest.raises(InputError, match="expected 'features' or 'edge_features'"):
        FeatureFile.of(graph, "labels")
    path = tmp_path / "g.fg" / "features.npy"
    write_rows(path, random_rows("float32", 300, 21))
    with pytest.raises(FormatError, match=r"features\.npy holds float32 of shape \[300, 21\]"):
        open_store(graph, "1MB")
    path.unlink()
    with pytest.raises(StorageError, match="cannot open features.npy"):
        open_store(graph, "1MB")


def test_one_node(tmp_path):
    graph = Graph.from_edge_index(np.zeros((2, 1), np.int64), 1, x=np.ones((1, 1), np.float32))
    graph.save(tmp_path / "one.fg")
    with open_store(Graph.open(tmp_path / "one.fg"), "1MB") as store:
        np.testing.assert_array_equal(store[[0, 0, 0]], np.ones((3, 1)))


def test_a_changed_file_ends_the_store(tmp_path):
    graph = make_graph(tmp_path / "g.fg")
    with open_store(graph, "1MB") as store:
        store[[1]]
        with open(tmp_path / "g.fg" / "features.npy", "r+b") as writing:
            writing.seek(PAGE)
            writing.write(b"x")
        with pytest.raises(StorageError, match="was written to since it was opened; verify it"):
            store[[1]]
