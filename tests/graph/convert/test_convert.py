"""convert: every kind of source becomes the graph an oracle expects, whatever the budget."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from foregather.errors import BudgetError, FormatError, InputError, StorageError
from foregather.graph import Graph
from foregather.graph.convert import ReadOptions, convert, run, topology
from foregather.sampling import Neighbor
from tests.oracle import csc

EDGES = np.array([[0, 1, 2, 2, 4, 0], [1, 0, 0, 0, 4, 4]])
X = np.arange(15, dtype=np.float32).reshape(5, 3)
Y = np.array([0, 1, 2, -1, 1])


def expect(folder, edge_index=EDGES, num_nodes=5, **rules):
    graph = Graph.open(folder)
    graph.verify()
    indptr, indices, _ = csc(edge_index, num_nodes, **rules)
    np.testing.assert_array_equal(graph.indptr, indptr)
    np.testing.assert_array_equal(graph.indices, indices)
    return graph


def save_npz(path, **extra):
    arrays = {"edge_index": EDGES, "num_nodes": 5, "x": X, "y": Y, "train_idx": [0, 2]}
    np.savez_compressed(path, **(arrays | {"val_mask": Y > 0} | extra))
    return path


def test_npz_with_everything(tmp_path):
    source = save_npz(
        tmp_path / "a.npz", edge_weight=np.arange(6.0), edge_attr=np.ones((6, 2)), year=Y
    )
    facts = convert(source, tmp_path / "g")
    graph = expect(tmp_path / "g")
    np.testing.assert_array_equal(graph.features[np.arange(5)], X)
    np.testing.assert_array_equal(graph.labels, Y)
    np.testing.assert_array_equal(graph.split("train"), [0, 2])
    np.testing.assert_array_equal(graph.split("valid"), [1, 2, 4])
    order = csc(EDGES, 5)[2]
    np.testing.assert_array_equal(graph.edge_weight, order.astype(np.float32))
    assert graph.edge_features.data.shape == (6, 2)
    assert facts["notes"][0] == "Not converted: year."
    assert facts["num_edges"] == 6 and facts["peak_memory"] > 0


@pytest.mark.parametrize("rules", [{"undirected": True}, {"self_loops": True}, {"dedup": True}])
def test_edge_rules(tmp_path, rules):
    convert(save_npz(tmp_path / "a.npz"), tmp_path / "g", **rules)
    expect(tmp_path / "g", **rules)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, ">i4", np.float64])
@pytest.mark.parametrize("transposed", [False, True])
def test_npy_edge_lists(tmp_path, order, dtype, transposed):
    edges = (EDGES.T if transposed else EDGES).astype(dtype)
    np.save(tmp_path / "e.npy", np.array(edges, order=order))
    convert(tmp_path / "e.npy", tmp_path / "g")
    expect(tmp_path / "g")
    np.savez(tmp_path / "e.npz", edge_index=np.array(edges, order=order))
    convert(tmp_path / "e.npz", tmp_path / "h")
    expect(tmp_path / "h")


def test_a_folder_of_npy_files(tmp_path):
    folder = tmp_path / "arrays"
    folder.mkdir()
    for name, array in {"edge_index": EDGES, "features": X, "labels": Y, "test_idx": Y}.items():
        np.save(folder / f"{name}.npy", np.abs(array) if name == "test_idx" else array)
    convert(folder, tmp_path / "g")
    graph = expect(tmp_path / "g")
    np.testing.assert_array_equal(graph.features[np.arange(5)], X)
    np.testing.assert_array_equal(graph.split("test"), [0, 1, 2, 1, 1])


def test_sparse_features(tmp_path):
    matrix = sp.random(50, 30, 0.2, "csr", random_state=0, dtype=np.float32)
    np.savez(
        tmp_path / "a.npz",
        edge_index=EDGES,
        num_nodes=50,
        x_data=matrix.data,
        x_indices=matrix.indices.astype(np.uint16),
        x_indptr=matrix.indptr.astype(np.int64),
        x_shape=matrix.shape,
    )
    convert(tmp_path / "a.npz", tmp_path / "g")
    np.testing.assert_array_equal(Graph.open(tmp_path / "g").features.data, matrix.toarray())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_indptr": np.array([0, 1, 1, 9, 2, 2])}, "do not make a CSR matrix"),
        ({"x_indices": np.array([0, 7], np.uint16)}, "x_indices holds column 7"),
        ({"x_shape": np.array([4, 3])}, "do not make a CSR matrix"),
    ],
)
def test_broken_sparse_features(tmp_path, change, message):
    arrays = {
        "edge_index": EDGES,
        "x_data": np.ones(2, np.float32),
        "x_indices": np.array([0, 1], np.uint16),
        "x_indptr": np.array([0, 1, 1, 2, 2, 2]),
        "x_shape": np.array([5, 3]),
    }
    np.savez(tmp_path / "a.npz", **(arrays | change))
    with pytest.raises(FormatError, match=message):
        convert(tmp_path / "a.npz", tmp_path / "g")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "source", "auto"])
def test_feature_storage_and_its_measured_error(tmp_path, dtype):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [1, 100, 0]
    facts = convert(save_npz(tmp_path / "a.npz", x=x), tmp_path / "g", dtype=dtype)
    graph = Graph.open(tmp_path / "g")
    stored = graph.features[np.arange(5)].astype(np.float64)
    kept = {"source": "float64", "auto": "float32"}.get(dtype, dtype)
    assert graph.features.data.dtype == kept
    if dtype == "source":
        np.testing.assert_array_equal(stored, x)
        assert "error" not in facts["features"]
        return
    error = np.abs(stored - x)
    measured = facts["features"]["error"]
    assert measured["max_abs"] == pytest.approx(error.max(), rel=1e-6)
    assert measured["rms"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
    bound = {"int8": np.abs(x).max(axis=0) / 254 * 1.001}.get(dtype, np.abs(x) * 2.0**-10)
    assert (error <= bound + 1e-12).all()
    assert json.loads((tmp_path / "g/meta.json").read_text())["features"]["error"] == measured


def test_features_from_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float16))
    np.savez(tmp_path / "e.npz", edge_index=EDGES, num_nodes=5)
    convert(tmp_path / "e.npz", tmp_path / "g", features=tmp_path / "x.npy")
    graph = Graph.open(tmp_path / "g")
    assert graph.features.data.dtype == np.float16
    np.testing.assert_array_equal(graph.features.data, X)


def test_sparse_ids_are_renumbered(tmp_path):
    names = np.array([10**12, -7, 0, 3, 5 * 10**15])
    np.save(tmp_path / "e.npy", names[EDGES])
    convert(tmp_path / "e.npy", tmp_path / "g", reading=ReadOptions(ids="sparse"))
    mapping = np.load(tmp_path / "g/mapping.npy")
    used = np.unique(names[EDGES])
    np.testing.assert_array_equal(mapping, used)
    expect(tmp_path / "g", np.searchsorted(used, names[EDGES]), len(used))


def test_pyg_data_and_a_data_set_of_one(tmp_path):
    torch = pytest.importorskip("torch")
    data_class = pytest.importorskip("torch_geometric.data").Data
    data = data_class(
        x=torch.from_numpy(X),
        edge_index=torch.from_numpy(EDGES),
        y=torch.from_numpy(Y),
        train_mask=torch.from_numpy(Y == 0),
    )
    convert(data, tmp_path / "g")
    graph = expect(tmp_path / "g")
    np.testing.assert_array_equal(graph.split("train"), [0])
    convert([data], tmp_path / "h")
    assert (tmp_path / "h/indices.npy").read_bytes() == (tmp_path / "g/indices.npy").read_bytes()
    with pytest.raises(InputError, match="cannot convert a list"):
        convert([data, data], tmp_path / "i")


def test_a_graph_folder_again(tmp_path):
    convert(save_npz(tmp_path / "a.npz", edge_weight=np.arange(6.0)), tmp_path / "g")
    convert(tmp_path / "g", tmp_path / "h")
    for path in sorted((tmp_path / "g").rglob("*.npy")):
        other = tmp_path / "h" / path.relative_to(tmp_path / "g")
        assert path.read_bytes() == other.read_bytes()
    convert(tmp_path / "g", tmp_path / "u", undirected=True, dtype="float16")
    assert Graph.open(tmp_path / "u").features.data.dtype == np.float16
    expect(tmp_path / "u", undirected=True)


def test_the_result_does_not_depend_on_memory_or_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_working_memory", lambda memory: memory)
    rng = np.random.default_rng(3)
    edges = (3000 * rng.random((2, 40_000)) ** 2).astype(np.int64)
    np.savez(tmp_path / "a.npz", edge_index=edges, x=rng.normal(size=(3000, 5)), y=edges[0, :3000])
    for name, memory, threads in (("a", "300KB", 1), ("b", "2GB", 2), ("c", "2MB", 8)):
        options = {"memory": memory, "threads": threads, "undirected": True, "dtype": "int8"}
        convert(tmp_path / "a.npz", tmp_path / name, **options)
    for path in sorted((tmp_path / "a").rglob("*.*")):
        for name in ("b", "c"):
            assert (
                path.read_bytes()
                == (tmp_path / name / path.relative_to(tmp_path / "a")).read_bytes()
            )


def test_ids_beyond_32_bits_are_read_again_with_64(tmp_path, monkeypatch):
    monkeypatch.setattr(topology, "is_wide", lambda count: count > 3)
    np.save(tmp_path / "e.npy", EDGES)
    convert(tmp_path / "e.npy", tmp_path / "g")
    expect(tmp_path / "g")


EMPTY = np.empty((2, 0), np.int64)


@pytest.mark.parametrize(
    ("edges", "nodes"), [(EMPTY, 0), (EMPTY, 1), (EMPTY, 7), ([[0], [0]], 1), ([[0, 0], [0, 0]], 1)]
)
def test_tiny_graphs(tmp_path, edges, nodes):
    np.savez(tmp_path / "a.npz", edge_index=np.array(edges), num_nodes=nodes)
    for name, rules in (("a", {}), ("b", {"self_loops": True}), ("c", {"undirected": True})):
        convert(tmp_path / "a.npz", tmp_path / name, **rules)
        expect(tmp_path / name, np.array(edges), nodes, **rules)


BAD = [
    (dict(edge_index=EDGES - 1), InputError, "edge 0 has source -1"),
    (dict(edge_index=EDGES + 9), InputError, "edge 4 has source 13, but the graph has 5 nodes"),
    (dict(edge_index=EDGES + np.nan), InputError, "has source nan, expected an integer id"),
    (dict(edge_index=EDGES[0]), FormatError, r"shape \(6,\), expected \[2, E\]"),
    (dict(x=X[:4]), InputError, "features have 4 rows, but the graph has 5 nodes"),
    (dict(x=X[None]), FormatError, "expected a matrix of numbers"),
    (dict(x=X.astype(str)), FormatError, "expected a matrix of numbers"),
    (dict(y=Y[:3]), InputError, "expected 5 rows"),
    (dict(y=Y - 5), InputError, "label -6"),
    (dict(train_idx=[9]), InputError, "split train holds 9 at position 0, but there are 5 nodes"),
    (dict(edge_weight=np.ones(3)), InputError, r"edge_weight has shape \(3,\), expected 6 rows"),
    (dict(num_nodes=-1), FormatError, "num_nodes in a.npz is not a count"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD)
def test_bad_arrays(tmp_path, change, kind, message):
    source = save_npz(tmp_path / "a.npz", **change)
    before = source.read_bytes()
    with pytest.raises(kind, match=message):
        convert(source, tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"] and source.read_bytes() == before


def test_absurd_ids_point_to_renumbering(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 10**9], [1, 2]]))
    with pytest.raises(InputError, match="pass --ids sparse"):
        convert(tmp_path / "e.npy", tmp_path / "g")


def test_budgets_and_options(tmp_path):
    source = save_npz(tmp_path / "a.npz")
    with pytest.raises(
        BudgetError, match=r"--memory is 10 MB, but this needs at least [\d.]+ [MG]B"
    ):
        convert(source, tmp_path / "g", memory="10MB")
    with pytest.raises(InputError, match="dtype is 'float8'"):
        convert(source, tmp_path / "g", dtype="float8")
    with pytest.raises(InputError, match="beyond float16"):
        convert(save_npz(tmp_path / "b.npz", x=X * 1e6), tmp_path / "g", dtype="float16")
    with pytest.raises(InputError, match="NaN or infinity in column 0"):
        convert(save_npz(tmp_path / "c.npz", x=X * np.nan), tmp_path / "g", dtype="int8")
    with pytest.raises(StorageError, match="does not exist"):
        convert(tmp_path / "missing.npz", tmp_path / "g")
    with pytest.raises(FormatError, match="pickles are never loaded"):
        (tmp_path / "data.pt").write_bytes(b"")
        convert(tmp_path / "data.pt", tmp_path / "g")
    with pytest.raises(FormatError, match="not a supported source"):
        (tmp_path / "data.xyz").write_bytes(b"")
        convert(tmp_path / "data.xyz", tmp_path / "g")
    assert not (tmp_path / "g").exists() and not (tmp_path / "g.partial").exists()


@pytest.mark.parametrize("ids", ["dense", "sparse"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_weights_that_are_no_numbers_are_refused(tmp_path, ids, value):
    weights = np.arange(6.0)
    weights[[4, 5]] = value
    np.savez(tmp_path / "a.npz", edge_index=EDGES, edge_weight=weights)
    with pytest.raises(InputError, match=r"edge 4 has weight .*, expected a finite number"):
        convert(tmp_path / "a.npz", tmp_path / "g", reading=ReadOptions(ids=ids))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz"]


def test_negative_weights_are_kept_counted_and_not_drawn_by(tmp_path):
    weights = np.arange(6.0) - 2
    source = save_npz(tmp_path / "a.npz", edge_weight=weights)
    facts = convert(source, tmp_path / "g", undirected=True)
    graph = Graph.open(tmp_path / "g")
    negative = int((graph.edge_weight < 0).sum())
    assert negative and graph.meta["edge_weight"] == {"negative": negative}
    said = f"The weight of {negative} edges is negative: models use it unchanged"
    assert any(note.startswith(said) for note in facts["notes"])
    assert "negative" in graph.verify().warnings[0]
    for weighted in (dict(), dict(replace=True), dict(expand="per-layer")):
        sampler = Neighbor([2], weights=True, **weighted)
        with pytest.raises(InputError, match="negative"):
            sampler.sample_bulk(graph, [np.arange(5)], seed=0)
    plain = save_npz(tmp_path / "b.npz", edge_weight=weights + 2)
    assert "edge_weight" not in convert(plain, tmp_path / "h")


def test_a_label_beyond_any_count_of_classes_takes_no_memory(tmp_path):
    source = save_npz(tmp_path / "a.npz", y=np.array([0, 2**40, -1, 3, 4]))
    facts = convert(source, tmp_path / "g")
    graph = expect(tmp_path / "g")
    assert graph.labels.tolist() == [0, 2**40, -1, 3, 4]
    assert facts["labels"] == {"kind": "single", "num_classes": 2**40 + 1, "missing": 1}


def test_object_arrays_and_bombs_are_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", edge_index=np.array([{}], dtype=object), num_nodes=5)
    with pytest.raises(FormatError, match="pickles are never loaded"):
        convert(tmp_path / "a.npz", tmp_path / "g")
    # 400 MB of zeros compress to almost nothing; as labels they would have to be held whole
    np.savez_compressed(tmp_path / "b.npz", edge_index=EDGES, y=np.zeros((50_000_000,), np.int64))
    assert (tmp_path / "b.npz").stat().st_size < 1_000_000
    monkeypatch.setattr(run, "_working_memory", lambda memory: memory)
    with pytest.raises(BudgetError, match="y in b.npz needs 400 MB"):
        convert(tmp_path / "b.npz", tmp_path / "g", memory="700MB")
    assert not (tmp_path / "g").exists() and not (tmp_path / "g.partial").exists()


def test_more_nodes_than_a_file_can_have_rows_are_refused(tmp_path):
    path = tmp_path / "edges.npz"
    np.savez(path, edge_index=np.zeros((2, 3), np.int64), num_nodes=np.int64(2**62))
    with pytest.raises(StorageError, match="more than a file can have"):
        convert(path, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


def test_what_was_refused_gives_its_memory_back(tmp_path):
    path = tmp_path / "edges.npy"
    np.save(path, np.array([[0, 1], [1, -2]]))
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            convert(path, tmp_path / "graph", memory="2GB")
        assert tracemalloc.get_traced_memory()[0] < 50_000_000, caught  # which holds its frames
        assert tracemalloc.get_traced_memory()[1] > 500_000_000
    finally:
        tracemalloc.stop()


def test_more_than_the_disk_holds_is_refused_at_once(tmp_path):
    # A sparse file: the header and the size are honest, the disk holds almost none of it.
    with open(tmp_path / "e.npy", "wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (2, 10**11)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 16 * 10**11)
    with pytest.raises(StorageError, match="needs about 1.2 TB of disk"):
        convert(tmp_path / "e.npy", tmp_path / "g")


REAL = {  # name: (nodes, edges both ways or as stored, feature width, classes)
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "tolokers": (11758, 1038000, 10, 2),
    "squirrel": (5201, 396706, 2089, 5),
    "blogcatalog": (10312, 667966, None, 39),
    "ogbn_arxiv": (169343, 1166243, None, 40),
}


@pytest.mark.parametrize("name", REAL)
def test_real_graphs(name, data_folder, tmp_path):
    nodes, edges, width, classes = REAL[name]
    convert(data_folder / f"{name}.npz", tmp_path / "g")
    graph = Graph.open(tmp_path / "g")
    graph.verify()
    assert (graph.num_nodes, graph.num_edges) == (nodes, edges)
    assert graph.meta["labels"]["num_classes"] == classes
    assert (graph.features.width if graph.features else None) == width
    with np.load(data_folder / f"{name}.npz") as arrays:
        matrix = sp.coo_matrix(
            (np.ones(edges, np.int8), tuple(arrays["edge_index"])), shape=(nodes, nodes)
        ).tocsc()
        np.testing.assert_array_equal(graph.indptr, matrix.indptr)
        np.testing.assert_array_equal(graph.indices, matrix.indices)
        if "train_idx" in arrays:
            np.testing.assert_array_equal(graph.split("train"), arrays["train_idx"])


def test_arxiv_undirected_with_surrogate_features(data_folder, tmp_path):
    facts = convert(
        data_folder / "ogbn_arxiv.npz",
        tmp_path / "g",
        undirected=True,
        features=data_folder / "ogbn_arxiv_surrogate_x.npz",
    )
    assert facts["num_edges"] == 2_315_598  # the published count of the symmetrised graph
    assert Graph.open(tmp_path / "g").features.data.dtype == np.float16
