"""train/hetero: what does not fit is refused before anything is made, in one sentence each."""

from dataclasses import replace

import numpy as np
import pytest

from foregather.errors import InputError, MissingDependencyError
from foregather.graph.hetero import HeteroGraph, NodeTable
from foregather.graph.synthetic import synthesize
from foregather.loader.batches import pyg_batch
from foregather.train.hetero.make import check_offered
from foregather.train.runs.run import Run
from foregather.train.settings import (
    GridSettings,
    MemorySettings,
    ModelSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
    TypedSettings,
)
from foregather.train.trainers.unused_settings import unused_settings
from tests.some import some
from tests.train.hetero.shop import shop, shop_folder, typed_settings
from tests.train.runs import settings_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shop_folder(tmp_path_factory.mktemp("typed") / "shop.fg")


def refuse(settings, words):
    with pytest.raises(InputError, match=words):
        Run.create(settings, lambda text: None)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"target": "usre"}, "typed.target: there is no node type 'usre'; the nearest is 'user'"),
        ({"target": "item"}, "node type 'item': it has no labels to learn from"),
        (
            {"fanouts": {"*": [2], "user, bougt, item": [3]}},
            "nearest is '\\(user, bought, item\\)'",
        ),
        ({"fanouts": {"user, bought, item": [3]}}, "no entry for \\(item, in, shop\\)"),
        ({"fanouts": {"*": [2, 1], "user__bought__item": [3]}}, "lists of 1 and 2 numbers"),
        ({"fanouts": {"*": "many"}}, "typed.fanouts.* is a str"),
        ({"time": "node", "seed_time": "when"}, "'when', but node type 'user' has no such array"),
        ({"time": "node", "seed_time": "x"}, "typed.seed_time: array 'x' holds float32"),
    ],
)
def test_settings_that_do_not_fit_the_graph(folder, tmp_path, typed, words):
    refuse(typed_settings(folder, tmp_path / "r", **typed), words)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("user", "typed", "words"),
    [
        ({"labels": None}, {}, "no node type of the graph has labels"),
        ({"splits": {}}, {}, "'user' has labels, but no such split"),
        ({"splits": {"train": []}}, {}, "the split 'train' has no nodes"),
        ({"labels": np.full(240, -1)}, {}, "every label is missing"),
        ({"labels": np.full(240, np.nan, np.float32)}, {}, "a label that is missing"),
        ({"time": None}, {"time": "edge"}, "'user' has no times, so nothing says what its seeds"),
    ],
)
def test_graphs_that_have_nothing_to_learn_from(tmp_path, user, typed, words):
    path = shop_folder(tmp_path / "g.fg", **user)
    refuse(typed_settings(path, tmp_path / "r", **typed), words)


def test_times_on_one_side_only(tmp_path):
    path = shop_folder(tmp_path / "g.fg", edge_times=False)
    refuse(typed_settings(path, tmp_path / "r", time="edge"), "no relation .* has times")


def test_several_types_that_could_be_meant(tmp_path):
    graph = shop()
    shops = NodeTable.of(6, labels=[0, 1] * 3, splits={"train": [0, 1, 2]})
    HeteroGraph({**graph.nodes, "shop": shops}, graph.edges).save(tmp_path / "g.fg")
    refuse(typed_settings(tmp_path / "g.fg", tmp_path / "r"), "several .*: 'shop', 'user'; name")
    Run.create(typed_settings(tmp_path / "g.fg", tmp_path / "r", target="shop")).close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"memory": MemorySettings("1GB")}, "memory.budget is '1GB', but typed graphs are"),
        ({"memory": MemorySettings(storage="disk")}, "memory.storage is 'disk', but typed"),
        ({"train": TrainSettings(method="full-graph")}, "'full-graph', which is for plain graphs"),
        ({"sampler": SamplerSettings("walk")}, "is 'walk', but .* by neighbor, labor, ladies, fa"),
        ({"sampler": SamplerSettings(options={"a": 1})}, "has a, but neighbor takes none: its opt"),
        ({"sampler": SamplerSettings("hgt", options={"k": 1})}, "has k, but hgt takes num_samples"),
        (
            {"sampler": SamplerSettings("labor", replace=True)},
            "sampler.replace is for the sampl",
        ),
        (
            {"sampler": SamplerSettings("ladies"), "typed": TypedSettings(time="node")},
            "typed.time is 'node', but ladies chooses nodes for all seeds of a batch together",
        ),
        (
            {"sampler": SamplerSettings("hgt"), "typed": TypedSettings(disjoint=True)},
            "typed.disjoint is True, but hgt chooses nodes for all seeds",
        ),
        (
            {"sampler": SamplerSettings("fastgcn"), "typed": TypedSettings(fanouts={"*": [1]})},
            "typed.fanouts is given, but fastgcn has sampler.options layer_sizes",
        ),
        (
            {"sampler": SamplerSettings("ladies"), "model": ModelSettings("hgt")},
            "is 'hgt', but ladies weights the neighbours of a whole layer, which only means keep",
        ),
        (
            {
                "sampler": SamplerSettings("fastgcn"),
                "model": ModelSettings("hetero-sage", options={"aggr": "max"}),
            },
            "aggr is 'max', but f",
        ),
        (
            {
                "sampler": SamplerSettings("ladies", options={"layer_sizes": [9]}),
                "model": ModelSettings("rgcn", layers=2),
            },
            "model.layers is 2, but layer_sizes has num",
        ),
        (
            {"sampler": SamplerSettings("ladies", options={"layer_sizes": {"a, b, c": [9]}})},
            "sampler.options.layer_sizes: ",
        ),
        ({"sampler": SamplerSettings(norm="gcn")}, "sampler.norm is 'gcn', which is for plain"),
        ({"model": ModelSettings("mlp")}, "model.kind is 'mlp', but the graph has node types"),
        ({"model": ModelSettings("rgnc")}, "model.kind is 'rgnc', .* hetero-sage, hgt, rgcn"),
        ({"train": TrainSettings(metric="auc")}, "'auc', which is for two classes, .* have 3"),
        ({"train": TrainSettings(valid="dev")}, "train.valid is 'dev', but there is no split"),
    ],
)
def test_what_typed_runs_do_not_have(folder, tmp_path, change, words):
    refuse(replace(typed_settings(folder, tmp_path / "r"), **change), words)


def test_ranks_are_refused():
    with pytest.raises(InputError, match="4 ranks train on plain graphs only so far"):
        check_offered(Settings(), 4)


def test_auc_needs_both_classes(tmp_path):
    graph = shop()
    labels = (np.asarray(graph.nodes["user"].labels) == 1).astype(np.int8)
    labels[graph.nodes["user"].split("val")] = 0
    path = shop_folder(tmp_path / "g.fg", labels=labels)
    settings = typed_settings(path, tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, metric="auc"))
    refuse(settings, "in the split 'valid' all labels are 0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": ModelSettings("rgcn")}, "'rgcn', which is for graphs with node types"),
        ({"train": TrainSettings(metric="auc")}, "'auc', which is for two classes, .* have 3"),
    ],
)
def test_typed_settings_on_a_plain_graph(tmp_path, change, words):
    synthesize(tmp_path / "g.fg", 200, degree=4, features=4, classes=3, seed=0)
    refuse(replace(settings_of(tmp_path / "g.fg", tmp_path / "r"), **change), words)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"seed_time": "asked"}, "typed.seed_time is 'asked', but typed.time is 'none'"),
        ({"temporal_strategy": "last"}, "typed.temporal_strategy is 'last', but"),
        ({"encode_time": True}, "typed.encode_time is True, but"),
    ],
)
def test_options_of_times_without_times(typed, words):
    with pytest.raises(InputError, match=words):
        Settings(typed=replace(TypedSettings(), **typed))


def test_settings_without_effect_are_told():
    typed = TypedSettings(target="a")
    assert unused_settings(Settings(typed=typed), 1) == [
        "typed.target is 'a', which has no effect on a plain graph"
    ]
    assert unused_settings(Settings(typed=typed), 1, True) == []
    many = Settings(
        train=TrainSettings(accelerate=False),
        sampler=SamplerSettings(fanouts=(3,)),
        grid=GridSettings(wire="int8"),
        typed=TypedSettings(time="node", disjoint=True, fanouts={"*": [2]}),
    )
    told = unused_settings(many, 1, True)
    for key in some(["train.accelerate", "sampler.fanouts", "grid.wire", "typed.disjoint"]):
        assert sum(text.startswith(f"{key} is ") for text in told) == 1
    assert len(told) == 4


def test_without_pyg(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(pyg_batch, "has_pyg", lambda: False)
    with pytest.raises(MissingDependencyError, match="the model hgt needs torch_geometric"):
        Run.create(typed_settings(folder, tmp_path / "r", "hgt"))


def test_fanouts_by_relation(folder, tmp_path):
    fanouts = {"(user, bought, item)": [1, 0], "item__rev_bought__user": [2, 2], "*": [0, 0]}
    with Run.create(typed_settings(folder, tmp_path / "r", fanouts=fanouts)) as run:
        for batch in some(run.trainer.training.loader):
            assert batch["item", "in", "shop"].edge_index.shape[1] == 0
            assert batch["item", "rev_bought", "user"].edge_index.shape[1] <= 2 * 30
