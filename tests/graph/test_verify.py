"""verify and open against damaged and hostile folders."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from foregather import FormatError, Graph, InputError, _core
from foregather.cli.graphs.verify import Verify
from foregather.graph.integrity.verify import verify
from foregather.graph.on_disk.npy import ALIGN, pack_header
from foregather.graph.on_disk.writer import FolderWriter, meta_digest

NODES, EDGES = 3000, 9000


@pytest.fixture
def folder(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    graph = Graph.from_edge_index(
        rng.integers(0, NODES, (2, EDGES)),
        NODES,
        x=rng.random((NODES, 5), np.float32),
        y=rng.integers(-1, 4, NODES),
        edge_weight=rng.random(EDGES),
        edge_attr=rng.random((EDGES, 2), np.float32),
        splits={"train": np.arange(100), "test": np.arange(100, 150)},
    )
    return graph.save(tmp_path / "g")


ARRAYS = ["indptr", "indices", "features", "labels", "edge_weight", "edge_features", "splits/train"]


def rewrite(folder: Path, **arrays: np.ndarray) -> Path:
    """The same folder with some arrays replaced and all checksums right again."""
    graph = Graph.open(folder)
    from foregather.graph.on_disk.folder import facts_of

    stored = {**graph.stored_arrays(), **{k.replace("__", "/"): v for k, v in arrays.items()}}
    other = folder.with_name("other")
    with FolderWriter(other, overwrite=True) as writer:
        for name, values in stored.items():
            writer.put(name, values)
        return writer.finish(graph.num_nodes, graph.num_edges, **facts_of(graph))


def change_meta(folder: Path, change) -> None:
    """Edits meta.json and repairs its digest, so that only the edit is wrong."""
    path = folder / "meta.json"
    meta = json.loads(path.read_text())
    meta = change(meta) or meta
    if isinstance(meta, dict):
        meta["digest"] = meta_digest(meta)
    path.write_text(json.dumps(meta))


def test_a_whole_folder_passes(folder):
    report = verify(folder)
    assert set(report.arrays) == {*ARRAYS, "splits/test"}
    assert report.chunks == 8 and report.warnings == () and report.num_edges == EDGES
    assert report.checksummed_bytes == Graph.open(folder).nbytes
    command = Verify(folder)
    assert "nothing wrong" in command.show(command.run())
    in_memory = Graph.from_edge_index([[0], [1]]).verify()
    assert in_memory.chunks == 0 and in_memory.num_edges == 1


@pytest.mark.parametrize("name", ARRAYS)
def test_a_flipped_bit_is_found(folder, name):
    path = folder / f"{name}.npy"
    data = bytearray(path.read_bytes())
    data[ALIGN + 5] ^= 1
    path.write_bytes(data)
    try:
        graph = Graph.open(folder)
    except FormatError:  # indptr[0] is looked at on opening
        return
    with pytest.raises(FormatError, match=rf"{name}\.npy is corrupted: bytes 4096 to \d+"):
        verify(graph)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("keep", [0, 7, 100, ALIGN, ALIGN + 8, -ALIGN, -1])
def test_a_truncated_file_is_refused(folder, name, keep):
    path = folder / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FormatError, match=rf"{name}\.npy"):
        Graph.open(folder)


def test_a_longer_or_missing_file_is_refused(folder):
    path = folder / "labels.npy"
    path.write_bytes(path.read_bytes() + bytes(ALIGN))
    with pytest.raises(FormatError, match="more than it should"):
        Graph.open(folder)
    path.unlink()
    with pytest.raises(FormatError, match=r"labels\.npy is missing"):
        Graph.open(folder)


def test_bytes_in_the_padding_are_found(folder):
    path = folder / "labels.npy"
    data = bytearray(path.read_bytes())
    data[-1] = 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"labels\.npy does not end in zeros"):
        verify(folder)


@pytest.mark.parametrize(
    "dtype, shape",
    [(np.int64, (NODES, 5)), (np.float32, (5, NODES)), (np.int32, (NODES, 5)), (np.int8, (1,))],
)
def test_a_header_that_differs_is_refused(folder, dtype, shape):
    path = folder / "features.npy"
    path.write_bytes(pack_header(dtype, shape) + path.read_bytes()[ALIGN:])
    with pytest.raises(FormatError, match=r"features\.npy"):
        Graph.open(folder)


def test_a_header_that_only_looks_the_same_is_found(folder):
    path = folder / "features.npy"
    data = path.read_bytes()
    path.write_bytes(data[: ALIGN - 2] + b"\t\n" + data[ALIGN:])
    with pytest.raises(FormatError, match=r"features\.npy has a header that differs"):
        verify(Graph.open(folder))


def test_swapped_dtype_in_meta_is_refused(folder):
    def swap(meta):
        meta["arrays"]["indices"]["dtype"] = "int64"

    change_meta(folder, swap)
    with pytest.raises(FormatError, match="indices"):
        Graph.open(folder)


def test_contents_are_checked_beyond_checksums(folder):
    graph = Graph.open(folder)
    indptr = graph.indptr.copy()
    indptr[7] = indptr[8] + 1
    with pytest.raises(FormatError, match=r"indptr\.npy falls from \d+ to \d+ at position 8"):
        verify(rewrite(folder, indptr=indptr))
    indices = graph.indices.copy()
    indices[-1] = NODES
    with pytest.raises(FormatError, match=f"holds node {NODES} at position {EDGES - 1}"):
        verify(rewrite(folder, indices=indices))
    row = int(np.flatnonzero(graph.in_degree() >= 2)[0])
    start = graph.indptr[row]
    indices = graph.indices.copy()
    indices[start], indices[start + 1] = 9, 3
    with pytest.raises(FormatError, match=f"row {row}: 9 is followed by 3 at position {start + 1}"):
        verify(rewrite(folder, indices=indices))
    with pytest.raises(FormatError, match=r"labels\.npy holds 4 at row 11"):
        verify(rewrite(folder, labels=np.where(np.arange(NODES) == 11, 4, 0)))
    with pytest.raises(FormatError, match=r"splits/train\.npy holds node -1 at position 0"):
        verify(rewrite(folder, splits__train=np.array([-1])))


def test_chunk_borders_are_seen(folder, monkeypatch):
    import foregather.graph.chunks as chunks

    graph = Graph.open(folder)
    indices = graph.indices.copy()
    row = int(np.argmax(graph.in_degree()))
    at = int(graph.indptr[row]) + 1
    indices[at - 1], indices[at] = 2, 1
    broken = rewrite(folder, indices=indices)
    pieces = chunks.edge_pieces
    for step in (1, at, at + 1):
        monkeypatch.setattr(
            "foregather.graph.integrity.verify.edge_pieces",
            lambda graph, step=step: pieces(graph, step),
        )
        verify(folder)
        with pytest.raises(FormatError, match=f"row {row}: 2 is followed by 1 at position {at}"):
            verify(broken)


def test_wrong_row_counts_are_refused(folder):
    for name, values in {
        "features": np.zeros((NODES - 1, 5), np.float32),
        "labels": np.zeros(NODES + 1, np.int64),
        "edge_weight": np.zeros(EDGES + 1, np.float32),
        "indptr": np.zeros(NODES, np.int64),
        "splits__train": np.zeros(3, np.int32),
    }.items():
        with pytest.raises(FormatError, match="do not fit together"):
            Graph.open(rewrite(folder, **{name: values}))


def test_nan_is_a_warning(folder):
    features = Graph.open(folder).features.data.copy()
    features[3, 1] = np.nan
    features[4, :2] = np.inf
    report = verify(rewrite(folder, features=features))
    assert report.nonfinite == {"features": 3}
    assert report.warnings == ("features holds 3 NaN or infinite numbers",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_no_number_is_an_error(folder, value):
    weights = Graph.open(folder).edge_weight.copy()
    weights[[70, 71]] = value
    with pytest.raises(FormatError, match=rf"edge_weight\.npy holds {value} at position 70"):
        verify(rewrite(folder, edge_weight=weights))


def test_negative_weights_are_a_warning(folder):
    weights = Graph.open(folder).edge_weight.copy()
    weights[:2] = -1
    report = verify(rewrite(folder, edge_weight=weights))
    assert report.warnings == (
        "edge_weight holds 2 negative numbers, which sampling by weight refuses",
    )


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("form", ["pickle", "object array", "object array in meta"])
def test_pickles_are_never_loaded(folder, tmp_path, form):
    marker = tmp_path / "marker"
    path = folder / "features.npy"
    if form == "pickle":
        path.write_bytes(pickle.dumps(Trap(marker)).ljust(2 * ALIGN, b"\0"))
    else:
        np.save(path, np.array([Trap(marker)] * NODES, dtype=object), allow_pickle=True)
    if form == "object array in meta":

        def objects(meta):
            meta["arrays"]["features"]["dtype"] = "object"

        change_meta(folder, objects)
    with pytest.raises(FormatError):
        Graph.open(folder)
    assert not marker.exists()


def entry(key, value, array="features"):
    def change(meta):
        meta["arrays"][array][key] = value

    return change


def top(key, value):
    def change(meta):
        meta[key] = value

    return change


def renamed(name):
    def change(meta):
        item = meta["arrays"].pop("labels")
        meta["arrays"][name] = {**item, "file": f"{name}.npy"}

    return change


def dropped(name):
    def change(meta):
        del meta["arrays"][name]

    return change


@pytest.mark.parametrize(
    "change",
    [
        top("version", 2),
        top("version", "1"),
        top("version", True),
        top("format", "other"),
        top("num_nodes", -1),
        top("num_nodes", 1.5),
        top("num_nodes", NODES + 1),
        top("num_nodes", 10**30),
        top("num_edges", True),
        top("num_edges", EDGES - 1),
        top("arrays", []),
        top("arrays", {"indptr": 3}),
        top("checksum", None),
        top("checksum", {"algorithm": "md5", "chunk_bytes": 64 << 20}),
        top("checksum", {"algorithm": "xxh64", "chunk_bytes": 0}),
        entry("file", "../../secret.npy"),
        entry("file", "/etc/passwd"),
        entry("file", "labels.npy"),
        entry("file", None),
        entry("dtype", "object"),
        entry("dtype", "<f4"),
        entry("dtype", ["float32"]),
        entry("dtype", "float64"),
        entry("shape", [NODES]),
        entry("shape", [-1, 5]),
        entry("shape", [NODES, 5, 1]),
        entry("shape", [2**61, 2**61]),
        entry("shape", "abc"),
        entry("checksums", []),
        entry("checksums", ["zz"]),
        entry("checksums", [3]),
        renamed("../labels"),
        renamed("splits/../../labels"),
        renamed(".hidden"),
        renamed(""),
        dropped("indptr"),
        dropped("indices"),
        lambda meta: [1, 2],
        lambda meta: "text",
    ],
)
def test_hostile_meta_is_refused(folder, change):
    change_meta(folder, change)
    with pytest.raises(FormatError):
        Graph.open(folder)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        b"\x80\x04.",
    ],
)
def test_meta_that_is_not_json_is_refused(folder, data):
    (folder / "meta.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"meta\.json"):
        Graph.open(folder)


def test_every_truncation_of_meta_is_refused(folder):
    data = (folder / "meta.json").read_bytes()
    for keep in range(0, len(data) - 2, 41):
        (folder / "meta.json").write_bytes(data[:keep])
        with pytest.raises(FormatError):
            Graph.open(folder)


def test_edited_meta_fails_its_digest(folder):
    text = (folder / "meta.json").read_text()
    (folder / "meta.json").write_text(text.replace('"missing": ', '"missing": 1'))
    with pytest.raises(FormatError, match="its own digest"):
        Graph.open(folder)


def test_a_graph_in_memory_is_checked_too():
    bad = Graph(2, 2, np.array([0, 2, 2]), np.array([1, 5], np.uint32))
    with pytest.raises(FormatError, match="holds node 5 at position 1"):
        bad.verify()
    with pytest.raises(InputError, match="indptr runs from 0 to 1"):
        Graph(2, 2, np.array([0, 2, 1]), np.array([1, 1], np.uint32))


def test_the_damaged_chunk_is_named(folder):
    """With small chunks, the second of several is blamed, by its byte range."""
    path = folder / "features.npy"
    payload = path.read_bytes()[ALIGN:]

    (folder / "checks.json").unlink()  # it is tied to the checksums that are replaced here

    def small_chunks(meta):
        meta["checksum"]["chunk_bytes"] = 8192
        for item in meta["arrays"].values():
            data = (folder / item["file"]).read_bytes()[ALIGN:]
            size = int(np.prod(item["shape"])) * np.dtype(item["dtype"]).itemsize
            item["checksums"] = [
                f"{_core.xxh64(np.frombuffer(data[at : min(at + 8192, size)], np.uint8)):016x}"
                for at in range(0, size, 8192)
            ]

    change_meta(folder, small_chunks)
    assert verify(folder).chunks > 8
    damaged = bytearray(payload)
    damaged[8192 + 4000] ^= 128
    path.write_bytes(path.read_bytes()[:ALIGN] + damaged)
    begin = ALIGN + 8192
    for threads in (1, 3):
        with pytest.raises(FormatError, match=rf"bytes {begin} to {begin + 8192} \(chunk 1\)"):
            verify(folder, threads)
