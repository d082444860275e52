"""Databases by their catalogue: SQLite and DuckDB to typed graphs, and never a byte written."""

import os
import sqlite3

import numpy as np
import pytest

from foregather import FormatError, InputError, ReadOptions, StorageError, convert
from foregather.graph.hetero import HeteroGraph
from tests.some import some

SHOP = """
CREATE TABLE users(id INTEGER PRIMARY KEY, email VARCHAR UNIQUE, age DOUBLE, country VARCHAR,
  joined DATE, photo BLOB);
INSERT INTO users VALUES (10, 'a@x', 30, 'DE', '2020-01-01', NULL);
INSERT INTO users VALUES (12, 'b@x', NULL, 'FR', '2020-02-01', NULL);
INSERT INTO users VALUES (17, NULL, 4, 'DE', '2020-03-01', NULL);
CREATE TABLE shops(city VARCHAR, nr INTEGER, size DOUBLE, PRIMARY KEY(city, nr));
INSERT INTO shops VALUES ('Ulm', 1, 3.5);
INSERT INTO shops VALUES ('Ulm', 2, 1);
INSERT INTO shops VALUES ('Bonn, a', 1, 2);
CREATE TABLE orders(n INTEGER UNIQUE, user_id INTEGER, mail VARCHAR, shop_city VARCHAR,
  shop_nr INTEGER, price DOUBLE, paid DATE, sent DATE, after INTEGER,
  FOREIGN KEY(user_id) REFERENCES users(id), FOREIGN KEY(mail) REFERENCES users(email),
  FOREIGN KEY(after) REFERENCES orders(n),
  FOREIGN KEY(shop_city, shop_nr) REFERENCES shops(city, nr));
INSERT INTO orders VALUES (1, 10, 'b@x', 'Ulm', 2, 1.5, NULL, '2020-04-01', NULL);
INSERT INTO orders VALUES (2, NULL, NULL, 'Ulm', NULL, 2, '2020-03-02', '2020-04-02', 1);
INSERT INTO orders VALUES (3, 17, 'a@x', 'Bonn, a', 1, 2, '2020-03-03', '2020-04-03', 1);
CREATE VIEW recent AS SELECT * FROM users;
"""


def make_sqlite(path, script=SHOP):
    database = sqlite3.connect(path)
    database.executescript(script)
    database.commit()
    database.close()
    return path


def make_duckdb(path, script=SHOP):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with duckdb.connect(str(path)) as database:
        for statement in script.split(";")[:-1]:
            database.execute(statement)
    return path


ENGINES = {"shop.sqlite": make_sqlite, "shop.duckdb": make_duckdb}


def pairs(graph, name):
    """Edges as (source, target)."""
    one = graph.relation(name)
    targets = np.repeat(np.arange(one.num_targets), np.diff(one.indptr))
    return sorted(zip(one.indices.tolist(), targets.tolist(), strict=True))


@pytest.mark.parametrize("name", ENGINES)
def test_rows_are_nodes_and_foreign_keys_relations(tmp_path, name):
    path = ENGINES[name](tmp_path / name)
    before = path.read_bytes()
    facts = convert(path, tmp_path / "g", memory="4GB")
    graph = HeteroGraph.open(tmp_path / "g")
    graph.verify()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["g", name]  # nothing is left beside it
    assert facts["types"] == {"orders": 3, "shops": 3, "users": 3} and facts["dropped"] == {}
    users, shops, orders = (graph.nodes[one] for one in ("users", "shops", "orders"))
    assert users.ids.tolist() == [10, 12, 17] and orders.ids is None
    assert users.time.tolist() == [1577836800, 1580515200, 1583020800]
    np.testing.assert_array_equal(users.features["x"], [[30], [np.nan], [4]])
    assert users.features["country"].tolist() == [0, 1, 0]
    assert graph.meta["categories"]["users"] == {"country": ["DE", "FR"], "email": ["a@x", "b@x"]}
    assert list(shops.ids) == ["Ulm,1", "Ulm,2", "Bonn\\, a,1"]
    assert orders.time is None  # two dates
    np.testing.assert_array_equal(orders.features["x"], [[1, 1.5], [2, 2], [3, 2]])
    shop = "f2p_shop_city+shop_nr"
    assert pairs(graph, ("orders", "f2p_user_id", "users")) == [(0, 0), (2, 2)]
    assert pairs(graph, ("orders", "f2p_mail", "users")) == [(0, 1), (2, 0)]  # not the primary key
    assert pairs(graph, ("orders", "f2p_after", "orders")) == [(1, 0), (2, 0)]
    assert pairs(graph, ("orders", shop, "shops")) == [(0, 1), (2, 2)]  # a NULL part: no edge
    assert len(graph.edges) == 8
    for source, relation, target in some([one for one in graph.edges if one[1][:4] == "f2p_"]):
        back = pairs(graph, (target, f"rev_{relation}", source))
        assert sorted((b, a) for a, b in back) == pairs(graph, (source, relation, target))


@pytest.mark.parametrize("name", ENGINES)
def test_what_was_chosen_is_said(tmp_path, name):
    facts = convert(ENGINES[name](tmp_path / name), tmp_path / "g", memory="4GB")
    said = "\n".join(facts["notes"])
    for words in some(
        [
            "Table users: ids from id; time from joined (its only date); features x from age",
            "categories from email, country",
            "left out: photo (no values)",
            "Table orders: ids are row numbers; no time; features x from n, price",
            "paid (one of 2 dates; name the time), sent (one of 2 dates; name the time)",
            "after refers to orders by n",
            "Table shops: ids from city+nr",
            "Views are left out: recent.",
        ]
    ):
        assert words in said


@pytest.mark.parametrize("name", ENGINES)
def test_a_description_overrides_the_choice(tmp_path, name):
    ENGINES[name](tmp_path / name)
    (tmp_path / "d.toml").write_text(
        f"""
        database = "{name}"
        [nodes.orders]
        time = "sent"
        labels = "n"
        features = ["price"]
        leave_out = ["mail"]
        [nodes.users]
        time = false
        categories = []
        [nodes.shops]
        leave_out = true
        """
    )
    facts = convert(tmp_path / "d.toml", tmp_path / "g", memory="4GB")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.node_types == ("orders", "users") and graph.nodes["users"].time is None
    assert list(graph.nodes["users"].features) == ["x"]
    orders = graph.nodes["orders"]
    assert orders.labels.tolist() == [1, 2, 3] and orders.features["x"].shape == (3, 1)
    assert orders.time.tolist() == [1585699200 + 86400 * day for day in range(3)]
    assert {one[1] for one in graph.edges if one[1][:4] == "f2p_"} == {"f2p_after", "f2p_user_id"}
    said = "\n".join(facts["notes"])
    assert "mail (as asked)" in said and "shop_city+shop_nr (its table is left out)" in said
    assert "Tables left out as asked: shops." in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[nodes.user]", "has no table 'user'; the nearest is 'users'"),
        ("[nodes.users]\ntime = 'joind'", "has no column 'joind'; the nearest is 'joined'"),
        ("[nodes.users]\nfeatures = ['zzz']", "has no column 'zzz'; there are: id, email"),
        ("[nodes.recent]", "is a view, whose rows have no order"),
        ("[nodes.users]\nid = 'email'", "has 'id', which is not known"),
        ("[nodes.users]\nfeatures = ['country']", "holds large_string, expected numbers"),
        ("[nodes.orders]\ntime = 'paid'", "has no time in row 1"),
        ("[nodes.orders]\ntime = 'price'", "holds double, expected whole numbers or dates"),
        ("[nodes.users]\nfeatures = ['photo']", "column 'photo' of table 'users' holds BLOB"),
        ("[nodes.users]\nfile = 'u.csv'", "is a table of the database and described once more"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(tmp_path, text, words):
    make_sqlite(tmp_path / "shop.sqlite", SHOP + "UPDATE users SET photo = x'00' WHERE id = 10;")
    (tmp_path / "d.toml").write_text(f"database = 'shop.sqlite'\n{text}")
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert sorted(os.listdir(tmp_path)) == ["d.toml", "shop.sqlite"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("CREATE TABLE a(x REFERENCES b)", "names table 'b', which s.db does not have"),
        (
            "CREATE TABLE a(x REFERENCES b); CREATE TABLE b(y INTEGER)",
            "names table 'b', which has no primary key",
        ),
        (
            "CREATE TABLE a(x INT REFERENCES b(z)); CREATE TABLE b(y INTEGER PRIMARY KEY)",
            "refers to 'z' of table 'b', whose columns are y",
        ),
        ("CREATE TABLE a(k TEXT PRIMARY KEY); INSERT INTO a VALUES (NULL)", "has no id in row 1"),
        (
            "CREATE TABLE a(k REAL PRIMARY KEY); INSERT INTO a VALUES (1.5)",
            "holds double, expected whole numbers or text as ids",
        ),
        (
            "CREATE TABLE a(k INT REFERENCES b(u)); CREATE TABLE b(u INT); "
            "INSERT INTO b VALUES (7), (7); INSERT INTO a VALUES (7)",
            "holds 7 in row 1 and in row 2, expected each id once",
        ),
        (
            "CREATE TABLE a(k TEXT REFERENCES b); CREATE TABLE b(u INTEGER PRIMARY KEY); "
            "INSERT INTO b VALUES (7); INSERT INTO a VALUES ('7')",
            "holds large_string, but the ids of its node type are integers",
        ),
        (
            "CREATE TABLE a(k REFERENCES b); CREATE TABLE b(u INTEGER PRIMARY KEY); "
            "INSERT INTO b VALUES (7); INSERT INTO a VALUES ('x'), (7)",
            "column 'k' of table 'a' holds values of several kinds",
        ),
        (
            "CREATE TABLE a(k PRIMARY KEY); INSERT INTO a VALUES ('x'), (7)",
            "column 'k' of table 'a' holds values of several kinds",
        ),
        ("", "has no tables that become nodes"),
    ],
)
def test_keys_that_cannot_be_followed_are_refused(tmp_path, script, words):
    path = make_sqlite(tmp_path / "s.db", script or "CREATE VIEW v AS SELECT 1")
    with pytest.raises(InputError, match=words):
        convert(path, tmp_path / "g")
    assert os.listdir(tmp_path) == ["s.db"]


def test_keys_that_point_nowhere_are_counted_or_refused(tmp_path):
    path = make_sqlite(tmp_path / "shop.sqlite", SHOP + "UPDATE orders SET user_id = 99 WHERE n=3;")
    facts = convert(path, tmp_path / "g")
    assert facts["dropped"] == {"(orders, f2p_user_id, users)": 1}
    words = "column 'user_id' of shop.sqlite:orders has 99 in row 3, which is no node of type 'use"
    with pytest.raises(InputError, match=words):
        convert(path, tmp_path / "h", reading=ReadOptions(strict=True))


def test_names_of_any_case_and_sign(tmp_path):
    script = """
    CREATE TABLE "a b"(Id INTEGER PRIMARY KEY, "x+y" TEXT UNIQUE, "q""q" REAL);
    INSERT INTO "a b" VALUES (1, 'k', 2.5), (2, 'l', 3.5);
    CREATE TABLE c(own TEXT, OTHER INTEGER,
      FOREIGN KEY(OWN) REFERENCES "A B"("X+Y"), FOREIGN KEY(other) REFERENCES "A b");
    INSERT INTO c VALUES ('l', 1);
    """
    convert(make_sqlite(tmp_path / "s.db", script), tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert pairs(graph, ("c", "f2p_own", "a b")) == [(0, 1)]
    assert pairs(graph, ("c", "f2p_OTHER", "a b")) == [(0, 0)]
    assert graph.nodes["a b"].features["x"].tolist() == [[2.5], [3.5]]


def test_keys_of_two_kinds_meet_as_text(tmp_path):
    script = """
    CREATE TABLE b(u INTEGER PRIMARY KEY); INSERT INTO b VALUES (7), (8);
    CREATE TABLE a(k TEXT REFERENCES b); INSERT INTO a VALUES ('8');
    """
    make_sqlite(tmp_path / "s.db", script)
    (tmp_path / "d.toml").write_text("database = 's.db'\n[nodes.b]\nids = 'text'")
    convert(tmp_path / "d.toml", tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert list(graph.nodes["b"].ids) == ["7", "8"]
    assert pairs(graph, ("a", "f2p_k", "b")) == [(0, 1)]


def test_a_column_called_as_a_key_of_several_is_refused(tmp_path):
    script = 'CREATE TABLE t(a INTEGER, b INTEGER, "a+b" REAL, PRIMARY KEY(a, b))'
    with pytest.raises(InputError, match="has a column 'a\\+b', which is how the key of a, b"):
        convert(make_sqlite(tmp_path / "s.db", script), tmp_path / "g")


def test_rows_have_the_order_of_the_table_not_of_an_index(tmp_path):
    script = """
    CREATE TABLE t(a INTEGER, b TEXT, rowid INTEGER);
    CREATE INDEX i ON t(b, a);
    INSERT INTO t VALUES (3, 'z', 1), (1, 'y', 0), (2, 'x', 5);
    CREATE TABLE w(k TEXT PRIMARY KEY, a INTEGER) WITHOUT ROWID;
    INSERT INTO w VALUES ('q', 1), ('p', 2);
    """
    convert(make_sqlite(tmp_path / "s.db", script), tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.nodes["t"].features["x"].tolist() == [[3, 1], [1, 0], [2, 5]]
    assert list(graph.nodes["w"].ids) == ["p", "q"]  # the order it is stored in
    assert graph.nodes["w"].features["x"].tolist() == [[2], [1]]


def test_columns_of_any_content_are_defined(tmp_path):
    script = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, mixed, free, day DATE, long TEXT, whole NUMERIC);
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
    INSERT INTO t SELECT i, CASE i WHEN 3 THEN 'text' ELSE i END, i % 2, i * 100, 'text ' || i, i
    FROM n;
    UPDATE t SET day = NULL WHERE id = 7;
    CREATE TABLE empty(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t, name TEXT);
    """
    facts = convert(make_sqlite(tmp_path / "s.db", script), tmp_path / "g")
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.nodes["t"].features["x"].shape == (1201, 2)  # free, whole
    assert graph.nodes["empty"].num_nodes == 0
    assert graph.edges["empty", "f2p_t", "t"].num_edges == 0
    said = "\n".join(facts["notes"])
    assert "mixed (values of several kinds, neither numbers nor text)" in said
    assert "day (a date that is missing in 1 row)" in said
    assert "long (more than 1000 different texts)" in said


def test_a_database_that_is_written_or_damaged_is_refused(tmp_path):
    path = make_sqlite(tmp_path / "shop.sqlite")
    (tmp_path / "shop.sqlite-wal").write_bytes(b"x")
    with pytest.raises(StorageError, match="is being written or was left half-written"):
        convert(path, tmp_path / "g")
    (tmp_path / "shop.sqlite-wal").unlink()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    with pytest.raises(FormatError, match=r"shop\.sqlite cannot be read as a database"):
        convert(path, tmp_path / "g")
    path.write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(FormatError, match=r"shop\.sqlite cannot be read as a database"):
        convert(path, tmp_path / "g")
    path.write_text("no database at all, but called one")
    with pytest.raises(FormatError, match=r"shop\.sqlite cannot be read as a database"):
        convert(path, tmp_path / "g")
    with pytest.raises(StorageError, match="none.db does not exist"):
        convert(tmp_path / "none.db", tmp_path / "g")
    with pytest.raises(InputError, match="--dedup does not apply to a database"):
        convert(path, tmp_path / "g", dedup=True)
    assert os.listdir(tmp_path) == ["shop.sqlite"]


def test_a_damaged_duckdb_file_is_refused(tmp_path):
    path = make_duckdb(tmp_path / "shop.duckdb")
    data = bytearray(path.read_bytes())
    data[4096 : len(data)] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"shop\.duckdb cannot be read as a database"):
        convert(path, tmp_path / "g")
    assert os.listdir(tmp_path) == ["shop.duckdb"]


def test_both_engines_give_the_same_arrays(tmp_path):
    made = {}
    for name, make in some(ENGINES.items()):
        convert(make(tmp_path / name), tmp_path / f"{name}.fg", memory="4GB")
        opened = HeteroGraph.open(tmp_path / f"{name}.fg")
        made[name] = HeteroGraph(opened.nodes, opened.edges).digest
    assert len(set(made.values())) == 1
