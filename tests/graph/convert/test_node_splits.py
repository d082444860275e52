"""Splits that `convert` makes: of the labelled nodes, by chance or by time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.graph import Graph
from foregather.graph.convert import NodeFile, ReadOptions, SplitRule, convert

PARTS = ("train", "valid", "test")


def split(folder, rows, rule):
    """Names by split of a table of id, label and time, which has an edge from first to last."""
    (folder / "e.csv").write_text(f"{rows[0][0]},{rows[-1][0]}\n")
    lines = ["id,y,when", *(",".join(map(str, row)) for row in rows)]
    (folder / "n.csv").write_text("\n".join(lines) + "\n")
    time = "when" if rule.times else None
    table = NodeFile(folder / "n.csv", features=(), time=time)
    reading = ReadOptions(ids="string", header=False, table=table)
    convert(folder / "e.csv", folder / "g", reading=reading, splits=rule, overwrite=True)
    graph = Graph.open(folder / "g")
    return {name: graph.original_ids(ids) for name, ids in graph.splits.items()}


@settings(max_examples=40, deadline=None)
@given(count=st.integers(10, 60), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_chance_is_a_function_of_seed_and_order(count, seed, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("s")
    missing = data.draw(st.sets(st.integers(0, count - 1), max_size=4))
    rows = [(f"n{k}", "" if k in missing else k % 3, "") for k in range(count)]
    rule = SplitRule(fractions=(0.5, 0.2, 0.2), seed=seed)
    first = split(folder, rows, rule)
    labelled = [row[0] for row in rows if row[1] != ""]
    sizes = [len(first[name]) for name in PARTS]
    n = len(labelled)
    assert sizes == [n * 5 // 10, n * 7 // 10 - n * 5 // 10, n * 9 // 10 - n * 7 // 10]
    placed = [name for part in PARTS for name in first[part]]
    assert len(placed) == len(set(placed)) and set(placed) <= set(labelled)
    # other names in the same rows: the same rows are chosen
    other = split(folder, [(f"other {row[0]}", *row[1:]) for row in rows], rule)
    for part in PARTS:
        assert {f"other {name}" for name in first[part]} == set(other[part])


def test_another_seed_is_another_division(tmp_path):
    rows = [(f"n{k}", 0, "") for k in range(200)]
    made = [
        split(tmp_path, rows, SplitRule(fractions=(0.6, 0.2, 0.2), seed=seed)) for seed in (0, 0, 1)
    ]
    assert made[0] == made[1] != made[2]
    assert [len(made[0][name]) for name in PARTS] == [120, 40, 40]
    renamed = [(f"other {name}", *more) for name, *more in rows]
    other = split(tmp_path, renamed, SplitRule(fractions=(0.6, 0.2, 0.2), seed=0))
    for part in PARTS:
        assert {f"other {name}" for name in made[0][part]} == set(other[part])


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.integers(0, 20), min_size=3, max_size=40),
    limits=st.tuples(st.integers(1, 20), st.integers(1, 20)).filter(lambda two: two[0] < two[1]),
    dates=st.booleans(),
)
def test_time_divides(times, limits, dates, tmp_path_factory):
    folder = tmp_path_factory.mktemp("s")

    def shown(time):
        return f"2020-01-{time + 1:02}" if dates else str(time)

    rows = [(f"n{k}", 1, shown(time)) for k, time in enumerate(times)]
    rule = SplitRule(times=(shown(limits[0]), shown(limits[1])))
    expected: dict[str, set[str]] = {name: set() for name in PARTS}
    for (name, _, _), time in zip(rows, times, strict=True):
        expected[PARTS[(time >= limits[0]) + (time >= limits[1])]].add(name)
    if not all(expected.values()):
        with pytest.raises(InputError, match="empty"):
            split(folder, rows, rule)
        assert not (folder / "g").exists()
        return
    found = split(folder, rows, rule)
    assert {name: set(ids) for name, ids in found.items()} == expected


def test_parquet_timestamps(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = np.array(["2020-01-01T12:00", "2020-06-01", "2021-01-01"], "datetime64[ns]")
    table = arrow.table({"id": ["a", "b", "c"], "y": ["u", "v", "u"], "time": when})
    parquet.write_table(table, tmp_path / "n.parquet")
    (tmp_path / "e.csv").write_text("a,b\n")
    reading = ReadOptions(header=False, table=NodeFile(tmp_path / "n.parquet"))
    rule = SplitRule(times=("2020-01-01T12:01", "2021-01-01"))
    convert(tmp_path / "e.csv", tmp_path / "g", reading=reading, splits=rule)
    graph = Graph.open(tmp_path / "g")
    assert [graph.original_ids(graph.split(name)) for name in PARTS] == [["a"], ["b"], ["c"]]


def test_labels_of_the_source_are_divided_too(tmp_path):
    labels = np.arange(100) % 4
    labels[:10] = -1
    np.savez(tmp_path / "a.npz", edge_index=[[0, 99], [1, 0]], y=labels, train_idx=[1, 2])
    rule = SplitRule(fractions=(0.5, 0.25, 0.25), seed=3)
    convert(tmp_path / "a.npz", tmp_path / "g", splits=rule)
    graph = Graph.open(tmp_path / "g")
    assert sorted(np.concatenate([graph.split(name) for name in PARTS])) == list(range(10, 100))
    assert [len(graph.split(name)) for name in PARTS] == [45, 22, 23]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"fractions": (0.6, 0.2, 0.2), "times": (1, 2)},
        {"fractions": (0.6, 0.4)},
        {"fractions": (0.6, 0.3, 0.2)},
        {"fractions": (0.6, float("nan"), 0.2)},
        {"fractions": (0.6, -0.2, 0.2)},
        {"fractions": (1.0, 0.0, 0.0)},
        {"fractions": (0.6, 0.2, 0.2), "seed": -1},
        {"times": (1,)},
    ],
)
def test_rules_are_checked(wrong):
    with pytest.raises(InputError):
        SplitRule(**wrong)


def test_values_of_another_kind_are_refused(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="expected True, False or foregather.SplitRule"):
        convert(tmp_path / "e.csv", tmp_path / "g", splits=(0.6, 0.2, 0.2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected foregather.NodeFile"):
        reading = ReadOptions(header=False, table="n.csv")  # type: ignore[arg-type]
        convert(tmp_path / "e.csv", tmp_path / "g", reading=reading)


def test_fractions_of_tenths_add_up_to_one():
    assert SplitRule(fractions=(0.6, 0.3, 0.1)).sizes(10) == (6, 3, 1)
    assert SplitRule(fractions=(0.7, 0.2, 0.1)).sizes(1_000_000) == (700_000, 200_000, 100_000)


ROWS = [("a", 1, 1), ("b", 1, 2), ("c", 0, 3)]


@pytest.mark.parametrize(
    ("rows", "rule", "message"),
    [
        (ROWS[:2], {"fractions": (0.6, 0.2, 0.2)}, "leaves valid empty"),
        ([("a", "", 1)], {"fractions": (0.6, 0.2, 0.2)}, "leaves train empty"),
        (ROWS, {"times": (0, 2)}, "leaves train empty"),
        (ROWS, {"times": (2, 9)}, "leaves test empty"),
        (ROWS, {"times": (3, 2)}, "expected times that ascend"),
        (ROWS, {"times": (2, 2)}, "expected times that ascend"),
        (ROWS, {"times": ("soon", 2)}, "'soon', expected a whole number"),
        (ROWS, {"times": ("2020-01-01", 2)}, "expected a whole number"),
        ([*ROWS, ("d", 1, "")], {"times": (2, 3)}, "has no time in line 5"),
        ([*ROWS, ("d", 1, "1.5")], {"times": (2, 3)}, "line 5 has '1.5' in column 3"),
        ([*ROWS, ("d", 1, "NaT")], {"times": (2, 3)}, "expected times"),
        ([("a", 1, "2020-02-30")], {"times": (2, 3)}, "expected times"),
        ([("a", 1, "2020-02-01")], {"times": (2, 3)}, "expected a date"),
    ],
)
def test_bad_divisions_are_refused(tmp_path, rows, rule, message):
    with pytest.raises(InputError, match=message):
        split(tmp_path, rows, SplitRule(**rule))
    assert not (tmp_path / "g").exists()


def test_rules_that_have_no_effect_are_refused(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n")
    (tmp_path / "n.csv").write_text("id,x,split\na,1,train\nb,2,test\n")
    table = NodeFile(tmp_path / "n.csv")
    chance, time = SplitRule(fractions=(0.6, 0.2, 0.2)), SplitRule(times=(1, 2))
    for given_table, rule, message in (
        (None, chance, "there are no labels; a table of the nodes brings them: --node-table"),
        (None, time, "name a table with --node-table"),
        (table, time, "name it with --node-time"),
        (table, chance, "there are no labels; --node-label names their column in n.csv"),
        (NodeFile(tmp_path / "n.csv", split="split"), chance, "pass one of them"),
        (NodeFile(tmp_path / "n.csv", split="split"), False, "pass one of them"),
    ):
        reading = ReadOptions(header=False, table=given_table)
        with pytest.raises(InputError, match=message):
            convert(tmp_path / "e.csv", tmp_path / "g", reading=reading, splits=rule)
        assert not (tmp_path / "g").exists()
