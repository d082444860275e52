"""The device of a run: found by name, or refused with what there is."""

import pytest
import torch

from foregather.errors import InputError
from foregather.train.device import find_device


def pretend(monkeypatch, count, rank=None):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", str(rank))


@pytest.mark.parametrize(
    ("name", "count", "rank", "found"),
    [
        ("cpu", 2, None, "cpu"),
        ("auto", 0, None, "cpu"),
        ("auto", 2, None, "cuda:0"),
        ("auto", 2, 1, "cuda:1"),
        ("auto", 2, 3, "cuda:1"),
        ("cuda", 2, None, "cuda:0"),
        ("cuda", 2, 1, "cuda:1"),
        ("cuda:1", 2, 0, "cuda:1"),
    ],
)
def test_found(monkeypatch, name, count, rank, found):
    pretend(monkeypatch, count, rank)
    assert str(find_device(name)) == found


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("gpu", 1, "train.device is 'gpu', expected auto, cpu, cuda or cuda:N"),
        ("cuda:x", 1, "expected auto, cpu, cuda or cuda:N"),
        ("cuda", 0, "train.device is 'cuda', but there is no CUDA device here.*use cpu or auto"),
        ("cuda:2", 2, "train.device is 'cuda:2', but there are only 2 CUDA devices here"),
    ],
)
def test_refused(monkeypatch, name, count, said):
    pretend(monkeypatch, count)
    with pytest.raises(InputError, match=said):
        find_device(name)
