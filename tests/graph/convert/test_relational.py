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
