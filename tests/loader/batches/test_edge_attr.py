"""Edge features: a graph that has them yields batches with them, wherever they are stored."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch_geometric.nn import GATConv, GINEConv

from foregather import Graph, Loader, infer
from foregather.cli.main import main
from foregather.errors import BudgetError, InputError
from foregather.sampling import FastGCN, Full, Labor, Ladies, Neighbor, RandomWalk
from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.runs.run import Run
from foregather.train.runs.run_folder import load_model
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    MemorySettings,
    ModelSettings,
    SamplerSettings,
    TrainSettings,
)
from tests.loader.graphs import grouped, small_graph
from tests.train.runs import records, settings_of, train

GRAPH = small_graph()
ROWS = np.asarray(GRAPH.edge_features.data)


def plain(graph=GRAPH, sampler=None, **options):
    rule = {"sampler": sampler} if sampler is not None else {"num_neighbors": [4, 3]}
    fixed = {"batch_size": 20, "shuffle": True, "seed": 3, "pyg": False, "threads": 1}
    return Loader(graph, input_nodes="train", **rule, **grouped({**fixed, **options}))


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: None,
        lambda: Neighbor([3, 2], expand="per-layer"),
        lambda: Full(2),
        lambda: Labor([3, 2]),
        lambda: Ladies([9, 7]),
        lambda: FastGCN([9, 7]),
        lambda: RandomWalk(4),
    ],
)
def test_batches_have_the_rows_of_their_edges(sampler):
    seen = 0
    for batch in plain(sampler=sampler()):
        np.testing.assert_array_equal(batch.edge_attr, ROWS[batch.e_id])
        assert batch.edge_attr.dtype == torch.float32
        seen += len(batch.e_id)
        for layer in batch.layers or ():
            np.testing.assert_array_equal(layer.edge_attr, ROWS[layer.e_id])
            edge_index, _, _, _ = moved = layer  # four, as before
            assert edge_index is moved.edge_index
        if batch.layers:
            again = batch.to("cpu").layers
            assert all(
                torch.equal(a.edge_attr, b.edge_attr)
                for a, b in zip(again, batch.layers, strict=True)
            )
    assert seen


def test_they_can_be_left_out_and_not_asked_for_in_vain():
    assert all(batch.edge_attr is None for batch in plain(edge_attr=False))
    bare = Graph.from_edge_index([[0, 1], [1, 0]], splits={"train": [0, 1]})
    assert all(batch.edge_attr is None for batch in plain(bare))
    with pytest.raises(InputError, match="edge_attr is True, but the graph has no edge features"):
        plain(bare, edge_attr=True)
    data = next(iter(plain(pyg=True)))
    np.testing.assert_array_equal(data.edge_attr, ROWS[data.e_id])


@pytest.fixture(scope="module", params=["f4", "f2", "i1"])
def folder(request, tmp_path_factory):
    rng = np.random.default_rng(1)
    attr = (rng.random((9000, 5)) * 100).astype(request.param)
    graph = Graph.from_edge_index(
        rng.integers(0, 1500, (2, 9000)),
        1500,
        x=rng.random((1500, 8), np.float32),
        y=rng.integers(0, 3, 1500),
        edge_attr=attr,
        splits={"train": rng.permutation(1500)[:400]},
    )
    return Graph.open(graph.save(tmp_path_factory.mktemp("graph") / "g.fg"))


def least(graph, **options) -> int:
    with pytest.raises(BudgetError) as caught:
        plain(graph, memory=1, **options)
    return int(str(caught.value).rsplit("(", 1)[1].split(" ")[0])


@pytest.mark.parametrize("storage", ["features", "topology", "disk", "auto", "memory"])
def test_rows_on_disk_equal_those_in_memory(folder, storage):
    memory = 20 << 20 if storage in ("auto", "memory") else least(folder, storage=storage)
    with_edges = plain(folder, storage=storage, memory=memory)
    for _ in range(2):
        for ours, theirs in zip(with_edges, plain(folder), strict=True):
            assert torch.equal(ours.n_id, theirs.n_id)
            assert ours.edge_attr.dtype == theirs.edge_attr.dtype
            np.testing.assert_array_equal(ours.edge_attr, folder.edge_features[ours.e_id])
        with_edges.set_epoch(0)
    layout = with_edges.layout
    if layout is not None:
        share = layout.shares["edge features"]
        assert share > 0 and sum(layout.shares.values()) <= memory
        assert with_edges.counters()["edge_features"]["bytes"] > 0
        assert with_edges._maker.assembler.edge_rows._store.memory_bytes <= share
    with_edges.close()
    first = next(iter(with_edges))  # opened again
    np.testing.assert_array_equal(first.edge_attr, folder.edge_features[first.e_id])
    with_edges.close()


def test_the_budget_counts_them(folder):
    for storage in ("features", "disk"):
        without = least(folder, storage=storage, edge_attr=False)
        assert least(folder, storage=storage) > without
    whole = Graph.open(folder.path)
    big, small = (
        plain(whole, memory=1 << 30, edge_attr=flag)._maker.budget.memory for flag in (None, False)
    )
    assert small - big == whole.edge_features.nbytes


class Own(nn.Module):
    """As a user writes it: `edge_attr` has no default."""

    def __init__(self, in_channels, out_channels, edge_dim=5):
        super().__init__()
        self.lin = nn.Linear(in_channels, 8)
        self.one = GATConv(8, 8, edge_dim=edge_dim)
        self.two = GINEConv(nn.Linear(8, out_channels), edge_dim=edge_dim)

    def forward(self, x, edge_index, edge_attr):
        x = self.one(self.lin(x), edge_index, edge_attr).relu()
        return self.two(x, edge_index, edge_attr)


class Shown(Own):
    """The same, layer by layer."""

    def layer_steps(self):
        def first(x, edge_index, count, edge_attr):
            x = self.lin(x)
            return self.one((x, x[:count]), edge_index, edge_attr).relu()

        def second(x, edge_index, count, edge_attr):
            return self.two((x, x[:count]), edge_index, edge_attr)

        return [first, second]


@pytest.fixture(scope="module")
def telling(tmp_path_factory):
    """A graph whose labels only the edges tell: the class is in the features of edges into it."""
    rng = np.random.default_rng(2)
    nodes, edges = 900, 7000
    y, pairs = rng.integers(0, 3, nodes), rng.integers(0, nodes, (2, edges))
    attr = rng.normal(size=(edges, 5)).astype(np.float32)
    attr[:, :3] += 2 * np.eye(3, dtype=np.float32)[y[pairs[1]]]
    order = rng.permutation(nodes)
    graph = Graph.from_edge_index(
        pairs,
        nodes,
        x=rng.normal(size=(nodes, 6)).astype(np.float32),
        y=y,
        edge_attr=attr,
        splits={"train": order[:600], "valid": order[600:750], "test": order[750:]},
    )
    return Graph.open(graph.save(tmp_path_factory.mktemp("telling") / "g.fg"))


def settings(graph, run, kind, memory="none", storage="auto", **options):
    wide = {"hidden": 16} if kind.startswith("torch_geometric") else {}
    return replace(
        settings_of(graph.path, run),
        model=ModelSettings(kind=kind, options=options, **wide),
        sampler=SamplerSettings(fanouts=(5, 5)),
        memory=MemorySettings(budget=memory, storage=storage),
        train=TrainSettings(epochs=6, batch_size=100, threads=1),
    )


GAT = "torch_geometric.nn:GAT"
OWN = "tests.loader.batches.test_edge_attr:Own"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [(OWN, {}), ("tests.loader.batches.test_edge_attr:Shown", {}), (GAT, {"edge_dim": 5})],
)
def test_a_run_learns_from_edges_and_infers_with_them(telling, tmp_path, kind, options):
    facts = train(settings(telling, tmp_path / "r", kind, **options))
    if kind != GAT:  # its edges only weigh their sources, which know nothing here
        assert facts["test"] > 0.6  # chance is 0.33
    on_disk = settings(telling, tmp_path / "d", kind, "64MB", "disk", **options)
    assert train(on_disk)["test"] == facts["test"]
    places = [str(tmp_path / "r"), str(telling.path), str(tmp_path / "s.npy")]
    assert main(["infer", *places, "--trust-code"]) == 0
    model, _ = load_model(tmp_path / "r", trust_code=True)
    target = np.repeat(np.arange(telling.num_nodes), telling.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(telling.indices, np.int64), target]))
    x, attr = (
        torch.from_numpy(np.array(part.data)) for part in (telling.features, telling.edge_features)
    )
    with torch.no_grad():
        wanted = model.eval()(x, edges, edge_attr=attr)
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), wanted, rtol=2e-4, atol=2e-5)


def test_a_run_is_resumed_with_edges(telling, tmp_path):
    whole, cut = tmp_path / "a", tmp_path / "b"
    train(settings(telling, whole, OWN))
    shutil.copytree(whole, cut)
    newest = list_checkpoints(cut / "checkpoints")[0]
    for path in (newest, cut / "model.safetensors", cut / "summary.json"):
        path.unlink()
    with Run.resume(cut, trust_code=True) as run:
        run_loop(run)
    assert [one["loss"] for one in records(whole)] == [one["loss"] for one in records(cut)]
    ours, theirs = (load_file(run / "model.safetensors") for run in (whole, cut))
    assert ours and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_models_that_do_not_fit_are_refused(telling, tmp_path):
    with pytest.raises(InputError, match="Own cannot be called with a batch of 6 feature columns"):
        train(settings(telling, tmp_path / "r", OWN, edge_dim=4))
    bare = Graph.open(replace(telling, edge_features=None, path=None).save(tmp_path / "bare.fg"))
    with pytest.raises(InputError, match="Own needs edge_attr, but the graph has none"):
        train(settings(bare, tmp_path / "r", OWN))
    assert not (tmp_path / "r").exists()
    with pytest.raises(InputError, match="Own needs edge_attr, but the graph has none"):
        infer(Own(6, 3), bare, tmp_path / "s.npy", layers=2)


def test_models_that_do_not_look_at_edges_do_not_pay_for_them(telling, tmp_path):
    for kind, asked in (("sage", False), ("torch_geometric.nn:GraphSAGE", False), (OWN, True)):
        with Run.create(settings(telling, tmp_path / kind.replace(":", "."), kind)) as run:
            assert run.trainer.training.loader._maker.assembler.edge_attr is asked


def test_edge_features_of_other_kinds_reach_a_model_as_numbers(telling, tmp_path):
    whole = replace(telling.edge_features, data=np.asarray(telling.edge_features.data, np.float64))
    graph = replace(telling, edge_features=whole, path=None)
    model = Own(6, 3)
    infer(model, graph, tmp_path / "a.npy", layers=2)
    infer(model, telling, tmp_path / "b.npy", layers=2)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), atol=1e-5)
