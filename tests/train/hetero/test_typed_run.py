"""train/hetero: a run on a typed graph is one folder, and resumes to the same weights."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foregather.cli.main import main
from foregather.errors import FormatError, InputError
from foregather.graph.hetero import HeteroGraph
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.nn.hetero.by_name import TYPED_MODELS
from foregather.sampling import HeteroFastGCN, HeteroLabor, HeteroLadies, HeteroNeighbor, Hgt
from foregather.train.hetero.make import TYPED_SAMPLERS
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import CheckpointSettings, ModelSettings, write_settings
from tests.some import some
from tests.train.hetero.shop import shop, shop_folder, train_typed, typed_settings
from tests.train.runs import records

KILLED = Path(__file__).parents[1] / "killed.py"
MODELS = "tests.train.hetero.user_models"
TIMED = {"time": "edge", "encode_time": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shop_folder(tmp_path_factory.mktemp("typed") / "shop.fg")


def assert_same(run, other):
    mine, theirs = (load_file(one / "model.safetensors") for one in (run, other))
    assert mine.keys() == theirs.keys()
    for name in some(mine):
        assert torch.equal(mine[name], theirs[name]), name
    names = ("epoch", "loss", "train", "valid", "typed")
    for a, b in zip(records(run), records(other), strict=True):
        assert [a[name] for name in names] == [b[name] for name in names]


def small(kind, settings):
    """A sampler by name that does not take everything."""
    sizes = {"ladies": "layer_sizes", "fastgcn": "layer_sizes", "hgt": "num_samples"}
    options = {sizes[kind]: [20, 20]} if kind in sizes else {}
    return replace(settings.sampler, kind=kind, options=options)


@pytest.mark.parametrize("kind", [one for one in TYPED_SAMPLERS if one != "neighbor"])
def test_samplers_by_name(folder, tmp_path, kind):
    """The batches are those of the class, and what is learned is of use."""
    settings = typed_settings(folder, tmp_path / "r", "rgcn")
    settings = replace(settings, sampler=small(kind, settings))
    settings = replace(settings, train=replace(settings.train, epochs=10))
    facts = train_typed(settings)
    assert facts["scored"] == "exact" and facts["test"] > facts["baseline"]["test"] + 0.1
    classes = {"labor": HeteroLabor, "ladies": HeteroLadies, "fastgcn": HeteroFastGCN, "hgt": Hgt}
    with Run.resume(tmp_path / "r") as run:
        loader = run.trainer.training.loader
        assert type(loader.sampler) is classes[kind]
        numbers = settings.sampler.fanouts if kind == "labor" else (20, 20)
        own = HeteroLoader(
            run.trainer.graph,
            input_nodes=("user", "train"),
            batch_size=settings.train.batch_size,
            sampler=classes[kind](list(numbers)),
            shuffle=True,
            seed=settings.train.seed,
        )
        loader.set_epoch(0)
        for mine, yours in zip(loader, some(list(own)), strict=True):
            for name in run.trainer.graph.node_types:
                assert torch.equal(mine[name].n_id, yours[name].n_id)
            for name in run.trainer.graph.edge_types:
                assert torch.equal(mine[name].e_id, yours[name].e_id)


def test_layer_sizes_by_relation(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "r", "rgcn")
    sizes = {"item, rev_bought, user": [10, 0], "*": [0, 10]}
    made = replace(settings.sampler, kind="ladies", options={"layer_sizes": sizes})
    with Run.create(replace(settings, sampler=made)) as run:
        found = run.trainer.training.loader.sampler.layer_sizes
    rest = {name: [0, 10] for name in HeteroGraph.open(folder).edge_types}
    assert found == HeteroLadies(rest | {("item", "rev_bought", "user"): [10, 0]}).layer_sizes


@pytest.mark.parametrize("kind", ["rgcn", "hetero-sage"])
def test_weighted_layers_are_the_mean_where_everything_is_taken(folder, tmp_path, kind):
    """With every node chosen, weights of layers are 1 / degree: scores equal those of all edges."""
    settings = typed_settings(folder, tmp_path / "r", kind)
    with Run.create(settings) as run:
        model, graph = run.trainer.training.model.eval(), run.trainer.graph
        nodes = ("user", np.arange(30))
        found = []
        for sampler in (HeteroLadies([-1, -1]), HeteroFastGCN([-1, -1]), HeteroNeighbor([-1, -1])):
            (batch,) = HeteroLoader(graph, None, nodes, 30, sampler=sampler)
            with torch.no_grad():
                found.append(model(batch)[:30])
    for one in found[:2]:
        assert torch.allclose(one, found[2], atol=1e-5)


@pytest.mark.parametrize("kind", TYPED_MODELS)
def test_a_run_is_one_folder_and_learns(folder, tmp_path, kind):
    said = []
    settings = typed_settings(folder, tmp_path / "r", kind)
    settings = replace(settings, train=replace(settings.train, epochs=10))
    facts = train_typed(settings, said.append)
    names = {entry.name for entry in (tmp_path / "r").iterdir()}
    assert names == {
        ".lock", "checkpoints", "config.toml", "environment.json", "metrics.jsonl",
        "model.safetensors", "plots", "summary.json", "trace.json",
    }  # fmt: skip
    made = records(tmp_path / "r")
    assert [record["epoch"] for record in made] == list(range(1, 11))
    assert facts["scored"] == "exact" and facts["metric"] == "accuracy"
    assert facts["test"] > 0.65 > facts["baseline"]["test"] + 0.1
    assert said[0] == ("the target is 'user', the only node type with labels and a split 'train'")
    assert any("the graph has times, which are not looked at" in text for text in said)
    environment = json.loads((tmp_path / "r" / "environment.json").read_text())
    assert environment["graph"]["digest"] == HeteroGraph.open(folder).digest


def test_counts_by_type_and_relation_are_those_of_the_batches(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "r")
    train_typed(settings)
    with Run.resume(tmp_path / "r") as run:
        loader, schema = run.trainer.training.loader, run.trainer.schema
        for epoch, record in enumerate(some(records(tmp_path / "r"))):
            loader.set_epoch(epoch)
            batches = list(loader)
            assert record["typed"]["batches"] == len(batches) == 4
            for one in schema.nodes:
                nodes = sum(batch[one.name].num_nodes for batch in batches)
                assert record["typed"]["nodes"][one.name] == nodes
                size = sum(batch[one.name][a.name].nbytes for a in one.arrays for batch in batches)
                assert record["typed"]["bytes"][one.name] == size
            edges = record["typed"]["edges"]
            assert edges["(item, rev_bought, user)"] == sum(
                batch["item", "rev_bought", "user"].edge_index.shape[1] for batch in batches
            )
    total = json.loads((tmp_path / "r" / "summary.json").read_text())["typed"]
    assert total["batches"] == 12 and total["bytes"]["shop"] == 0


@pytest.mark.parametrize(
    ("kind", "typed", "stop"),
    [
        ("hetero-sage", {}, 1),
        ("hetero-sage", TIMED, 11),
        ("rgcn", {"time": "node"}, 6),
        ("hgt", {"disjoint": True}, 5),
        (f"{MODELS}:Signalling", {}, 7),
        ("hetero-sage", {"sampler": "labor"}, 5),
        ("hetero-sage", {"sampler": "labor", "time": "edge"}, 6),
        ("rgcn", {"sampler": "ladies"}, 6),
        ("hetero-sage", {"sampler": "fastgcn"}, 3),
        ("hgt", {"sampler": "hgt"}, 7),
    ],
)
def test_interrupted_anywhere_it_ends_with_the_same_weights(folder, tmp_path, kind, typed, stop):
    typed = dict(typed)
    sampler = typed.pop("sampler", "neighbor")
    settings = typed_settings(folder, tmp_path / "a", kind, **typed)
    settings = replace(settings, sampler=small(sampler, settings))
    if ":" in kind:
        model = ModelSettings(kind, hidden=8, options={"number": 0})
        settings = replace(settings, model=model)
    train_typed(settings)
    run, calls = tmp_path / "b", 0
    with Run.create(replace(settings, run=str(run))) as begun:
        scores = begun.trainer.training.scores

        def stopping(batch):
            nonlocal calls
            calls += 1
            if calls > stop:
                raise KeyboardInterrupt
            return scores(batch)

        begun.trainer.training.scores = stopping
        begun.is_due = lambda: True  # a checkpoint after every batch
        with pytest.raises(KeyboardInterrupt):
            run_loop(begun)
    said = []
    with Run.resume(run, say=said.append, trust_code=True) as again:
        run_loop(again)
    assert said[0] == f"resumed from checkpoint-{stop // 4:08}-{stop % 4:08}.safetensors"
    assert_same(tmp_path / "a", run)


@pytest.mark.slow
def test_killed_at_random_moments(folder, tmp_path):
    ways = {
        "sage": typed_settings(folder, ""),
        "rgcn": typed_settings(folder, "", "rgcn"),
        "timed": typed_settings(folder, "", "hgt", **TIMED),
    }
    for name, settings in ways.items():
        settings = replace(settings, checkpoint=CheckpointSettings(minutes=1e-3, keep=2))
        settings = replace(settings, train=replace(settings.train, epochs=6, patience=5))
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(write_settings(settings))
    begin = (
        "import runpy, sys, torch_geometric.nn; sys.argv = sys.argv[1:]; "  # once, not per child
    )
    begin += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", begin, str(KILLED), "1", "6"]
    command += [str(tmp_path / name) for name in ways]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in some(done.stdout.splitlines()):
        kills, resumes = map(int, line.split())
        assert kills >= 2 and resumes >= 1
    for name in some(ways):
        assert_same(tmp_path / name / "a", tmp_path / name / "b")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_resumable_checkpoint(folder, tmp_path, number, capsys):
    model = ModelSettings(f"{MODELS}:Signalling", hidden=8, options={"number": int(number)})
    settings = replace(typed_settings(folder, tmp_path / "a"), model=model)
    (tmp_path / "c.toml").write_text(write_settings(settings))
    try:
        code = main(["train", str(tmp_path / "c.toml"), "--json"])
    except SystemExit as stop:
        code = stop.code
    assert code == 128 + number
    assert "checkpoint-00000001-00000002" in {
        path.stem for path in (tmp_path / "a" / "checkpoints").iterdir()
    }
    assert main(["train", "--resume", str(tmp_path / "a"), "--json"]) == 2
    assert "names code to run" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "a"), "--trust-code", "--json"]) == 0
    whole = replace(settings, run=str(tmp_path / "b"), model=replace(model, options={"number": 0}))
    train_typed(whole)
    assert_same(tmp_path / "a", tmp_path / "b")


def test_threads_bulk_and_prefetch_change_no_weights(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "a", time="node")
    train_typed(settings)
    other = replace(settings.memory, bulk="1", prefetch=0)
    train_typed(replace(settings, run=str(tmp_path / "b"), memory=other))
    assert_same(tmp_path / "a", tmp_path / "b")


def test_patience_stops_early(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "r")
    slow = replace(settings.optimizer, lr=1e-9)
    train = replace(settings.train, epochs=9, patience=2)
    assert train_typed(replace(settings, optimizer=slow, train=train))["epochs"] == 3


def test_resume_refuses_another_graph_and_other_settings(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "a")
    train_typed(settings)
    other = shop_folder(tmp_path / "other.fg", seed=1)
    with pytest.raises(InputError, match="was trained on .* with digest .* but"):
        Run.resume(tmp_path / "a", replace(settings, graph=str(other)))
    with pytest.raises(InputError, match="typed.disjoint was False and is True"):
        Run.resume(tmp_path / "a", replace(settings, typed=replace(settings.typed, disjoint=True)))


def test_a_graph_that_changes_while_it_is_trained_on(tmp_path):
    folder = shop_folder(tmp_path / "shop.fg")
    with Run.create(typed_settings(folder, tmp_path / "a")) as run:
        shop(seed=1).save(folder, overwrite=True)
        with pytest.raises(FormatError, match="while a loader had it open"):
            run_loop(run)
    with pytest.raises(InputError, match="was trained on .* with digest"):
        Run.resume(tmp_path / "a")


def whole_shop(path):
    """The graph with an array x for every type, without missing numbers."""
    clean = shop()
    x = clean.nodes["user"].features["x"].copy()
    x[x != x] = 0
    features = {**clean.nodes["user"].features, "x": x}
    nodes = {
        **clean.nodes,
        "user": replace(clean.nodes["user"], features=features),
        "shop": replace(clean.nodes["shop"], features={"x": torch.ones(6, 2).numpy()}),
    }
    HeteroGraph(nodes, clean.edges, clean.facts).save(path)
    return path


def test_a_model_of_the_user_is_accelerated_and_goes_on_as_it_began(tmp_path):
    graph, said = whole_shop(tmp_path / "g.fg"), []
    settings = typed_settings(graph, tmp_path / "fast")
    settings = replace(settings, model=ModelSettings(f"{MODELS}:Lazy", hidden=8))
    with Run.create(settings, said.append) as run:
        assert run.trainer.fast is not None and run.trainer.training.fast is run.trainer.fast
        run_loop(run)
        assert "training: accelerated" in run.trainer.fast.explain()
    assert not any("runs as it is" in text for text in said)
    plain = replace(settings, run=str(tmp_path / "plain"))
    plain = replace(plain, train=replace(plain.train, accelerate=False))
    with Run.create(plain) as run:
        assert run.trainer.fast is None
        run_loop(run)
    mine, theirs = (load_file(tmp_path / one / "model.safetensors") for one in ("fast", "plain"))
    for name in some(mine):
        torch.testing.assert_close(mine[name], theirs[name], rtol=1e-3, atol=1e-5)
    for one, there in (("fast", True), ("plain", False)):
        with Run.resume(tmp_path / one, trust_code=True) as again:
            assert (again.trainer.fast is not None) == there


@pytest.mark.parametrize("kind", ["Lazy", "TakesData", "Own"])
def test_models_of_the_user(tmp_path, kind):
    whole_shop(tmp_path / "g.fg")
    said = []
    settings = typed_settings(tmp_path / "g.fg", tmp_path / "r")
    settings = replace(settings, model=ModelSettings(f"{MODELS}:{kind}"))
    facts = train_typed(settings, said.append)
    assert facts["scored"] == "exact" and 0 <= facts["test"] <= 1
    told = [text for text in said if "is called with x_dict, so it is not given" in text]
    assert bool(told) == (kind != "TakesData")
    out = tmp_path / "scores.npy"
    command = ["infer", str(tmp_path / "r"), str(tmp_path / "g.fg"), str(out), "--json"]
    assert main([*command, "--trust-code"]) == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Narrow", "gives 2 columns of scores, but the labels have 3 classes"),
        ("Nowhere", "gives rows for 'item', but not for the node type 'user'"),
        ("Unsized", "did not say how large other.weight of Unsized is"),
        ("Absent", "has no Absent"),
        ("Lazy", "Lazy cannot be called with .* \\('shop' has no array x\\)"),  # shops have no x
    ],
)
def test_models_that_are_refused(folder, tmp_path, kind, words):
    with pytest.raises(InputError, match=words):
        settings = typed_settings(folder, tmp_path / "r")
        Run.create(replace(settings, model=ModelSettings(f"{MODELS}:{kind}")))
    assert not (tmp_path / "r").exists()


def test_bfloat16(folder, tmp_path):
    settings = typed_settings(folder, tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, precision="bfloat16"))
    try:
        facts = train_typed(settings)
    except InputError as error:
        pytest.skip(str(error))
    assert facts["scored"] == "exact"
