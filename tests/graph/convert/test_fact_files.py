"""Files of facts: first lines that may be names, facts that stand twice, pairs that stay whole."""

import gzip
import json
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from foregather import HeteroGraph, ReadOptions, convert, split_links
from foregather.cli.main import main
from foregather.errors import FormatError, InputError
from foregather.graph.convert.link_files import LinkFiles
from tests.graph.convert.test_fact_links import facts_of, many_facts

FACTS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "d")]
NUMBERS = [(1, "r", 2), (2, "r", 3), (3, "s", 1)]


def wrote(path, rows):
    sign = "," if ".csv" in path.name else "\t"
    text = "".join(sign.join(map(str, row)) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def described(place, file, more=""):
    (place / "d.toml").write_text(f'[triples]\nfile = "{file}"\n{more}')
    return place / "d.toml"


def edges_of(folder):
    """The facts of a graph, counted."""
    graph, found = HeteroGraph.open(folder), Counter()
    ids = list(graph.nodes["entity"].ids)
    for (_, name, _), one in graph.edges.items():
        targets = np.repeat(np.arange(one.num_targets), np.diff(one.indptr))
        for head, tail in zip(one.indices, targets, strict=True):
            found[ids[head], name, ids[tail]] += 1
    return found


@pytest.mark.parametrize("file", ["f.csv", "f.tsv", "f.txt", "f.csv.gz", "f.tsv.gz", "f.txt.gz"])
@pytest.mark.parametrize(
    ("first", "more", "header", "said"),
    [
        (None, "", False, "is read as a fact (a, r, b); if it is not, set header = true"),
        (None, "header = false\n", False, None),
        (("head", "relation", "tail"), "", True, "read as names of columns (head, relation, tail)"),
        (("Subject", "predicate", "Object"), "", True, "set header = false in [triples]"),
        (("h", "r", "t"), "", True, "(h, r, t)"),
        (("h", "r", "t"), "header = false\n", False, None),
        (("who", "how", "whom"), "", False, "is read as a fact (who, how, whom)"),
        (("who", "how", "whom"), "header = true\n", True, None),
        (("who", "how", "whom"), 'head = "who"\nrelation = "how"\ntail = "whom"\n', True, None),
        (("t", "h", "r"), 'head = "2"\nrelation = "3"\ntail = "1"\n', True, "(h, r, t)"),
    ],
)
def test_a_first_line_is_a_fact_unless_it_is_said_or_seen(
    tmp_path, file, first, more, header, said
):
    rows = [] if first is None else [first]
    wrote(tmp_path / file, [*rows, *FACTS])
    told = convert(described(tmp_path, file, more), tmp_path / "g")
    expected = [*([] if header else rows), *FACTS]
    if 'head = "2"' in more:
        expected = [(head, relation, tail) for tail, head, relation in expected]
    assert edges_of(tmp_path / "g") == Counter(expected)
    notes = [note for note in told["notes"] if "first line" in note]
    assert len(notes) == (said is not None) and all(said in note for note in notes)


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt"])
def test_files_of_links_lose_no_first_fact_either(tmp_path, capsys, kind):
    parts = {"train": FACTS, "valid": [("b", "s", "c")], "test": [("d", "r", "a"), ("d", "s", "b")]}
    for name, rows in parts.items():
        head = [("head", "relation", "tail")] if name == "test" else []
        wrote(tmp_path / f"{name}.{kind}", [*head, *rows])
    source = described(tmp_path, f"train.{kind}")
    files = [f"{name}={tmp_path / name}.{kind}" for name in parts]
    words = ["convert", str(source), str(tmp_path / "g"), "--links", *files]
    assert main([*words, "--split-links-relation", "*"]) == 0
    text = capsys.readouterr().out
    graph = HeteroGraph.open(tmp_path / "g")
    for name, rows in parts.items():
        assert Counter(facts_of(graph, name)) == Counter(rows)
    for words in (f"train.{kind} is read as a fact (a, r, b)", f"valid.{kind} is read as a fact"):
        assert text.count(words) == 1
    assert f"test.{kind} is read as names of columns" in text and "left out" not in text


def test_numbers_are_no_names_and_raise_no_doubt(tmp_path):
    rows = [(1, 2, 3), (3, 2, 1)]
    wrote(tmp_path / "f.csv", rows)
    told = convert(described(tmp_path, "f.csv"), tmp_path / "g")
    assert told["num_edges"] == 2 and told["notes"] == []
    wrote(tmp_path / "n.csv", NUMBERS)  # the name of its relation is no number
    assert convert(described(tmp_path, "n.csv"), tmp_path / "h")["num_edges"] == 3


def test_columns_asked_for_by_name_are_in_the_first_line(tmp_path):
    wrote(tmp_path / "f.csv", FACTS)
    with pytest.raises(InputError, match=r"f.csv has no column 'from'"):
        convert(described(tmp_path, "f.csv", 'head = "from"'), tmp_path / "g")


def test_a_header_is_of_text(tmp_path):
    arrow = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    columns = dict(zip(("h", "r", "t"), map(list, zip(*FACTS, strict=True)), strict=True))
    arrow.write_table(pyarrow.table(columns | {"extra": [1, 2, 3, 4]}), tmp_path / "f.parquet")
    told = convert(described(tmp_path, "f.parquet"), tmp_path / "g")
    assert edges_of(tmp_path / "g") == Counter(FACTS)
    assert [note.split(",")[0] for note in told["notes"]] == ["f.parquet has 4 columns"]
    wrote(tmp_path / "f.csv", FACTS)  # what is stated is of text; other files of links name theirs
    files = LinkFiles({"test": tmp_path / "f.parquet"}, {}, "*")
    stated = described(tmp_path, "f.csv", "header = false")
    assert convert(stated, tmp_path / "l", splits=files)["links"] == {"test": len(FACTS)}
    with pytest.raises(InputError, match=r"has header, but f.parquet is no text file"):
        convert(described(tmp_path, "f.parquet", "header = true"), tmp_path / "h")
    with pytest.raises(InputError, match=r"header of \[triples\] is 'yes', expected true or"):
        convert(described(tmp_path, "f.parquet", 'header = "yes"'), tmp_path / "h")


def test_more_columns_are_said(tmp_path):
    timed = [(*row, 10 + number) for number, row in enumerate(FACTS)]
    wrote(tmp_path / "f.txt", timed)
    wrote(tmp_path / "test.txt", timed[:1])
    files = LinkFiles({"test": tmp_path / "test.txt"}, {}, "*")
    said = "has 4 columns, of which head, relation and tail are read; if one holds times, name it"
    told = convert(described(tmp_path, "f.txt"), tmp_path / "g", splits=files)
    for name in ("f.txt", "test.txt"):
        assert sum(f"{name} {said}" in note for note in told["notes"]) == 1
    told = convert(described(tmp_path, "f.txt", 'time = "4"'), tmp_path / "h", splits=files)
    assert not any("columns, of which" in note for note in told["notes"])


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_is_named_in_a_sentence(tmp_path, text):
    wrote(tmp_path / "f.txt", FACTS)
    (tmp_path / "test.txt").write_text(text)
    files = LinkFiles({"test": tmp_path / "test.txt"}, {}, "*")
    with pytest.raises(FormatError, match=r"^test.txt is empty, .*; leave it out, or mend it$"):
        convert(described(tmp_path, "f.txt"), tmp_path / "g", splits=files)


def expected_overlaps(parts):
    """By sets and counters: facts that two lists share, and those that come again in one."""
    shared = {(a, b): len(set(parts[a]) & set(parts[b])) for a, b in combinations(sorted(parts), 2)}
    again = {name: len(rows) - len(set(rows)) for name, rows in parts.items()}
    return shared, again


def overlaps(place, parts, edges, more="", strict=False):
    place.mkdir()
    wrote(place / "edges.txt", edges)
    files = {name: wrote(place / f"{name}.txt", rows) for name, rows in parts.items()}
    source = described(place, "edges.txt", more)
    reading = ReadOptions(strict=strict)
    return convert(source, place / "g", splits=LinkFiles(files, {}, "*"), reading=reading)["notes"]


@pytest.mark.parametrize("seed", range(3))
def test_facts_of_two_lists_are_counted(tmp_path, seed):
    rows, draw = many_facts(), np.random.default_rng(seed)
    parts = {
        name: [rows[n] for n in draw.integers(0, len(rows), size)]
        for name, size in (("train", 150), ("valid", 60), ("test", 80))
    }
    text = "\n".join(overlaps(tmp_path / "a", parts, rows))
    shared, again = expected_overlaps(parts)
    assert min(shared.values()) > 1 and min(again.values()) > 1
    for (first, second), count in shared.items():
        assert f"{count} facts are in both {first} and {second}, so one gives answers" in text
    for name in ("valid", "test"):
        assert f"{again[name]} facts come more than once in {name}, and" in text
        assert f"{len(parts[name])} of the {len(parts[name])} links {name} are edges" in text
    assert "once in train" not in text
    with pytest.raises(InputError, match=r"facts are in both test and train; take them out of one"):
        overlaps(tmp_path / "b", parts, rows, strict=True)
    assert not (tmp_path / "b" / "g").exists()


def test_one_fact_in_two_lists_and_edges_said_once(tmp_path):
    parts = {"train": FACTS, "valid": [("d", "r", "a")], "test": [("d", "r", "a"), FACTS[0]]}
    place = tmp_path / "a"
    place.mkdir()
    files = {name: wrote(place / f"{name}.txt", rows) for name, rows in parts.items()}
    given = described(place, "train.txt"), place / "g"
    notes = convert(*given, splits=LinkFiles(files, {}, "*"))["notes"]
    assert any(note.startswith("1 fact is in both test and valid, so") for note in notes)
    assert any(note.startswith("1 of the 2 links test are edges") for note in notes)
    assert not any("train" in note and "both" in note for note in notes)


def test_facts_of_other_times_are_others(tmp_path):
    edges = [(*row, 1) for row in FACTS]
    parts = {"valid": [("a", "r", "b", 2), ("a", "r", "b", 3)], "test": [("a", "r", "b", 4)]}
    notes = overlaps(tmp_path / "a", parts, edges, 'time = "4"\n', strict=True)
    assert not any("both" in note or "once" in note for note in notes)
    parts["test"] += [("a", "r", "b", 3)]
    with pytest.raises(InputError, match=r"^1 fact is in both test and valid; take"):
        overlaps(tmp_path / "b", parts, edges, 'time = "4"\n', strict=True)


def test_lists_that_train_does_not_use_are_said(tmp_path, capsys):
    wrote(tmp_path / "f.txt", FACTS)
    wrote(tmp_path / "test.txt", [("d", "r", "a")])
    wrote(tmp_path / "e.csv", [("source", "target"), (1, 2), (2, 3)])
    for source, more in (
        (described(tmp_path, "f.txt"), ["--split-links-relation", "*"]),
        (tmp_path / "e.csv", []),
    ):
        file = tmp_path / ("test.txt" if more else "e.csv")
        words = ["convert", str(source), str(tmp_path / "g"), "--overwrite", *more]
        assert main([*words, "--links", f"foo={file}"]) == 0
        text = capsys.readouterr().out
        assert "Links foo are kept, but train uses the lists train, valid and test unless" in text
        assert main([*words, "--links", f"test={file}"]) == 0
        assert "are kept, but" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_a_pair_is_in_one_part_in_both_directions(tmp_path, capsys, seed):
    rows = many_facts()
    rows += [(tail, "sib", head) for head, _, tail in rows[:120]]
    source = described(tmp_path, wrote(tmp_path / "f.txt", rows).name)
    words = ["convert", str(source), str(tmp_path / "g"), "--json", "--split-links-relation", "*"]
    words += ["--split-links", "0.6", "0.2", "0.2", "--split-links-seed", str(seed)]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    graph = HeteroGraph.open(tmp_path / "g")
    owner, every = {}, Counter()
    for name in ("train", "valid", "test"):
        part = facts_of(graph, name)
        assert told["links"][name] == len(part) > len(rows) / 10
        every.update(part)
        for head, _, tail in part:
            assert owner.setdefault(frozenset((head, tail)), name) == name
    assert every == Counter(rows)
    convert(source, tmp_path / "h", splits=False)
    whole = HeteroGraph.open(tmp_path / "h")
    assert split_links(whole, (0.6, 0.2, 0.2), relation="*", seed=seed).digest == graph.digest
    # One relation that is named goes on by ordered pairs, as before.
    alone = split_links(whole, (0.6, 0.2, 0.2), relation=("entity", "r0", "entity"), seed=seed)
    pairs = {}
    for name, links in alone.links["entity", "r0", "entity"].items():
        pairs |= {tuple(pair): name for pair in links.index.T.tolist()}
    turned = [(pair, pair[::-1]) for pair in pairs if pair[::-1] in pairs and pair[0] != pair[1]]
    assert turned and any(pairs[one] != pairs[other] for one, other in turned)
