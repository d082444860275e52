"""Synthetic typed graphs: what the recipe says, the same on every machine, and learnable."""

import json

import numpy as np
import pytest

from foregather import InputError
from foregather.graph.hetero import HeteroGraph
from foregather.graph.hetero.synthetic.make import synthesize_typed, synthetic_typed
from foregather.graph.hetero.synthetic.recipe import TypedRecipe
from tests.some import some

SMALL = {"types": 3, "relations": 5, "edges": 4000, "features": 4, "classes": 3}


def test_the_recipe_decides_the_counts():
    graph = synthetic_typed(1001, **SMALL)
    assert graph.node_types == ("t0", "t1", "t2")
    assert graph.num_nodes == 1001
    assert graph.edge_types == (
        ("t0", "r2", "t0"),
        ("t0", "rev_r0", "t1"),
        ("t0", "rev_r1", "t2"),
        ("t1", "r0", "t0"),
        ("t2", "r1", "t0"),
    )
    assert [relation.num_edges for relation in graph.edges.values()] == [800] * 5
    assert graph.nodes["t0"].features["x"].shape == (graph.nodes["t0"].num_nodes, 4)
    assert graph.nodes["t1"].labels is None
    splits = np.concatenate(list(graph.nodes["t0"].splits.values()))
    assert np.unique(splits).size == splits.size > 500
    assert graph.verify().num_edges == 4000


def test_the_way_back_has_the_same_edges():
    graph = synthetic_typed(500, times="edge", weights=True, **SMALL)
    for number in some((0, 1)):
        ends = f"t{number + 1}", "t0"
        forth = graph.relation((ends[0], f"r{number}", ends[1]))
        back = graph.relation((ends[1], f"rev_r{number}", ends[0]))
        found = []
        for relation, way in ((forth, 1), (back, -1)):
            target = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
            pairs = np.stack([relation.indices, target][::way])
            rows = np.concatenate([pairs, relation.time[None], relation.weights[None]])
            found.append(rows[:, np.lexsort(rows)])
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("times", ["none", "node", "edge"])
def test_the_folder_is_the_graph_in_memory(tmp_path, times):
    options = {**SMALL, "times": times, "weights": True, "seed": 7}
    graph = synthetic_typed(700, threads=1, **options)
    facts = synthesize_typed(tmp_path / "g", 700, threads=2, **options)
    opened = HeteroGraph.open(tmp_path / "g")
    assert opened.digest == graph.digest
    assert facts["edges"] == 4000 and sum(facts["types"].values()) == 700
    json.dumps(facts)
    level = {"none": None, "node": "node", "edge": "edge"}[times]
    if level is not None:
        assert opened.relation(("t0", "rev_r0", "t1"), level).time is not None
        assert (opened.relation(("t1", "r0", "t0"), level).time is None) == (level == "node")


def test_equal_recipes_give_equal_bytes_on_every_machine():
    """The digest that the first release with typed graphs had."""
    assert synthetic_typed(300, times="edge", weights=True, **SMALL).digest == "61bc5904fdaeb5fe"
    assert (
        synthetic_typed(300, times="edge", weights=True, seed=1, **SMALL).digest
        != "61bc5904fdaeb5fe"
    )


def test_neighbours_of_other_types_tell_the_class():
    graph = synthetic_typed(3000, edges=48_000, features=16, classes=4, signal=4.0)
    table = graph.nodes["t0"]
    for source in some(("t1", "t2")):
        relation = graph.relation((source, f"r{int(source[1]) - 1}", "t0"))
        rows = graph.nodes[source].features["x"][relation.indices]
        target = np.repeat(np.arange(table.num_nodes), np.diff(relation.indptr))
        means = np.zeros((table.num_nodes, 16))
        np.add.at(means, target, rows)
        means /= np.maximum(np.diff(relation.indptr), 1)[:, None]
        train, test = table.split("train"), table.split("test")
        centres = np.stack([means[train][table.labels[train] == c].mean(0) for c in range(4)])
        far = ((means[test][:, None] - centres) ** 2).sum(-1)
        assert (far.argmin(1) == table.labels[test]).mean() > 0.5  # chance is 0.25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"types": 0}, "types is 0"),
        ({"relations": 0}, "relations is 0"),
        ({"times": "always"}, "times is 'always'"),
        ({"features": -1}, "features is -1"),
        ({"classes": 0}, "classes is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"nodes": 0}, "nodes is 0"),
        ({"nodes": 30, "types": 5}, "fewer than 8 classes"),
        ({"nodes": 40, "types": 2, "edges": 10_000}, "give fewer edges"),
    ],
)
def test_bad_recipes_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        TypedRecipe(**{"nodes": 1000, **options})
