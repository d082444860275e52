"""Edge lists, Parquet tables and OGB folders, all the way through the engine to a graph."""

import gzip
import itertools

import numpy as np
import pytest

from foregather.errors import ForegatherError, FormatError, InputError
from foregather.graph import Graph
from foregather.graph.convert import ReadOptions, convert
from tests.helpers_ogb import tiny_ogb, write_ogb
from tests.oracle import csc

RNG = np.random.default_rng(0)
EDGES = RNG.integers(0, 50, (2, 300))
EDGES[0, 0] = 49
NAMES = [f"user {i * 7919 % 1000}, é" for i in range(50)]


def expect(folder, edge_index, num_nodes, **rules):
    graph = Graph.open(folder)
    graph.verify()
    indptr, indices, origin = csc(edge_index, num_nodes, **rules)
    np.testing.assert_array_equal(graph.indptr, indptr)
    np.testing.assert_array_equal(graph.indices, indices)
    return graph, origin


@pytest.mark.parametrize("delimiter", [",", "\t", " ", ";"])
@pytest.mark.parametrize("gz", [False, True])
def test_text(tmp_path, delimiter, gz):
    lines = ["# a comment", *(f"{s}{delimiter}{t}{delimiter}{s + t}.5" for s, t in EDGES.T)]
    data = "\n".join(lines).encode()
    path = tmp_path / ("e.txt.gz" if gz else "e.txt")
    path.write_bytes(gzip.compress(data) if gz else data)
    convert(path, tmp_path / "g", reading=ReadOptions(weight="3"))
    graph, origin = expect(tmp_path / "g", EDGES, 50)
    np.testing.assert_array_equal(graph.edge_weight, (EDGES.sum(0) + 0.5)[origin])


def names_of(graph):
    data, offsets = graph.extra["mapping_bytes"].tobytes(), graph.extra["mapping_offsets"]
    return [data[a:b].decode() for a, b in itertools.pairwise(offsets)]


def check_names(folder, pairs):
    graph = Graph.open(folder)
    graph.verify()
    names = names_of(graph)
    assert sorted(names) == sorted({n for pair in pairs for n in pair})
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    found = [(names[s], names[t]) for s, t in zip(graph.indices, target, strict=True)]
    assert sorted(found) == sorted(pairs)


def test_text_with_names(tmp_path):
    pairs = [(NAMES[s], NAMES[t]) for s, t in EDGES.T]
    rows = "".join(f'"{s}","{t}"\n' for s, t in pairs)
    (tmp_path / "e.csv").write_text("from,to\n" + rows)
    convert(tmp_path / "e.csv", tmp_path / "g")
    check_names(tmp_path / "g", pairs)


@pytest.mark.parametrize("kind", ["int64", "int32", "string", "dictionary"])
def test_parquet(tmp_path, kind):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    pairs = [(NAMES[s], NAMES[t]) for s, t in EDGES.T]
    if kind.startswith("int"):
        columns = [arrow.array(row.astype(kind)) for row in EDGES]
    else:
        columns = [arrow.array(list(side)) for side in zip(*pairs, strict=True)]
        if kind == "dictionary":
            columns = [column.dictionary_encode() for column in columns]
    table = arrow.table({"src": columns[0], "dst": columns[1]})
    (tmp_path / "parts").mkdir()
    parquet.write_table(table.slice(0, 100), tmp_path / "parts/a.parquet")
    parquet.write_table(table.slice(100), tmp_path / "parts/b.parquet")
    convert(tmp_path / "parts", tmp_path / "g", undirected=False)
    if kind.startswith("int"):
        expect(tmp_path / "g", EDGES, 50)
    else:
        check_names(tmp_path / "g", pairs)


@pytest.mark.parametrize("layout", ["csv", "binary"])
@pytest.mark.parametrize("missing", [False, True])
def test_ogb(tmp_path, layout, missing):
    source = tiny_ogb(missing=missing)
    facts = convert(write_ogb(tmp_path, source, layout), tmp_path / "g")
    graph, _ = expect(tmp_path / "g", source.edge_index, source.num_nodes)
    np.testing.assert_array_equal(graph.features.data, source.node_feat)
    label = source.node_label[:, 0]
    np.testing.assert_array_equal(graph.labels, np.where(np.isnan(label), -1, label))
    for name, ids in source.splits.items():
        np.testing.assert_array_equal(graph.split(name), ids)
    assert any("pass --undirected" in note for note in facts["notes"])


@pytest.mark.parametrize("layout", ["csv", "binary"])
def test_ogb_products_is_made_undirected_and_says_so(tmp_path, layout):
    source = tiny_ogb()
    folder = write_ogb(tmp_path, source, layout, name="ogbn_products", split="sales_ranking")
    facts = convert(folder, tmp_path / "g")
    expect(tmp_path / "g", source.edge_index, source.num_nodes, undirected=True)
    assert facts["undirected"] and any("Reverse edges were added" in n for n in facts["notes"])
    convert(folder, tmp_path / "h", undirected=False)
    expect(tmp_path / "h", source.edge_index, source.num_nodes)


def test_a_pickled_split_is_never_loaded(tmp_path):
    folder = write_ogb(tmp_path, tiny_ogb())
    for part in (folder / "split/time").iterdir():
        part.unlink()
    (folder / "split/time/split_dict.pt").write_bytes(b"\x80\x02cposix\nsystem\n")
    with pytest.raises(FormatError, match="pickle"):
        convert(folder, tmp_path / "g")
    convert(folder, tmp_path / "g", splits=False)
    assert not Graph.open(tmp_path / "g").splits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("# only a comment\n", "e.csv"),
        ("0,1\n2\n", "no delimiter splits its first lines"),
        ("0,1\n" * 50_000 + "2\n", "line 50001"),
        ("0,1\n1,nan\n", "line 2"),
        ("0,1\n-1,2\n", "edge 1 has source -1"),
        ("0,1\n99999999999,2\n", "--ids sparse"),
    ],
)
def test_bad_text(tmp_path, text, message):
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(ForegatherError, match=message):
        convert(tmp_path / "e.csv", tmp_path / "g")
    assert [p.name for p in tmp_path.iterdir()] == ["e.csv"]


def test_features_need_dense_ids(tmp_path):
    (tmp_path / "e.csv").write_text("5,7\n7,9\n")
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match="features need dense ids"):
        sparse = ReadOptions(ids="sparse")
        convert(tmp_path / "e.csv", tmp_path / "g", reading=sparse, features=tmp_path / "x.npy")
