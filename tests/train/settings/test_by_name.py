"""Models and samplers by name: every one trains, infers exactly, and reads from disk as it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foregather import Graph, Loader
from foregather.errors import InputError
from foregather.graph.synthetic import synthesize
from foregather.loader.options import BatchContents
from foregather.nn.by_name import PLAIN_MODELS
from foregather.sampling import Full
from foregather.train.infer import infer
from foregather.train.predict import Predictor
from foregather.train.runs.run_folder import load_model
from foregather.train.settings import MemorySettings, ModelSettings, SamplerSettings
from foregather.train.settings.from_settings import infer_options
from foregather.train.settings.samplers import SAMPLERS
from tests.train.runs import settings_of, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("named") / "g"
    synthesize(path, 400, degree=5, features=8, classes=3, seed=0)
    return path


def named(folder, run, model="sage", sampler="neighbor", **changes):
    made = settings_of(folder, run, model=ModelSettings(model, hidden=8), **changes)
    options = {"size": 100} if sampler.startswith("saint") else {}
    return replace(
        made,
        sampler=SamplerSettings(sampler, fanouts=(5, 5), options=options),
        train=replace(made.train, epochs=2),
    )


def quiet(text):
    """Says nothing."""


@pytest.mark.parametrize("model", PLAIN_MODELS)
def test_models(folder, tmp_path, model):
    """Exact scores by layers equal those on whole neighbourhoods; disk changes no bit."""
    facts = train(named(folder, tmp_path / "r", model), quiet)
    assert facts["scored"] == "exact" and facts["test"] >= 0
    budget = MemorySettings("60MB", storage="features", bulk="1")
    train(replace(named(folder, tmp_path / "d", model), memory=budget), quiet)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in "rd")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    made, settings = load_model(tmp_path / "r")
    graph, options = Graph.open(folder), infer_options(settings)
    infer(made, graph, tmp_path / "s.npy", **options)
    whole = np.load(tmp_path / "s.npy")
    nodes = [5, 17, 399, 5]
    with Predictor(made, graph, **options) as predictor:
        some = predictor.scores(nodes)
    assert np.allclose(some, whole[nodes], rtol=1e-4, atol=1e-5)  # torch rounds other shapes so
    disk = options | {"memory": 60_000_000, "storage": "disk"}
    with Predictor(made, graph, **disk) as predictor:
        assert np.array_equal(predictor.scores(nodes), some)
    contents = BatchContents(norm=options["norm"], pyg=False)
    loader = Loader(graph, sampler=Full(2), input_nodes=nodes, batch_size=4, contents=contents)
    (batch,) = loader  # of the same composition: no bit differs
    weight = {} if batch.edge_weight is None else {"edge_weight": batch.edge_weight}
    made.eval()
    with torch.no_grad():
        rows = made(batch.x, batch.edge_index, **weight)[batch.seed_position]
    assert np.array_equal(rows.numpy(), some)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers(folder, tmp_path, sampler):
    said = []
    facts = train(named(folder, tmp_path / "r", sampler=sampler), said.append)
    assert facts["scored"] == "exact" and facts["best_valid"] > 0
    own = sampler in ("saint-node", "saint-edge", "cluster")
    assert any("so validation is exact" in text for text in said) == own
    assert facts["best_valid_scored"] == ("exact" if own else "sampled")


@pytest.mark.parametrize("sampler", ["saint-node", "cluster"])
def test_nodes_that_a_sampler_chose_teach_only_if_they_are_of_the_training_split(
    folder, tmp_path, sampler
):
    """What the labels of other splits are makes no difference to the weights."""
    graph, found = Graph.open(folder), []
    labels = np.array(graph.labels)
    for name in "ab":
        place = replace(graph, path=None, meta={}, labels=labels.copy()).save(tmp_path / name)
        settings = named(place, tmp_path / f"r{name}", sampler=sampler)
        train(replace(settings, train=replace(settings.train, valid="", test="")), quiet)
        found.append(load_file(tmp_path / f"r{name}" / "model.safetensors"))
        labels[graph.split("test")] = 0
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize(
    ("model", "sampler", "words"),
    [
        ("gat", "ladies", "only sums and means keep; use sage or gcn"),
        ("mlp", "labor", "mlp sees no neighbour"),
        ("sgae", "neighbor", "model.kind is 'sgae', expected one of sage, gcn"),
        ("sage", "nieghbor", "sampler.kind is 'nieghbor', expected one of neighbor, labor"),
    ],
)
def test_combinations_without_sense(folder, tmp_path, model, sampler, words):
    with pytest.raises(InputError, match=words):
        train(named(folder, tmp_path / "r", model, sampler), quiet)


def test_options_that_do_not_exist(folder, tmp_path):
    for sampler, words in (("cluster", "takes parts, size"), ("ladies", "takes layer_sizes")):
        settings = replace(
            named(folder, tmp_path / "r"), sampler=SamplerSettings(sampler, options={"k": 1})
        )
        with pytest.raises(InputError, match=words):
            train(settings, quiet)
    settings = named(folder, tmp_path / "r", "gat")
    settings = replace(settings, model=replace(settings.model, options={"heads": 3}))
    with pytest.raises(InputError, match="gat cannot be made with"):
        train(settings, quiet)


def test_replayed_epochs(folder, tmp_path):
    """Epochs that repeat one train to the same weights from packed rows as from memory."""
    budget, told = MemorySettings("60MB", storage="features", bulk="1"), []
    for name, memory, say in (("r", MemorySettings(), quiet), ("d", budget, told.append)):
        made = replace(named(folder, tmp_path / name), memory=memory)
        sampler = replace(made.sampler, replay=3)
        train(replace(made, sampler=sampler, train=replace(made.train, epochs=4)), say)
    once = named(folder, tmp_path / "o")
    train(replace(once, train=replace(once.train, epochs=4)), quiet)
    ours, theirs, fresh = (load_file(tmp_path / name / "model.safetensors") for name in "rdo")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not all(torch.equal(ours[name], fresh[name]) for name in ours)
    assert any("3 epochs use the samples of the first" in str(text) for text in told)
