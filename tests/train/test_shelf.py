"""Shelf: memory is used again, and never while anybody holds it."""

import gc
import itertools

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from foregather.train.shelf import Shelf
from tests.train.test_loader import plain

BIG = 1 << 20  # items of 4 bytes


def address(array) -> int:
    return torch.as_tensor(array).data_ptr()


def test_memory_comes_back_when_the_last_tensor_is_gone():
    shelf = Shelf()
    tensor = torch.from_numpy(shelf.empty((BIG,), np.float32))
    where, view = tensor.data_ptr(), tensor[5:9].numpy()
    del tensor
    gc.collect()
    other = shelf.empty((BIG,), np.float32)
    assert address(other) != where and shelf.nbytes == 0  # the view still holds it
    del view
    gc.collect()
    assert shelf.nbytes >= 4 * BIG
    assert address(shelf.empty((BIG - 9,), np.float32)) == where


def test_shapes_dtypes_and_small_arrays():
    shelf = Shelf()
    made = shelf.empty((3, BIG), np.int16)
    assert made.shape == (3, BIG) and made.dtype == np.int16 and made.flags.c_contiguous
    small = shelf.empty((2, 0), np.int64)
    assert small.shape == (2, 0)
    del made, small
    gc.collect()
    assert shelf.nbytes > 0


def test_blocks_that_are_too_small_are_replaced_and_few_are_kept():
    shelf = Shelf()
    for size in range(20):
        shelf.empty((BIG + size * BIG // 8,), np.uint8)
        assert shelf.nbytes < 8 * BIG, "sizes that grow leave blocks behind"
    held = [shelf.empty((BIG,), np.uint8) for _ in range(100)]
    del held
    gc.collect()
    assert shelf.nbytes <= 32 * 2 * BIG


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=40))
def test_arrays_in_use_never_overlap(steps):
    shelf, held = Shelf(), []
    for drop, size in steps:
        if drop and held:
            held.pop(size % len(held))
        array = shelf.empty((size * BIG // 4,), np.uint8)
        array[::4096] = len(held) % 251
        held.append(array)
    spans = sorted((address(array), address(array) + array.nbytes) for array in held)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_batches_that_are_kept_stay_as_they_were(monkeypatch):
    monkeypatch.setattr("foregather.train.shelf._SMALL", 0)
    kept, copies = [], []
    loader = plain(bulk=2)
    for _ in range(3):
        for batch in loader:
            kept.append((batch.x, batch.edge_index[:, 1:], batch.y))
            copies.append([tensor.clone() for tensor in kept[-1]])
    assert len(kept) == 21
    for tensors, before in zip(kept, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))
