"""ParquetSource against the lists the files were made of, and against damaged files."""

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import (
    ForegatherError,
    FormatError,
    InputError,
    MissingDependencyError,
    StorageError,
)
from foregather.graph.convert.sources.parquet import ParquetSource

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def write(path: Path, row_group: int = 1000, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


def pairs(source: ParquetSource, step: int = 1000) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for chunk in source.edges(step):
        assert 0 < len(chunk.source) == len(chunk.target) <= step
        ends = [chunk.source.tolist(), chunk.target.tolist()]
        if source.ids == "string":
            assert chunk.names is not None and chunk.source.dtype == np.uint64
            data, offsets, held = chunk.names
            assert held is not None
            table = {}
            for key, (a, b) in zip(held.tolist(), itertools.pairwise(offsets), strict=True):
                text = data[a:b].tobytes()
                assert xxhash.xxh64(text).intdigest() == key
                table[key] = text.decode()
            ends = [[table[key] for key in keys] for keys in ends]
        found += zip(*ends, strict=True)
    return found


@settings(max_examples=30, deadline=None)
@given(
    edges=st.lists(st.tuples(INT64, INT64), min_size=1, max_size=60),
    step=st.integers(1, 70),
    group=st.integers(1, 50),
)
def test_integers_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[int, int]],
    step: int,
    group: int,
) -> None:
    path = tmp_path_factory.mktemp("p") / "e.parquet"
    write(path, group, src=[a for a, _ in edges], dst=[b for _, b in edges])
    source = ParquetSource(path)
    assert source.ids == "dense" and source.num_edges == len(edges)
    assert pairs(source, step) == edges
    assert pairs(source, step) == edges


TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    edges=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=40),
    step=st.integers(1, 50),
    kind=st.sampled_from(["string", "large_string", "binary", "dictionary"]),
)
def test_strings_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[str, str]],
    step: int,
    kind: str,
) -> None:
    types = {
        "string": pa.string(),
        "large_string": pa.large_string(),
        "binary": pa.binary(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    columns = {
        name: pa.array([e[i] for e in edges], pa.string()).cast(types[kind])
        for i, name in enumerate(("u", "v"))
    }
    path = write(tmp_path_factory.mktemp("p") / "e.parquet", 7, **columns)
    source = ParquetSource(path)
    assert source.ids == "string"
    assert pairs(source, step) == edges


def test_a_folder_of_parts_weights_and_notes(tmp_path: Path) -> None:
    write(tmp_path / "part-1.parquet", w=[1.5], id=[9], to=[3], **{"from": [2]})
    write(tmp_path / "part-0.parquet", w=[0.5], id=[9], to=[1], **{"from": [0]})
    write(tmp_path / "_metadata.parquet", x=[1])
    source = ParquetSource(tmp_path, weight="w")
    assert pairs(source) == [(0, 1), (2, 3)] and source.num_edges == 2
    weights = [c.weight for c in source.edges(10)]
    assert [w.tolist() for w in weights if w is not None] == [[0.5], [1.5]]
    assert weights[0] is not None and weights[0].dtype == np.float32
    assert source.notes() == [
        "Edges go from column 'from' to 'to'.",
        "2 part files are read in the order of their names.",
        "Not read: id; --weight takes one as weights.",
    ]
    assert pairs(ParquetSource(tmp_path, columns=("id", 3))) == [(9, 1), (9, 3)]
    write(tmp_path / "part-2.parquet", id=[9], to=[3])
    with pytest.raises(FormatError, match=r"part-2\.parquet has no column 'from'"):
        ParquetSource(tmp_path)
    write(tmp_path / "part-2.parquet", to=[3], **{"from": ["x"]})
    with pytest.raises(FormatError, match="has string in column 'from'"):
        ParquetSource(tmp_path)


def test_small_integers_unsigned_and_dictionaries(tmp_path: Path) -> None:
    largest = (1 << 64) - 1
    write(
        tmp_path / "e.parquet",
        src=pa.array([1, 2], pa.int8()),
        dst=pa.array([largest, 0], pa.uint64()),
    )
    assert pairs(ParquetSource(tmp_path / "e.parquet")) == [(1, largest), (2, 0)]
    coded = pa.array([700, 800, 700]).dictionary_encode()
    write(tmp_path / "d.parquet", src=coded, dst=coded)
    assert pairs(ParquetSource(tmp_path / "d.parquet"), 2) == [(700,) * 2, (800,) * 2, (700,) * 2]
    as_text = ParquetSource(tmp_path / "d.parquet", ids="string")
    assert pairs(as_text) == [("700",) * 2, ("800",) * 2, ("700",) * 2]
    assert ParquetSource(tmp_path / "d.parquet", ids="sparse").ids == "sparse"


@pytest.mark.parametrize("values", [[1, None, 3], ["a", None, "c"]])
def test_nulls_are_named(tmp_path: Path, values: list[Any]) -> None:
    whole = [values[0]] * 3
    path = write(tmp_path / "e.parquet", src=whole + whole, dst=whole + values)
    with pytest.raises(InputError, match=r"e\.parquet row 5 has no value in column 'dst'"):
        list(ParquetSource(path).edges(2))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, None], "row 2 has no value in column 'w', expected a weight"),
        ([0.5, float("nan")], "row 2 has nan in column 'w', expected a finite weight"),
        ([0.5, 1e60], r"row 2 has 1e\+60 in column 'w'"),
        (["a", "b"], "holds string, expected weights as numbers"),
    ],
)
def test_bad_weights(tmp_path: Path, weights: list[Any], message: str) -> None:
    path = write(tmp_path / "e.parquet", src=[0, 1], dst=[1, 2], w=weights)
    with pytest.raises(InputError, match=message):
        list(ParquetSource(path, weight="w").edges(9))


def test_columns_that_are_no_ids(tmp_path: Path) -> None:
    floats = write(tmp_path / "f.parquet", src=[0.0], dst=[1.0])
    with pytest.raises(InputError, match="'src' holds double, expected integer or text ids"):
        ParquetSource(floats)
    mixed = write(tmp_path / "m.parquet", src=[1], dst=["a"])
    with pytest.raises(InputError, match="text in one id column"):
        ParquetSource(mixed)
    assert pairs(ParquetSource(mixed, ids="string")) == [("1", "a")]
    with pytest.raises(InputError, match="text in column 'dst'"):
        ParquetSource(mixed, ids="dense")
    with pytest.raises(InputError, match="no column named 'x'; its columns are src, dst"):
        ParquetSource(mixed, columns=("x", "dst"))
    with pytest.raises(InputError, match="expected a source and a target"):
        ParquetSource(write(tmp_path / "one.parquet", src=[1]))
    binary = write(tmp_path / "b.parquet", src=[b"\xff"], dst=[b"a"])
    with pytest.raises(InputError, match="not UTF-8"):
        list(ParquetSource(binary).edges(1))


def test_empty_missing_and_damaged(tmp_path: Path) -> None:
    none = write(tmp_path / "n.parquet", src=pa.array([], pa.int64()), dst=pa.array([], pa.int64()))
    assert pairs(ParquetSource(none)) == [] and ParquetSource(none).num_edges == 0
    with pytest.raises(StorageError, match=r"cannot read gone\.parquet"):
        ParquetSource(tmp_path / "gone.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match=r"has no \.parquet files"):
        ParquetSource(tmp_path / "empty")
    numbers = list(range(3000))
    path = write(tmp_path / "e.parquet", src=numbers, dst=numbers)
    content = path.read_bytes()
    for cut in (0, 3, 100, len(content) - 5):
        path.write_bytes(content[:cut])
        with pytest.raises(FormatError, match=r"e\.parquet is a corrupt"):
            ParquetSource(path)
    for at in (4, 10, 30, len(content) // 2, len(content) - 200):
        broken = bytearray(content)
        broken[at : at + 40] = b"\xff" * 40
        path.write_bytes(broken)
        try:
            assert all(
                len(chunk.source) == len(chunk.target) for chunk in ParquetSource(path).edges(500)
            )
        except ForegatherError:
            continue


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "e.parquet", src=[0], dst=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install foregather\[parquet\]"):
        ParquetSource(path)
