"""blocks: every byte that is read is checked, and tables that are wrong are never believed."""

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import FormatError, Graph, _core
from foregather.errors import InputError
from foregather.graph.integrity.add_checks import add_checks
from foregather.graph.integrity.blocks import BLOCK, array_sums, open_sums, read_checked
from foregather.graph.integrity.verify import verify
from foregather.graph.on_disk.digest import json_digest
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import ALIGN
from foregather.graph.on_disk.writer import FolderWriter
from tests.flip import flip


def slow_crc32c(data):
    """The definition, a bit at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rng = np.random.default_rng(3)
    graph = Graph.from_edge_index(
        rng.integers(0, 900, (2, 5000)),
        900,
        x=rng.random((900, 24), np.float32),
        y=np.arange(900) % 5,
        edge_weight=rng.random(5000, np.float32),
        edge_attr=rng.random((5000, 3), np.float32),
        splits={"train": np.arange(700), "valid": np.arange(700, 900)},
    )
    return graph.save(tmp_path_factory.mktemp("blocks") / "g")


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "g")


ARRAYS = ["indptr", "indices", "features", "edge_weight", "edge_features", "labels", "splits/train"]


def test_published_values():
    def value(text):
        return _core.crc32c(np.frombuffer(text, np.uint8))

    assert value(b"123456789") == 0xE3069283 == slow_crc32c(b"123456789")
    assert value(bytes(32)) == 0x8A9136AA and value(b"\xff" * 32) == 0x62A8AB43
    assert _core.testing.crc32c_means() in ("vpclmulqdq", "pclmulqdq", "sse4.2", "armv8", "table")


@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from(["uint8", "uint32", "float16", "int64"]),
    width=st.sampled_from([None, 0, 1, 3, 700]),
    cuts=st.lists(st.integers(0, 900), max_size=4),
    seed=st.integers(0, 99),
)
def test_the_writer_sums_every_block(tmp_path_factory, dtype, width, cuts, seed):
    """Whatever the pieces that are appended, the table is that of the payload."""
    folder = tmp_path_factory.mktemp("w") / "g"
    cuts = [cut if (width or 1) < 700 else cut // 100 for cut in cuts]
    rng, shape = np.random.default_rng(seed), () if width is None else (width,)
    payload = b""
    with FolderWriter(folder) as writer:
        out = writer.array("x", dtype, shape)
        for count in cuts:
            rows = rng.integers(0, 100, (count, *shape)).astype(dtype)
            out.append(rows)
            payload += rows.tobytes()
        writer.close("x")
        writer.finish(0, 0)
    table = np.load(folder / "x.crc")
    parts = [payload[at : at + BLOCK] for at in range(0, len(payload), BLOCK)]
    assert table.dtype == np.uint32 and table.shape == (len(parts),)
    if parts:
        assert table[-1] == slow_crc32c(parts[-1]) and table[0] == slow_crc32c(parts[0])
    assert table.tolist() == [_core.crc32c(np.frombuffer(part, np.uint8)) for part in parts]
    entry = json.loads((folder / "checks.json").read_text())["arrays"]["x"]
    assert entry["file"] == "x.crc"
    assert entry["checksums"] == ([f"{_core.xxh64(table.view(np.uint8)):016x}"] if parts else [])


def test_a_graph_keeps_its_digest(folder):
    graph = Graph.open(folder)
    assert graph.checked
    rest = {path.name for path in folder.rglob("*") if path.suffix in (".crc", ".json")}
    assert "checks.json" in rest and "features.crc" in rest
    for path in [*folder.rglob("*.crc"), folder / "checks.json"]:
        path.unlink()
    plain = Graph.open(folder)
    assert plain.digest == graph.digest and not plain.checked
    assert array_sums(plain, "features") is None
    assert verify(folder).blocks is None


@pytest.mark.parametrize("name", ARRAYS)
def test_a_flipped_bit_is_found_where_it_is_read_and_nowhere_else(folder, name):
    meta = read_meta(folder)
    entry, sums = meta.arrays[name], open_sums(folder, meta, name)
    path, payload = folder / entry.file, (folder / entry.file).read_bytes()[ALIGN:][: entry.nbytes]
    blocks, row = -(-entry.nbytes // BLOCK), entry.nbytes // entry.shape[0]
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for block in sorted({0, blocks // 2, blocks - 1}):
            at = min(block * BLOCK + 77, entry.nbytes - 1)
            flip(path, ALIGN + at, bit=5)
            first, last = block * BLOCK, min(entry.nbytes, (block + 1) * BLOCK)
            rows = f"{first // row} to {(last - 1) // row}"
            said = rf"{entry.file}: block {block} \(rows {rows}\) does not match its checksum"
            for begin, end in [(0, entry.nbytes), (at, at + 1), (first, last), (first + 3, at + 1)]:
                with pytest.raises(FormatError, match=said):
                    read_checked(descriptor, begin, end, path, sums)
            for begin, end in [(0, first), (last, entry.nbytes)]:  # what was not asked for
                got = read_checked(descriptor, begin, end, path, sums)
                assert got.tobytes() == payload[begin:end]
            flip(path, ALIGN + at, bit=5)
        assert read_checked(descriptor, 0, entry.nbytes, path, sums).tobytes() == payload
    finally:
        os.close(descriptor)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_range_is_what_was_written(made, data):
    meta = read_meta(made)
    size = meta.arrays["features"].nbytes
    first = data.draw(st.integers(0, size))
    last = data.draw(st.integers(first, size))
    path = made / "features.npy"
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sums = open_sums(made, meta, "features")
        got = read_checked(descriptor, first, last, path, sums)
        assert got.tobytes() == path.read_bytes()[ALIGN + first : ALIGN + last]
        into = np.zeros(last - first, np.uint8)
        assert read_checked(descriptor, first, last, path, sums, into) is into
        assert np.array_equal(into, got)
        assert np.array_equal(read_checked(descriptor, first, last, path, None), got)
    finally:
        os.close(descriptor)


def test_part_of_a_block_cannot_be_checked(made):
    sums = open_sums(made, read_meta(made), "features")
    with pytest.raises(InputError, match="cut a block of 4096"):
        sums.check(ALIGN + 10, np.zeros(BLOCK, np.uint8))
    with pytest.raises(InputError, match="cut a block of 4096"):
        sums.check(ALIGN, np.zeros(BLOCK - 1, np.uint8))


# ---- tables from strangers ---------------------------------------------------------------------


def edit(folder, change):
    """Changes checks.json and gives it a digest that fits."""
    text = json.loads((folder / "checks.json").read_text())
    change(text)
    text["digest"] = json_digest(text)
    (folder / "checks.json").write_text(json.dumps(text))


def entry_of(text, name="features"):
    return text["arrays"][name]


HOSTILE = {
    "algorithm": (lambda t: t.update(algorithm="crc32"), "has algorithm = 'crc32', expected"),
    "block size": (lambda t: t.update(block_bytes=512), "has block_bytes = 512, expected 4096"),
    "block size true": (lambda t: t.update(version=True), "has version = True, expected 1"),
    "format": (lambda t: t.update(format="x"), "has format = 'x'"),
    "chunk": (lambda t: t.update(checksum={"algorithm": "md5"}), "has checksum = "),
    "no arrays": (lambda t: t.update(arrays=3), "does not list the arrays"),
    "an array less": (lambda t: t["arrays"].pop("labels"), "does not list the arrays"),
    "an array more": (lambda t: t["arrays"].update(y={}), "does not list the arrays"),
    "no entry": (lambda t: t["arrays"].update(labels=7), "has no entry for array labels"),
    "a file outside": (lambda t: entry_of(t).update(file="../x.crc"), "puts the table of features"),
    "other contents": (lambda t: entry_of(t).update(array="0" * 16), "was made for another array"),
    "checksums": (lambda t: entry_of(t).update(checksums=["x"]), "has malformed checksums"),
    "no checksums": (lambda t: entry_of(t).update(checksums=[]), "has 0 checksums for the table"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_list_is_refused_in_a_sentence(folder, what):
    change, said = HOSTILE[what]
    edit(folder, change)
    with pytest.raises(FormatError, match=f"checks.json {said}.*--add-checks"):
        Graph.open(folder)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"{}", b"[" * 100_000, b'"x"', b"\xff"])
def test_what_is_no_list_is_refused(folder, text):
    (folder / "checks.json").write_bytes(text)
    with pytest.raises(FormatError, match=r"^checks.json .*; run 'foregather verify --add-checks'"):
        Graph.open(folder)


def swap(folder):
    os.rename(folder / "indices.crc", folder / "t")
    os.rename(folder / "features.crc", folder / "indices.crc")
    os.rename(folder / "t", folder / "features.crc")


def link(folder):
    os.rename(folder / "features.crc", folder / "t")
    os.symlink("t", folder / "features.crc")


TABLES = {
    "missing": (lambda f: (f / "features.crc").unlink(), "is missing, though checks.json"),
    "a folder": (
        lambda f: ((f / "features.crc").unlink(), (f / "features.crc").mkdir()),
        "is not a regular file",
    ),
    "a link": (link, "is a link, or lies behind one"),
    "truncated": (lambda f: os.truncate(f / "features.crc", 5000), "has 5000 bytes or a header"),
    "empty": (lambda f: os.truncate(f / "features.crc", 0), "has 0 bytes or a header"),
    "longer": (lambda f: os.truncate(f / "features.crc", 3 * ALIGN), "do not fit 22 block"),
    "header": (lambda f: flip(f / "features.crc", 20), "or a header that do not fit"),
    "a bit": (lambda f: flip(f / "features.crc", ALIGN + 3), "does not match its checksum in"),
    "swapped": (swap, "or a header that do not fit"),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_damaged_table_is_refused_in_a_sentence_and_made_anew(folder, what):
    damage, said = TABLES[what]
    digest = Graph.open(folder).digest
    damage(folder)
    graph = Graph.open(folder)  # tables are read when their array is
    for use in (lambda: array_sums(graph, "features"), lambda: verify(folder)):
        with pytest.raises(FormatError, match=f"(features|indices).crc .*{said}"):
            use()
    if what == "a folder":
        (folder / "features.crc").rmdir()
    add_checks(folder)
    assert verify(folder).blocks == sum(t.rows for t in read_meta(folder).tables.values())
    assert Graph.open(folder).digest == digest
    assert [path.name for path in folder.parent.iterdir()] == ["g"]


def test_a_table_that_is_wrong_is_told_from_an_array_that_is(folder):
    """With every checksum around it mended, only comparing with the contents can tell."""
    flip(folder / "features.crc", ALIGN + 4)
    table = np.load(folder / "features.crc")
    found = f"{_core.xxh64(table.view(np.uint8)):016x}"
    edit(folder, lambda text: entry_of(text).update(checksums=[found]))
    with pytest.raises(FormatError, match=r"features.crc does not match block 1 \(rows 42 to 85\)"):
        verify(folder)
    add_checks(folder)
    verify(folder)
    flip(folder / "features.npy", ALIGN + BLOCK)
    with pytest.raises(FormatError, match=r"checksum, the first of them in block 1 \(rows 42 to"):
        verify(folder)


def test_tables_are_never_made_of_damaged_arrays(folder):
    for path in [*folder.rglob("*.crc"), folder / "checks.json"]:
        path.unlink()
    flip(folder / "features.npy", ALIGN + 10)
    with pytest.raises(FormatError, match="features.npy is corrupted in chunk 0"):
        add_checks(folder)
    assert not list(folder.rglob("*.crc")) and os.listdir(folder.parent) == ["g"]
    assert not Graph.open(folder).checked


def test_added_tables_are_those_of_the_writer(folder, made):
    for path in [*folder.rglob("*.crc"), folder / "checks.json"]:
        path.unlink()
    add_checks(folder)
    for path in made.rglob("*"):
        if path.is_file():
            assert (folder / path.relative_to(made)).read_bytes() == path.read_bytes()


def test_a_folder_that_changed_since_it_was_opened(folder):
    graph = Graph.open(folder)
    (folder / "checks.json").unlink()
    with pytest.raises(FormatError, match="changed since the graph was opened"):
        array_sums(graph, "features")


def test_a_folder_with_tables_can_be_replaced(folder):
    Graph.open(folder).save(folder, overwrite=True)
    add_checks(folder)
    Graph.open(folder).save(folder, overwrite=True)
    assert Graph.open(folder).checked
