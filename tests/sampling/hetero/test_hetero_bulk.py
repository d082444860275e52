"""HeteroBulk as a value and as a file."""

import dataclasses
import json

import numpy as np
import pytest

from foregather.errors import FormatError, StorageError
from foregather.sampling import HeteroBulk, HeteroNeighbor
from tests.sampling.helpers_hetero import assert_same_samples
from tests.sampling.hetero.test_hetero_inputs import GRAPH, KNOWS, ROWS, TIMES, USERS, sample
from tests.some import some

RULES = [
    (HeteroNeighbor([2, 3]), {}),
    (HeteroNeighbor([2, 3], disjoint=True), {"rows": ROWS}),
    (HeteroNeighbor([2, 3], time="edge"), {"rows": ROWS, "times": TIMES}),
    (HeteroNeighbor([2, 3], subgraph_type="induced"), {}),
]


@pytest.mark.parametrize(("rule", "given"), RULES, ids=str)
def test_save_and_load(rule, given, tmp_path):
    bulk = rule.sample_bulk(GRAPH, USERS, seed=2**64 - 1, epoch=4, first_batch=7, **given)
    bulk.save(tmp_path / "b.npz")
    back = HeteroBulk.load(tmp_path / "b.npz")
    assert (back.seed, back.epoch, back.first_batch) == (2**64 - 1, 4, 7)
    assert_same_samples(back, bulk)
    assert back.digest == bulk.digest and back.nbytes == bulk.nbytes
    assert back.summary() == bulk.summary()
    assert not back[0].nodes["user"].node.flags.writeable


def test_nothing_is_saved_and_loaded(tmp_path):
    HeteroBulk([], 1, 2, 3).save(tmp_path / "b.npz")
    back = HeteroBulk.load(tmp_path / "b.npz")
    assert len(back) == 0 and (back.seed, back.epoch, back.first_batch) == (1, 2, 3)


def test_a_digest_covers_everything():
    bulk = sample(HeteroNeighbor([2, 3], disjoint=True), rows=ROWS)
    first = bulk[0]
    user, knows = first.nodes["user"], first.edges[KNOWS]
    turned = {"node": user.node[::-1], "tree": user.tree[::-1], "num_nodes": (3, 3, 3)}
    turned["seed_position"] = np.arange(3)
    swapped = {"row": knows.row + 1, "col": knows.col + 1, "edge": None, "num_edges": None}
    found = {bulk.digest}
    for name, value in some(turned.items()):
        other = first.nodes | {"user": dataclasses.replace(user, **{name: value})}
        changed = dataclasses.replace(first, nodes=other)
        found.add(HeteroBulk([changed, bulk[1]], 1, 0, 0).digest)
    for name, value in some(swapped.items()):
        other = first.edges | {KNOWS: dataclasses.replace(knows, **{name: value})}
        changed = dataclasses.replace(first, edges=other)
        found.add(HeteroBulk([changed, bulk[1]], 1, 0, 0).digest)
    assert len(found) == 1 + len(turned) + len(swapped)


def names(**changes):
    text = {"nodes": ["item", "shelf", "user"], "edges": [list(n) for n in GRAPH.edge_types]}
    return {"names": np.frombuffer(json.dumps(text | changes).encode(), np.uint8)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"head": np.array([2, 0])},
        {"head": np.array([9999, 0, 0])},
        {"head": np.array([2, -1, 0])},
        {"seed": np.array([1])},
        {"names": np.frombuffer(b"[1", np.uint8)},
        {"names": np.frombuffer(b"[]", np.uint8)},
        {"names": np.frombuffer(b"[" * 100_000, np.uint8)},
        names(nodes=["item", "item", "user"]),
        names(nodes=["item", "user"]),
        names(nodes=["item", "shelf", ""]),
        names(edges=[["item", "user"]]),
        {"0.nodes.2.node": np.arange(3.0)},
        {"0.nodes.2.node": np.arange(3)},
        {"0.nodes.2.num_nodes": np.array([3, 2, 1])},
        {"0.nodes.2.num_nodes": np.array([], np.int64)},
        {"0.nodes.2.tree": np.zeros(2, np.uint32)},
        {"0.nodes.2.seed_position": np.array([0, 0, 99])},
        {"0.nodes.0.num_nodes": np.zeros(2, np.int64), "0.nodes.0.node": np.zeros(0, np.int64)},
        {"0.edges.3.row": np.zeros(1, np.uint32)},
        {"0.edges.3.edge": np.zeros(1, np.int64)},
        {"0.edges.3.num_edges": np.array([1, 1])},
        {"0.edges.0.row": np.zeros(1, np.int64)},
        {
            "0.edges.0.row": np.zeros(1, np.uint32),  # of shelves, of which there are none
            "0.edges.0.col": np.zeros(1, np.uint32),
            "0.edges.0.edge": np.zeros(1, np.int64),
            "0.edges.0.num_edges": np.array([1, 0]),
        },
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_damaged_files_are_refused(wrong, tmp_path):
    path = tmp_path / "b.npz"
    sample(HeteroNeighbor([2, 3])).save(path)
    assert GRAPH.edge_types[3] == KNOWS and GRAPH.edge_types[0][2] == "shelf"
    np.savez(path, **dict(np.load(path)) | wrong)
    with pytest.raises(FormatError, match=r"b\.npz is not a saved typed bulk, or it is damaged"):
        HeteroBulk.load(path)


@pytest.mark.parametrize("missing", ["head", "names", "0.nodes.1.node", "1.edges.2.col"])
def test_what_is_missing_is_refused(missing, tmp_path):
    path = tmp_path / "b.npz"
    sample(HeteroNeighbor([2, 3])).save(path)
    arrays = dict(np.load(path))
    del arrays[missing]
    np.savez(path, **arrays)
    with pytest.raises(FormatError, match="is not a saved typed bulk"):
        HeteroBulk.load(path)


def test_trees_that_have_no_seed_are_refused(tmp_path):
    path = tmp_path / "b.npz"
    sample(HeteroNeighbor([2, 3], disjoint=True), rows=ROWS).save(path)
    arrays = dict(np.load(path))
    arrays["0.nodes.2.tree"] = arrays["0.nodes.2.tree"] + np.uint32(3)
    np.savez(path, **arrays)
    with pytest.raises(FormatError, match="does not fit together"):
        HeteroBulk.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StorageError):
        HeteroBulk.load(tmp_path / "none.npz")
