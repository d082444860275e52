"""TextSource against the csv module and plain Python, and against files people really have."""

import contextlib
import csv
import gzip
import io
import itertools
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.convert.reading.tables import (
    Layout,
    count_columns,
    read_integers,
    read_numbers,
)
from foregather.graph.convert.source import EdgeChunk
from foregather.graph.convert.sources.text import TextSource

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def write(folder: Path, text: str | bytes, name: str = "edges.csv") -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def edges(source: TextSource, step: int = 1000) -> list[tuple[int, int]]:
    chunks = list(source.edges(step))
    assert all(0 < len(chunk.source) == len(chunk.target) <= step for chunk in chunks)
    return [p for c in chunks for p in zip(c.source.tolist(), c.target.tolist(), strict=True)]


def names(chunks: list[EdgeChunk]) -> dict[int, str]:
    """Key to text, as the engine would build it; every name must hash to its key."""
    table = {}
    for chunk in chunks:
        assert chunk.names is not None
        data, offsets, keys = chunk.names
        assert keys is not None
        for key, (a, b) in zip(keys.tolist(), itertools.pairwise(offsets), strict=True):
            text = data[a:b].tobytes()
            assert xxhash.xxh64(text).intdigest() == key
            table[key] = text.decode()
    return table


def string_edges(source: TextSource, step: int = 1000) -> list[tuple[str, str]]:
    chunks = list(source.edges(step))
    pairs = []
    for chunk in chunks:
        table = names([chunk])  # the names of a chunk are in the chunk itself
        pairs += [
            (table[a], table[b])
            for a, b in zip(chunk.source.tolist(), chunk.target.tolist(), strict=True)
        ]
    return pairs


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(INT64, INT64), min_size=1, max_size=50),
    delimiter=st.sampled_from([",", "\t", ";", " "]),
    step=st.integers(1, 60),
    ending=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
    name=st.sampled_from(["e.csv", "e.txt.gz"]),
)
def test_integers_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[int, int]],
    delimiter: str,
    step: int,
    ending: str,
    header: bool,
    name: str,
) -> None:
    lines = ([f"src{delimiter}dst"] if header else []) + [f"{a}{delimiter}{b}" for a, b in pairs]
    path = write(tmp_path_factory.mktemp("t"), ending.join(lines), name)
    source = TextSource(path)
    assert source.ids == "dense" and source.num_nodes is None and not source.has_weight
    assert edges(source, step) == pairs
    assert edges(source, step) == pairs  # a second reading starts again


NAMES = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n\x00"), min_size=1
).filter(lambda s: s.strip(" \t") == s)


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=30),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    step=st.integers(1, 40),
)
def test_strings_come_back_as_the_csv_module_wrote_them(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[str, str]],
    delimiter: str,
    step: int,
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(pairs)
    path = write(tmp_path_factory.mktemp("t"), buffer.getvalue())
    source = TextSource(path, delimiter=delimiter, header=False, ids="string")
    assert source.ids == "string"
    assert string_edges(source, step) == pairs


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.floats(width=32), min_size=width, max_size=width), min_size=1, max_size=20
        )
    ),
    step=st.integers(1, 30),
    wide=st.booleans(),
)
def test_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], step: int, wide: bool
) -> None:
    dtype = np.float64 if wide else np.float32
    text = "\n".join(",".join(str(dtype(x)) for x in row) for row in rows)
    path = write(tmp_path_factory.mktemp("t"), text)
    assert count_columns(path) == len(rows[0])
    chunks = list(read_numbers(path, len(rows[0]), step, Layout(), dtype))
    assert all(len(chunk) <= step and chunk.dtype == dtype for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate(chunks), np.array(rows, dtype))


def test_snap(tmp_path: Path) -> None:
    text = "# Directed graph: x.txt\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n0\t2\n"
    source = TextSource(write(tmp_path, text, "x.txt.gz"))
    assert edges(source) == [(0, 1), (0, 2)]
    assert source.stored_once is None
    assert any("3 lines of comment" in note for note in source.notes())


def test_konect(tmp_path: Path) -> None:
    text = "% sym weighted\n% 2 3 3\n1 2\t0.5 1000 \n2  3 1.5 1001\n\n"
    source = TextSource(write(tmp_path, text, "out.x.txt"), weight=3)
    assert source.stored_once is True and source.has_weight
    (chunk,) = source.edges(10)
    assert chunk.source.tolist() == [1, 2] and chunk.target.tolist() == [2, 3]
    assert chunk.weight is not None and chunk.weight.tolist() == [0.5, 1.5]
    assert any("Not read: column 4;" in note for note in source.notes())
    assert TextSource(write(tmp_path, "% asym\n1 2\n")).stored_once is False
    with pytest.raises(FormatError, match="bipartite"):
        TextSource(write(tmp_path, "% bip unweighted\n1 1\n"))


def test_columns_by_name_and_position(tmp_path: Path) -> None:
    path = write(tmp_path, "id,to,w,from\n9,1,0.5,2\n9,3,2,4\n")
    assert edges(TextSource(path)) == [(2, 1), (4, 3)]  # usual names
    assert edges(TextSource(path, columns=("id", "from"))) == [(9, 2), (9, 4)]
    assert edges(TextSource(path, columns=("4", "2"))) == [(2, 1), (4, 3)]
    assert edges(TextSource(path, columns=(1, 2))) == [(9, 1), (9, 3)]
    source = TextSource(path, weight="w")
    assert [c.weight.tolist() for c in source.edges(9) if c.weight is not None] == [[0.5, 2.0]]
    assert source.notes()[0].startswith("Edges go from column 4 (from) to column 2 (to)")
    for columns, message in (
        ((0, 1), "positions count from 1"),
        ((1, 5), "has columns 1 to 4"),
        (("a", "to"), "no column named 'a'; its columns are id, to, w, from"),
        ((1, 1), "requested twice"),
        ((1, 2, 3), "3 columns were given"),
    ):
        with pytest.raises(InputError, match=message):
            TextSource(path, columns=columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [(1, 2), (3, 4)]),
        ("1, 2\n3 ,4 \n", [(1, 2), (3, 4)]),
        ('"1","2"\n"3","4"\n', [(1, 2), (3, 4)]),
        ("a,b\n1,2\n", [(1, 2)]),  # a header, as the lines below are integers
        ("\ufeff1\t2\n", [(1, 2)]),
        ("1 2\t7\n3\t4 8\n", [(1, 2), (3, 4)]),
        ("  1   2\n  3   4\n", [(1, 2), (3, 4)]),
        ("1|2\n", [(1, 2)]),
        ("1,2\n# late comment\n3,4", [(1, 2), (3, 4)]),
        ("1.0,2.\n-3,+4\n", [(1, 2), (-3, 4)]),  # the engine refuses the negative one
    ],
)
def test_forms(tmp_path: Path, text: str, expected: list[tuple[int, int]]) -> None:
    source = TextSource(write(tmp_path, text))
    assert source.ids == "dense" and edges(source) == expected


def test_text_ids(tmp_path: Path) -> None:
    text = "# tags\nnew york,#a\n#b,los angeles\n%c,new york\n"
    source = TextSource(write(tmp_path, text))
    assert source.ids == "string"
    # after the first edge, # and % may start a name
    assert string_edges(source) == [
        ("new york", "#a"),
        ("#b", "los angeles"),
        ("%c", "new york"),
    ]
    tabbed = TextSource(write(tmp_path, "x,y\tz\na,b\tc\n"))
    assert string_edges(tabbed) == [("x,y", "z"), ("a,b", "c")]
    named = TextSource(write(tmp_path, "source,target\na,b\n"))
    assert string_edges(named) == [("a", "b")]
    forced = TextSource(write(tmp_path, "01,1\n"), ids="string")
    assert string_edges(forced) == [("01", "1")]
    assert TextSource(write(tmp_path, "5,1\n"), ids="sparse").ids == "sparse"


def test_repeated_names_are_mostly_given_once(tmp_path: Path) -> None:
    path = write(tmp_path, "hub,a\n" * 5000)
    (chunk,) = TextSource(path).edges(10_000)
    assert chunk.names is not None and len(chunk.names.offsets) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\nabc,3\n", "edges.csv line 2 has 'abc' in column 1, expected an integer id"),
        ("1,2\n3,nan\n", "line 2 has 'nan' in column 2"),
        ("1,2\n3\n", "line 2 has 1 column, expected at least 2"),
        ("1,2\n3,\n", "line 2 has nothing in column 2"),
        ("1,2\n3,4.5\n", "line 2 has '4.5' in column 2"),
        ("1,2\n3,99999999999999999999\n", "expected an integer id that fits in 64 bits"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    source = TextSource(write(tmp_path, text), delimiter=",", ids="dense")
    with pytest.raises(InputError, match=message):
        list(source.edges(1))


def test_text_after_integers_gets_advice(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2\n" * 30_000 + "x,2\n")
    with pytest.raises(InputError, match=r"line 30001 has 'x' in column 1.*--ids string"):
        list(TextSource(path).edges(777))
    assert len(string_edges(TextSource(path, ids="string"))) == 30_001


@pytest.mark.parametrize("weight", ["nan", "inf", "", "x", "1e60"])
def test_bad_weights(tmp_path: Path, weight: str) -> None:
    source = TextSource(write(tmp_path, f"1,2,0.5\n3,4,{weight}\n"), weight=3)
    with pytest.raises(InputError, match=r"line 2 has .* in column 3, expected a"):
        list(source.edges(10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "has no edge"),
        ("# only\n% comments\n", "has no edge"),
        ("source,target\n", "has a header and no edges"),
    ],
)
def test_files_without_edges(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        TextSource(write(tmp_path, text))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot determine what separates"):
        TextSource(write(tmp_path, "1\n2\n"))
    with pytest.raises(InputError, match="delimiter is 'x'"):
        TextSource(write(tmp_path, "1,2\n"), delimiter="x")
    with pytest.raises(InputError, match="ids is 'dens'"):
        TextSource(write(tmp_path, "1,2\n"), ids="dens")
    with pytest.raises(InputError, match="UTF-8"):
        list(TextSource(write(tmp_path, b"caf\xe9,b\n")).edges(1))
    with pytest.raises(InputError, match="expected a closed quote"):
        list(TextSource(write(tmp_path, 'a,b\nc,"d\n')).edges(1))
    with pytest.raises(InputError, match="step is 0"):
        list(TextSource(write(tmp_path, "1,2\n")).edges(0))


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = write(tmp_path_factory.mktemp("t"), data)
    for ids in ("dense", "string"):
        with contextlib.suppress(FormatError, InputError):
            list(TextSource(path, ids=ids).edges(3))


def test_lists_of_integers(tmp_path: Path) -> None:
    path = write(tmp_path, "5\n3\n\n4")
    parts = list(read_integers(path, [0], 2, Layout()))
    assert np.concatenate(parts, axis=1).tolist() == [[5, 3, 4]]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(st.characters(blacklist_categories=["Cs"]))))
def test_hash_strings_is_xxh64(texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    keys = np.empty(len(texts), np.uint64)
    _core.hash_strings(np.frombuffer(b"".join(encoded), np.uint8), offsets, keys)
    assert keys.tolist() == [xxhash.xxh64(text).intdigest() for text in encoded]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("NA,1\n1,2\n", {}),
        ("1,NA\n1,2\n", {}),
        ("nan,nan\n1,2\n", {}),
        ("alice,2\n3,4\n", {}),
        ("1e1,2\n0,1\n", {}),
        ("1.5,b\n0,1\n", {}),
        ("0x1,0x2\n3,4\n", {}),
        (",b\n3,4\n", {}),
        ("a,b,0.5\n1,2,0.7\n", {"weight": 3}),
        ("5,6,src,dst\n1,2,a,b\n", {"columns": (1, 2)}),
        ("alice,2\n3,4\n", {"ids": "dense"}),
        ("NA,1\n1,2\n", {"ids": "sparse"}),
        ("u,v\nv,w\nw,u\n", {}),  # names of columns, or of nodes
        ("from,to\nx,from\n", {"ids": "string"}),
    ],
)
def test_a_first_line_in_doubt_is_refused(tmp_path: Path, text: str, options: dict) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=r"edges.csv line 1 .*--header yes .*--header no"):
        TextSource(path, **options)
    skipped = TextSource(path, header=True, **options)
    read = string_edges(skipped) if skipped.ids == "string" else edges(skipped)
    assert len(read) == text.count("\n") - 1


def test_the_flag_decides_and_the_summary_says_what_was_done(tmp_path: Path) -> None:
    path = write(tmp_path, "u,v\nv,w\n")
    assert string_edges(TextSource(path, header=False)) == [("u", "v"), ("v", "w")]
    assert string_edges(TextSource(path, header=True)) == [("v", "w")]
    path = write(tmp_path, "alice,2\n3,4\n")
    with pytest.raises(InputError, match=r"line 1 has ids \['alice', '2'\].*--ids string"):
        TextSource(path, header=False)
    text = TextSource(path, header=False, ids="string")
    assert string_edges(text) == [("alice", "2"), ("3", "4")]
    header = TextSource(write(tmp_path, "\ufeff# c\nleft,right\n3,4\n"))
    assert edges(header) == [(3, 4)]
    assert "Line 2, 'left,right', was skipped as a header." in header.notes()
    words = TextSource(write(tmp_path, "name,friend\nalice,bob\n"))
    assert string_edges(words) == [("name", "friend"), ("alice", "bob")]
    said = "Line 1, 'name,friend', was read as an edge; --header yes takes it as a header."
    assert said in words.notes()
    assert not any("header" in note for note in TextSource(write(tmp_path, "1,2\n")).notes())


@pytest.mark.parametrize(
    "text",
    [
        "0,1\r1,2\r",
        "0,1,x\n1,2,y\r3,4,z\n",  # in a column that is not read
        "0,1\r\n1,2\r3,4\r\n",
        "a,b\rc,d",
        "0,1\r" * 40_000,  # no line end for longer than is looked at
    ],
)
@pytest.mark.parametrize("name", ["edges.csv", "edges.csv.gz"])
def test_line_ends_of_cr_alone_are_refused(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(FormatError, match=r"line [12] has a carriage return.*tr '.r' '.n'"):
        list(TextSource(write(tmp_path, text, name)).edges(5))


def test_a_carriage_return_far_down_is_refused(tmp_path: Path) -> None:
    text = "10,20\r\n" * 30_000
    path = write(tmp_path, text + "1,2,x\r3,4,y\r\n")
    with pytest.raises(FormatError, match="line 30001 has a carriage return"):
        list(TextSource(path, delimiter=",").edges(500))
    assert len(edges(TextSource(write(tmp_path, text + "1,2\r")), 500)) == 30_001
    assert edges(TextSource(write(tmp_path, "0,1\r\r\n1,2\r\r\n"))) == [(0, 1), (1, 2)]
