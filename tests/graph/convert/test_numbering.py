"""Numbering: sparse integers and strings get the ids 0 to N-1, and the mapping leads back."""

import itertools

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import FormatError, InputError
from foregather.graph.convert.names import string_keys
from foregather.graph.convert.numbering import Numbering
from foregather.graph.convert.source import EdgeChunk, Strings
from foregather.graph.on_disk.writer import FolderWriter


def pack(names: list[str]) -> Strings:
    encoded = [name.encode() for name in names]
    offsets = np.cumsum([0] + [len(b) for b in encoded]).astype(np.int64)
    return Strings(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def renumber(folder, ids, chunks, memory, weights=None):
    with FolderWriter(folder / "g") as writer:
        numbering = Numbering(writer, ids, weights is not None, None, memory)
        for chunk in chunks:
            numbering.add(chunk)
        count = numbering.finish()
        parts = list(numbering.edges())
        writer.finish(count, 0)
    source = np.concatenate([p.source for p in parts] or [np.empty(0, np.int64)])
    target = np.concatenate([p.target for p in parts] or [np.empty(0, np.int64)])
    if weights is not None:
        np.testing.assert_array_equal(np.concatenate([p.weight for p in parts]), weights)
    return count, source, target


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)), min_size=1, max_size=200
    ),
    memory=st.sampled_from([600, 5000, 1 << 22]),
    step=st.integers(1, 50),
)
def test_integers_are_numbered_in_order(pairs, memory, step, tmp_path_factory):
    folder = tmp_path_factory.mktemp("n")
    edges = np.array(pairs, np.int64).T
    weights = np.arange(len(pairs), dtype=np.float32)
    chunks = [
        EdgeChunk(edges[0, i : i + step], edges[1, i : i + step], weights[i : i + step])
        for i in range(0, len(pairs), step)
    ]
    count, source, target = renumber(folder, "sparse", chunks, memory, weights)
    expected, inverse = np.unique(edges, return_inverse=True)
    assert count == len(expected)
    np.testing.assert_array_equal(np.load(folder / "g/mapping.npy"), expected)
    np.testing.assert_array_equal(np.stack([source, target]), inverse.reshape(edges.shape))


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.text(max_size=12), st.text(max_size=3)), min_size=1, max_size=100),
    memory=st.sampled_from([600, 5000, 1 << 22]),
    step=st.integers(1, 30),
)
def test_strings_lead_back(pairs, memory, step, tmp_path_factory):
    folder = tmp_path_factory.mktemp("n")
    chunks = []
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        flat = [name for pair in part for name in pair]
        keys = string_keys(pack(flat))
        chunks.append(EdgeChunk(keys[0::2], keys[1::2], names=pack(flat)))
    count, source, target = renumber(folder, "string", chunks, memory)
    data = np.load(folder / "g/mapping_bytes.npy").tobytes()
    offsets = np.load(folder / "g/mapping_offsets.npy")
    names = [data[a:b].decode() for a, b in itertools.pairwise(offsets)]
    expected = {n for pair in pairs for n in pair}
    assert names == sorted(expected, key=lambda name: xxhash.xxh64(name.encode()).intdigest())
    assert count == len(expected)
    assert [(names[s], names[t]) for s, t in zip(source, target, strict=True)] == pairs


def test_two_strings_with_one_key_are_refused(tmp_path, monkeypatch):
    from foregather.graph.convert import names as module

    real = module.string_keys
    monkeypatch.setattr(
        module, "string_keys", lambda names, seed=0: real(names, seed) if seed else real(names) * 0
    )
    with (
        FolderWriter(tmp_path / "g") as writer,
        pytest.raises(InputError, match="same 64-bit key"),
    ):
        numbering = Numbering(writer, "string", False, None, 1 << 20)
        keys = np.zeros(1, np.uint64)
        numbering.add(EdgeChunk(keys, keys, names=pack(["a"])))
        numbering.add(EdgeChunk(keys, keys, names=pack(["b"])))
        numbering.finish()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("memory", [600, 20_000])  # in two groups of keys, and in one
def test_two_strings_with_one_key_are_refused_beyond_memory(tmp_path, memory):
    many = pack([f"name {k}" for k in range(500)])._replace(keys=np.arange(500, dtype=np.uint64))
    late = pack(["another"])._replace(keys=np.array([3], np.uint64))
    keys = np.array([3], np.uint64)
    with (
        FolderWriter(tmp_path / "g") as writer,
        pytest.raises(InputError, match="same 64-bit key"),
    ):
        numbering = Numbering(writer, "string", False, None, memory)
        numbering.add(EdgeChunk(keys, keys, names=many))
        numbering.add(EdgeChunk(keys, keys, names=late))
        numbering.finish()
    assert not list(tmp_path.iterdir())


def test_an_edge_without_its_name_is_refused(tmp_path):
    keys = string_keys(pack(["a", "b"]))
    with FolderWriter(tmp_path / "g") as writer, pytest.raises(FormatError, match="edge 0"):
        numbering = Numbering(writer, "string", False, None, 1 << 20)
        numbering.add(EdgeChunk(keys[:1], keys[1:], names=pack(["a"])))
        numbering.finish()
        list(numbering.edges())


def test_ids_without_edges_are_numbered(tmp_path):
    with FolderWriter(tmp_path / "g") as writer:
        numbering = Numbering(writer, "sparse", False, None, 1 << 20)
        numbering.add(EdgeChunk(np.array([70]), np.array([-5])))
        numbering.add_ids(np.array([9, 70, 9]), None)
        assert numbering.finish() == 3
        find = numbering.numbers()
        assert find(np.array([70, 9, -5, 8])).tolist() == [2, 1, 0, -1]
        assert [numbering.original(node) for node in range(3)] == ["-5", "9", "70"]


def test_floats_are_not_names(tmp_path):
    with (
        FolderWriter(tmp_path / "g") as writer,
        pytest.raises(InputError, match="expected integers or strings"),
    ):
        Numbering(writer, "sparse", False, None, 1 << 20).add(
            EdgeChunk(np.array([0.5]), np.array([1.0]))
        )
