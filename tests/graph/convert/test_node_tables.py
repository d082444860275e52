"""Node tables: features, labels and splits reach the nodes whose ids they name."""

import csv
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import BudgetError, ForegatherError, InputError
from foregather.graph import Graph
from foregather.graph.convert import NodeFile, ReadOptions, convert, run

IDS = {
    "dense": st.integers(0, 40),
    "sparse": st.integers(-(2**62), 2**62),
    "string": st.text("abcé ,\"'0", min_size=1, max_size=6).filter(lambda s: s.strip() == s),
}
NUMBER = st.floats(width=32, allow_nan=False, allow_infinity=False)
LABELS = ["cat", "dog", "a, b", "10", "9é"]


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_parquet(path, header, rows):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = zip(*rows, strict=True) if rows else [[] for _ in header]
    parquet.write_table(
        arrow.table({name: arrow.array(list(c)) for name, c in zip(header, columns, strict=True)}),
        path,
        row_group_size=7,
    )


@st.composite
def tables(draw):
    """Kind of ids, edges, and rows of id, label, split and two features by id."""
    kind = draw(st.sampled_from(sorted(IDS)))
    ids = IDS[kind]
    edges = draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=30))
    known = draw(st.lists(ids, max_size=30, unique=True))
    rows = {
        one: (
            draw(st.sampled_from([*LABELS, ""])),
            draw(st.sampled_from(["train", "val", "test", ""])),
            draw(NUMBER),
            draw(st.one_of(NUMBER, st.none())),
        )
        for one in [*known, *(v for v in {edges[0][0]} if v not in known)]
    }
    return kind, edges, rows


@settings(max_examples=40, deadline=None)
@given(
    drawn=tables(),
    work=st.sampled_from([60_000, 1 << 24]),
    form=st.sampled_from(["csv", "gz", "parquet"]),
)
def test_rows_reach_their_nodes(drawn, work, form, tmp_path_factory):
    kind, edges, rows = drawn
    folder = tmp_path_factory.mktemp("n")
    write_csv(folder / "e.csv", edges)
    header = ["label", "x", "key", "split", "z"]
    lines = [[label, x, one, split, z] for one, (label, split, x, z) in rows.items()]
    path = folder / f"n.{'csv.gz' if form == 'gz' else form}"
    if form == "parquet":
        write_parquet(path, header, [[a or None, x, i, s, z] for a, x, i, s, z in lines])
    else:
        write_csv(folder / "n.csv", [header, *lines])
        if form == "gz":
            path.write_bytes(gzip.compress((folder / "n.csv").read_bytes()))
    options = {"label_kind": "text", "fill": 7.5, "features": ("x", "z")}
    reading = ReadOptions(ids=kind, header=False, table=NodeFile(path, id="key", **options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_working_memory", lambda memory: work)
        facts = convert(folder / "e.csv", folder / "g", reading=reading)
    graph = Graph.open(folder / "g")
    graph.verify()
    everyone = {one for edge in edges for one in edge} | set(rows)
    if kind == "dense":
        everyone = set(range(max(everyone) + 1))
    names = list(graph.original_ids(np.arange(graph.num_nodes)))
    assert len(names) == len(everyone) and set(names) == everyone
    classes = facts["labels"]["classes"]
    assert classes == sorted({row[0] for row in rows.values()} - {""})
    for node, name in enumerate(names):
        label, _, x, z = rows.get(name, ("", "", 7.5, 7.5))
        stored = np.array([x, 7.5 if z is None else z], np.float32)
        np.testing.assert_array_equal(graph.features.data[node], stored)
        assert int(graph.labels[node]) == (classes.index(label) if label else -1)
    named = {row[1] for row in rows.values()} - {""}
    assert set(graph.splits) == {"valid" if split == "val" else split for split in named}
    for split in named:
        assert set(graph.original_ids(graph.split(split))) == {
            one for one, row in rows.items() if row[1] == split
        }
    assert facts["labels"]["missing"] == sum(not rows.get(name, ("",))[0] for name in names)
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    found = [(names[s], names[t]) for s, t in zip(graph.indices, target, strict=True)]
    assert sorted(found) == sorted(edges)


def convert_table(folder, nodes, edges="a,b\nb,c\n", name="n.csv", **options):
    (folder / "e.csv").write_text(edges)
    (folder / name).write_text(nodes)
    ids = options.pop("ids", "auto")
    table = NodeFile(folder / name, **options)
    return convert(
        folder / "e.csv", folder / "g", reading=ReadOptions(ids=ids, header=False, table=table)
    )


def test_columns_of_usual_names_are_found(tmp_path):
    facts = convert_table(
        tmp_path,
        "Name\tage\tclass\ttitle\tsplit\nb\t3\t0\tx\ttrain\na\t4\t2\ty\t\nc\t5\t\tz\ttest\n",
    )
    graph = Graph.open(tmp_path / "g")
    a, b, c = graph.nodes_of(["a", "b", "c"]).tolist()
    assert graph.features.data[[a, b, c], 0].tolist() == [4, 3, 5]
    assert graph.labels[[a, b, c]].tolist() == [2, 0, -1]
    assert graph.split("train").tolist() == [b] and graph.split("test").tolist() == [c]
    assert any("Not read: column 4 (title)" in note for note in facts["notes"])
    assert "classes" not in facts["labels"]


def test_numbers_that_are_not_whole_are_no_classes(tmp_path):
    convert_table(tmp_path, "id,y\na,0.5\nb,\nc,-3\n", features=())
    graph = Graph.open(tmp_path / "g")
    labels = graph.labels[graph.nodes_of(["a", "b", "c"])]
    assert (
        labels.dtype == np.float32 and np.isnan(labels[1]) and labels[[0, 2]].tolist() == [0.5, -3]
    )
    assert graph.features is None


def test_a_table_without_header_goes_by_position(tmp_path):
    convert_table(tmp_path, "1.5,a\n2.5,b\n3.5,c\n", id="2")
    graph = Graph.open(tmp_path / "g")
    assert graph.features.data[graph.nodes_of(["c", "a"]), 0].tolist() == [3.5, 1.5]


def test_names_may_start_like_comments(tmp_path):
    convert_table(tmp_path, "id,x\n#a,1\n%b,2\nc,3\n", edges="c,#a\nc,%b\n")
    graph = Graph.open(tmp_path / "g")
    assert graph.features.data[graph.nodes_of(["#a", "%b", "c"]), 0].tolist() == [1, 2, 3]


def test_a_list_of_ids_adds_isolated_nodes(tmp_path):
    convert_table(tmp_path, "x\nyy\nb\n", header=False)
    graph = Graph.open(tmp_path / "g")
    assert graph.num_nodes == 5 and graph.num_edges == 2
    graph.nodes_of(["x", "yy"])


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_features_of_a_table_are_cast(tmp_path, dtype):
    (tmp_path / "e.csv").write_text("a,b\n")
    (tmp_path / "n.csv").write_text("id,x\nb,-127\na,64\n")
    reading = ReadOptions(header=False, table=NodeFile(tmp_path / "n.csv"))
    convert(tmp_path / "e.csv", tmp_path / "g", reading=reading, dtype=dtype)
    graph = Graph.open(tmp_path / "g")
    assert graph.features.dtype == dtype
    assert graph.features[graph.nodes_of(["a", "b"])][:, 0].tolist() == [64, -127]


def test_a_header_that_was_read_as_an_edge_is_said_where_its_nodes_have_no_row(tmp_path):
    (tmp_path / "n.csv").write_text("name,x\nx,1\nyy,2\n")
    (tmp_path / "e.csv").write_text("from whom,to\nx,yy\n")
    options = ReadOptions(table=NodeFile(tmp_path / "n.csv"))
    with pytest.raises(
        InputError, match="line 1 of e.csv, 'from whom,to', was read as an edge.*--header yes"
    ):
        convert(tmp_path / "e.csv", tmp_path / "g", reading=options)
    (tmp_path / "e.csv").write_text("yy,x\nx,yy\nx,only here\n")
    with pytest.raises(InputError, match="1 of 3 nodes have no row in n.csv.*of 0$"):
        convert(tmp_path / "e.csv", tmp_path / "g", reading=options)
    assert not (tmp_path / "g").exists()


BAD = [
    ("id,x\na,1\nb,2\n", {}, "1 of 3 nodes have no row in n.csv, the first is 'c'"),
    ("id,x\na,1\nb,2\nc,3\na,4\n", {}, "same id in line 2 and in line 5"),
    ("id,x\n" + "".join(f"n{k},1\n" for k in range(999)) + "n3,1\n", {}, "line 5 and in line 1001"),
    ("id,x\na,1\nb,\nc,3\n", {}, r"line 3 has no number in column 2 \(x\)"),
    ("id,x\na,1\nb,nan\nc,3\n", {}, "line 3 has no number"),
    ("id,x\na,1\nb,1e39\nc,3\n", {}, "line 3 has a number beyond float32"),
    ("id,x\na,1\nb,two\nc,3\n", {"features": ("x",)}, "line 3 has 'two' in column 2"),
    ("id,x\na,1\nb,2,3\n", {}, "n.csv"),
    ("id,x\na,1\n,2\n", {}, "line 3 has nothing in column 1, expected an id"),
    ("id,y\na,1\nb,NA\nc,2\n", {}, "line 3 has the label 'NA', but other lines have numbers"),
    ("id,y\na,1\nb,-2\nc,2\n", {}, "line 3 has the label -2, expected a class"),
    ("id,y\na,1\nb,inf\nc,2\n", {}, "line 3 has the label inf"),
    ("id,split\na,tr ain\nb,x\nc,y\n", {}, "split name 'tr ain'"),
    (
        "id,split\na,s\n" + "".join(f"n{k},s{k}\n" for k in range(100)),
        {},
        "names 101 different splits",
    ),
    ("id,x\n", {}, "has a header and no rows"),
    ("", {}, "n.csv is empty"),
    ("a,b\nb,c\n", {}, "pass --node-header yes"),
    ("id,x\na,1\n", {"label": "z"}, "has no column named 'z'"),
    ("id,x\na,1\n", {"label": "x", "features": ("x",)}, "requested twice"),
    ("id,x\nd,1\ne,2\n", {"fill": 0}, "no id of n.csv is in the edges, which have, for example, '"),
    ("id,y,label\na,1,2\nb,2,1\nc,3,0\n", {}, "has the column 'y', which would be a feature"),
    ("id,y,Y\na,1,2\nb,2,1\nc,3,0\n", {"label": "Y"}, "'y', which would be a feature"),
    (f"id,label\na,x\nb,{'x' * 1001}\nc,x\n", {}, "at most 1000 bytes"),
    ("id,x\na,1\n", {"id": "9"}, "column 9 was requested"),
    ("id,kind\na,1\nb,2\nc,3\n", {"fill": 0, "features": ()}, "--fill has no effect"),
    ("id,x\na,1\n", {"label_kind": "text"}, "--node-label-kind has no effect"),
    ("id,x,when\na,1,2\n", {"time": "when"}, "--node-time has no effect"),
    ("id,x\na,1\nb,2\nc,3\n", {"ids": "dense", "edges": "0,1\n"}, "line 2 has 'a' in column 1"),
    ("id,x\n0,1\n-1,2\n", {"edges": "0,1\n"}, "line 3 has the id -1"),
    ("id,x\n0,1\n99999999999,2\n", {"edges": "0,1\n"}, "--ids sparse"),
]


@pytest.mark.parametrize(("nodes", "options", "message"), BAD, ids=[one[2] for one in BAD])
def test_bad_tables_are_refused(tmp_path, nodes, options, message):
    with pytest.raises(ForegatherError, match=message) as raised:
        convert_table(tmp_path, nodes, **options)
    assert str(raised.value).count(". ") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.csv", "n.csv"]


def test_options_of_a_table_are_checked():
    for wrong in ({"label_kind": "words"}, {"fill": float("nan")}, {"fill": float("inf")}):
        with pytest.raises(InputError):
            NodeFile("n.csv", **wrong)


def test_only_one_table_of_features(tmp_path):
    np.savez(tmp_path / "a.npz", edge_index=[[0, 1], [1, 0]], x=np.ones((2, 2)), y=[0, 1])
    (tmp_path / "x.csv").write_text("id,x\n0,1\n1,2\n")
    (tmp_path / "y.csv").write_text("id,y\n0,1\n1,2\n")
    for name, message in (("x.csv", "leave one of them out"), ("y.csv", "has labels, and so has")):
        reading = ReadOptions(table=NodeFile(tmp_path / name))
        with pytest.raises(InputError, match=message):
            convert(tmp_path / "a.npz", tmp_path / "g", reading=reading)
    with pytest.raises(InputError, match="--node-table does not apply to a graph folder"):
        convert(tmp_path / "a.npz", tmp_path / "h")
        convert(tmp_path / "h", tmp_path / "g", reading=reading)
    assert not (tmp_path / "g").exists()


def test_what_does_not_fit_is_said_before_it_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_working_memory", lambda memory: 60_000)
    edges = "".join(f"a{k},b{k}\n" for k in range(300))
    with pytest.raises(BudgetError, match="raise --memory"):
        convert_table(tmp_path, "id,y\na0,1\n", edges=edges)
    assert not (tmp_path / "g").exists()


def test_parquet_columns_are_checked(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    write_parquet(tmp_path / "n.parquet", ["id", "x", "t"], [["a", 1.0, "q"], [None, 2.0, "r"]])
    (tmp_path / "e.csv").write_text("a,b\n")
    for options, message in (
        ({}, "row 2 has no id"),
        ({"features": ("t",)}, "expected numbers"),
        ({"header": True}, "--node-header does not apply to Parquet"),
        ({"label": "t", "label_kind": "number"}, "expected numbers as labels"),
    ):
        reading = ReadOptions(header=False, table=NodeFile(tmp_path / "n.parquet", **options))
        with pytest.raises(InputError, match=message):
            convert(tmp_path / "e.csv", tmp_path / "g", reading=reading)
    (tmp_path / "n.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(ForegatherError, match="n.parquet"):
        reading = ReadOptions(header=False, table=NodeFile(tmp_path / "n.parquet"))
        convert(tmp_path / "e.csv", tmp_path / "g", reading=reading)
    assert arrow and not (tmp_path / "g").exists()
