"""Bulk: saved and loaded without loss, named by its digest, described for people."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from foregather.errors import FormatError, StorageError
from foregather.graph import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.sampling.bulk import Bulk
from foregather.sampling.neighbor import Neighbor
from tests.helpers_sampling import assert_same

GOLDEN = Path(__file__).parents[1] / "golden" / "sampling.json"


@pytest.fixture(scope="module")
def graph():
    made = synthetic_arrays(3000, degree=12, features=0, classes=3, seed=4)
    return Graph(3000, len(made.indices), made.indptr, made.indices)


def make(graph, **options):
    seeds = [np.arange(b, 3000, 97) for b in range(5)]
    return Neighbor([5, 4], **options).sample_bulk(graph, seeds, seed=11, epoch=3, first_batch=7)


@pytest.mark.parametrize("expand", ["once", "per-layer"])
@pytest.mark.parametrize("replace", [False, True])
def test_golden_digests(graph, expand, replace):
    # Samples are promised to stay the same for ever; a change here needs a reason in its commit.
    golden = json.loads(GOLDEN.read_text())
    digest = make(graph, expand=expand, replace=replace).digest
    assert digest == golden[f"neighbor {expand} {'with' if replace else 'without'} replacement"]


def test_save_and_load(graph, tmp_path):
    bulk = make(graph, expand="per-layer")
    bulk.save(tmp_path / "b.npz")
    back = Bulk.load(tmp_path / "b.npz")
    assert_same(back, bulk)
    assert (back.seed, back.epoch, back.first_batch) == (11, 3, 7) and back.digest == bulk.digest


def test_digest_sees_every_change(graph):
    bulk = make(graph)
    assert make(graph).digest == bulk.digest
    wide = Graph(3000, graph.num_edges, graph.indptr, graph.indices.astype(np.int64))
    assert make(wide).digest == bulk.digest
    other = Neighbor([5, 4]).sample_bulk(graph, [np.arange(0, 3000, 97)], seed=11, epoch=4)
    assert other.digest != bulk.digest


def test_summary(graph):
    text = make(graph).summary()
    assert "bulk of 5 minibatches: 7 to 11 of epoch 3, seed 11" in text and "repeats" in text
    assert "0 minibatches" in Bulk([], 0, 0, 0).summary()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 junk", pickle.dumps({"head": 1})])
def test_what_is_not_a_bulk(tmp_path, content):
    (tmp_path / "b.npz").write_bytes(content)
    with pytest.raises(FormatError, match="b.npz is not a saved bulk"):
        Bulk.load(tmp_path / "b.npz")
    with pytest.raises(StorageError, match="cannot read c.npz"):
        Bulk.load(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("head", np.array([1, 0])),
        ("head", np.array([9, 0, 0])),
        ("0.node", np.array([1.5])),
        ("0.num_nodes", np.array([2, 1])),
        ("0.row", np.array([10**6], np.uint32)),
        ("0.edge", np.arange(3)),
        ("0.once", np.array(["yes"])),
        ("seed", np.arange(2)),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(graph, tmp_path, name, value):
    path = tmp_path / "bulk.npz"
    Neighbor([3, 2]).sample_bulk(graph, [np.arange(2)], seed=1).save(path)
    arrays = dict(np.load(path)) | {name: value}
    np.savez(path, **arrays)
    with pytest.raises(FormatError):
        Bulk.load(path)
