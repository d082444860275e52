"""A sampler is known by its class and attributes, never by the address of an object."""

import functools
import io
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, InputError, Loader
from foregather.sampling import (
    FastGCN,
    Full,
    Labor,
    Ladies,
    MatrixSampler,
    Neighbor,
    RandomWalk,
    Saint,
)
from foregather.sampling.identity import identity_of, values_of

BUILT_IN = [
    Neighbor([3, 2]),
    Neighbor([3], weights=np.ones(4)),
    Neighbor([2], weights=True, replace=True),
    Ladies([3]),
    FastGCN([2], debias=None),
    Labor([2]),
    Full(2),
    RandomWalk(3),
    Saint("node", 4),
]


@dataclass(frozen=True)
class Fields(MatrixSampler):
    layer_sizes: tuple[int, ...] = (3,)
    value: Any = None
    _kept: Any = field(default_factory=object, compare=False, repr=False)


class Plain(MatrixSampler):
    layer_sizes = (3,)

    def __init__(self, value: Any = None) -> None:
        self.value, self.more = value, {"b": [1, 2.5], "a": np.arange(4)}

    @functools.cached_property
    def costly(self) -> object:
        return object()


class Slots(MatrixSampler):
    __slots__ = ("value",)
    layer_sizes = (3,)

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Said(Plain):
    def __repr__(self) -> str:
        return f"Said({self.value.__name__})"


def module_level(x: Any) -> Any:
    return x


def linear(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2)


@pytest.mark.parametrize("sampler", BUILT_IN, ids=lambda sampler: type(sampler).__name__)
def test_built_in_samplers_and_plain_fields_keep_their_text(sampler):
    assert identity_of(sampler) == repr(sampler)
    assert identity_of(Fields((2, 1), "x")) == "Fields(layer_sizes=(2, 1), value='x')"


EQUAL = [
    np.arange(5),
    np.float32(1.5),
    torch.arange(3),
    torch.ones(2, dtype=torch.bfloat16),
    torch.float16,
    np.dtype("int8"),
    module_level,
    np.sqrt,
    functools.partial(module_level, 3),
    {"k": (1, None, b"bytes"), 2: {3, 1, 2}},
    Fields(value=[Slots(1.0)]),
    range(3),
    int,
]


@pytest.mark.parametrize("kind", [Fields, Plain, Slots])
@pytest.mark.parametrize("value", EQUAL, ids=lambda value: type(value).__name__)
def test_equal_samplers_have_one_text_and_no_address(kind, value):
    one, other = (
        kind(value=pickle.loads(pickle.dumps(value))) if kind is Fields else kind(value)
        for _ in range(2)
    )
    assert identity_of(one) == identity_of(other) == values_of(one)
    assert "0x" not in identity_of(one)
    getattr(one, "costly", None)  # what a cached_property keeps is no option
    assert identity_of(one) == identity_of(other)
    different = [identity_of(kind(value=v) if kind is Fields else kind(v)) for v in EQUAL]
    assert len(set(different)) == len(EQUAL)


def test_one_number_of_a_long_array_counts():
    long = np.zeros(10_000)
    changed = long.copy()
    changed[5000] = 1
    assert repr(Fields(value=long)) == repr(Fields(value=changed))
    assert identity_of(Fields(value=long)) != identity_of(Fields(value=changed))


def test_what_training_changes_counts_between_ranks_only():
    one, other = Fields(value=linear(1)), Fields(value=linear(2))
    assert identity_of(one) == identity_of(other) and values_of(one) != values_of(other)
    assert values_of(one) == values_of(Fields(value=linear(1)))
    assert identity_of(one) != identity_of(Fields(value=torch.nn.Linear(3, 4)))


HOPELESS = [
    (lambda x: x, "a lambda"),
    (io.StringIO(), "a StringIO"),
    (threading.Lock(), "a lock"),
    (np.random.default_rng(1), "a Generator"),
    (torch.Generator(), "a Generator"),
    (np.array([object()]), "an array of objects"),
    ((i for i in range(3)), "a generator"),
]


@pytest.mark.parametrize(("value", "what"), HOPELESS, ids=[what for _, what in HOPELESS])
def test_what_cannot_be_compared_is_named(value, what):
    with pytest.raises(InputError, match=f"Plain with .value, {what}, which cannot be compared"):
        identity_of(Plain(value))
    with pytest.raises(InputError, match=r"Fields with .value\[0\]"):
        identity_of(Fields(value=[value]))
    assert identity_of(Fields(_kept=value)) == identity_of(Fields())


def test_a_text_of_its_own_is_taken_where_attributes_have_none():
    assert identity_of(Said(lambda x: x)) == "Said(<lambda>)"
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(InputError, match="which contains itself"):
        identity_of(Plain(itself))


def test_a_position_is_found_again_without_a_repr():
    edges = np.random.default_rng(0).integers(0, 30, (2, 90))
    graph = Graph.from_edge_index(edges, 30)

    def loader(value):
        return Loader(graph, None, None, 7, sampler=Plain(value), contents=BatchContents(pyg=False))

    first = loader(np.sqrt)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = [batch.n_id.tolist() for batch in batches]
    again = loader(np.sqrt)
    again.load_state_dict(state)
    assert [batch.n_id.tolist() for batch in again] == rest
    with pytest.raises(InputError, match="saved with sampler .Plain"):
        loader(np.square).load_state_dict(state)
    unnamed = loader(lambda x: x)
    with pytest.raises(InputError, match="a lambda, which cannot be compared"):
        unnamed.load_state_dict(unnamed.state_dict())
