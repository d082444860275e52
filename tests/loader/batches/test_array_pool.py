"""ArrayPool: memory is used again, and never while anybody holds it."""

import gc
import itertools
import threading
import weakref

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from foregather.loader.batches.array_pool import ArrayPool, shared_pool
from tests.loader.test_loader import plain

BIG = 1 << 20  # items of 4 bytes


def address(array) -> int:
    return torch.as_tensor(array).data_ptr()


def test_memory_comes_back_when_the_last_tensor_is_gone():
    pool = ArrayPool()
    tensor = torch.from_numpy(pool.empty((BIG,), np.float32))
    where, view = tensor.data_ptr(), tensor[5:9].numpy()
    del tensor
    gc.collect()
    other = pool.empty((BIG,), np.float32)
    assert address(other) != where and pool.nbytes == 0  # the view still holds it
    del view
    gc.collect()
    assert pool.nbytes >= 4 * BIG
    assert address(pool.empty((BIG - 9,), np.float32)) == where


def test_shapes_dtypes_and_small_arrays():
    pool = ArrayPool()
    made = pool.empty((3, BIG), np.int16)
    assert made.shape == (3, BIG) and made.dtype == np.int16 and made.flags.c_contiguous
    small = pool.empty((2, 0), np.int64)
    assert small.shape == (2, 0)
    del made, small
    gc.collect()
    assert pool.nbytes > 0


def test_blocks_that_are_too_small_are_replaced_and_few_are_kept():
    pool = ArrayPool()
    for size in range(20):
        pool.empty((BIG + size * BIG // 8,), np.uint8)
        assert pool.nbytes < 8 * BIG, "sizes that grow leave blocks behind"
    held = [pool.empty((BIG,), np.uint8) for _ in range(100)]
    del held
    gc.collect()
    assert pool.nbytes <= 32 * 2 * BIG


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=40))
def test_arrays_in_use_never_overlap(steps):
    pool, held = ArrayPool(), []
    for drop, size in steps:
        if drop and held:
            held.pop(size % len(held))
        array = pool.empty((size * BIG // 4,), np.uint8)
        array[::4096] = len(held) % 251
        held.append(array)
    spans = sorted((address(array), address(array) + array.nbytes) for array in held)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_a_block_that_is_about_to_come_back_is_waited_for(monkeypatch):
    """A consumer drops a batch just after it asked for the next; no block is made for that."""
    monkeypatch.setattr("foregather.loader.batches.array_pool._LARGE", 1 << 20)
    monkeypatch.setattr("foregather.loader.batches.array_pool._WAITS", 10**6)
    pool = ArrayPool()
    held = [pool.empty((BIG,), np.float32)]
    where = address(held[0])
    dropper = threading.Timer(0.05, held.clear)
    dropper.start()
    again = pool.empty((BIG,), np.float32)
    dropper.join()
    assert address(again) == where


def test_nothing_is_waited_for_in_vain_for_long():
    pool = ArrayPool()
    pages = 16 << 20
    held = [pool.empty((pages,), np.uint8) for _ in range(3)]  # the first when nothing is lent
    assert len({address(one) for one in held}) == 3


def test_loaders_share_a_pool_as_long_as_there_is_one():
    one, other = plain(), plain()
    pool = one._maker.assembler._pool
    assert other._maker.assembler._pool is pool is shared_pool()
    seen = weakref.ref(pool)
    del one, other, pool
    gc.collect()
    assert seen() is None or seen() is shared_pool()  # others of this process may hold it


def test_batches_that_are_kept_stay_as_they_were(monkeypatch):
    monkeypatch.setattr("foregather.loader.batches.array_pool._SMALL", 0)
    kept, copies = [], []
    loader = plain(bulk=2)
    for _ in range(3):
        for batch in loader:
            kept.append((batch.x, batch.edge_index[:, 1:], batch.y))
            copies.append([tensor.clone() for tensor in kept[-1]])
    assert len(kept) == 21
    for tensors, before in zip(kept, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))
