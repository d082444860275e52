"""train/hetero: exact scores equal the model on the whole graph; of trees, on what they may see."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import HeteroLoader
from foregather.cli.main import main
from foregather.errors import FormatError, InputError
from foregather.graph.hetero import HeteroGraph
from foregather.graph.synthetic import synthesize
from foregather.nn.hetero.by_name import TYPED_MODELS
from foregather.train.hetero import exact, layers
from foregather.train.hetero.exact import choose_way, exact_scores, predict_edges
from foregather.train.hetero.load import load_typed
from foregather.train.predict import predict_typed
from foregather.train.runs.run_folder import load_model
from tests.some import some
from tests.train.hetero.shop import shop, shop_folder, train_typed, typed_settings
from tests.train.runs import settings_of, train


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the graph, and a short run of each model."""
    place = tmp_path_factory.mktemp("infer")
    shop_folder(place / "shop.fg")
    for kind in TYPED_MODELS:
        settings = typed_settings(place / "shop.fg", place / kind, kind)
        train_typed(replace(settings, train=replace(settings.train, epochs=1)))
    timed = typed_settings(place / "shop.fg", place / "timed", time="edge", seed_time="asked")
    train_typed(replace(timed, train=replace(timed.train, epochs=1)))
    return place


def whole_batch(graph):
    """All nodes and edges, untrimmed, from PyG's own form of the graph."""
    data = graph.to_pyg()
    for name in graph.node_types:
        data[name].n_id = torch.arange(graph.nodes[name].num_nodes)
    return data


@pytest.mark.parametrize("kind", TYPED_MODELS)
def test_layer_by_layer_is_the_whole_graph(place, monkeypatch, kind):
    run = load_typed(place / kind, place / "shop.fg")
    assert choose_way(run.model, run.settings) == "layers"
    with torch.no_grad():
        whole = run.model.eval()(whole_batch(run.graph)).numpy()
    args = (run.model, run.graph, run.task, run.settings, run.hops)
    assert np.allclose(exact_scores(*args), whole, atol=1e-5)
    monkeypatch.setattr(layers, "_PART_EDGES", 17)  # many parts, and nodes larger than one
    assert np.allclose(exact_scores(*args), whole, atol=1e-5)
    assert np.allclose(exact_scores(*args, most=7), whole, atol=1e-5)
    some_nodes = np.array([5, 3, 200])
    assert np.allclose(exact_scores(*args, some_nodes), whole[some_nodes], atol=1e-5)


def test_trees_see_every_edge_up_to_their_time(place):
    """Each tree equals the model on the graph without later edges, which is cut here by hand."""
    run = load_typed(place / "timed", place / "shop.fg")
    assert choose_way(run.model, run.settings) == "trees"
    scores = exact_scores(run.model, run.graph, run.task, run.settings, run.hops)
    asked = run.graph.nodes["user"].features["asked"]
    for node in some([0, 17, 101, 239]):
        cut = run.graph.to_pyg()
        for name in ("n_id",):
            for kind in run.graph.node_types:
                cut[kind][name] = torch.arange(run.graph.nodes[kind].num_nodes)
        for edge_type in run.graph.edge_types:
            store = cut[edge_type]
            if "time" in store:
                store.edge_index = store.edge_index[:, store.time <= int(asked[node])]
        with torch.no_grad():
            want = run.model.eval()(cut)[node].numpy()
        assert np.allclose(scores[node], want, atol=1e-5)


@pytest.mark.parametrize("kind", [*TYPED_MODELS, "timed"])
def test_given_nodes_at_once(place, tmp_path, capsys, kind):
    """Bit for bit those of the batch of the same nodes; those of all nodes up to rounding."""
    run = load_typed(place / kind, place / "shop.fg")
    nodes = np.array([5, 239, 17, 5])
    rows, times = predict_typed(run, nodes), run.task.at(nodes)
    sampler = exact.exact_sampler(run.settings, run.hops)
    loader = HeteroLoader(
        run.graph, None, ("user", nodes), len(nodes), input_time=times, sampler=sampler
    )
    (batch,) = loader
    finish = run.task.goal.task.finish
    with torch.no_grad():
        model = run.model.eval()
        for one in (batch, loader.one(nodes, times)):
            again = finish(exact.seed_scores(model, one, "user").numpy())
            assert np.array_equal(again, rows)
    whole = exact_scores(run.model, run.graph, run.task, run.settings, run.hops)
    assert np.allclose(rows, finish(whole[nodes]), atol=1e-5)
    ids = [str(one) for one in nodes]
    if run.task.table.ids is not None:
        ids = [str(run.task.table.ids[one]) for one in nodes]
    words = ["infer", str(place / kind), str(place / "shop.fg"), str(tmp_path / "o.npy")]
    assert main([*words, "--nodes", *ids]) == 0
    assert np.array_equal(np.load(tmp_path / "o.npy"), rows)
    lines = capsys.readouterr().out.splitlines()[: len(ids)]
    for line, one, scores in zip(lines, ids, rows, strict=True):
        assert line.split("(")[0].split() == [*one.split(), "class", str(scores.argmax())]


def test_predicted_edges_are_those_of_the_trees(place, monkeypatch):
    run = load_typed(place / "timed", place / "shop.fg")
    nodes = np.arange(20)
    found = predict_edges(run.graph, run.task, run.settings, run.hops, nodes)
    sampler = exact.exact_sampler(run.settings, run.hops)
    times = run.task.at(nodes)
    batch = next(
        iter(HeteroLoader(run.graph, None, ("user", nodes), 20, input_time=times, sampler=sampler))
    )
    assert found == sum(batch[name].edge_index.shape[1] for name in run.graph.edge_types)
    monkeypatch.setattr(exact, "MOST_EDGES", 1)
    assert predict_edges(run.graph, run.task, run.settings, run.hops, nodes) > 20


def test_what_is_too_much_is_sampled_and_says_so(place, tmp_path, monkeypatch):
    from foregather.train.hetero import final

    monkeypatch.setattr(final, "MOST_EDGES", 10)
    settings = typed_settings(place / "shop.fg", tmp_path / "r", time="edge")
    said = []
    facts = train_typed(settings, said.append)
    assert facts["scored"] == "sampled" and "more than 10" in facts["why_sampled"]
    assert any(text.startswith("the final scores are sampled") for text in said)
    exactly = replace(settings.train, evaluate="exact")
    with pytest.raises(InputError, match="train.evaluate is 'exact', but the trees of 60 seeds"):
        train_typed(replace(settings, run=str(tmp_path / "s"), train=exactly))


def test_validation_with_every_edge(place, tmp_path):
    settings = typed_settings(place / "shop.fg", tmp_path / "r")
    exactly = replace(settings.train, evaluate="exact", epochs=2)
    facts = train_typed(replace(settings, train=exactly))
    assert facts["best_valid"] == facts["valid"] and facts["best_valid_scored"] == "exact"


def test_three_commands(place, tmp_path, capsys):
    out = tmp_path / "scores.npy"
    command = ["infer", str(place / "rgcn"), str(place / "shop.fg"), str(out)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "the nodes of type 'user'; layer by layer, every edge" in text
    assert "test      accuracy 0." in text and ", majority class 0." in text
    scores = np.load(out)
    assert scores.shape == (240, 3) and scores.dtype == np.float32
    with open(f"{out}.ids.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[:3] == [["id"], ["user 0"], ["user 1"]] and len(rows) == 241
    summary = json.loads((place / "rgcn" / "summary.json").read_text())
    graph = HeteroGraph.open(place / "shop.fg")
    test = graph.nodes["user"].split("test")
    right = scores[test].argmax(1) == graph.nodes["user"].labels[test]
    assert abs(right.mean() - summary["test"]) < 1e-12  # both are exact
    assert main(command) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--batch-size", "9", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["way"] == "layers" and set(facts["scores"]) == {"test", "train", "val"}
    assert np.allclose(np.load(out), scores, atol=1e-5)


def test_the_report_has_types_and_relations(place, capsys):
    assert main(["report", str(place / "hgt")]) == 0
    assert "no miss curve" not in capsys.readouterr().out
    page = (place / "hgt" / "report.html").read_text()
    for text in some(
        ["(item, rev_bought, user)", "nodes per batch", "constant answer", "<td>shop"]
    ):
        assert text in page


def test_graphs_that_do_not_fit_the_run(place, tmp_path, capsys):
    small = shop(features={"x": np.zeros((240, 4), np.float32)})
    small.save(tmp_path / "small.fg")
    with pytest.raises(InputError, match="array 'asked' of node type 'user' is not there"):
        load_typed(place / "hgt", tmp_path / "small.fg")
    edges = dict(shop().edges)
    del edges["shop", "rev_in", "item"]
    HeteroGraph(shop().nodes, edges).save(tmp_path / "fewer.fg")
    with pytest.raises(InputError, match="rev_in.* is in one of them only"):
        load_typed(place / "hgt", tmp_path / "fewer.fg")
    synthesize(tmp_path / "plain.fg", 200, degree=4, features=4, classes=3, seed=0)
    train(settings_of(tmp_path / "plain.fg", tmp_path / "plain"))
    for run, graph in some([(place / "hgt", "plain.fg"), (tmp_path / "plain", "small.fg")]):
        assert main(["infer", str(run), str(tmp_path / graph), str(tmp_path / "o.npy")]) == 2
        assert "name a graph like that of the run" in capsys.readouterr().err
    with pytest.raises(InputError, match="was trained on a typed graph"):
        load_model(place / "hgt")
    arguments = ["infer", str(place / "hgt"), str(place / "shop.fg"), str(tmp_path / "o.npy")]
    assert main([*arguments, "--memory", "1GB"]) == 2
    assert "held in memory so far" in capsys.readouterr().err
    assert not (tmp_path / "o.npy").exists()


def test_a_damaged_run_is_refused(place, tmp_path):
    import shutil

    for key, value in some([("hops", -1), ("typed", {"nodes": []})]):
        run = tmp_path / key
        shutil.copytree(place / "rgcn", run)
        facts = json.loads((run / "environment.json").read_text())
        (run / "environment.json").write_text(json.dumps(facts | {key: value}))
        with pytest.raises(FormatError, match="environment.json of .* is damaged"):
            load_typed(run, place / "shop.fg")
    run = tmp_path / "huge"
    shutil.copytree(place / "rgcn", run)
    facts = json.loads((run / "environment.json").read_text())
    for one in facts["typed"]["nodes"]:
        one["num_nodes"] = 1 << 44 if one["name"] == "shop" else one["num_nodes"]
    (run / "environment.json").write_text(json.dumps(facts))
    with pytest.raises((FormatError, InputError), match="learned row|does not fit"):
        load_typed(run, place / "shop.fg")
