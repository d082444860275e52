"""convert: what cannot be kept as it was given is refused by name, and no option is passed over."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from foregather import Graph
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.graph.convert import ReadOptions, convert
from foregather.graph.convert.spool import Spool
from tests.helpers_ogb import tiny_ogb, write_ogb

EDGES = np.array([[0, 1, 2, 2, 4, 0], [1, 0, 0, 0, 4, 4]])
X = np.arange(15, dtype=np.float32).reshape(5, 3)
Y = np.array([0, 1, 2, -1, 1])


def save_npz(path, **arrays):
    np.savez(path, **({"edge_index": EDGES, "x": X, "y": Y} | arrays))
    return path


# ---- numbers that a dtype cannot hold -----------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (
            "auto",
            1e300,
            r"1e\+300 in row 3, column 1, beyond float32 \(3.4028e\+38\).*--dtype source",
        ),
        ("float32", -3.5e38, r"-3.5e\+38 in row 3, column 1, beyond float32"),
        ("float16", 7e4, r"70000 in row 3, column 1, beyond float16 \(65504\).*--dtype float32"),
        ("float16", 1e300, r"1e\+300 in row 3, column 1, beyond float16"),
        ("int8", 1e300, r"1e\+300 in column 1, beyond float32"),
    ],
)
def test_features_beyond_the_dtype_are_refused(tmp_path, dtype, value, message):
    x = X.astype(np.float64)
    x[0, 0] = np.inf  # what is infinite already stays so
    x[3, 1] = value
    if dtype == "int8":
        x[0, 0] = 0
    source = save_npz(tmp_path / "a.npz", x=x)
    with pytest.raises(InputError, match=message):
        convert(source, tmp_path / "g", dtype=dtype)
    assert not (tmp_path / "g").exists()
    if dtype == "auto":
        convert(source, tmp_path / "g", dtype="source")
        assert Graph.open(tmp_path / "g").features[[3]][0, 1] == value


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64 here")
def test_numbers_a_folder_cannot_hold_are_refused_when_it_is_made(tmp_path):
    wide = X.astype(np.longdouble)
    with pytest.raises(InputError, match="features are float.*128.*at most 64 bits"):
        Graph.from_edge_index(EDGES, 5, x=wide)
    with pytest.raises(InputError, match=r"features are float.*128.*at most 64 bits"):
        Graph.from_edge_index(EDGES, 5, edge_attr=np.ones((6, 2), np.longdouble))
    graph = Graph.from_edge_index(EDGES, 5, x=X)
    for name, values, message in (
        ("year", np.ones(5, np.longdouble), "year is float.*128, which a graph folder cannot hold"),
        ("cube", np.ones((2, 2, 2)), r"cube has shape \[rows, 2, 2\], expected one or two"),
        ("Year", np.ones(5), "array name 'Year'"),
    ):
        with pytest.raises(InputError, match=message):
            replace(graph, extra={name: values}).save(tmp_path / "g")
        assert not (tmp_path / "g").exists() and not list(tmp_path.glob("*.partial"))
    source = save_npz(tmp_path / "a.npz", x=wide, edge_attr=np.ones((6, 2), np.longdouble))
    with pytest.raises(InputError, match="edge_features is float.*128"):
        convert(source, tmp_path / "g")
    with pytest.raises(InputError, match="features is float.*128"):
        convert(save_npz(tmp_path / "b.npz", x=wide), tmp_path / "g", dtype="source")
    assert not (tmp_path / "g").exists()


# ---- two arrays for one thing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x", "features"),
        ("x", "x_data"),
        ("y", "labels"),
        ("edge_attr", "edge_features"),
        ("val_idx", "valid_idx"),
        ("validation_mask", "val_idx"),
        ("train_idx", "train_mask"),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_two_arrays_for_one_thing_are_refused(tmp_path, first, second, kind):
    arrays = {"edge_index": EDGES}
    for name in (first, second):
        mask = name.endswith("_mask")
        rows = 6 if name.startswith("edge_") else 5
        arrays[name] = np.ones(5, bool) if mask else np.zeros(rows, np.int64)
    if second == "x_data":
        arrays |= {"x_indices": Y, "x_indptr": Y, "x_shape": np.array([5, 3])}
    if kind == "npz":
        source = tmp_path / "a.npz"
        np.savez(source, **arrays)
    else:
        source = tmp_path / "arrays"
        source.mkdir()
        for name, values in arrays.items():
            np.save(source / f"{name}.npy", values)
    with pytest.raises(InputError, match=f"{first} and {second}|{second} and {first}"):
        convert(source, tmp_path / "g")


def test_a_mask_is_zeros_and_ones(tmp_path):
    ids = save_npz(tmp_path / "a.npz", train_mask=np.array([0, 2, 4, 1, 3]))
    with pytest.raises(InputError, match="train_mask holds 2.*train_idx"):
        convert(ids, tmp_path / "g")
    real = save_npz(tmp_path / "b.npz", train_mask=np.array([0, 1, np.nan, 1, 0]))
    with pytest.raises(InputError, match="train_mask holds nan"):
        convert(real, tmp_path / "g")
    convert(save_npz(tmp_path / "c.npz", train_mask=np.array([0, 1.0, 0, 1, 0])), tmp_path / "g")
    assert Graph.open(tmp_path / "g").split("train").tolist() == [1, 3]


def test_pyg_data_with_a_mask_and_ids_is_refused(tmp_path):
    data = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    mask = torch.tensor([True, False, False, False, True])
    both = data.Data(
        edge_index=torch.from_numpy(EDGES),
        num_nodes=5,
        train_mask=mask,
        train_idx=torch.tensor([1]),
    )
    with pytest.raises(InputError, match="train_mask and train_idx"):
        Graph.from_pyg(both)
    with pytest.raises(InputError, match="train_mask and train_idx"):
        convert(both, tmp_path / "g")


# ---- options that do not apply ------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path):
    convert(save_npz(tmp_path / "a.npz", train_idx=np.arange(2)), tmp_path / "graph")
    np.save(tmp_path / "e.npy", EDGES)
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    write_ogb(tmp_path, tiny_ogb())
    return tmp_path


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("graph", ["--nodes", "5"]),
        ("graph", ["--ids", "sparse"]),
        ("graph", ["--ids", "dense"]),
        ("graph", ["--columns", "1", "2"]),
        ("graph", ["--weight", "3"]),
        ("graph", ["--header", "no"]),
        ("a.npz", ["--columns", "1", "2"]),
        ("a.npz", ["--weight", "edge_weight"]),
        ("a.npz", ["--header", "yes"]),
        ("e.npy", ["--weight", "3"]),
        ("ogbn_arxiv", ["--nodes", "5"]),
        ("ogbn_arxiv", ["--ids", "sparse"]),
        ("ogbn_arxiv", ["--columns", "1", "2"]),
        ("ogbn_arxiv", ["--weight", "3"]),
        ("ogbn_arxiv", ["--header", "no"]),
    ],
)
def test_options_that_do_not_apply_are_refused(sources, source, flags, capsys):
    assert main(["convert", str(sources / source), str(sources / "g"), *flags]) == 2
    said = capsys.readouterr().err
    assert f"{flags[0]} does not apply to" in said and "leave it out" in said
    assert not (sources / "g").exists()


def test_no_splits_leaves_out_the_splits_of_any_source(sources):
    for source in ("graph", "a.npz"):
        assert "splits" not in convert(sources / source, sources / f"{source}-g", splits=False)
        assert not Graph.open(sources / f"{source}-g").splits


def test_a_count_that_the_source_contradicts_is_refused(tmp_path):
    source = save_npz(tmp_path / "a.npz", num_nodes=np.array(5))
    with pytest.raises(InputError, match=r"--nodes is 7, but a.npz says it has 5"):
        convert(source, tmp_path / "g", reading=ReadOptions(num_nodes=7))
    convert(source, tmp_path / "g", reading=ReadOptions(num_nodes=5))


def test_features_that_take_the_place_of_others_are_told(sources):
    np.save(sources / "x.npy", X * 2)
    facts = convert(sources / "graph", sources / "g", features=sources / "x.npy")
    assert "The features of graph were left out; those of x.npy are used instead." in facts["notes"]
    np.testing.assert_array_equal(Graph.open(sources / "g").features[:], X * 2)


def test_the_flag_for_a_header_reaches_the_reader(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("alice,2\n3,4\n")
    command = ["convert", str(tmp_path / "e.csv"), str(tmp_path / "g"), "--header"]
    assert main([*command, "yes"]) == 0
    assert "Line 1, 'alice,2', was skipped as a header." in capsys.readouterr().out
    shutil.rmtree(tmp_path / "g")
    assert main([*command, "no", "--ids", "string"]) == 0
    assert Graph.open(tmp_path / "g").num_edges == 2


def test_labels_that_are_no_classes_are_told(tmp_path, capsys):
    save_npz(tmp_path / "a.npz", y=Y + 0.5)
    assert main(["convert", str(tmp_path / "a.npz"), str(tmp_path / "g")]) == 0
    assert "labels: float, numbers, not classes, 0 missing" in capsys.readouterr().out


# ---- more memory than there is ------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["1TB", "900000TB"])
@pytest.mark.parametrize("ids", ["dense", "sparse"])
def test_a_budget_beyond_the_machine_is_what_the_machine_has(tmp_path, memory, ids):
    source = save_npz(tmp_path / "a.npz", x=X) if ids == "dense" else tmp_path / "e.csv"
    (tmp_path / "e.csv").write_text("5,1\n1,70\n")
    facts = convert(source, tmp_path / "g", memory=memory, reading=ReadOptions(ids=ids))
    assert facts["num_edges"] in (2, 6) and facts["peak_memory"] < 4 << 30


def test_buffers_that_cannot_be_had_are_a_sentence(tmp_path, monkeypatch):
    def refused(*args, **more):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("foregather.graph.convert.spool.np.empty", refused)
    dtype = np.dtype([("key", "<u8")])
    with pytest.raises(BudgetError, match="cannot allocate .* for sorting.*smaller --memory"):
        Spool(tmp_path / "s", dtype, 1 << 20, ("key",))
