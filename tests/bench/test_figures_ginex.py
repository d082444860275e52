"""Ginex's figures: traces cut anew, ways that are carried out, renumbered maps, and their form."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from foregather import Graph
from foregather.gather.feature_file import FeatureFile
from tests.plan.simulate import fewest_reads

HERE = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])


@pytest.fixture
def graph(tmp_path):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 60, (2, 400))
    x = rng.random((60, 1024), np.float32)  # a page a row
    Graph.from_edge_index(edges, 60, x=x).save(tmp_path / "graph")
    return Graph.open(tmp_path / "graph")


def small_trace(bulks=3, steps=4):
    rng = np.random.default_rng(1)
    return [[rng.permutation(60)[:9].astype(np.uint32) for _ in range(steps)] for _ in range(bulks)]


def test_recut_keeps_the_batches_in_order():
    from benchmarks.common.executed import recut

    trace = small_trace()
    made = recut(trace, 5)
    assert [len(bulk) for bulk in made] == [5, 5, 2]
    flat = [ids for bulk in trace for ids in bulk]
    again = [ids for bulk in made for ids in bulk]
    assert all(a is b for a, b in zip(flat, again, strict=True)) and len(flat) == len(again)


@pytest.mark.parametrize("way", ["static", "lru", "ginex", "carried", "blocks", "ahead", "ours"])
def test_a_way_reads_what_it_announced(graph, way):
    from benchmarks.common.executed import run_trace

    trace = small_trace()
    made = run_trace(way, trace, FeatureFile.of(graph), 6)
    assert 0 < made.misses <= 1 and made.requests > 0 and made.bytes >= 4096 * made.requests


@pytest.mark.parametrize("way", ["static", "ginex"])
def test_rows_that_are_read_before_the_first_batch_are_misses(graph, way):
    """With a read for every row, all reads are misses: none is hidden in the filling."""
    from benchmarks.common.executed import run_trace

    trace = small_trace(bulks=2)
    made = run_trace(way, trace, FeatureFile.of(graph), 20)
    batches, asked = 8, 8 * 9
    assert round(made.misses * asked) == round(made.requests * batches)


def test_ginex_reads_no_fewer_rows_than_belady_that_is_carried_over(graph):
    from benchmarks.common.executed import run_trace

    trace = small_trace(bulks=3)
    file = FeatureFile.of(graph)
    cold, carried = (run_trace(way, trace, file, 20).misses for way in ("ginex", "carried"))
    assert carried <= cold


def test_belady_over_one_bulk_is_the_fewest_reads(graph):
    """With a page a row, and everything in one bulk, "carried" is the exhaustive optimum."""
    from benchmarks.common.executed import run_trace

    trace = [[np.array(b, np.uint32) for b in ([1, 2, 3], [2, 4], [1, 5], [3, 2], [4, 1])]]
    made = run_trace("carried", trace, FeatureFile.of(graph), 2)
    least = fewest_reads([b.tolist() for b in trace[0]], 2, frozenset())
    assert round(made.misses * 11) == least


def test_renumbered_edges_are_the_same_graph(graph, tmp_path):
    from benchmarks.paper_ginex.cases import Case, in_degrees, named, write_maps

    case = Case("small", tmp_path, 4)
    write_maps(case)
    plain, score = np.load(tmp_path / "edges.npy"), np.load(tmp_path / "edges_by_score.npy")
    original = np.load(tmp_path / "original.npy")
    assert sorted(map(tuple, original[score].T.tolist())) == sorted(map(tuple, plain.T.tolist()))
    assert (np.diff(score[1]) >= 0).all() and (np.diff(plain[1]) >= 0).all()
    worth = (named(graph) + 1e-8) / (in_degrees(graph) + 1e-8)
    assert (np.diff(worth[original]) <= 0).all()


def test_a_trace_is_read_as_it_was_written(tmp_path):
    from benchmarks.paper_ginex.cases import load_trace, save_trace

    trace = small_trace(2, 3)
    save_trace(tmp_path, trace)
    again = load_trace(tmp_path)
    assert [[b.tolist() for b in bulk] for bulk in again] == [
        [b.tolist() for b in bulk] for bulk in trace
    ]


def test_series_and_tables_have_equal_lengths():
    from benchmarks.common.figures import Figure, Series

    with pytest.raises(ValueError, match=r"lengths \[2, 1\]"):
        Series("a", [1, 2], [1.0])
    with pytest.raises(ValueError, match="2 columns and a row of 1 cells"):
        Figure(
            *("key", "ginex", "title", "setting"), [], "x", "y", "table", [], ["a", "b"], [["1"]],
            "yes", "", "",
        )  # fmt: skip


@pytest.mark.parametrize(("group", "flight", "least"), [(1, 0, 64), (6, 10, 64), (128, 0, 96)])
def test_whole_groups_are_timed_after_the_first_and_all_in_flight(group, flight, least):
    from benchmarks.paper_ginex.worker import WARM, window

    skip, count = window(group, flight, least)
    assert skip >= group + flight and skip >= WARM
    assert count % group == 0 and count >= 2 * group and count >= least


def test_what_comes_before_the_window_is_not_timed(monkeypatch):
    """A clock that only batches move: slow first ones do not count, and none after the last."""
    from benchmarks.paper_ginex import worker

    now, made = [0.0], []

    def batches(system, given, case):
        for k in range(1000):
            now[0] += 100.0 if k < worker.WARM else 2.0
            made.append(k)
            yield SimpleNamespace(n_id=range(5))

    monkeypatch.setattr(worker, "batches_of", batches)
    monkeypatch.setattr(worker, "ROUND", [1, 0])
    monkeypatch.setattr(worker, "ROWS", [])
    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    trainer = SimpleNamespace(step=lambda batch: None)
    said = worker.timed({"system": "any", "least": 10}, None, trainer)
    assert said["seconds"] == 2.0 and said["batches"] == 10 and said["skipped"] == worker.WARM
    assert said["before"] == 100.0 * worker.WARM and len(made) == worker.WARM + 10
    with pytest.raises(SystemExit, match="batches, and"):
        worker.timed({"system": "any", "least": 5000}, None, trainer)


def test_losses_are_told_with_their_cells():
    from benchmarks.paper_ginex.end_to_end import told_losses

    assert told_losses({"a": 0.5, "b": 1.25}, "X") == (
        "Ours loses to X in 1 of 2 cells (b: 1.25 times its seconds)."
    )
    assert told_losses({"a": 0.5}, "X") == "Ours loses to X in none of 1 cells."
