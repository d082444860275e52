"""Links of knowledge graphs: facts that come divided already, and divisions of all relations."""

import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from foregather import HeteroGraph, convert, split_links
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.graph.convert.link_files import LinkFiles
from foregather.graph.links.rule import LinkSplit
from foregather.train.links.link_data import read_links

NAMES = ("train", "valid", "test")
FACTS = {
    "train": [("ann", "knows", "bob"), ("bob", "knows", "cy"), ("cy", "likes", "tea"),
              ("ann", "likes", "tea"), ("ann", "knows", "bob"), ("tea", "from", "dan")],
    "valid": [("ann", "likes", "bob"), ("cy", "knows", "ann"), ("bob", "likes", "cy")],
    "test": [("tea", "knows", "tea")],
}  # fmt: skip


def written(place, facts, more=""):
    """Files of facts and their description."""
    for name, rows in facts.items():
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        (place / f"{name}.txt").write_text(text)
    (place / "facts.toml").write_text(f'[triples]\nfile = "train.txt"\n{more}')
    return place / "facts.toml"


def linked(place, description, *more):
    """Exit code and facts of a conversion with links of files."""
    files = [f"{name}={place / name}.txt" for name in NAMES if (place / f"{name}.txt").exists()]
    words = ["convert", str(description), str(place / "g"), "--links", *files]
    return main([*words, "--split-links-relation", "*", *more])


def named(graph, pairs):
    ids = list(graph.nodes["entity"].ids)
    return [(ids[a], ids[b]) for a, b in np.asarray(pairs).T.tolist()]


def facts_of(graph, name):
    """The links of a name as facts, in their order of each relation."""
    return [
        (head, relation[1], tail)
        for relation, lists in graph.links.items()
        if name in lists
        for head, tail in named(graph, lists[name].index)
    ]


@pytest.mark.parametrize("reverse", [False, True])
def test_facts_become_links_of_their_relations(tmp_path, capsys, reverse):
    source = written(tmp_path, FACTS, f"reverse = {str(reverse).lower()}")
    assert linked(tmp_path, source, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["links"] == {"train": 6, "valid": 3, "test": 1} and told["links_relations"] == 3
    graph = HeteroGraph.open(tmp_path / "g")
    graph.verify()
    for name, rows in FACTS.items():
        assert facts_of(graph, name) == sorted(rows, key=lambda row: row[1])
    assert not any(relation[1].startswith("rev_") for relation in graph.links)
    assert graph.num_edges == convert(source, tmp_path / "h")["num_edges"]
    data = read_links(graph, "*", {name: name for name in NAMES})
    assert data.several == 3 and {name: len(one) for name, one in data.splits.items()} == {
        name: len(rows) for name, rows in FACTS.items()
    }
    assert main(["info", str(tmp_path / "g"), "--verify"]) == 0


def test_what_the_graph_does_not_know_is_counted_or_refused(tmp_path, capsys):
    odd = [("ann", "hates", "bob"), ("eve", "knows", "bob"), ("eve", "hates", "ann")]
    source = written(tmp_path, FACTS | {"valid": [*odd, *FACTS["valid"]]})
    assert linked(tmp_path, source) == 0
    words = "3 of 6 facts valid were left out: 2 with an entity and 1 with a relation that the"
    assert words in capsys.readouterr().out
    assert facts_of(HeteroGraph.open(tmp_path / "g"), "valid") == sorted(
        FACTS["valid"], key=lambda row: row[1]
    )
    for first, words in (
        (0, "the relation of fact 1 is 'hates', which is no relation of the graph"),
        (1, "the head of fact 1 is 'eve', which is no node of type 'entity'"),
    ):
        place = tmp_path / str(first)
        place.mkdir()
        source = written(place, FACTS | {"valid": odd[first:]})
        assert linked(place, source, "--strict") == 2
        error = capsys.readouterr().err
        assert f"valid.txt: {words}; leave it out, or convert without --strict" in error
        assert not (place / "g").exists()
        source.write_text("strict = true\n" + source.read_text())
        assert linked(place, source) == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("eve", "knows", "dan")], "valid.txt holds no facts whose entities and relation the gr"),
        ([], "valid.txt"),
        ([("ann", "knows")], "valid.txt"),
    ],
)
def test_files_that_hold_no_facts(tmp_path, capsys, rows, words):
    source = written(tmp_path, FACTS | {"valid": rows})
    assert linked(tmp_path, source) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and not (tmp_path / "g").exists()


def test_numbers_times_and_memory(tmp_path):
    rows = {"train": [(1, "r", 2, 9), (2, "s", 3, 8)], "valid": [(3, "r", 1, 10)]}
    source = written(tmp_path, rows, 'time = "4"\n')
    files = {name: tmp_path / f"{name}.txt" for name in rows}
    convert(source, tmp_path / "g", splits=LinkFiles(files, {}, "*"))
    graph = HeteroGraph.open(tmp_path / "g")
    (valid,) = (lists["valid"] for lists in graph.links.values() if "valid" in lists)
    assert valid.time.tolist() == [10] and named(graph, valid.index) == [(3, 1)]
    from foregather.graph.convert.typed.description.spec import read_spec
    from foregather.graph.convert.typed.fact_links import read_fact_links

    given = (graph.nodes, graph.edges, read_spec(source).triples, LinkFiles(files, {}, "*"))
    with pytest.raises(BudgetError, match="do not fit into the"):
        read_fact_links(*given, False, 400)
    (tmp_path / "valid.txt").write_text("x\tr\ty\t1\n")
    with pytest.raises(InputError, match="the head of facts is string, but nodes of type 'entity"):
        read_fact_links(*given, False, 10**6)


def test_what_does_not_fit_all_relations(tmp_path):
    source = written(tmp_path, FACTS)
    file = {"valid": tmp_path / "valid.txt"}
    with pytest.raises(InputError, match=r"valid_negatives are given, but facts of several"):
        convert(source, tmp_path / "g", splits=LinkFiles(file, file, "*"))
    edges = '[nodes.a]\n[[edges]]\ntype = ["a", "r", "a"]\nfile = "train.txt"\n'
    (tmp_path / "edges.toml").write_text(edges + 'source = "1"\ntarget = "3"\n')
    with pytest.raises(InputError, match=r"'\*', but edges.toml has no \[triples\]"):
        convert(tmp_path / "edges.toml", tmp_path / "g", splits=LinkFiles(file, {}, "*"))
    with pytest.raises(InputError, match="undirected is for the division of one relation"):
        LinkSplit((0.8, 0.1, 0.1), relation="*", undirected=True)
    (tmp_path / "e.csv").write_text("a,b\n1,2\n2,3\n")
    with pytest.raises(InputError, match=r"a relation is named, '\*', but the graph has no types"):
        convert(tmp_path / "e.csv", tmp_path / "g", splits=LinkSplit((0.4, 0.3, 0.3), relation="*"))
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("given", [["a", "b"], ["x"]])
def test_a_relation_has_three_names(tmp_path, capsys, given):
    source = written(tmp_path, FACTS)
    words = ["convert", str(source), str(tmp_path / "g"), "--split-links", "0.8", "0.1", "0.1"]
    assert main([*words, "--split-links-relation", *given]) == 2
    assert f"has {len(given)} word" in capsys.readouterr().err


def many_facts():
    draw = np.random.default_rng(0)
    drawn = draw.integers(0, [30, 4, 30], (400, 3)).tolist()
    rows = {(f"a{head}", f"r{relation}", f"a{tail}") for head, relation, tail in drawn}
    return [*sorted(rows), ("a1", "rare", "a2")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("described", [False, True])
def test_all_relations_are_divided_as_one(tmp_path, capsys, reverse, described):
    rows, more = many_facts(), f"reverse = {str(reverse).lower()}\n"
    division = '[links]\ntype = "*"\nsplit = [0.7, 0.2, 0.1]\nseed = 3\n'
    source = written(tmp_path, {"train": rows}, more + (division if described else ""))
    words = ["convert", str(source), str(tmp_path / "g"), "--json"]
    asked = ["--split-links", "0.7", "0.2", "0.1", "--split-links-seed", "3"]
    asked += ["--split-links-relation", "*"]
    assert main(words + ([] if described else asked)) == 0
    told = json.loads(capsys.readouterr().out)
    graph = HeteroGraph.open(tmp_path / "g")
    graph.verify()
    parts = {name: facts_of(graph, name) for name in NAMES}
    assert told["links"] == {name: len(part) for name, part in parts.items()}
    assert Counter(one for part in parts.values() for one in part) == Counter(rows)
    # Two nodes are in one part, whatever joins them; so shares are those of pairs, nearly.
    owner = {}
    for name, part in parts.items():
        for head, _, tail in part:
            assert owner.setdefault((head, tail), name) == name
    shares = [len(part) / len(rows) for part in parts.values()]
    assert np.abs(np.array(shares) - [0.7, 0.2, 0.1]).max() < 0.02
    for kind, relation in graph.edges.items():
        if kind[1].startswith("rev_"):
            continue
        targets = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
        kept = named(graph, np.stack([np.asarray(relation.indices), targets]))
        assert Counter(kept) == Counter((h, t) for h, name, t in parts["train"] if name == kind[1])
        if reverse:
            back = graph.edges["entity", f"rev_{kind[1]}", "entity"]
            assert back.num_edges == relation.num_edges
    whole = convert(source, tmp_path / "h", splits=False)
    assert whole["num_edges"] == len(rows) * (1 + reverse)
    memory = split_links(HeteroGraph.open(tmp_path / "h"), (0.7, 0.2, 0.1), seed=3, relation="*")
    assert memory.digest == graph.digest
    assert {kind: set(lists) for kind, lists in memory.links.items()} == {
        kind: set(lists) for kind, lists in graph.links.items()
    }


def test_divided_by_time_and_a_relation_without_times():
    from tests.train.links.small_links import knowledge_graph

    graph = knowledge_graph()
    bare = HeteroGraph(graph.nodes, graph.edges)
    with pytest.raises(InputError, match="the edges have no times"):
        split_links(bare, (0.6, 0.2, 0.2), by_time=True, relation="*")
    with pytest.raises(InputError, match="has links already"):
        split_links(graph, (0.6, 0.2, 0.2), relation="*")
    with pytest.raises(InputError, match="leaves valid empty"):
        split_links(bare, (0.99, 0.005, 0.005), relation="*")


def test_relations_that_hold_nothing_out_are_learned_too(tmp_path):
    source = written(tmp_path, FACTS)
    files = LinkFiles({"valid": tmp_path / "valid.txt"}, {}, "*")
    convert(source, tmp_path / "g", splits=files)
    data = read_links(HeteroGraph.open(tmp_path / "g"), "*", {"train": "train", "valid": "valid"})
    assert [one[1] for one in data.relations] == ["from", "knows", "likes"]
    assert len(data.splits["train"]) == len(FACTS["train"])


@pytest.mark.skipif(
    not os.environ.get("FOREGATHER_DATA"), reason="FOREGATHER_DATA names no folder of real graphs"
)
def test_a_real_graph_as_its_files_give_it(tmp_path):
    """CoDEx-S: three files of facts, without a header; its counts are published."""
    stored = np.load(Path(os.environ["FOREGATHER_DATA"]) / "typed" / "codex_s.npz")

    def texts(name):
        raw, cuts = stored[f"{name}_bytes"].tobytes(), stored[f"{name}_off"].tolist()
        return [raw[a:b].decode() for a, b in pairwise(cuts)]

    entities, relations = texts("entity"), texts("relation")
    facts = {
        name: [(entities[h], relations[r], entities[t]) for h, r, t in stored[key].tolist()]
        for name, key in zip(NAMES, ("triples_train", "triples_val", "triples_test"), strict=True)
    }
    source = written(tmp_path, facts)
    files = LinkFiles({name: tmp_path / f"{name}.txt" for name in NAMES}, {}, "*")
    told = convert(source, tmp_path / "g", splits=files)
    assert told["links"] == {"train": 32_888, "valid": 1827, "test": 1828}
    assert told["num_nodes"] == 2034 and len(told["relations"]) == 42
    graph = HeteroGraph.open(tmp_path / "g")
    for name in ("valid", "test"):
        assert sorted(facts_of(graph, name)) == sorted(facts[name])
