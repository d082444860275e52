"""Conversions that make links: by chance, by time, and from files that are divided already."""

import json

import numpy as np
import pytest

from foregather import Graph, HeteroGraph, LinkSplit, convert, split_links
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.convert.link_files import LinkFiles

PARTS = ("train", "valid", "test")


def edge_list(path, names=None, edges=300, nodes=40, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (edges, 2))
    name = (lambda n: n) if names is None else (lambda n: names.format(n))
    lines = ["source,target,w"]
    lines += [f"{name(a)},{name(b)},{i}" for i, (a, b) in enumerate(pairs.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("names", [None, "person {}"])
def test_a_folder_equals_a_split_in_memory(tmp_path, undirected, names):
    src = edge_list(tmp_path / "e.csv", names)
    rule = LinkSplit((0.8, 0.1, 0.1), seed=5)
    options = {"undirected": undirected, "weight": "w"}
    from foregather import ReadOptions

    reading = ReadOptions(weight=options.pop("weight"))
    convert(src, tmp_path / "whole", reading=reading, **options)
    facts = convert(src, tmp_path / "g", reading=reading, splits=rule, **options)
    made = Graph.open(tmp_path / "g")
    made.verify()
    assert made.checked
    assert (
        made.digest == split_links(Graph.open(tmp_path / "whole"), (0.8, 0.1, 0.1), seed=5).digest
    )
    assert facts["links"] == {name: made.links[name].num_links for name in PARTS}
    assert facts["links_undirected"] is undirected and facts["num_edges"] == made.num_edges
    assert not list(tmp_path.glob("*.partial"))
    if names:
        first = made.links["test"].index[0, :1]
        assert made.original_ids(first)[0].startswith("person ")


def test_the_result_does_not_depend_on_memory(tmp_path, monkeypatch):
    src = edge_list(tmp_path / "e.csv", edges=9000, nodes=300)
    rule = LinkSplit((0.8, 0.1, 0.1))
    convert(src, tmp_path / "a", splits=rule)
    monkeypatch.setattr("foregather.graph.convert.linked.STEP", 4096)
    convert(src, tmp_path / "b", splits=rule, memory="4GB")
    assert Graph.open(tmp_path / "a").digest == Graph.open(tmp_path / "b").digest


def test_overwrite_and_interrupts(tmp_path, monkeypatch):
    src = edge_list(tmp_path / "e.csv")
    convert(src, tmp_path / "g")
    with pytest.raises(StorageError, match="exists already"):
        convert(src, tmp_path / "g", splits=LinkSplit((0.8, 0.1, 0.1)))
    convert(src, tmp_path / "g", splits=LinkSplit((0.8, 0.1, 0.1)), overwrite=True)
    digest = Graph.open(tmp_path / "g").digest

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("foregather.graph.convert.linked.divide_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        convert(src, tmp_path / "g", splits=LinkSplit((0.6, 0.2, 0.2)), overwrite=True)
    assert Graph.open(tmp_path / "g").digest == digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "g"]


def description(folder, links):
    rng = np.random.default_rng(1)
    lines = ["who,what,at,stars"]
    for n in range(120):
        lines.append(f"u{rng.integers(9)},{rng.integers(5) + 100},{1000 + n // 2},{n}")
    (folder / "bought.csv").write_text("\n".join(lines) + "\n")
    toml = folder / "shop.toml"
    toml.write_text(
        '[nodes.user]\n[nodes.item]\n[[edges]]\ntype = ["user", "bought", "item"]\n'
        'file = "bought.csv"\nsource = "who"\ntarget = "what"\ntime = "at"\nweight = "stars"\n'
        f"reverse = true\n{links}\n"
    )
    return toml


BOUGHT, BACK = ("user", "bought", "item"), ("item", "rev_bought", "user")
TYPE = 'type = ["user", "bought", "item"]\n'


@pytest.mark.parametrize(
    ("links", "how"),
    [
        ("split = [0.8, 0.1, 0.1]\nseed = 3", {"fractions": (0.8, 0.1, 0.1), "seed": 3}),
        ("times = [1040, 1050]", {"times": (1040, 1050)}),
        ('split = [0.7, 0.2, 0.1]\nby = "time"', {"fractions": (0.7, 0.2, 0.1), "by_time": True}),
    ],
)
def test_a_description_divides_a_relation_and_its_reverse(tmp_path, links, how):
    convert(description(tmp_path, ""), tmp_path / "whole")
    toml = description(tmp_path, f"[links]\n{TYPE}{links}")
    facts = convert(toml, tmp_path / "g")
    made = HeteroGraph.open(tmp_path / "g")
    made.verify()
    same = split_links(HeteroGraph.open(tmp_path / "whole"), relation=BOUGHT, **how)
    assert made.digest == same.digest
    assert facts["links_relation"] == list(BOUGHT) and sum(facts["links"].values()) == 120
    assert made.edges[BOUGHT].num_edges == made.edges[BACK].num_edges == facts["links"]["train"]
    assert made.links[BOUGHT]["test"].labels.dtype == np.float32
    assert list(made.nodes["user"].ids)[made.links[BOUGHT]["test"].index[0, 0]].startswith("u")
    assert convert(toml, tmp_path / "n", splits=False)["num_edges"] == 240


def test_flags_divide_a_description(tmp_path, capsys):
    toml = description(tmp_path, "")
    ends = ["--split-links-time", "1970-01-01T00:17:20", "1050", "--json"]
    relation = ["--split-links-relation", *BOUGHT]
    main(["convert", str(toml), str(tmp_path / "g"), *ends, *relation])
    facts = json.loads(capsys.readouterr().out)
    assert facts["links"] == {"train": 80, "valid": 20, "test": 20}


def test_commands_show_links(tmp_path, capsys):
    src = edge_list(tmp_path / "e.csv", "n{}")
    main(["convert", str(src), str(tmp_path / "g"), "--split-links", "0.8", "0.1", "0.1"])
    assert "  links: train 240, valid 30, test 30" in capsys.readouterr().out
    main(["info", str(tmp_path / "g"), "--verify"])
    shown = capsys.readouterr().out
    assert "links        test: 30 links" in shown and "links/0/sources" in shown
    toml = description(tmp_path, f"[links]\n{TYPE}split = [0.8, 0.1, 0.1]")
    main(["convert", str(toml), str(tmp_path / "t")])
    assert "links of (user, bought, item): train" in capsys.readouterr().out
    main(["info", str(tmp_path / "t")])
    assert "links        valid of (user, bought, item):" in capsys.readouterr().out


@pytest.mark.parametrize("names", [None, "person {}"])
def test_files_that_are_divided(tmp_path, names, capsys):
    src = edge_list(tmp_path / "e.csv", names)
    valid = edge_list(tmp_path / "v.csv", names, 20, seed=1)
    wrong = edge_list(tmp_path / "w.csv", names, 7, seed=2)
    flags = ["--links", f"valid={valid}", f"valid_negatives={wrong}", "--weight", "w"]
    main(["convert", str(src), str(tmp_path / "g"), *flags])
    assert "links: valid 20" in capsys.readouterr().out
    graph = Graph.open(tmp_path / "g")
    graph.verify()
    links = graph.links_of("val")
    expected = [line.split(",") for line in valid.read_text().splitlines()[1:]]
    found = [list(map(str, graph.original_ids(ids))) for ids in links.index]
    assert found == [[row[0] for row in expected], [row[1] for row in expected]]
    assert links.labels.tolist() == [float(row[2]) for row in expected]
    assert links.negatives.shape == (2, 7)
    assert graph.num_edges == 300


def test_held_out_links_that_are_edges_are_said(tmp_path):
    src = edge_list(tmp_path / "e.csv")
    lines = src.read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([lines[0], *lines[5:15]]) + "\n")
    files = LinkFiles.of([f"test={tmp_path / 't.csv'}", f"train={src}"])
    notes = convert(src, tmp_path / "g", splits=files)["notes"]
    said = [note for note in notes if "edges of the graph too" in note]
    assert len(said) == 1 and said[0].startswith("10 of the 10 links test")


def test_bad_links_are_one_sentence(tmp_path):
    src = edge_list(tmp_path / "e.csv", "n{}")
    lost = tmp_path / "l.csv"
    lost.write_text("source,target\nn1,n2\nn3,nobody\n")
    dst = tmp_path / "g"
    with pytest.raises(InputError, match=r"l\.csv: the target of link 2 is 'nobody'"):
        convert(src, dst, splits=LinkFiles.of([f"valid={lost}"]))
    for given, words in (
        (["valid"], "NAME=FILE"),
        ([f"valid={lost}", f"valid={lost}"], "twice"),
        ([f"valid_negatives={lost}"], "no links are given"),
        ([f"train={lost}", f"valid_negatives={lost}"], "no links of that name"),
        ([f"val={lost}", f"valid={src}"], "mean the same|nobody"),
    ):
        with pytest.raises(InputError, match=words):
            convert(src, dst, splits=LinkFiles.of(given))
    with pytest.raises(StorageError, match="does not exist"):
        LinkFiles.of(["valid=nowhere.csv"])
    with pytest.raises(InputError, match="no times"):
        convert(src, dst, splits=LinkSplit(times=(1, 2)))
    with pytest.raises(InputError, match="no types"):
        convert(src, dst, splits=LinkSplit((0.8, 0.1, 0.1), relation=BOUGHT))
    toml = description(tmp_path, "")
    with pytest.raises(InputError, match="nearest is .*bought"):
        convert(toml, dst, splits=LinkSplit((0.8, 0.1, 0.1), relation=("user", "buys", "item")))
    with pytest.raises(InputError, match="no node of type 'user'"):
        convert(toml, dst, splits=LinkFiles.of([f"valid={lost}"]))
    with pytest.raises(InputError, match="expected a whole number or a date"):
        convert(toml, dst, splits=LinkSplit(times=("soon", "later"), relation=BOUGHT))
    toml = description(tmp_path, f"[links]\n{TYPE}split = [0.8, 0.1, 0.1]")
    with pytest.raises(InputError, match=r"has \[links\]"):
        convert(toml, dst, splits=LinkSplit((0.8, 0.1, 0.1)))
    assert not dst.exists() and not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ("fractions = 1", "fractions.*not known"),
        ("split = 1", "expected a list"),
        ('by = "luck"', "expected 'chance' or 'time'"),
        ("type = 3", "not three names"),
        ("", "by fractions or by times"),
        ('split = ["a", 0.5, 0.5]', "fraction a"),
        ("split = [0.8, 0.1, 0.1]\nseed = true", "seed"),
    ],
)
def test_bad_descriptions_of_links(tmp_path, links, words):
    with pytest.raises(InputError, match=words):
        convert(description(tmp_path, f"[links]\n{links}"), tmp_path / "g")


def test_positions_beyond_the_budget_are_refused(tmp_path, monkeypatch):
    toml = description(tmp_path, f"[links]\n{TYPE}split = [0.8, 0.1, 0.1]")
    monkeypatch.setattr("foregather.graph.convert.linked_typed._POSITION", 1 << 40)
    with pytest.raises(BudgetError, match="for their positions"):
        convert(toml, tmp_path / "g")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--split-links-seed", "3"], "no effect"),
        (["--split-links-by", "time"], "no effect"),
        (["--split-links", "0.8", "0.1", "0.1", "--split", "0.8", "0.1", "0.1"], "one at a time"),
        (["--split-links", "0.8", "0.1", "0.1", "--links", "a=b"], "exclude each other"),
    ],
)
def test_flags_that_contradict(tmp_path, flags, words, capsys):
    src = edge_list(tmp_path / "e.csv")
    assert main(["convert", str(src), str(tmp_path / "g"), *flags]) == 2
    assert words in capsys.readouterr().err
