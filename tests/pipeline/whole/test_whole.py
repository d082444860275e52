"""Exact epochs on one rank: pieces, stretches and files never change what is learned."""

import copy
import itertools
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from foregather.errors import BudgetError, InputError, NumericError, StorageError
from foregather.nn.layer import Dense, GraphLayer
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.scratch import Scratch, Spilled
from foregather.pipeline.whole.stretches import (
    SegmentCost,
    Stretch,
    cheapest,
    shortest_of,
    stretch_bytes,
)
from tests.pipeline.cases import CLASSES, MODELS, WIDTH, double, plain_convolutions, small_graph
from tests.some import some


class Attention(GraphLayer):
    """Looks at edges itself, and draws a number for each of them."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Linear(width, width)

    def update(self, x, near, **skips):
        source, target = near.edges()[0]
        rows = functional.dropout(near.rows[source], 0.3, self.training)
        return x + self.weight(torch.zeros_like(x).index_add(0, target, rows.tanh()))


class Twice(GraphLayer):
    """Sums twice with one norm and once with another; a gradient is passed on as it came."""

    def update(self, x, near, **skips):
        return x + near.own + near.aggregate("sym") * near.aggregate("sym") + near.aggregate("sum")


def attention(drop=0.0):
    return [Dense(nn.Linear(WIDTH, 6)), Attention(6), Attention(6), Dense(nn.Linear(6, CLASSES))]


def twice(drop=0.0):
    first = nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Dropout(drop))
    return [Dense(first), Twice(), Twice(), Twice(), Dense(nn.Linear(6, CLASSES))]


ALL = {**MODELS, "convolutions": plain_convolutions, "attention": attention, "twice": twice}
MODES = [
    {"recompute": "all"},
    {"recompute": "segments"},
    {"recompute": "dense"},
    {"recompute": "disk"},
    {"recompute": "disk", "adjoints": True},
]


def trained(layers, pieces=None, adjoints=False, chunks=6, **options):
    """Weights and losses after three epochs."""
    with double():
        run = FullGraph(small_graph(), copy.deepcopy(layers), chunks, partition="natural",
                        runtime=Runtime(**options))  # fmt: skip
        whole = run.engine.whole
        if pieces is not None:  # a graph this small is one piece
            whole.pieces = Pieces(run.engine.stage, pieces)
            whole.choice = replace(whole.choice, spill_adjoints=adjoints)
            whole._open()
        losses = [report.loss for report in run.fit(3)]
    return torch.cat([value.flatten() for value in run.weights().values()]), losses


def made(name, drop):
    with double():
        torch.manual_seed(1)
        return ALL[name](drop)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("drop", [0.0, 0.4])
def test_all_modes_train_as_if_everything_was_kept(name, drop, tmp_path):
    pytest.importorskip("torch_geometric")
    layers = made(name, drop)
    true, losses = trained(layers)
    assert abs(losses[0] - losses[-1]) > 1e-6
    for options, pieces in some(itertools.product(MODES, (2, 4))):
        options = dict(options, scratch=tmp_path)
        pieces = None if options["recompute"] == "dense" else pieces
        weights, again = trained(layers, pieces, **options)
        torch.testing.assert_close(weights, true, rtol=1e-11, atol=1e-12)
        assert again == pytest.approx(losses, rel=1e-12)


@pytest.mark.parametrize("name", ["sage", "resgcn", "gcnii"])
def test_the_same_pieces_give_the_same_bits(name, tmp_path):
    layers = made(name, 0.4)
    for pieces in (1, 3):
        kept, _ = trained(layers, pieces)
        for recompute in ("all", "segments"):
            assert torch.equal(trained(layers, pieces, recompute=recompute)[0], kept)


def test_dropout_does_not_depend_on_pieces():
    true, _ = trained(made("gcnii", 0.5), 1)
    for pieces in (2, 3, 6):
        torch.testing.assert_close(trained(made("gcnii", 0.5), pieces)[0], true, rtol=1e-11, atol=0)
    assert not torch.allclose(trained(made("gcnii", 0.5), 1, chunks=5)[0], true)


def test_nan_names_the_chunk():
    graph = small_graph()
    x = np.array(graph.features[:])
    x[35] = np.nan
    graph = replace_features(graph, x)
    with double():
        run = FullGraph(graph, MODELS["resgcn"](), 6, partition="natural")
        chunk = int(run.chunks.chunk_of(run.chunks.number[35]))
        with pytest.raises(NumericError, match=f"rows of chunk {chunk} became NaN"):
            run.fit(1)


def replace_features(graph, x):
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    pairs = np.stack([graph.indices.astype(np.int64), target])
    splits = {"train": graph.split("train")}
    return type(graph).from_edge_index(pairs, graph.num_nodes, x=x, y=graph.labels, splits=splits)


@pytest.mark.parametrize("norm", ["mean", "sum", "gcn", "sym"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_a_range_are_those_of_the_matrix(norm, weighted):
    options = {"edge_weight": np.random.default_rng(3).random(260)} if weighted else {}
    graph = small_graph(**options)
    chunks = make_chunks(graph, 4, "random", seed=2)
    whole = make_chunks(graph, 1, chunks.chunk_of(chunks.number) * 0)
    dense = ChunkTopology(graph, whole, torch.float64, torch.device("cpu")).matrix(0, norm).forward
    order = torch.from_numpy(chunks.order)
    matrix = dense.to_dense()[order][:, order]
    lists = Adjacency(graph, chunks, torch.float64).lists(norm)
    rows = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    for span in (slice(0, 60), slice(7, 31), slice(59, 60), slice(12, 12)):
        torch.testing.assert_close(lists.sums(rows, span), (matrix @ rows)[span])
        torch.testing.assert_close(lists.gradient(rows, span), (matrix.T @ rows)[span])


COST = st.builds(
    SegmentCost, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)
)


def peak_and_seconds(costs, stretches, pieces):
    held = most = 0
    for stretch in stretches:
        now = stretch_bytes(costs, stretch, pieces)
        most = max(most, held + now)
        held += now if stretch.kept else costs[stretch.first].x
    run_again = [s for s in stretches if not s.kept and s.last < len(costs)]
    again = (costs[n] for s in run_again for n in range(s.first, s.last))
    return most, sum(cost.seconds for cost in again)


def every_choice(count):
    for cuts in itertools.product((False, True), repeat=count - 1):
        ends = [0, *(n + 1 for n in range(count - 1) if cuts[n]), count]
        for kept in itertools.product((False, True), repeat=len(ends) - 1):
            yield [
                Stretch(a, b, k) for (a, b), k in zip(itertools.pairwise(ends), kept, strict=True)
            ]


@settings(max_examples=60, deadline=None)
@given(st.lists(COST, min_size=1, max_size=5), st.integers(0, 60), st.integers(1, 3))
def test_the_cheapest_stretches_are_those_of_an_exhaustive_search(costs, room, pieces):
    tried = [peak_and_seconds(costs, choice, pieces) for choice in every_choice(len(costs))]
    fitting = [seconds for most, seconds in tried if most <= room]
    found = cheapest(costs, room, pieces)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert found[0] == min(fitting)
    most, seconds = peak_and_seconds(costs, found[1], pieces)
    assert most <= room
    assert seconds == found[0]
    least, stretches = shortest_of(costs, pieces)
    assert [s.first for s in stretches][1:] == [s.last for s in stretches][:-1]
    assert peak_and_seconds(costs, stretches, pieces)[0] <= least + 1e-6


def test_segments_hold_about_the_root_of_the_layers():
    costs = [SegmentCost(10, 10, 10, 1.0)] * 64
    least, stretches = shortest_of(costs, 16)
    assert least < 10 * 1.15 * (6 * 64) ** 0.5 < 0.12 * 64 * 30
    assert sum(not one.kept for one in stretches) < 25


def test_a_budget_below_the_minimum_is_refused_and_the_minimum_suffices(tmp_path):
    with double():
        layers = MODELS["resgcn"]()
        with pytest.raises(BudgetError, match="expected at least .* for one of 6 chunks") as caught:
            FullGraph(small_graph(), layers, 6, runtime=Runtime(memory="1MB", scratch=tmp_path))
        assert caught.value.least
        more = caught.value.least + (64 << 20)  # the process grows meanwhile
        run = FullGraph(small_graph(), layers, 6, runtime=Runtime(memory=more, scratch=tmp_path))
    assert run.fit(1)[0].loss > 0


def test_a_disk_that_is_full_is_an_error_before_the_first_epoch(tmp_path):
    with pytest.raises(StorageError, match="cannot reserve .* for activations in"):
        Scratch(tmp_path, 1 << 60)


def test_a_write_that_fails_stops_the_epoch_and_loses_nothing(tmp_path, monkeypatch):
    with double():
        layers = made("resgcn", 0.0)
        run = FullGraph(small_graph(), layers, 6, partition="natural",
                        runtime=Runtime(recompute="disk", scratch=tmp_path))  # fmt: skip
        run.fit(1)
        before = run.state_dict()
        true = os.pwrite

        def full(*given):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="cannot use activations in .*No space left"):
            run.fit(1)
        monkeypatch.setattr(os, "pwrite", true)
        for name, value in some(run.weights().items()):
            assert torch.equal(value, before["weights"][name])
        assert run.epoch == 1
        after = run.fit(1)[-1].loss  # the same run goes on once there is space
        other = FullGraph(small_graph(), made("resgcn", 0.0), 6, partition="natural")
    assert other.fit(2)[-1].loss == pytest.approx(after, rel=1e-12)


def test_files_have_no_name(tmp_path):
    with double():
        run = FullGraph(small_graph(), MODELS["resgcn"](), 6,
                        runtime=Runtime(recompute="disk", scratch=tmp_path))  # fmt: skip
        run.fit(1)
    assert run.engine.whole.scratch.written > 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_gives_back_what_was_put(tmp_path):
    with double():
        run = FullGraph(small_graph(), MODELS["sage"](), 6, partition="natural")
    pieces = Pieces(run.engine.stage, 4)
    scratch = Scratch(tmp_path, 1 << 16)
    rows = torch.randn(60, 5)
    for _ in range(40):  # space is given back
        store = Spilled(scratch, pieces)
        for piece, span in enumerate(pieces.spans):
            store.put(piece, rows[span])
        for piece, span in enumerate(pieces.spans):
            store.add(piece, rows[span])
        for piece, span in some(enumerate(pieces.spans)):
            assert torch.equal(store.get(piece), rows[span] + rows[span])
        store.free()
    scratch.close()


@pytest.mark.parametrize(
    ("options", "mode", "said"),
    [
        ({"memory": "1GB", "recompute": "all"}, "exact", "give one of them"),
        ({"memory": "1GB"}, "fast", "expected mode 'exact'"),
        ({"recompute": "segments"}, "bounded", "expected mode 'exact'"),
        ({"memory": "some"}, "exact", "some"),
        ({"recompute": "half"}, "exact", "expected none, dense, all, segments or disk"),
        ({"recompute": "disk", "scratch": "/nowhere"}, "exact", "name an existing folder"),
        ({"recompute": "disk", "scratch": "/dev/shm"}, "exact", "held in memory"),
    ],
)
def test_options_that_do_not_fit(options, mode, said):
    with double(), pytest.raises(InputError, match=said):
        FullGraph(small_graph(), MODELS["sage"](), 4, mode, runtime=Runtime(**options))
