"""Bad input of runs on links: one sentence each, before anything is made."""

from dataclasses import replace

import numpy as np
import pytest

from foregather import Graph
from foregather.errors import InputError
from foregather.train.settings import LinkSettings, Settings, TrainSettings
from tests.train.links.small_links import link_settings, plain_graph, saved, shop_graph
from tests.train.runs import train


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("bad")
    bare = shop_graph()
    bare = type(bare)(bare.nodes, bare.edges)
    same = plain_graph()
    leaky = same.with_links("test", same.links["train"].index[:, :5])
    return {
        "plain": saved(plain_graph(), place / "plain"),
        "shop": saved(shop_graph(), place / "shop"),
        "none": saved(bare, place / "none"),
        "leaky": saved(leaky, place / "leaky"),
    }


@pytest.mark.parametrize(
    ("graph", "changes", "expected"),
    [
        ("none", {"link": {"relation": "user, bought, item"}}, "none that are held out"),
        ("none", {}, "has no links .train. and none that are held out"),
        ("shop", {"link": {"relation": "user, sold, item"}}, "link.relation: "),
        ("plain", {"link": {"relation": "a, b, c"}}, "the graph is plain and has one kind"),
        ("shop", {"link": {"both_ends": True}}, "for links between nodes of one type"),
        ("plain", {"train": {"test": "later"}}, "train.test is 'later', but there are no such"),
        ("plain", {"model": {"kind": "rgcn"}}, "which is for graphs with node types"),
        ("shop", {"model": {"kind": "gat"}}, "the graph has node types; use"),
        ("plain", {"typed": {"disjoint": True}}, r"\[typed\] is for graphs with node types"),
        ("shop", {"typed": {"target": "user"}}, "typed.target is 'user', which is for tasks of"),
        ("plain", {"sampler": {"kind": "saint-node"}}, "batches of links are sampled by neighbor"),
        ("plain", {"link": {"embedding_decay": 0.1}}, "which is for the models lightgcn and dist"),
        (
            "plain",
            {"model": {"kind": "distmult"}, "link": {"decoder": "mlp"}},
            "which has its own; leave it out",
        ),
        (
            "plain",
            {"model": {"kind": "lightgcn"}, "memory": {"budget": "1GB"}},
            "lightgcn keeps all rows in memory",
        ),
        ("plain", {"train": {"method": "full-graph"}}, "full-graph"),
        ("plain", {"train": {"metric": "mae"}}, "the task is link; use one of"),
    ],
)
def test_refused(folders, tmp_path, graph, changes, expected):
    with pytest.raises(InputError, match=expected) as error:
        train(link_settings(folders[graph], tmp_path / "run", **changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"negatives": 0}, "link.negatives is 0, expected 1 or more"),
        ({"margin": float("nan")}, "link.margin is nan"),
        ({"mode": "binary", "loss": "bpr"}, "whose negatives have both ends drawn"),
    ],
)
def test_refused_settings(changes, expected):
    with pytest.raises(InputError, match=expected):
        Settings(train=TrainSettings(task="link"), link=LinkSettings(**changes))


def test_link_options_need_the_task():
    with pytest.raises(InputError, match="set train.task to link"):
        Settings(link=LinkSettings(decoder="mlp"))


def test_held_out_links_that_are_edges_are_told(folders, tmp_path):
    said = []
    train(link_settings(folders["leaky"], tmp_path / "run", train={"epochs": 1}), said.append)
    assert any("5 of 5 links of test are also edges of the graph" in text for text in said)


@pytest.mark.parametrize("kind", ["sage", "distmult"])
@pytest.mark.parametrize("mode", ["triplet", "binary"])
def test_negatives_that_cannot_exist(tmp_path, kind, mode):
    every = np.stack(np.divmod(np.arange(16), 4))
    graph = Graph.from_edge_index(every, 4, x=np.eye(4, dtype=np.float32))
    graph = graph.with_links("train", every).with_links("test", every[:, :2])
    saved(graph, tmp_path / "full")
    words = {
        "triplet": "link 0 has no negative: its source, 0, is linked to every destination",
        "binary": "every source is linked to all destinations",
    }
    link = {"exclude": "positives", "mode": mode, "filtered": False}  # or none could be ranked
    changes = {"link": link, "model": {"kind": kind}}
    with pytest.raises(InputError, match=words[mode]) as error:
        train(link_settings(tmp_path / "full", tmp_path / "run", **changes))
    assert "\n" not in str(error.value)
    assert [one.name for one in tmp_path.iterdir()] == ["full"]


def test_candidates_that_cannot_be_drawn(tmp_path):
    pairs = np.array([[0, 0, 0, 1], [1, 2, 0, 2]])
    graph = Graph.from_edge_index(pairs[:, 2:], 3, x=np.eye(3, dtype=np.float32))
    graph = graph.with_links("train", pairs[:, 3:]).with_links("valid", pairs[:, :2])
    saved(graph, tmp_path / "full")
    changes = {"train": {"metric": "roc_auc"}}
    with pytest.raises(InputError, match=r"link 0 of train.valid has no candidate: its source, 0"):
        train(link_settings(tmp_path / "full", tmp_path / "run", **changes))
    assert [one.name for one in tmp_path.iterdir()] == ["full"]
    changes["link"] = {"filtered": False}
    train(link_settings(tmp_path / "full", tmp_path / "run", **changes))


def test_a_graph_of_links_alone_is_told_their_task(tmp_path):
    graph = saved(replace(plain_graph(), features=None), tmp_path / "g")
    with pytest.raises(InputError, match="no features .*; to predict its links, set train.task"):
        train(Settings(graph=str(graph), run=str(tmp_path / "r")))
