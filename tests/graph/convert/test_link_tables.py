"""Links of typed graphs from files, and edge lists with times."""

import json

import numpy as np
import pytest

from foregather import Graph, HeteroGraph, convert
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.graph.convert.link_files import LinkFiles

KIND = ("user", "bought", "item")


@pytest.fixture
def shop(tmp_path):
    """Users with names buy items with numbers."""
    (tmp_path / "sales.csv").write_text("who,what,at\nann,10,5\nbob,30,6\nann,20,7\ncy,10,8\n")
    (tmp_path / "shop.toml").write_text(
        '[nodes.user]\n[nodes.item]\n[[edges]]\ntype = ["user", "bought", "item"]\n'
        'file = "sales.csv"\nsource = "who"\ntarget = "what"\ntime = "at"\n'
    )
    (tmp_path / "train.csv").write_text("source,target,label,time\nann,10,3,5\nbob,30,1,6\n")
    (tmp_path / "valid.csv").write_text("time,target,source,label\n9,20,cy,2\n10,10,ann,5\n")
    (tmp_path / "none.csv").write_text("a,b\nbob,10\nbob,20\n")
    return tmp_path


def test_links_of_a_relation(shop, capsys):
    given = ["train=train.csv", "valid=valid.csv", "valid_negatives=none.csv"]
    files = [f"{one.split('=')[0]}={shop / one.split('=')[1]}" for one in given]
    code = main(["convert", str(shop / "shop.toml"), str(shop / "g"), "--links", *files, "--json"])
    assert code == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["links"] == {"train": 2, "valid": 2} and facts["links_relation"] == [*KIND]
    assert any("1 of the 2 links valid are edges of the graph too" in one for one in facts["notes"])
    graph = HeteroGraph.open(shop / "g")
    graph.verify()
    users, items = list(graph.nodes["user"].ids), graph.nodes["item"].ids.tolist()
    train, valid = graph.links_of("train", KIND), graph.links_of("valid", KIND)
    named = [(users[a], items[b]) for a, b in valid.index.T.tolist()]
    assert named == [("cy", 20), ("ann", 10)] and valid.time.tolist() == [9, 10]
    assert valid.labels.tolist() == [2, 5] and train.labels.tolist() == [3, 1]
    assert [(users[a], items[b]) for a, b in valid.negatives.T.tolist()] == [
        ("bob", 10),
        ("bob", 20),
    ]
    plain = convert(shop / "shop.toml", shop / "h")
    assert facts["num_edges"] == plain["num_edges"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source,target\nann,10\ndan,10\n", "source of link 2 is 'dan', which is no node of type"),
        ("source,target\nann,11\n", "target of link 1 is 11, which is no node of type 'item'"),
        ("source,target\nann,x\n", "is string, but nodes of type 'item' have whole numbers"),
        ("source,target\n", "holds no links"),
        ("source\nann\n", "has 1 column, expected source and target"),
        ("source,target,time\nann,10,soon\n", "time"),
        ("source,target\n,10\n", "source of link 1"),
    ],
)
def test_bad_files(shop, text, words):
    (shop / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        convert(shop / "shop.toml", shop / "g", splits=LinkFiles({"train": shop / "bad.csv"}, {}))
    assert not (shop / "g").exists()


def test_other_relations_memory_and_times_on_one_side(shop):
    files = {"train": shop / "train.csv"}
    with pytest.raises(InputError, match="the nearest"):
        wrong = LinkFiles(files, {}, ("user", "bouht", "item"))
        convert(shop / "shop.toml", shop / "g", splits=wrong)
    with pytest.raises(InputError, match="time"):
        both = LinkFiles({**files, "test": shop / "none.csv"}, {})
        convert(shop / "shop.toml", shop / "g", splits=both)
    from foregather.graph.convert.typed.link_tables import read_link_tables

    graph = HeteroGraph.from_graph(Graph.from_edge_index([[0, 1], [1, 0]], 3))
    (shop / "numbers.csv").write_text("source,target\n0,1\n2,2\n")
    given = (dict(graph.nodes), ("node", "to", "node"), {"train": shop / "numbers.csv"}, {})
    assert read_link_tables(*given, {}, 10**6)["train"].index.tolist() == [[0, 2], [1, 2]]
    with pytest.raises(BudgetError, match="do not fit into the"):
        read_link_tables(*given, {}, 100)


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_an_edge_list_with_times(tmp_path, capsys, form):
    sign = "," if form == "csv" else "\t"
    rows = [("a", "b", 2.5, 30), ("b", "c", 1.0, 10), ("a", "c", 4.0, 20), ("c", "a", 3.0, 40)]
    lines = [("from", "to", "w", "at"), *rows]
    path = tmp_path / f"messages.{form}"
    path.write_text("\n".join(sign.join(map(str, one)) for one in lines) + "\n")
    run = ["convert", str(path), str(tmp_path / "g"), "--time", "at", "--weight", "w"]
    assert main([*run, "--split-links-time", "30", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["links"] == {"train": 2, "valid": 1, "test": 1}
    graph = HeteroGraph.open(tmp_path / "g")
    (kind,) = graph.edge_types
    assert kind == ("node", "to", "node")
    names = list(graph.nodes["node"].ids)
    test = graph.links_of("test", kind)
    assert [names[n] for n in test.index[:, 0]] == ["c", "a"] and test.time.tolist() == [40]
    assert main(["convert", str(path), str(tmp_path / "h"), "--time", "at"]) == 0
    whole = HeteroGraph.open(tmp_path / "h").edges[kind]
    assert np.sort(whole.time).tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--time", "when"], "has no column 'when'"),
        (["--time", "at", "--undirected"], "--undirected does not apply"),
    ],
)
def test_times_that_cannot_be(tmp_path, capsys, more, words):
    path = tmp_path / "e.csv"
    path.write_text("from,to,at\n1,2,3\n")
    assert main(["convert", str(path), str(tmp_path / "g"), *more]) != 0
    assert words in capsys.readouterr().err
    np.save(tmp_path / "e.npy", np.zeros((2, 3), np.int64))
    assert main(["convert", str(tmp_path / "e.npy"), str(tmp_path / "g"), "--time", "at"]) != 0
    assert "--time is for an edge list" in capsys.readouterr().err


def test_links_of_a_table_without_ids_are_row_numbers_only_if_that_is_said(shop):
    (shop / "orders.csv").write_text("who\nann\nbob\n")
    text = '[nodes.order]\nfile = "orders.csv"\nforeign = {{ who = "user" }}\n{}\n[nodes.user]\n'
    (shop / "shop.toml").write_text(text.format(""))
    (shop / "rows.csv").write_text("source,target\n1,bob\n")
    files = LinkFiles({"train": shop / "rows.csv"}, {}, ("order", "f2p_who", "user"))
    with pytest.raises(InputError, match="links name nodes of type 'order', whose table has no id"):
        convert(shop / "shop.toml", shop / "g", splits=files)
    assert not (shop / "g").exists()
    (shop / "shop.toml").write_text(text.format('ids = "rows"'))
    convert(shop / "shop.toml", shop / "g", splits=files)
    links = HeteroGraph.open(shop / "g").links_of("train", ("order", "f2p_who", "user"))
    assert links.index.tolist() == [[1], [1]]
