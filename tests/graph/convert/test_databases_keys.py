"""Keys as a database compares them, columns that are left out by a flag, and room on the disk."""

import shutil

import pytest

from foregather import InputError, ReadOptions, convert
from foregather.cli.main import main
from foregather.errors import StorageError
from foregather.graph.hetero import HeteroGraph
from tests.graph.convert.test_databases import make_sqlite, pairs

STRICT = ReadOptions(strict=True)


def converted(tmp_path, script, **options):
    path = make_sqlite(tmp_path / "k.sqlite", script)
    facts = convert(path, tmp_path / "g", memory="4GB", **options)
    return facts, HeteroGraph.open(tmp_path / "g")


def test_keys_that_differ_by_case_match_where_the_database_says_so(tmp_path):
    script = """
    CREATE TABLE cust(id TEXT COLLATE NOCASE PRIMARY KEY, boss TEXT REFERENCES cust);
    INSERT INTO cust VALUES ('Ann', 'BOB'), ('bob', NULL);
    CREATE TABLE ord(id INTEGER PRIMARY KEY, cust TEXT REFERENCES cust(id));
    INSERT INTO ord VALUES (1, 'ann'), (2, 'BOB'), (3, NULL), (4, 'bob'), (5, 'Ann');
    """
    facts, graph = converted(tmp_path, script, reading=STRICT)
    assert facts["dropped"] == {}
    found = pairs(graph, ("ord", "f2p_cust", "cust"))
    assert found == [(0, 0), (1, 1), (3, 1), (4, 0)]
    assert pairs(graph, ("cust", "f2p_boss", "cust")) == [(0, 1)]
    assert [graph.nodes["cust"].ids[k] for k in range(2)] == ["Ann", "bob"]  # as they are spelled


def test_keys_that_point_nowhere_without_case_are_still_counted(tmp_path):
    script = """
    CREATE TABLE cust(id TEXT COLLATE NOCASE PRIMARY KEY);
    INSERT INTO cust VALUES ('Ann');
    CREATE TABLE ord(id INTEGER PRIMARY KEY, cust TEXT REFERENCES cust(id));
    INSERT INTO ord VALUES (1, 'ANN'), (2, 'Zoe');
    """
    facts, graph = converted(tmp_path, script)
    assert facts["dropped"] == {"(ord, f2p_cust, cust)": 1}
    assert pairs(graph, ("ord", "f2p_cust", "cust")) == [(0, 0)]


def test_case_matters_where_the_database_minds_it(tmp_path):
    script = """
    CREATE TABLE cust(id TEXT PRIMARY KEY);
    INSERT INTO cust VALUES ('Ann'), ('ann');
    CREATE TABLE ord(id INTEGER PRIMARY KEY, cust TEXT COLLATE NOCASE REFERENCES cust(id));
    INSERT INTO ord VALUES (1, 'ann'), (2, 'ANN'), (3, 'Ann');
    """
    facts, graph = converted(tmp_path, script)
    assert pairs(graph, ("ord", "f2p_cust", "cust")) == [(0, 1), (2, 0)]
    assert facts["dropped"] == {"(ord, f2p_cust, cust)": 1}


def test_trailing_blanks_and_keys_of_several_columns(tmp_path):
    script = """
    CREATE TABLE shop(city TEXT COLLATE RTRIM, nr INTEGER, name TEXT COLLATE NOCASE UNIQUE,
                      PRIMARY KEY (city, nr));
    INSERT INTO shop VALUES ('Rome', 1, 'North'), ('Rome', 2, 'South'), ('Bonn', 1, 'East');
    CREATE TABLE sale(id INTEGER PRIMARY KEY, c TEXT, n INTEGER, by TEXT REFERENCES shop(name),
                      FOREIGN KEY (c, n) REFERENCES shop(city, nr));
    INSERT INTO sale VALUES (1, 'Rome  ', 2, 'NORTH'), (2, 'Bonn', 1, 'south'), (3, 'rome', 1, '');
    """
    facts, graph = converted(tmp_path, script)
    assert pairs(graph, ("sale", "f2p_c+n", "shop")) == [(0, 1), (1, 2)]
    assert pairs(graph, ("sale", "f2p_by", "shop")) == [(0, 0), (1, 1)]
    assert facts["dropped"] == {"(sale, f2p_c+n, shop)": 1, "(sale, f2p_by, shop)": 1}


def test_a_key_that_is_also_the_id_is_refused_where_spelling_differs(tmp_path):
    script = """
    CREATE TABLE person(name TEXT COLLATE NOCASE PRIMARY KEY);
    INSERT INTO person VALUES ('Ann');
    CREATE TABLE clerk(name TEXT PRIMARY KEY REFERENCES person(name));
    INSERT INTO clerk VALUES ('ANN');
    """
    with pytest.raises(InputError, match=r"column 'name' of table 'clerk' refers to 'person'"):
        converted(tmp_path, script)
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("order", ["a, b", "b, a"])
def test_relations_of_several_columns_are_named_in_the_order_of_the_foreign_key(tmp_path, order):
    script = f"""
    CREATE TABLE place(a INTEGER, b INTEGER, PRIMARY KEY (a, b));
    INSERT INTO place VALUES (1, 2), (2, 1);
    CREATE TABLE visit(id INTEGER PRIMARY KEY, p INTEGER, q INTEGER,
                       FOREIGN KEY (p, q) REFERENCES place({order}));
    INSERT INTO visit VALUES (1, 1, 2), (2, 2, 1), (3, 1, 1);
    """
    facts, graph = converted(tmp_path, script)
    expected = [(0, 0), (1, 1)] if order == "a, b" else [(0, 1), (1, 0)]
    assert pairs(graph, ("visit", "f2p_p+q", "place")) == expected
    assert facts["dropped"] == {"(visit, f2p_p+q, place)": 1}


BAD = """
CREATE TABLE item(id INTEGER PRIMARY KEY, price REAL, note BLOB, at DATE, shop INTEGER
                  REFERENCES nowhere(id));
INSERT INTO item VALUES (1, 1.5, x'00', '2024-01-01', 1), (2, 2.5, 'text', 'soon', 2);
"""


def test_columns_of_a_database_are_left_out_by_a_flag(tmp_path, capsys):
    path = make_sqlite(tmp_path / "b.sqlite", BAD)
    out = str(tmp_path / "g")
    assert main(["convert", str(path), out, "--memory", "1GB"]) == 2
    assert "nowhere" in capsys.readouterr().err
    flags = ["--skip-columns", "item.shop", "item.at"]
    assert main(["convert", str(path), out, "--memory", "1GB", *flags]) == 0
    assert "shop (as asked)" in capsys.readouterr().out
    graph = HeteroGraph.open(out)
    assert graph.nodes["item"].time is None and graph.nodes["item"].features["x"].shape == (2, 1)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("item.shops",), "the nearest is 'item.shop'"),
        (("shop",), "no table.column of b.sqlite"),
        ("item", "no table.column of b.sqlite"),
        (("item.id",), "part of the primary key"),
    ],
)
def test_columns_that_cannot_be_left_out_are_named(tmp_path, columns, said):
    path = make_sqlite(tmp_path / "b.sqlite", BAD)
    with pytest.raises(InputError, match=said):
        convert(path, tmp_path / "g", reading=ReadOptions(skip_columns=columns))


def test_the_flag_is_for_databases(tmp_path):
    (tmp_path / "x.toml").write_text("[nodes.a]\ncount = 2\n")
    asked = ReadOptions(skip_columns=("a.b",))
    with pytest.raises(InputError, match=r"--skip-columns .* x.toml is a description"):
        convert(tmp_path / "x.toml", tmp_path / "g", reading=asked)
    (tmp_path / "e.csv").write_text("0,1\n1,0\n")
    with pytest.raises(InputError, match="--skip-columns does not apply"):
        convert(tmp_path / "e.csv", tmp_path / "g", reading=asked)
    with pytest.raises(InputError, match="--strict does not apply"):
        convert(tmp_path / "e.csv", tmp_path / "g", reading=STRICT)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("2024-01-01 2024-01-02 soon 2024-01-04", "'soon' in row 3"),
        ("soon 2024-01-02", "'soon' in row 1"),
        ("2024-01-01 2024-13-01", "'2024-13-01' in row 2"),
        ("2024-01-01 2024-01-02T00:00:00Z", "'2024-01-02T00:00:00Z' in row 2"),
        ("2024-01-01T00:00:00Z 2024-01-02", "'2024-01-02' in row 2"),
    ],
)
def test_dates_that_cannot_be_read_name_their_row(tmp_path, values, said):
    rows = "".join(f"({k}, '{one}')," for k, one in enumerate(values.split()))
    script = f"CREATE TABLE a(id INTEGER PRIMARY KEY, at DATE);INSERT INTO a VALUES {rows[:-1]};"
    with pytest.raises(InputError, match=said):
        converted(tmp_path, script)


def test_fractions_of_a_second_name_their_row(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    at = pa.array([1_000_000, 2_000_000, 2_500_000], pa.timestamp("us"))
    pq.write_table(pa.table({"id": [1, 2, 3], "at": at}), tmp_path / "a.parquet")
    (tmp_path / "x.toml").write_text('[nodes.a]\nfile = "a.parquet"\nid = "id"\ntime = "at"\n')
    with pytest.raises(InputError, match="fractions of a second, first in row 3"):
        convert(tmp_path / "x.toml", tmp_path / "g")


def test_a_disk_that_is_too_small_is_said_before_the_work(tmp_path, monkeypatch):
    script = "CREATE TABLE a(id INTEGER PRIMARY KEY, x REAL, b INTEGER REFERENCES a);"
    script += "INSERT INTO a VALUES " + ",".join(f"({k}, 0.5, 0)" for k in range(100)) + ";"
    # 4 bytes of features; 4 of ids and 16 on the way for each direction of the relation
    room = {"free": 100 * (4 + 8 + 32) - 1}
    usage = type("Usage", (), {"free": property(lambda self: room["free"])})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage())
    with pytest.raises(StorageError, match="needs at least 4.4 KB of disk"):
        converted(tmp_path, script)
    assert not (tmp_path / "g").exists()
    room["free"] += 1
    assert convert(tmp_path / "k.sqlite", tmp_path / "g", memory="4GB")["num_nodes"] == 100


def test_one_of_several_dates_is_not_chosen(tmp_path):
    script = """
    CREATE TABLE a(id INTEGER PRIMARY KEY, made DATE, sold DATE);
    INSERT INTO a VALUES (1, '2024-01-01', '2024-02-01'), (2, '2024-01-02', '2024-02-02');
    """
    facts, graph = converted(tmp_path, script)
    assert graph.nodes["a"].time is None
    assert "made (one of 2 dates; name the time)" in facts["notes"][0]
    assert "sold (one of 2 dates; name the time)" in facts["notes"][0]


def test_files_name_rows_of_a_table_without_a_key_only_if_that_is_said(tmp_path):
    make_sqlite(tmp_path / "b.sqlite", "CREATE TABLE t(a INTEGER); INSERT INTO t VALUES (5), (6);")
    (tmp_path / "e.csv").write_text("s,t\n0,1\n")
    edges = '[[edges]]\ntype = ["t", "r", "t"]\nfile = "e.csv"\nsource = "s"\ntarget = "t"\n'
    path = tmp_path / "b.toml"
    path.write_text('database = "b.sqlite"\n' + edges)
    with pytest.raises(InputError, match="source 's' of relation .* names rows of node type 't'"):
        convert(path, tmp_path / "g")
    path.write_text('database = "b.sqlite"\n[nodes.t]\nids = "rows"\n' + edges)
    assert convert(path, tmp_path / "g")["num_edges"] == 1
    make_sqlite(tmp_path / "c.sqlite", "CREATE TABLE t(a INTEGER PRIMARY KEY);")
    path.write_text('database = "c.sqlite"\n[nodes.t]\nids = "rows"\n')
    with pytest.raises(InputError, match="but the table has a primary key; leave ids out"):
        convert(path, tmp_path / "h")
