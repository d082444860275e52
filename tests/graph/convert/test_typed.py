"""Tables of several types, described in TOML: csv, tsv, Parquet, NumPy and triples, to a folder."""

import os
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foregather import BudgetError, FormatError, InputError, ReadOptions, StorageError, convert
from foregather.graph.hetero import HeteroGraph
from tests.some import some

USERS = {"name": ["eve", "ann", "bob"], "age": [30, None, 51], "since": [5, 1, 9]}
ITEMS = {"sku": [70, 10, 40], "kind": ["b", None, "a"], "part": ["train", "test", None]}
BOUGHT = {"who": ["ann", "eve", "ann"], "what": [40, 70, 70], "at": [3, 1, 2], "w": [1.5, 2, 3]}
SPEC = """
[nodes.user]
file = "users.{end}"
id = "name"
time = "since"
features = ["age", "since"]

[nodes.item]
file = "items.{end}"
id = "sku"
labels = "kind"
split = "part"
arrays = {{ code = "code.npy" }}

[[edges]]
type = ["user", "bought", "item"]
file = "bought.{end}"
source = "who"
target = "what"
time = "at"
weight = "w"
features = ["w", "at"]
reverse = true
"""


def write_table(path, columns) -> None:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    delimiter = "," if path.suffix == ".csv" else "\t"
    rows = [delimiter.join(columns)]
    for row in table.to_pylist():
        rows.append(delimiter.join("" if v is None else str(v) for v in row.values()))
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def shop(tmp_path):
    def make(end: str = "csv", spec: str = SPEC, **changes):
        tables = {"users": USERS, "items": ITEMS, "bought": BOUGHT, **changes}
        for name, columns in tables.items():
            write_table(tmp_path / f"{name}.{end}", columns)
        np.save(tmp_path / "code.npy", np.arange(6, dtype=np.int16).reshape(3, 2))
        (tmp_path / "shop.toml").write_text(spec.format(end=end))
        return tmp_path / "shop.toml"

    return make


@pytest.mark.parametrize("end", ["csv", "tsv", "parquet"])
def test_tables_become_types_and_relations(shop, tmp_path, end):
    facts = convert(shop(end), tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert facts["types"] == {"item": 3, "user": 3}
    assert facts["num_edges"] == 6 and facts["dropped"] == {}
    user, item = graph.nodes["user"], graph.nodes["item"]
    assert list(user.ids) == ["eve", "ann", "bob"]  # rows keep their order
    assert user.time.tolist() == [5, 1, 9]
    np.testing.assert_array_equal(user.features["x"], [[30, 5], [np.nan, 1], [51, 9]])
    assert item.ids.tolist() == [70, 10, 40]
    assert item.labels.tolist() == [1, -1, 0] and graph.meta["classes"] == {"item": ["a", "b"]}
    assert {name: ids.tolist() for name, ids in item.splits.items()} == {"train": [0], "test": [1]}
    np.testing.assert_array_equal(item.features["code"], [[0, 1], [2, 3], [4, 5]])
    bought = graph.relation(("user", "bought", "item"))
    assert bought.indptr.tolist() == [0, 2, 2, 3]
    assert bought.indices.tolist() == [0, 1, 1]  # eve and ann bought 70, ann bought 40
    assert bought.time.tolist() == [1, 2, 3] and bought.weights.tolist() == [2, 3, 1.5]
    assert bought.features.tolist() == [[2, 1], [3, 2], [1.5, 3]]
    back = graph.relation(("item", "rev_bought", "user"))
    assert back.indptr.tolist() == [0, 1, 3, 3] and back.time.tolist() == [1, 2, 3]
    assert graph.verify().num_edges == 6
    assert os.listdir(tmp_path / "g") and not (tmp_path / "g.partial").exists()


def test_the_kind_of_file_does_not_matter(shop, tmp_path):
    digests = set()
    for end in some(("csv", "tsv", "parquet")):
        convert(shop(end), tmp_path / end)
        graph = HeteroGraph.open(tmp_path / end)
        digests.add(HeteroGraph(graph.nodes, graph.edges).digest)
    assert len(digests) == 1


def test_numpy_tables_and_row_numbers(tmp_path):
    np.savez(tmp_path / "e.npz", s=np.array([0, 2, 1]), t=np.array([1, 1, 0], np.uint8))
    np.save(tmp_path / "m.npy", np.array([[0, 1, 7], [1, 0, 8]]))
    (tmp_path / "d.toml").write_text(
        "[nodes.a]\ncount = 3\n[nodes.b]\ncount = 2\n"
        '[[edges]]\ntype = ["a", "r", "b"]\nfile = "e.npz"\nsource = "s"\ntarget = "t"\n'
        '[[edges]]\ntype = ["b", "q", "b"]\nfile = "m.npy"\nsource = "1"\ntarget = "2"\ntime = "3"'
    )
    convert(tmp_path / "d.toml", tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.relation(("a", "r", "b")).indices.tolist() == [1, 0, 2]
    assert graph.relation(("b", "q", "b")).time.tolist() == [8, 7]
    assert graph.nodes["a"].ids is None


def test_types_without_a_table_are_named_by_their_edges(tmp_path):
    (tmp_path / "e.csv").write_text("s,t\nz,30\na,10\nz,10\n")
    (tmp_path / "d.toml").write_text(
        "[nodes.a]\n[nodes.b]\n"
        '[[edges]]\ntype = ["a", "r", "b"]\nfile = "e.csv"\nsource = "s"\ntarget = "t"'
    )
    convert(tmp_path / "d.toml", tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert list(graph.nodes["a"].ids) == ["a", "z"]
    assert graph.nodes["b"].ids.tolist() == [10, 30]
    assert graph.relation(("a", "r", "b")).indices.tolist() == [0, 1, 1]


@pytest.mark.parametrize("end", ["txt", "csv"])
def test_triples_become_relations(tmp_path, end):
    facts = [("a", "likes", "b", 3), ("b", "7", "a", 1), ("c", "likes", "a", 2)]
    sep = "\t" if end == "txt" else ","
    lines = [sep.join(map(str, fact)) for fact in facts]
    if end == "csv":
        lines.insert(0, "h,r,t,when")
    (tmp_path / f"kg.{end}").write_text("\n".join(lines) + "\n")
    columns = "" if end == "txt" else 'head = "h"\nrelation = "r"\ntail = "t"\n'
    time = 'time = "4"' if end == "txt" else 'time = "when"'
    (tmp_path / "kg.toml").write_text(f'[triples]\nfile = "kg.{end}"\n{columns}{time}')
    convert(tmp_path / "kg.toml", tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.edge_types == (("entity", "7", "entity"), ("entity", "likes", "entity"))
    assert list(graph.nodes["entity"].ids) == ["a", "b", "c"]
    likes = graph.relation(("entity", "likes", "entity"))
    assert likes.indices.tolist() == [2, 0] and likes.time.tolist() == [2, 3]


def test_triples_with_a_table_of_entities_and_reverse(tmp_path):
    (tmp_path / "kg.tsv").write_text("h\tr\tt\n3\tp\t1\n1\tp\t3\n1\tq\t2\n")
    (tmp_path / "e.csv").write_text("id,age\n1,5\n2,6\n3,7\n")
    (tmp_path / "kg.toml").write_text(
        '[nodes.thing]\nfile = "e.csv"\nid = "id"\nfeatures = ["age"]\n'
        '[triples]\nfile = "kg.tsv"\ntype = "thing"\nreverse = true'
    )
    facts = convert(tmp_path / "kg.toml", tmp_path / "g")
    assert [row[1] for row in facts["relations"]] == ["p", "q", "rev_p", "rev_q"]
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.relation(("thing", "rev_q", "thing")).indices.tolist() == [1]


def test_dates_are_seconds(shop, tmp_path):
    times = [datetime(1970, 1, 1, 0, 1), datetime(1970, 1, 2), datetime(1969, 12, 31)]
    users = {**USERS, "since": pa.array(times, pa.timestamp("us"))}
    spec = SPEC.replace('features = ["age", "since"]', "")
    days = {**BOUGHT, "at": pa.array([date(1970, 1, 2)] * 3)}
    spec = spec.replace('features = ["w", "at"]', "")
    convert(shop("parquet", spec, users=users, bought=days), tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.nodes["user"].time.tolist() == [60, 86_400, -86_400]
    assert graph.edges["user", "bought", "item"].time.tolist() == [86_400] * 3


def test_edges_to_nowhere_are_refused_or_counted(shop, tmp_path):
    lost = {**BOUGHT, "who": ["ann", "zoe", None], "what": [40, 70, 70]}
    words = "bought.csv has 'zoe' in column 'who' of row 2, which is no node of type 'user'"
    with pytest.raises(InputError, match=words):
        convert(shop(bought=lost), tmp_path / "g")
    spec = SPEC + 'missing = "drop"\n'
    facts = convert(shop("csv", spec, bought=lost), tmp_path / "g")
    assert facts["dropped"] == {"(user, bought, item)": 2}
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.edges["user", "bought", "item"].weights.tolist() == [1.5]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"users": {**USERS, "name": ["a", "b", "a"]}}, "holds a in row 1 and in row 3, expected"),
        ({"items": {**ITEMS, "sku": [7, 8, 7]}}, "holds 7 in row 1 and in row 3"),
        ({"users": {**USERS, "name": ["a", None, "b"]}}, "has no id in row 2"),
        ({"items": {**ITEMS, "sku": [7, None, 8]}}, "has no id in row 2"),
        ({"users": {**USERS, "since": [1.5, 2, 3]}}, "holds double, expected whole numbers"),
        ({"users": {**USERS, "since": [1, None, 3]}}, "has no time in row 2"),
        ({"users": {**USERS, "since": ["x", "y", "z"]}}, "holds 'x' in row 1, expected whole"),
        ({"users": {**USERS, "age": ["x", "y", "z"]}}, "holds string, expected numbers"),
        ({"bought": {**BOUGHT, "what": ["p", "q", "r"]}}, "the ids of its node type are integers"),
        ({"bought": {**BOUGHT, "w": [1.0, None, 2.0]}}, "edge 1 has weight nan, expected a finite"),
        ({"items": {**ITEMS, "part": [1, 2, 3]}}, "expected names such as train"),
        ({"items": {"sku": [1]}}, "items.parquet has no column 'kind'; its columns are sku"),
        ({"items": {k: v[:2] for k, v in ITEMS.items()}}, "has shape \\[3, 2\\], expected 2 rows"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(shop, tmp_path, changes, words):
    path = shop("parquet", **changes)
    with pytest.raises(InputError, match=words) as caught:
        convert(path, tmp_path / "g")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "g").exists() and not (tmp_path / "g.partial").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes = 3", "needs tables"),
        ("", "describes nothing"),
        ("[node.a]", "has 'node', which is not known; did you mean 'nodes'"),
        ("[nodes.a]\nfiel = 'x'", "did you mean 'file'"),
        ("[nodes.a]\nid = 'x'", "has id, a column, but no file"),
        ("[nodes.a]\ncount = -1", "expected a number of nodes"),
        ("[nodes.a]\ncount = true", "expected a number of nodes"),
        ("[nodes.a]\narrays = { x = 'x.npy' }", "neither a file nor a count"),
        ("[nodes.a]\nids = 'hex'", "expected 'auto', 'text' or 'rows'"),
        ("[nodes.a]\nfile = 'f.csv'\nfeatures = 'x'", "expected a list of column names"),
        ("[nodes.a]\nfile = 'f.csv'\nfeatures = ['x', 'x']", "names a column twice"),
        ("[nodes]\na = 3", "expected a table"),
        ("[[edges]]\ntype = ['a']", "is not three names"),
        ("[[edges]]\ntype = ['a', 'r', 'a']", "has no file"),
        ("[nodes.aa]\n[[edges]]\ntype = ['a', 'r', 'a']\nfile = 'f'\nsource = 's'\ntarget = 't'",
         "there is no node type 'a'; the nearest is 'aa'"),
        ("[triples]\nhead = 'h'", "has no file"),
        ("[triples]\nfile = 'h.txt'\nreverse = 1", "expected true or false"),
    ],
)  # fmt: skip
def test_bad_descriptions_are_refused(tmp_path, text, words):
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("rev_r", "its name says that it is one"),
        ("r", "rev_r is there already; leave one of them out"),
    ],
)
def test_a_reverse_that_cannot_be_is_refused(tmp_path, more, words):
    edge = 'file = "e.csv"\nsource = "s"\ntarget = "t"\n'
    (tmp_path / "e.csv").write_text("s,t\n0,1\n")
    (tmp_path / "d.toml").write_text(
        f'[nodes.a]\ncount = 2\n[[edges]]\ntype = ["a", "{more}", "a"]\nreverse = true\n{edge}'
        + ("" if more != "r" else f'[[edges]]\ntype = ["a", "rev_r", "a"]\n{edge}')
    )
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_files_that_are_not_there_or_not_tables(shop, tmp_path):
    path = shop()
    (tmp_path / "bought.csv").unlink()
    with pytest.raises(StorageError, match="bought.csv does not exist"):
        convert(path, tmp_path / "g")
    (tmp_path / "d.toml").write_text("[nodes.a]\nfile = 'a.pkl'")
    (tmp_path / "a.pkl").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"a\.pkl is not a table"):
        convert(tmp_path / "d.toml", tmp_path / "g")
    (tmp_path / "d.toml").write_text("[nodes.a]\nfile = 'a.parquet'")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FormatError, match="cannot be read as a table"):
        convert(tmp_path / "d.toml", tmp_path / "g")
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "d.toml").write_text("[nodes.a]\nfile = 'o.npy'")
    with pytest.raises(FormatError, match="pickles are never loaded"):
        convert(tmp_path / "d.toml", tmp_path / "g")
    (tmp_path / "d.toml").write_text("[nodes.a\n")
    with pytest.raises(FormatError, match="is not TOML"):
        convert(tmp_path / "d.toml", tmp_path / "g")


def test_what_does_not_apply_is_refused(shop, tmp_path):
    path = shop()
    for options in some(({"dedup": True}, {"undirected": True}, {"dtype": "int8"})):
        with pytest.raises(InputError, match="does not apply to a TOML description"):
            convert(path, tmp_path / "g", **options)
    with pytest.raises(InputError, match="--ids does not apply to a TOML description"):
        convert(path, tmp_path / "g", reading=ReadOptions(ids="string"))
    with pytest.raises(
        BudgetError, match=r"--memory is 1 MB, but this needs at least [\d.]+ [MG]B"
    ):
        convert(path, tmp_path / "g", memory="1MB")
    convert(path, tmp_path / "g")
    with pytest.raises(StorageError, match="exists already"):
        convert(path, tmp_path / "g")


def test_a_fraction_may_come_late(tmp_path):
    """Beyond the first block, by which pyarrow guesses what a column holds."""
    rows = [f"{i},{i}" for i in range(200_000)] + ["200000,0.5"]
    (tmp_path / "n.csv").write_text("id,value\n" + "\n".join(rows) + "\n")
    (tmp_path / "d.toml").write_text('[nodes.a]\nfile = "n.csv"\nid = "id"\nfeatures = ["value"]')
    convert(tmp_path / "d.toml", tmp_path / "g")
    table = HeteroGraph.open(tmp_path / "g").nodes["a"]
    assert table.features["x"][[1, -1], 0].tolist() == [1.0, 0.5]
    assert table.ids is None  # they are row numbers


def test_text_that_looks_like_numbers_stays_text(tmp_path):
    (tmp_path / "n.csv").write_text("id\n007\n7\n")
    (tmp_path / "e.csv").write_text("s,t\n007,7\n")
    (tmp_path / "d.toml").write_text(
        '[nodes.a]\nfile = "n.csv"\nid = "id"\nids = "text"\n'
        '[[edges]]\ntype = ["a", "r", "a"]\nfile = "e.csv"\nsource = "s"\ntarget = "t"'
    )
    convert(tmp_path / "d.toml", tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert list(graph.nodes["a"].ids) == ["007", "7"]
    assert graph.relation(("a", "r", "a")).indptr.tolist() == [0, 0, 1]


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text("aä b", min_size=1, max_size=3), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6, unique=True),
    st.data(),
)
def test_every_edge_is_found_by_its_ids(tmp_path_factory, names, numbers, data):
    pairs = data.draw(
        st.lists(st.tuples(st.sampled_from(names), st.sampled_from(numbers)), max_size=12)
    )
    folder = tmp_path_factory.mktemp("t")
    pq.write_table(pa.table({"id": names}), folder / "a.parquet")
    pq.write_table(pa.table({"id": numbers}), folder / "b.parquet")
    columns = {"s": pa.array([p[0] for p in pairs], pa.string())}
    columns["t"] = pa.array([p[1] for p in pairs], pa.int64())
    pq.write_table(pa.table(columns), folder / "e.parquet")
    (folder / "d.toml").write_text(
        '[nodes.a]\nfile = "a.parquet"\nid = "id"\n[nodes.b]\nfile = "b.parquet"\nid = "id"\n'
        '[[edges]]\ntype = ["a", "r", "b"]\nfile = "e.parquet"\nsource = "s"\ntarget = "t"'
    )
    convert(folder / "d.toml", folder / "g")
    graph = HeteroGraph.open(folder / "g")
    relation = graph.relation(("a", "r", "b"))
    target = np.repeat(np.arange(len(numbers)), np.diff(relation.indptr))
    own = graph.nodes["b"].ids
    ids = np.arange(len(numbers)) if own is None else own
    found = [
        (graph.nodes["a"].ids[int(s)], int(ids[t]))
        for s, t in zip(relation.indices, target, strict=True)
    ]
    order = np.arange(len(pairs)) if relation.edge_ids is None else relation.edge_ids
    assert found == [pairs[e] for e in order]
