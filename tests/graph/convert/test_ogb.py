"""OgbSource against what was written to the folder, and against damaged folders."""

import dataclasses
import gzip
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import BudgetError, ForegatherError, FormatError, InputError
from foregather.graph.convert.sources.ogb import OgbSource, find_raw
from tests.helpers_ogb import OgbGraph, OgbLayout, tiny_ogb, write_csv, write_ogb

BUDGET = 1 << 20


def read_edges(source: OgbSource, step: int) -> tuple[np.ndarray, np.ndarray | None]:
    chunks = list(source.edges(step))
    assert all(0 < len(chunk.source) == len(chunk.target) <= step for chunk in chunks)
    pairs = np.concatenate(
        [np.empty((2, 0), np.int64), *(np.stack([c.source, c.target]) for c in chunks)], axis=1
    )
    features = [chunk.features for chunk in chunks if chunk.features is not None]
    return pairs, np.concatenate(features) if features else None


def check(source: OgbSource, graph: OgbGraph, step: int) -> None:
    """Everything the source gives equals what was written."""
    assert source.ids == "dense" and not source.has_weight
    assert source.num_nodes == graph.num_nodes
    assert source.num_edges == graph.edge_index.shape[1]
    pairs, edge_features = read_edges(source, step)
    np.testing.assert_array_equal(pairs, graph.edge_index)
    if graph.edge_feat is None:
        assert source.edge_features is None and edge_features is None
    else:
        assert source.edge_features == (graph.edge_feat.shape[1], graph.edge_feat.dtype)
        np.testing.assert_array_equal(edge_features, graph.edge_feat)
    if graph.node_feat is None:
        assert source.features is None
    else:
        rows = source.features
        assert rows is not None
        assert (rows.count, rows.width) == graph.node_feat.shape
        for _ in range(2):
            chunks = list(rows.chunks(step))
            assert all(len(chunk) <= step and chunk.dtype == rows.dtype for chunk in chunks)
            np.testing.assert_array_equal(np.concatenate(chunks), graph.node_feat)
    small = source.small(BUDGET)
    if graph.node_label is None:
        assert small.labels is None
    else:
        expected = graph.node_label
        expected = expected[:, 0] if expected.shape[1] == 1 else expected
        np.testing.assert_array_equal(small.labels, expected)
    assert set(small.splits) == set(graph.splits)
    for name, ids in graph.splits.items():
        assert small.splits[name].dtype == np.int64
        np.testing.assert_array_equal(small.splits[name], ids)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), layout=st.sampled_from(["csv", "binary"]), step=st.integers(1, 200))
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, layout: OgbLayout, step: int
) -> None:
    graph = tiny_ogb(
        data.draw(st.integers(0, 99)),
        num_nodes=data.draw(st.integers(4, 40)),
        num_edges=data.draw(st.integers(0, 60)) if layout == "binary" else 50,
        missing=data.draw(st.booleans()),
    )
    random = np.random.default_rng(1)
    edges = graph.edge_index.shape[1]
    if data.draw(st.booleans()):
        graph = dataclasses.replace(
            graph, edge_feat=random.normal(size=(edges, 3)).astype(np.float32)
        )
    if data.draw(st.booleans()):
        graph = dataclasses.replace(graph, node_label=random.integers(0, 2, (graph.num_nodes, 7)))
    if data.draw(st.booleans()):
        graph = dataclasses.replace(graph, node_feat=None, splits={})
    folder = write_ogb(tmp_path_factory.mktemp("o"), graph, layout)
    check(OgbSource(folder), graph, step)


@pytest.mark.parametrize("layout", ["csv", "binary"])
def test_the_folder_is_found_from_three_places(tmp_path: Path, layout: OgbLayout) -> None:
    folder = write_ogb(tmp_path / "root", tiny_ogb(), layout)
    for given_folder in (folder, folder / "raw", tmp_path / "root"):
        assert OgbSource(given_folder).name == "ogbn_arxiv"
    write_ogb(tmp_path / "root", tiny_ogb(), layout, name="ogbn_products")
    with pytest.raises(FormatError, match="several data sets"):
        OgbSource(tmp_path / "root")
    with pytest.raises(FormatError, match="empty is not an OGB data set"):
        (tmp_path / "empty").mkdir()
        find_raw(tmp_path / "empty")
    with pytest.raises(FormatError, match="gone is not an OGB data set"):
        OgbSource(tmp_path / "gone")


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("ogbn_products", True),
        ("products", True),
        ("ogbn_proteins", True),
        ("ogbn_arxiv", False),
        ("papers100M-bin", False),
        ("ogbn_arxiv_pyg", False),
        ("my_own", None),
    ],
)
def test_direction_is_known_by_name(tmp_path: Path, name: str, once: bool | None) -> None:
    source = OgbSource(write_ogb(tmp_path, tiny_ogb(), name=name))
    assert source.stored_once is once
    text = " ".join(source.notes())
    assert ("OGB adds the reverse" in text) == (once is True)
    assert ("--undirected" in text) == (once is not True)
    assert "Not converted: node_year, mapping/, processed/." in text


def test_labels_keep_their_kind(tmp_path: Path) -> None:
    whole = OgbSource(write_ogb(tmp_path / "a", tiny_ogb())).small(BUDGET).labels
    gaps = OgbSource(write_ogb(tmp_path / "b", tiny_ogb(missing=True))).small(BUDGET).labels
    assert whole is not None and whole.dtype == np.int64 and whole.shape == (30,)
    assert gaps is not None and gaps.dtype == np.float32 and np.isnan(gaps).sum() == 10
    huge = dataclasses.replace(tiny_ogb(), node_label=np.full((30, 1), (1 << 53) + 2))
    with pytest.raises(FormatError, match="beyond 2"):
        OgbSource(write_ogb(tmp_path / "c", huge)).small(BUDGET)


def test_splits(tmp_path: Path) -> None:
    graph = tiny_ogb()
    folder = write_ogb(tmp_path, graph)
    assert OgbSource(folder, splits=False).small(BUDGET).splits == {}
    kind = folder / "split" / "time"
    (kind / "split_dict.pt").write_bytes(b"\x80\x02never loaded")
    check(OgbSource(folder), graph, 10)  # csv beside a pickle is read
    for ending, save in (
        (".npy", np.save),
        (".npz", lambda path, ids: np.savez(path, ids=ids)),
    ):
        (kind / "train.csv.gz").unlink(missing_ok=True)
        save(kind / f"train{ending}", graph.splits["train"])
        check(OgbSource(folder), graph, 10)
        (kind / f"train{ending}").unlink()
    for name in ("valid", "test"):
        (kind / f"{name}.csv.gz").unlink()
    with pytest.raises(FormatError, match=r"split_dict\.pt only, and pickles are never loaded"):
        OgbSource(folder).small(BUDGET)
    (kind / "split_dict.pt").unlink()
    with pytest.raises(FormatError, match=r"has no train\.csv\.gz"):
        OgbSource(folder).small(BUDGET)
    (folder / "split" / "random").mkdir()
    write_csv(folder / "split" / "random" / "train.csv.gz", np.array([[3], [-1]]))
    with pytest.raises(FormatError, match="has random, time, expected one kind"):
        OgbSource(folder).small(BUDGET)
    chosen = OgbSource(folder, splits="random").small(BUDGET).splits
    assert chosen["train"].tolist() == [3, -1]  # the engine checks the range
    with pytest.raises(FormatError, match="no split 'species'"):
        OgbSource(folder, splits="species").small(BUDGET)
    write_csv(folder / "split" / "random" / "train.csv.gz", np.zeros((31, 1), int))
    with pytest.raises(FormatError, match="more than the 30 nodes"):
        OgbSource(folder, splits="random").small(BUDGET)


@pytest.mark.parametrize("layout", ["csv", "binary"])
def test_small_keeps_to_the_budget(tmp_path: Path, layout: OgbLayout) -> None:
    source = OgbSource(write_ogb(tmp_path, tiny_ogb(), layout))
    with pytest.raises(BudgetError, match=r"node-label.* needs 240 B"):
        source.small(239)
    with pytest.raises(BudgetError, match=r"(valid|test)\.csv\.gz needs more"):
        source.small(240 + 150)
    source.small(480)


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("edge", np.zeros((89, 2), int), "has 89 edges, but its list of counts says 90"),
        ("edge", np.zeros((91, 2), int), "has more than 90 edges"),
        ("node-feat", np.zeros((29, 6)), "has 29 rows, expected one for each of 30 nodes"),
        ("node-feat", np.zeros((31, 6)), "has more than 30 rows"),
        ("node-label", np.zeros((29, 1)), "has 29 rows"),
        ("node-label", np.zeros((31, 1)), "has more than 30 rows"),
        ("edge-feat", np.zeros((89, 2)), "has fewer rows than there are edges"),
        ("edge-feat", np.zeros((91, 2)), "has more rows than there are edges"),
        ("num-node-list", np.array([[30], [30]]), "lists 2 graphs, expected one"),
        ("num-node-list", np.empty((0, 1)), "lists 0 graphs"),
        ("num-node-list", np.array([[-3]]), "says -3, expected a count"),
        ("edge", np.array([["nan", "1"]]), "line 1 has nothing|line 1 has 'nan' in column 1"),
        ("edge", np.zeros((90, 1), int), "has 1 column, expected at least 2"),
        ("node-feat", np.array([[1.0, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, "x"]]), "line 2 has 'x'"),
        ("node-feat", np.empty((0, 1)), "is empty"),
    ],
)
def test_csv_that_disagrees(tmp_path: Path, file: str, rows: np.ndarray, message: str) -> None:
    folder = write_ogb(tmp_path, tiny_ogb())
    write_csv(folder / "raw" / f"{file}.csv.gz", rows)
    with pytest.raises((FormatError, InputError), match=message):
        read_all(OgbSource(folder))
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())


def read_all(source: OgbSource) -> None:
    for _ in source.edges(17):
        pass
    if source.features is not None:
        for _ in source.features.chunks(7):
            pass
    source.small(BUDGET)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edge_index": np.zeros((2, 89), int)}, "has 89 edges"),
        ({"edge_index": np.zeros((2, 91), int)}, "has more than 90 edges"),
        ({"edge_index": np.zeros((3, 90), int)}, r"expected edges as \[2, E\]"),
        ({"edge_index": np.array([[{}, 1], [2, 3]], object)}, "pickles are never loaded"),
        ({"node_feat": np.zeros((29, 6))}, r"shape \(29, 6\), expected one row for each of 30"),
        ({"node_feat": np.zeros(30)}, r"shape \(30,\)"),
        ({"node_feat": np.array([[None]] * 30)}, "pickles are never loaded"),
        ({"edge_feat": np.zeros((89, 2))}, r"shape \(89, 2\)"),
        ({"num_nodes_list": np.array([30, 30])}, "lists 2 graphs"),
        ({"num_nodes_list": np.array([np.nan])}, "says nan"),
        ({"num_nodes_list": None}, "has no array 'num_nodes_list'"),
        ({"edge_index": None}, "has no array edge_index"),
    ],
)
def test_archives_that_disagree(
    tmp_path: Path, changed: dict[str, np.ndarray | None], message: str
) -> None:
    folder = write_ogb(tmp_path, tiny_ogb(), "binary")
    with np.load(folder / "raw" / "data.npz") as held:
        arrays = {**held, **changed}
    kept = {name: values for name, values in arrays.items() if values is not None}
    np.savez(folder / "raw" / "data.npz", **kept)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=message):
        read_all(OgbSource(folder))


def test_labels_of_another_length(tmp_path: Path) -> None:
    folder = write_ogb(tmp_path, tiny_ogb(), "binary")
    np.savez(folder / "raw" / "node-label.npz", node_label=np.zeros((29, 1)))
    with pytest.raises(FormatError, match=r"shape \(29, 1\)"):
        OgbSource(folder).small(BUDGET)


@pytest.mark.parametrize("layout", ["csv", "binary"])
def test_damage_anywhere_is_an_error_of_ours(tmp_path: Path, layout: OgbLayout) -> None:
    folder = write_ogb(tmp_path, tiny_ogb(), layout)
    for path in sorted((folder / "raw").iterdir()):
        content = path.read_bytes()
        for cut in (0, 5, len(content) // 2, len(content) - 3):
            path.write_bytes(content[:cut])
            if path.name.startswith("node_year"):
                read_all(OgbSource(folder))  # not ours to read
                continue
            with pytest.raises(ForegatherError):
                read_all(OgbSource(folder))
        path.write_bytes(content)
    read_all(OgbSource(folder))


def test_missing_files_and_several_types(tmp_path: Path) -> None:
    folder = write_ogb(tmp_path, tiny_ogb())
    (folder / "raw" / "num-edge-list.csv.gz").unlink()
    with pytest.raises(FormatError, match=r"num-edge-list\.csv\.gz is missing"):
        OgbSource(folder)
    shutil.rmtree(folder / "raw")
    (folder / "raw" / "relations").mkdir(parents=True)
    with pytest.raises(FormatError, match="ogbn_arxiv has several types"):
        OgbSource(folder)


def test_unpacked_csv_and_early_stop(tmp_path: Path) -> None:
    graph = tiny_ogb()
    folder = write_ogb(tmp_path, graph)
    packed = folder / "raw" / "edge.csv.gz"
    (folder / "raw" / "edge.csv").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    check(OgbSource(folder), graph, 11)
    chunks = OgbSource(folder).edges(3)
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())
    with pytest.raises(InputError, match="step is 0"):
        next(OgbSource(folder).edges(0))
