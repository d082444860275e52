"""Beside peers: ratios are paired by round, bars judge the best variant, other work is marked."""

import sys

import pytest

from benchmarks.beside.process import PYTHON, why_no_dgl
from benchmarks.beside.rounds import HEAD, Bar, Cell, Turn, compare, take_turns
from tests.some import some

WARM_UP = 100.0  # seconds of a turn that must not count


def scripted(*seconds: float, batches: int = 1, nodes: int = 10, edges: int = 100):
    """A system that takes these seconds, round after round, the first of which warms up."""
    times = iter((WARM_UP, *seconds))
    return lambda number: Turn(next(times), batches, batches * nodes, batches * edges)


def rows_of(works, bars=(), **more):
    cell = Cell("loader", "a graph", "ours", works, bars, **more)
    return {row[2]: dict(zip(HEAD, row, strict=True)) for row in compare(cell, 3)}


def test_ratios_are_paired_by_round():
    """The third round is slow for both: the ratio of medians would be the same, the range not."""
    found = rows_of({"ours": scripted(1, 1, 4), "PyG": scripted(2, 3, 12)})
    assert found["PyG"]["beside ours"] == "3 (2 to 3)"
    assert found["ours"]["beside ours"] == ""
    assert found["ours"]["measured"] == "1,000 (1,000 to 4,000) ms"


def test_times_are_a_batch():
    found = rows_of({"ours": scripted(1, 2, 3, batches=4)}, scale=1.0)
    assert found["ours"]["measured"] == "0.5 (0.25 to 0.75) s"
    assert found["ours"]["nodes / edges a batch"] == "10 / 100"


def test_a_lost_cell_says_so():
    found = rows_of({"ours": scripted(2, 2, 2), "PyG": scripted(1, 1, 3)})
    assert found["PyG"]["beside ours"] == "0.5 (0.5 to 1.5), ours loses"


def test_other_work_is_marked():
    works = {"ours": scripted(1, 1, 1), "a": scripted(2, 2, 2, edges=103)}
    works |= {"b": scripted(2, 2, 2, edges=101), "c": scripted(2, 2, 2, nodes=0, edges=0)}
    found = rows_of(works)
    marked = {name for name, row in found.items() if "other work" in row["beside ours"]}
    assert marked == {"a"}


def test_a_bar_stands_at_the_best_variant():
    works = {
        "ours": scripted(1, 1, 1),
        "PyG, 0 workers": scripted(9, 9, 9),
        "PyG, 1 workers": scripted(3, 3, 3),
        "DGL": scripted(2, 2, 2),
    }
    bars = [Bar("PyG", 4), Bar("DGL", 0.4, "most"), Bar("", 1500, "under"), Bar("absent", 2)]
    found = rows_of(works, bars)
    assert found["PyG, 0 workers"]["bar"] == ""
    assert found["PyG, 1 workers"]["bar"] == "at least 4: **not met**"
    assert found["DGL"]["bar"] == "ours at most 0.4 times: **not met**"
    assert found["ours"]["bar"] == "at most 1500: met"


@pytest.mark.parametrize(
    ("bar", "value", "met"),
    [
        (Bar("a", 4), 4.0, True),
        (Bar("a", 4), 3.9, False),
        (Bar("a", 2, "most"), 0.5, True),
        (Bar("a", 2, "most"), 0.4, False),
        (Bar("a", 150, "under"), 150.0, True),
        (Bar("a", 150, "under"), 151.0, False),
    ],
)
def test_bars(bar, value, met):
    assert bar.text(value).endswith(": met" if met else ": **not met**")


def test_all_take_their_turns_in_every_round():
    seen = []

    def note(name):
        return lambda number: seen.append((number, name)) or Turn(1.0)

    found = take_turns({name: note(name) for name in "abc"}, 4, warm=2)
    for number in some(range(6)):
        assert {name for turn, name in seen if turn == number} == set("abc")
    assert {len(turns) for turns in found.values()} == {4}
    assert len({tuple(seen[3 * k : 3 * k + 3]) for k in range(6)}) == 6
    assert len({tuple(name for _, name in seen[3 * k : 3 * k + 3]) for k in range(6)}) > 1


def test_a_peer_that_is_missing_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv(PYTHON, raising=False)
    assert f"set {PYTHON}" in str(why_no_dgl())
    monkeypatch.setenv(PYTHON, str(tmp_path / "nothing"))
    assert "cannot be started" in str(why_no_dgl())
    monkeypatch.setenv(PYTHON, sys.executable)
    assert "cannot import" in str(why_no_dgl())
