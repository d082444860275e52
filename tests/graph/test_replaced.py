"""Copies of an opened graph with other arrays: what is read from disk is what the graph holds."""

from dataclasses import replace

import numpy as np
import pytest

from foregather import BatchContents, BudgetError, Graph, InputError, Loader
from foregather.graph.features import Features
from foregather.graph.load import load
from foregather.graph.synthetic import synthesize

NODES = 3000


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    place = tmp_path_factory.mktemp("replaced")
    synthesize(place / "plain", NODES, degree=5, features=16, classes=3, seed=1)
    graph = Graph.open(place / "plain")
    weight = np.linspace(0.5, 1, graph.num_edges, dtype=np.float32)
    edges = Features(np.arange(graph.num_edges, dtype=np.float32)[:, None])
    return Graph.open(replace(graph, edge_weight=weight, edge_features=edges).save(place / "all"))


def other(graph, name):
    """The graph with another array of this name, of the same shape."""
    value = getattr(graph, name)
    if isinstance(value, Features):
        return replace(graph, **{name: Features(np.array(value.data) + 1)})
    if name == "indices":  # rows in reverse order of nodes, ascending each
        rows = np.split(np.array(value), graph.indptr[1:-1])
        turned = [np.sort(NODES - 1 - row.astype(np.int64)) for row in rows]
        return replace(graph, indices=np.concatenate(turned).astype(value.dtype))
    return replace(graph, **{name: np.array(value)[::-1].copy()})


def batches(graph, **options):
    contents = BatchContents(edge_attr=True, pyg=False)
    return list(Loader(graph, [4, 3], np.arange(NODES), 500, contents=contents, **options))


def same(a, b):
    fields = ("x", "y", "n_id", "edge_index", "edge_attr", "edge_weight")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in fields)


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
@pytest.mark.parametrize("name", ["features", "indices", "edge_features", "edge_weight"])
def test_arrays_that_are_not_the_folders_are_not_read_from_it(opened, name, storage):
    changed = other(opened, name)
    assert changed.path is None and not changed.checked and changed.digest != opened.digest
    with pytest.raises(InputError, match="in memory; save it and open the folder"):
        batches(changed, memory="30MB", storage=storage)


@pytest.mark.parametrize("memory", ["30MB", None])
@pytest.mark.parametrize("name", ["features", "indices", "edge_features", "edge_weight"])
def test_batches_hold_the_arrays_of_the_copy(opened, tmp_path, name, memory):
    changed = other(opened, name)
    oracle = batches(load(Graph.open(changed.save(tmp_path / "g"))))
    found = batches(changed, memory=memory)
    assert all(same(a, b) for a, b in zip(found, oracle, strict=True))
    assert not all(same(a, b) for a, b in zip(found, batches(opened), strict=True))


def test_what_stays_mapped_counts_in_the_budget(opened):
    """All that is read of a copy that cannot be read by plan is inside `memory`, or refused."""
    changed = replace(opened, edge_weight=np.array(opened.edge_weight))
    with pytest.raises(BudgetError, match="save it and open the folder") as caught:
        batches(changed, memory="400KB")
    held = opened.indptr.nbytes + opened.indices.nbytes + opened.features.data.nbytes
    assert caught.value.least > held


@pytest.mark.parametrize("storage", ["features", "disk"])
def test_other_labels_and_splits_leave_the_rest_on_disk(opened, storage):
    labels = (np.arange(NODES) % 7).astype(np.int64)
    changed = replace(opened, labels=labels, splits={"train": np.arange(5, 50)})
    assert changed.path == opened.path and changed.checked
    assert changed.digest != opened.digest, "another graph for checkpoints and ranks"
    for batch in batches(changed, memory="60MB", storage=storage):
        np.testing.assert_array_equal(batch.y, labels[batch.n_id])
    loader = Loader(
        changed, [2], "train", 45, memory="60MB", storage=storage, contents=BatchContents(pyg=False)
    )
    assert sorted(next(iter(loader)).n_id[:45].tolist()) == list(range(5, 50))


@pytest.mark.parametrize(
    "change",
    [
        lambda g: {"features": Features(g.features.data[::-1])},
        lambda g: {"features": Features(g.features.data.view(np.int32))},
        lambda g: {"features": None},
        lambda g: {"edge_weight": g.edge_features.data[:, 0]},
        lambda g: {"meta": {}},
        lambda g: {"path": g.path.parent / "plain"},
        lambda g: {"path": g.path.parent / "nowhere"},
    ],
)
def test_views_and_other_paths_are_not_the_folder(opened, change):
    assert replace(opened, **change(opened)).path is None


def test_a_copy_without_a_change_is_the_folder(opened):
    again = replace(opened)
    assert again.path == opened.path and again.digest == opened.digest
    assert load(opened).path == opened.path and load(opened).checked
