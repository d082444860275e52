"""Runs on links: they learn, resume to the same weights, and say what they compare with."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from foregather.errors import InputError
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.trainers.trainer import run_epochs
from tests.train.links.small_links import (
    knowledge_graph,
    link_settings,
    plain_graph,
    saved,
    shop_graph,
)
from tests.train.runs import records, train


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("links")
    return {
        "plain": saved(plain_graph(), place / "plain"),
        "bare": saved(plain_graph(features=False), place / "bare"),
        "shop": saved(shop_graph(), place / "shop"),
        "timed": saved(shop_graph(times=True), place / "timed"),
        "facts": saved(knowledge_graph(), place / "facts"),
    }


def test_plain_graph(folders, tmp_path):
    said = []
    settings = link_settings(
        folders["plain"],
        tmp_path / "run",
        train={"epochs": 12, "metric": "roc_auc"},
        link={"decoder": "mlp"},
    )
    facts = train(settings, said.append)
    assert facts["scored"] == "exact" and facts["metric"] == "roc_auc"
    assert facts["test"] > 0.7
    assert facts["candidates"]["test"].startswith("1 sampled per link, without those known")
    assert any(text.startswith("links     of the graph: train") for text in said)
    lines = records(tmp_path / "run")
    assert [line["scored"] for line in lines] == ["sampled"] * 12
    assert lines[-1]["loss"] < lines[0]["loss"]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["baseline_is"] == "common neighbours"


@pytest.mark.parametrize(
    ("decoder", "told"), [("mlp", True), ("bilinear", True), ("hadamard", False), ("dot", False)]
)
def test_decoders_that_tell_ends_apart_are_named_on_undirected_graphs(
    folders, tmp_path, decoder, told
):
    said = []
    settings = link_settings(
        folders["plain"],
        tmp_path / "run",
        train={"epochs": 1, "metric": "roc_auc"},
        link={"decoder": decoder, "mode": "binary"},
    )
    facts = train(settings, said.append)
    assert facts["scored"] == "exact"
    sentence = f"the decoder {decoder} tells the ends of a link apart, but the graph is undirected"
    assert any(text.startswith(sentence) for text in said) == told


@pytest.mark.parametrize("kind", ["sage", "lightgcn"])
def test_nodes_without_features_get_learned_rows(folders, tmp_path, kind):
    said = []
    settings = link_settings(
        folders["bare"],
        tmp_path / "run",
        model={"kind": kind},
        train={"epochs": 6, "metric": "hits@5"},
        link={"loss": "bpr", "negatives": 4},
    )
    facts = train(settings, said.append)
    assert any("60 nodes have learned rows" in text and "transductive" in text for text in said)
    assert facts["scored"] == "exact" and 0 <= facts["test"] <= 1


def test_typed_graph_recommends(folders, tmp_path):
    settings = link_settings(
        folders["shop"],
        tmp_path / "run",
        train={"epochs": 10, "metric": "recall@5", "evaluate": "exact"},
        link={"loss": "bpr", "negatives": 2},
    )
    facts = train(settings)
    assert facts["test"] > facts["baseline"]["test"]
    assert facts["best_valid_scored"] == "exact"
    assert facts["relation"] == "user, bought, item"


def test_times_limit_what_is_seen(folders, tmp_path):
    settings = link_settings(
        folders["timed"],
        tmp_path / "run",
        train={"epochs": 2, "metric": "average_precision"},
        typed={"time": "edge", "temporal_strategy": "last"},
    )
    facts = train(settings)
    assert facts["scored"] == "exact" and 0 < facts["test"] <= 1
    with pytest.raises(InputError, match="typed.time is 'edge', but the links have no times"):
        train(link_settings(folders["shop"], tmp_path / "b", typed={"time": "edge"}))
    with pytest.raises(InputError, match="its own view of the graph, so only sampled candidates"):
        train(
            link_settings(
                folders["timed"],
                tmp_path / "c",
                typed={"time": "edge"},
                train={"metric": "recall@5"},
            )
        )


@pytest.mark.parametrize("metric", ["hits@5000", "recall@5000"])
def test_a_metric_with_too_few_candidates_stops_before_it_starts(folders, tmp_path, metric):
    settings = link_settings(folders["shop"], tmp_path / "run", train={"metric": metric})
    with pytest.raises(InputError, match=f"train.metric is {metric!r}, but .* choose a smaller k$"):
        train(settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["distmult", "rgcn"])
def test_knowledge_graph(folders, tmp_path, kind):
    settings = link_settings(
        folders["facts"],
        tmp_path / "run",
        model={"kind": kind},
        train={"epochs": 5},
        link={
            "relation": "*",
            "decoder": "distmult",
            "both_ends": True,
            "loss": "softmax",
            "negatives": 8,
        },
    )
    facts = train(settings)
    assert facts["metric"] == "mrr" and facts["scored"] == "exact"
    assert facts["candidates"]["test"].startswith("all targets and all sources, without those")
    weights = load_file(tmp_path / "run/model.safetensors")
    assert weights["decoder.relation"].shape == (2, 8)


@pytest.mark.parametrize(
    ("graph", "changes"),
    [
        ("plain", {}),
        ("bare", {"model": {"kind": "lightgcn"}}),
        ("shop", {"model": {"dropout": 0.5}}),
    ],
)
def test_a_stopped_run_ends_with_the_same_weights(folders, tmp_path, graph, changes):
    whole = link_settings(folders[graph], tmp_path / "a", **changes)
    train(whole)
    halted = link_settings(folders[graph], tmp_path / "b", **changes)

    class Stop(Exception):
        pass

    with Run.create(halted) as run:
        trainer, steps = run.trainer, 0
        run.save()

        def after():
            nonlocal steps
            steps += trainer.position()[1] > 0  # a finished epoch has no record yet
            if steps == 5:
                run.save()
            if steps == 7:
                raise Stop

        trainer.begin()
        with pytest.raises(Stop):
            run_epochs(trainer, 3, after_step=after)
    with Run.resume(tmp_path / "b") as run:
        run_loop(run)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert np.array_equal(values, second[name]), name
    for one, other in zip(records(tmp_path / "a"), records(tmp_path / "b"), strict=True):
        assert (one["loss"], one["valid"]) == (other["loss"], other["valid"])


def test_from_disk_the_weights_are_the_same(folders, tmp_path):
    for name, memory in (("a", {}), ("b", {"budget": "64MB", "storage": "features"})):
        train(link_settings(folders["plain"], tmp_path / name, memory=memory, train={"epochs": 2}))
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    for name, values in first.items():
        assert np.array_equal(values, second[name]), name
    lines = records(tmp_path / "b")
    assert lines[0]["bytes"] > 0


def test_a_model_of_ones_own(folders, tmp_path):
    pytest.importorskip("torch_geometric")
    settings = link_settings(
        folders["plain"],
        tmp_path / "run",
        model={"kind": "torch_geometric.nn:GCN"},
        train={"epochs": 1},
        link={"decoder": "bilinear", "loss": "margin", "mode": "triplet"},
    )
    assert train(settings)["scored"] == "exact"
    settings = link_settings(
        folders["plain"], tmp_path / "b", model={"kind": "gat"}, link={"mode": "binary"}
    )
    assert train(settings)["scored"] == "exact"
