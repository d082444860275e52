"""Modules that were split train in pieces, stretches, files and budgets as they do all at once."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from foregather.errors import BudgetError, InputError, NumericError
from foregather.pipeline import FullGraph, Runtime
from foregather.pipeline.split.graph_values import graph_inputs
from foregather.pipeline.split.sample import feature_rows
from foregather.pipeline.split.split import split_model
from foregather.pipeline.whole.pieces import Pieces
from tests.pipeline.cases import CLASSES, WIDTH, double, small_graph
from tests.pipeline.modules import HOPS, MODULES, adam, furthest, sgd, train_whole

pyg = pytest.importorskip("torch_geometric.nn")
EVERY = MODULES | HOPS
SUMMED = ["GCN", "GraphSAGE", "GIN", "SGConv", "TAGConv", "ChebConv", "ClusterGCNConv"]


def made(name):
    torch.manual_seed(0)
    with double():
        return EVERY[name]().double()


def trained(model, pieces, chunks=5, optimizer=None, epochs=2, **options):
    """A copy of a model after some epochs, and the run."""
    parts = copy.deepcopy(model)
    run = FullGraph(small_graph(), parts, chunks, partition="natural", optimizer=optimizer,
                    runtime=Runtime(**options))  # fmt: skip
    whole = run.engine.whole
    if pieces is not None:  # a graph this small is one piece
        whole.pieces = Pieces(run.engine.stage, pieces)
        whole._open()
    run.fit(epochs)
    return parts, run


@pytest.mark.parametrize("name", ["GCN", "GAT", "PNA", "batch norm", "jumping", "edges", "TAGConv"])
@pytest.mark.parametrize("recompute", ["none", "segments", "disk"])
def test_modules_train_in_pieces_as_pyg_does(name, recompute, tmp_path):
    model, make = made(name), sgd if "batch norm" in name else adam
    whole = copy.deepcopy(model)
    train_whole(whole, small_graph(), 2, make)
    parts, run = trained(model, 3, optimizer=make, recompute=recompute, scratch=tmp_path)
    assert furthest(whole, parts) < 1e-10
    assert (run.engine.whole.scratch is not None) == (recompute == "disk")


@pytest.mark.parametrize("name", SUMMED)
def test_what_only_adds_up_rows_copies_none_to_edges(name):
    _, run = trained(made(name), 3, epochs=1)
    assert not run.engine.whole.pieces.reads_rows


def test_attention_reads_rows_of_others():
    _, run = trained(made("GAT"), 3, epochs=1)
    assert run.engine.whole.pieces.reads_rows


class Doubled(pyg.SAGEConv):
    """A convolution of the user's: no sum of PyG's."""

    def message(self, x_j):
        return 2 * x_j


class Own(nn.Module):
    """Uses it."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = Doubled(WIDTH, 5), nn.Linear(5, CLASSES)

    def forward(self, x, edge_index):
        return self.last(self.conv(x, edge_index).relu())


def test_a_convolution_of_ones_own_is_run_as_it_is():
    torch.manual_seed(0)
    with double():
        model = Own().double()
    whole = copy.deepcopy(model)
    train_whole(whole, small_graph(), 2)
    parts, run = trained(model, 3, optimizer=adam)
    assert furthest(whole, parts) < 1e-10
    assert run.engine.whole.pieces.reads_rows


class Dropped(nn.Module):
    """Dropout of rows behind message passing, and of attention."""

    def __init__(self):
        super().__init__()
        self.first = pyg.GATConv(WIDTH, 3, heads=2, dropout=0.4)
        self.second = pyg.SAGEConv(6, CLASSES)

    def forward(self, x, edge_index):
        x = F.dropout(F.elu(self.first(x, edge_index)), 0.3, self.training)
        return self.second(x, edge_index)


def test_dropout_of_rows_and_of_edges_does_not_depend_on_pieces():
    torch.manual_seed(0)
    with double():
        model = Dropped().double()
    single, run = trained(model, 5)
    for pieces, recompute in ((1, "none"), (2, "segments"), (3, "all")):
        parts, run = trained(model, pieces, recompute=recompute)
        assert furthest(single, parts) < 1e-12
        assert len(run.engine.whole.pieces) == pieces  # not chunk by chunk
    other, _ = trained(model, 1, chunks=4)
    assert furthest(single, other) > 1e-6


def test_uneven_chunks_are_taken_one_by_one_where_that_is_asked_for():
    parts = np.repeat(np.arange(5), [52, 2, 2, 2, 2])
    run = FullGraph(small_graph(), made("GCN"), 5, partition=parts)
    pieces = Pieces(run.engine.stage, 5)
    assert [len(inner) for inner in pieces.inner] == [1, 1, 1, 1, 1]
    assert len(Pieces(run.engine.stage, 2)) < 5


def test_a_budget_for_a_module_names_a_minimum_that_suffices(tmp_path):
    model = made("jumping")
    with pytest.raises(BudgetError, match="expected at least .* for one of 5 chunks") as caught:
        FullGraph(small_graph(), copy.deepcopy(model), 5, runtime=Runtime(memory="1MB"))
    least = caught.value.least + (64 << 20)  # the process grows meanwhile
    parts, _ = trained(model, None, memory=least, scratch=tmp_path)
    kept, _ = trained(model, None)
    assert furthest(kept, parts) < 1e-10


def test_edges_the_other_way_are_refused_though_they_could_be_summed():
    class Back(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.SAGEConv(WIDTH, CLASSES)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index.flip(0))

    with double(), pytest.raises(InputError, match="edges that are not those of the graph"):
        split_model(Back().double(), small_graph())


@pytest.mark.parametrize("name", ["GCN", "GAT", "PNA", "batch norm", "jumping", "edges", "TAGConv"])
@pytest.mark.parametrize("recompute", ["segments", "disk"])
def test_scores_within_a_promise_are_those_without(name, recompute, tmp_path):
    graph, model = small_graph(), made(name)
    parts, run = trained(model, 3, recompute=recompute, scratch=tmp_path)
    modes = [module.training for module in parts.modules()]
    scores = run.infer()
    with torch.no_grad():
        weight = next(parts.parameters())
        inputs = graph_inputs(parts, graph, weight.dtype, weight.device)
        true = copy.deepcopy(parts).eval()(feature_rows(graph, weight), **inputs)
    assert torch.allclose(scores, true, rtol=1e-9, atol=1e-10)
    assert torch.equal(run.infer(), scores)
    assert [module.training for module in parts.modules()] == modes
    assert run.fit(1)[0].loss == pytest.approx(trained(model, None, epochs=3)[1].reports[-1].loss)


def test_scores_within_a_promise_name_a_chunk_that_is_not_finite(tmp_path):
    parts, run = trained(made("GCN"), 3, recompute="segments")
    with torch.no_grad():
        next(parts.parameters()).fill_(float("nan"))
    with pytest.raises(NumericError, match="rows of chunk 0 are NaN or infinite"):
        run.infer()
