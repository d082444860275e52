"""Relational tables: a row is a node, a foreign key is a relation and its reverse."""

import pytest

from foregather import InputError, convert
from foregather.graph.hetero import HeteroGraph

KEYS = """
[nodes.post]
file = "posts.csv"
id = "id"
time = "made"
features = ["score"]
categories = ["kind", "level"]
foreign = { author = "user", parent = "post", tag = "tag" }

[nodes.user]
file = "users.csv"
id = "name"

[nodes.tag]
"""


def write_posts(folder) -> None:
    (folder / "posts.csv").write_text(
        "id,made,score,kind,level,author,parent,tag\n"
        "10,2020-01-02,1.5,question,3,ann,,x\n"
        "11,2020-01-03,,answer,1,bob,10,\n"
        "12,2020-01-04,2,,3,zoe,10,y\n"
        "13,2020-01-05,3,answer,,,99,x\n"
    )
    (folder / "users.csv").write_text("name\nann\nbob\n")


def test_foreign_keys_are_relations_both_ways(tmp_path):
    write_posts(tmp_path)
    (tmp_path / "d.toml").write_text(KEYS)
    facts = convert(tmp_path / "d.toml", tmp_path / "g")
    assert facts["dropped"] == {"(post, f2p_author, user)": 1, "(post, f2p_parent, post)": 1}
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.edge_types == (
        ("post", "f2p_author", "user"),
        ("post", "f2p_parent", "post"),
        ("post", "f2p_tag", "tag"),
        ("post", "rev_f2p_parent", "post"),
        ("tag", "rev_f2p_tag", "post"),
        ("user", "rev_f2p_author", "post"),
    )
    author = graph.relation(("post", "f2p_author", "user"))
    assert (author.indptr.tolist(), author.indices.tolist()) == ([0, 1, 2], [0, 1])
    parent = graph.relation(("post", "rev_f2p_parent", "post"))
    assert (parent.indptr.tolist(), parent.indices.tolist()) == ([0, 0, 1, 2, 2], [0, 0])
    assert list(graph.nodes["tag"].ids) == ["x", "y"]
    post = graph.nodes["post"]
    assert post.time.tolist() == [1577923200 + 86400 * day for day in range(4)]
    assert post.features["kind"].tolist() == [1, 0, -1, 0]
    assert post.features["level"].tolist() == [1, 0, 1, -1]
    assert graph.meta["categories"] == {
        "post": {"kind": ["answer", "question"], "level": ["1", "3"]}
    }
    tags = graph.relation(("post", "f2p_tag", "tag"), "node")
    assert tags.time.tolist() == post.time[[0, 3, 2]].tolist()


def test_keys_that_point_nowhere_are_refused_where_it_is_strict(tmp_path):
    write_posts(tmp_path)
    (tmp_path / "d.toml").write_text("strict = true\n" + KEYS)
    words = "column 'author' of posts.csv has 'zoe' in row 3, which is no node of type 'user'"
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KEYS.replace('"user"', '"usr"', 1), "there is no node type 'usr'; the nearest is 'user'"),
        (KEYS.replace('{ author = "user",', "{ author = 3,"), "expected columns and node types"),
        (KEYS.replace('["kind", "level"]', '["score"]'), "'score' among its categories and once"),
        (KEYS.replace('["kind", "level"]', '["made"]'), "expected text or whole numbers as cat"),
        (KEYS.replace("[nodes.user]\nfile", "[nodes.user]\nforeign"), "expected columns and"),
        ("strict = 1\n" + KEYS, "strict of d.toml is 1, expected true or false"),
        (
            KEYS + '[[edges]]\ntype = ["post", "f2p_tag", "tag"]\nfile = "posts.csv"\n'
            'source = "id"\ntarget = "tag"',
            "is described twice",
        ),
    ],
)
def test_bad_keys_are_refused(tmp_path, text, words):
    write_posts(tmp_path)
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")


ROWS = """
[nodes.order]
file = "orders.csv"
foreign = { uid = "user" }

[nodes.user]
file = "users.csv"
"""
EDGES = """
[nodes.user]
file = "users.csv"
[nodes.item]
count = 2
[[edges]]
type = ["user", "bought", "item"]
file = "bought.csv"
source = "uid"
target = "item"
"""


def write_orders(folder) -> None:
    (folder / "orders.csv").write_text("n,uid\n5,1\n6,2\n")
    (folder / "users.csv").write_text("u\n1\n2\n3\n")
    (folder / "bought.csv").write_text("uid,item\n1,0\n2,1\n")
    (folder / "facts.csv").write_text("h,r,t\n1,knows,2\n")


TRIPLES = '[nodes.user]\nfile = "users.csv"\n[triples]\nfile = "facts.csv"\ntype = "user"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ROWS, r"foreign key 'uid' of \[nodes.order\]"),
        (EDGES, r"source 'uid' of relation \(user, bought, item\)"),
        (TRIPLES, r"head '1' of \[triples\]"),
    ],
)
def test_nothing_is_joined_to_row_numbers_unasked(tmp_path, text, words):
    write_orders(tmp_path)
    (tmp_path / "d.toml").write_text(text)
    words += (
        " names rows of node type 'user', whose table users.csv has no id; set id = \"column\" in "
        r'\[nodes.user\], or ids = "rows" if they are row numbers from 0$'
    )
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_rows_are_joined_by_number_where_that_is_asked_for(tmp_path):
    write_orders(tmp_path)
    (tmp_path / "d.toml").write_text(ROWS + 'ids = "rows"\n')
    facts = convert(tmp_path / "d.toml", tmp_path / "g")
    assert "Nodes of user are named by row numbers from 0." in facts["notes"]
    relation = HeteroGraph.open(tmp_path / "g").relation(("order", "f2p_uid", "user"))
    assert (relation.indptr.tolist(), relation.indices.tolist()) == ([0, 0, 1, 2], [0, 1])
    (tmp_path / "d.toml").write_text(ROWS + 'id = "u"\n')
    facts = convert(tmp_path / "d.toml", tmp_path / "h")
    assert not facts["notes"]
    relation = HeteroGraph.open(tmp_path / "h").relation(("order", "f2p_uid", "user"))
    assert relation.indptr.tolist() == [0, 1, 2, 2]


def test_row_numbers_are_checked_and_told(tmp_path):
    write_orders(tmp_path)
    text = EDGES.replace('"users.csv"\n', '"users.csv"\nids = "rows"\n')
    (tmp_path / "d.toml").write_text(text)
    facts = convert(tmp_path / "d.toml", tmp_path / "g")
    assert "Nodes of item, user are named by row numbers from 0." in facts["notes"]
    (tmp_path / "bought.csv").write_text("uid,item\n1,0\n3,1\n")
    with pytest.raises(InputError, match="has 3 in column 'uid' of row 2, which is no node of"):
        convert(tmp_path / "d.toml", tmp_path / "h")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ROWS + 'ids = "rows"\nid = "u"\n', r'ids = "rows", .* row numbers; leave id out, or ids$'),
        ('[nodes.user]\nids = "rows"\n', r"whose ids are row numbers; name the table$"),
        (ROWS + 'ids = "row"\n', "expected 'auto', 'text' or 'rows'"),
    ],
)
def test_row_numbers_that_cannot_be(tmp_path, text, words):
    write_orders(tmp_path)
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")


def test_keys_that_all_point_nowhere_are_refused(tmp_path):
    """As where one side writes whole numbers with a point: nothing would be joined, in silence."""
    (tmp_path / "posts.csv").write_text("id,author\n1,100.0\n2,101.0\n3,\n")
    (tmp_path / "users.csv").write_text("name\n100\n101\n")
    (tmp_path / "d.toml").write_text(
        '[nodes.post]\nfile = "posts.csv"\nid = "id"\nforeign = { author = "user" }\n'
        '[nodes.user]\nfile = "users.csv"\nid = "name"\nids = "text"\n'
    )
    with pytest.raises(InputError, match=r"none of the 2 keys .* 'user', for example '100.0'"):
        convert(tmp_path / "d.toml", tmp_path / "g")
    assert not (tmp_path / "g").exists()
