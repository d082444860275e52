"""First lines of tables of nodes, edges and links: no row is lost in silence."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foregather import HeteroGraph, LinkSplit, ReadOptions, convert
from foregather.cli.main import main
from foregather.errors import InputError
from foregather.graph.convert.link_files import LinkFiles

NUMBERS = [(10, 1, 5), (30, 2, 6), (20, 3, 7)]
NAMES = [("ann", "red", "u"), ("bob", "blue", "v"), ("cy", "red", "w")]
DOUBT = "could be names of columns or a row; set header = true in"


def wrote(path, rows):
    sign = "," if ".csv" in path.name else "\t"
    text = "".join(sign.join(map(str, row)) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def nodes(place, file, more):
    (place / "d.toml").write_text(f'[nodes.a]\nfile = "{file}"\n{more}')
    return place / "d.toml"


def edges(place, file, more="", ends=("1", "2")):
    (place / "d.toml").write_text(
        f'[nodes.a]\n[nodes.b]\n[[edges]]\ntype = ["a", "r", "b"]\nfile = "{file}"\n'
        f'source = "{ends[0]}"\ntarget = "{ends[1]}"\n{more}'
    )
    return place / "d.toml"


def ids_of(folder):
    ids = HeteroGraph.open(folder).nodes["a"].ids
    return [one if isinstance(one, str) else int(one) for one in ids]


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "txt", "txt.gz"])
@pytest.mark.parametrize(
    ("first", "rows", "more", "header"),
    [
        (None, NUMBERS, 'id = "1"\nheader = false\n', False),
        (None, NAMES, 'id = "1"\nheader = false\n', False),
        (("id", "kind", "z"), NAMES, 'id = "id"\n', True),
        (("who", "what", "z"), NAMES, 'id = "who"\nheader = true\n', True),
        (("who", "what", "z"), NAMES, 'id = "1"\nheader = true\n', True),
        (("1990", "1991", "1992"), NUMBERS, 'id = "1990"\n', True),
        (("0", "1", "2"), NUMBERS, 'id = "0"\nheader = true\n', True),
    ],
)
def test_what_is_said_or_named_decides(tmp_path, kind, first, rows, more, header):
    wrote(tmp_path / f"n.{kind}", [*([] if first is None else [first]), *rows])
    told = convert(nodes(tmp_path, f"n.{kind}", more), tmp_path / "g")
    assert ids_of(tmp_path / "g") == [row[0] for row in rows]
    assert not [note for note in told["notes"] if "first line" in note]
    assert header is (first is not None)


@pytest.mark.parametrize("kind", ["csv", "tsv.gz"])
@pytest.mark.parametrize(
    ("first", "rows", "said"),
    [
        (("id", "what", "z"), NAMES, "(id, what, z)"),  # a usual name
        (("a", "b", "c"), NUMBERS, "(a, b, c)"),  # words above numbers
        (("ann", "when", "z"), [("bob", "2024-01-02", "x")], "(ann, when, z)"),  # and above dates
    ],
)
def test_what_is_assumed_is_said(tmp_path, kind, first, rows, said):
    wrote(tmp_path / f"n.{kind}", [first, *rows])
    told = convert(nodes(tmp_path, f"n.{kind}", 'id = "1"\n'), tmp_path / "g")
    assert ids_of(tmp_path / "g") == [row[0] for row in rows]
    (note,) = [note for note in told["notes"] if "first line" in note]
    assert said in note and note.endswith("if it is a row, set header = false in [nodes.a].")


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        (NUMBERS, 'id = "1"\n'),
        (NAMES, 'id = "1"\n'),
        (NUMBERS, 'features = ["2"]\n'),
        (NUMBERS, ""),  # only its rows are counted
        (NUMBERS[:1], 'id = "1"\n'),  # nothing below
        (NAMES[:1], 'id = "1"\n'),
        ([("0", "1", "2"), *NUMBERS], 'id = "1"\n'),  # as pandas calls columns without names
        ([("id", "1.5", "x"), *NUMBERS], 'id = "1"\n'),
        ([("id", "", "x"), *NUMBERS], 'id = "1"\nfeatures = ["2"]\n'),
        ([("id", "none", "x"), *NUMBERS], 'id = "1"\n'),
        ([("id", "true", "x"), ("b", "false", "y")], 'id = "1"\n'),
    ],
)
def test_a_line_in_doubt_is_refused(tmp_path, rows, more):
    wrote(tmp_path / "n.csv", rows)
    with pytest.raises(InputError, match=f"the first line of n.csv .* {DOUBT} .nodes.a. to skip"):
        convert(nodes(tmp_path, "n.csv", more), tmp_path / "g")
    assert not (tmp_path / "g").exists()
    for said in ("true", "false"):
        convert(nodes(tmp_path, "n.csv", f"{more}header = {said}\n"), tmp_path / said)
    counts = [HeteroGraph.open(tmp_path / one).num_nodes for one in ("true", "false")]
    assert counts == [len(rows) - 1, len(rows)]


def test_a_first_field_that_nobody_reads_may_be_empty(tmp_path):
    wrote(tmp_path / "n.csv", [("", "id", "x"), *NUMBERS])  # the index of a pandas table
    convert(nodes(tmp_path, "n.csv", 'id = "2"\n'), tmp_path / "g")
    assert ids_of(tmp_path / "g") == [1, 2, 3]


def test_names_in_a_file_that_has_none_by_its_kind(tmp_path):
    wrote(tmp_path / "n.txt", [("id", "what", "z"), *NUMBERS])
    with pytest.raises(InputError, match=DOUBT):
        convert(nodes(tmp_path, "n.txt", 'id = "1"\n'), tmp_path / "g")
    wrote(tmp_path / "n.txt", NUMBERS)
    convert(nodes(tmp_path, "n.txt", 'id = "1"\n'), tmp_path / "g")
    assert ids_of(tmp_path / "g") == [10, 30, 20]


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_edges(tmp_path, kind):
    file = wrote(tmp_path / f"e.{kind}", NUMBERS).name
    with pytest.raises(InputError, match=rf"{DOUBT} \[\[edges\]\] number 1 to skip it"):
        convert(edges(tmp_path, file), tmp_path / "g")
    assert convert(edges(tmp_path, file, "header = false\n"), tmp_path / "g")["num_edges"] == 3
    assert ids_of(tmp_path / "g") == [10, 20, 30]
    assert convert(edges(tmp_path, file, "header = true\n"), tmp_path / "h")["num_edges"] == 2
    wrote(tmp_path / file, [("user", "item"), ("ann", "red"), ("bob", "blue")])
    with pytest.raises(InputError, match=DOUBT):
        convert(edges(tmp_path, file), tmp_path / "i")
    wrote(tmp_path / file, [("src", "dst"), ("ann", "red"), ("bob", "blue")])
    told = convert(edges(tmp_path, file), tmp_path / "i")
    assert told["num_edges"] == 2 and any("(src, dst)" in note for note in told["notes"])


def test_all_that_is_read_of_a_file_decides(tmp_path):
    """Where one reading names columns, the others may count them."""
    wrote(tmp_path / "e.csv", [("who", "what"), *(row[:2] for row in NAMES)])
    text = '[nodes.a]\nfile = "e.csv"\nid = "who"\n[nodes.b]\n[[edges]]\n'
    text += 'type = ["a", "r", "b"]\nfile = "e.csv"\nsource = "1"\ntarget = "2"\n'
    (tmp_path / "d.toml").write_text(text)
    assert convert(tmp_path / "d.toml", tmp_path / "g")["num_edges"] == 3
    (tmp_path / "d.toml").write_text(f"{text}header = true\n[nodes.c]\nfile='e.csv'\nheader=false")
    with pytest.raises(InputError, match=r"e\.csv is said to have a header and to have none"):
        convert(tmp_path / "d.toml", tmp_path / "h")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[nodes.a]\nfile = "n.parquet"\nid = "id"\nheader = true', "n.parquet is no text file"),
        ("[nodes.a]\ncount = 3\nheader = true", "has header, which is of a table, but no file"),
        ('[nodes.a]\nfile = "n.csv"\nheader = "yes"', "header of .nodes.a. is 'yes', expected"),
    ],
)
def test_a_header_that_means_nothing(tmp_path, text, words):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "n.parquet")
    wrote(tmp_path / "n.csv", NUMBERS)
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        convert(tmp_path / "d.toml", tmp_path / "g")


@pytest.fixture
def shop(tmp_path):
    wrote(tmp_path / "e.csv", [("who", "what"), ("ann", "x"), ("bob", "y"), ("cy", "x")])
    edges(tmp_path, "e.csv", ends=("who", "what"))
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_links_lose_no_first_row(shop, capsys, kind):
    """Also not those of negatives."""
    bare = wrote(shop / f"train.{kind}", [("ann", "y"), ("bob", "x")])
    named = wrote(shop / f"valid.{kind}", [("source", "target"), ("cy", "y")])
    refused = "set --header yes to skip it, or --header no to read it"
    for files in (({"train": bare}, {}), ({"valid": named}, {"valid": bare})):
        with pytest.raises(InputError, match=rf"the first line of {bare.name} .* {refused}"):
            convert(shop / "d.toml", shop / "g", splits=LinkFiles(*files))
        assert not (shop / "g").exists()
    command = ["convert", str(shop / "d.toml"), str(shop / "g"), "--json", "--links"]
    assert main([*command, f"train={bare}", "--header", "no"]) == 0
    assert json.loads(capsys.readouterr().out)["links"] == {"train": 2}
    wrote(bare, [("who", "what"), ("ann", "y")])
    files = LinkFiles({"train": bare, "valid": named}, {})
    told = convert(shop / "d.toml", shop / "h", splits=files, reading=ReadOptions(header=True))
    assert told["links"] == {"train": 1, "valid": 1}


def test_links_with_usual_names_say_what_was_assumed(shop):
    path = wrote(shop / "train.csv", [("src", "dst"), ("cy", "y")])
    told = convert(shop / "d.toml", shop / "g", splits=LinkFiles({"train": path}, {}))
    assert told["links"] == {"train": 1}
    (note,) = [note for note in told["notes"] if "first line" in note]
    assert note.endswith("(src, dst); if it is a row, set --header no.")


def test_the_flag_is_refused_where_it_says_nothing(shop):
    for splits in (True, LinkSplit((0.8, 0.1, 0.1))):
        with pytest.raises(InputError, match="--header does not apply to a TOML description"):
            convert(shop / "d.toml", shop / "g", splits=splits, reading=ReadOptions(header=True))
    wrote(shop / "f.txt", [("a", "r", "b"), ("b", "r", "a")])
    (shop / "kg.toml").write_text('[triples]\nfile = "f.txt"\n')
    files = LinkFiles({"train": shop / "f.txt"}, {}, "*")
    with pytest.raises(InputError, match="does not apply to links of all relations; set header in"):
        convert(shop / "kg.toml", shop / "g", splits=files, reading=ReadOptions(header=True))


def test_random_tables_lose_nothing(tmp_path):
    """A table without a header is refused or whole, whatever is in it."""
    rng = np.random.default_rng(0)
    for case in range(60):
        rows = [
            tuple(str(rng.choice(["7", "x", "a b", "1.5", "2024-01-02", "t"])) for _ in range(3))
            for _ in range(int(rng.integers(1, 5)))
        ]
        rows[0] = tuple(f"k{n}" if one == "t" else one for n, one in enumerate(rows[0]))
        wrote(tmp_path / "n.csv", rows)
        try:
            told = convert(nodes(tmp_path, "n.csv", ""), tmp_path / f"g{case}")
        except InputError as error:
            assert "could be names of columns" in str(error)
            continue
        assert any("is read as names of columns" in note for note in told["notes"])
        assert told["num_nodes"] == len(rows) - 1


def test_an_edge_list_with_times_loses_no_first_edge(tmp_path, capsys):
    path = wrote(tmp_path / "e.csv", NUMBERS)
    command = ["convert", str(path), str(tmp_path / "g"), "--time", "3", "--json"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "set --header yes to skip it, or --header no to read it" in said
    assert main([*command, "--header", "no"]) == 0
    assert json.loads(capsys.readouterr().out)["num_edges"] == 3
    wrote(path, [("a", "b", "c"), *NUMBERS])
    assert main([*command, "--overwrite"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_edges"] == 3 and "if it is a row, set --header no." in told["notes"][-1]
    links = wrote(tmp_path / "train.csv", NUMBERS[:2])
    wrote(path, NUMBERS)
    more = ["--overwrite", "--header", "no", "--links", f"train={links}"]
    assert main([*command, *more]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_edges"] == 3 and told["links"] == {"train": 2}
