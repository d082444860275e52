"""A Loader from disk, and one flipped bit: batches before it are right, then comes the error."""

import shutil

import numpy as np
import pytest
import torch

from foregather import BatchContents, FormatError, Graph, Loader
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from foregather.sampling.disk import DiskTopology
from tests.flip import flip, places

OPTIONS = {
    "shuffle": True,
    "seed": 5,
    "contents": BatchContents(pyg=False),
    "threads": 1,
    "bulk": 2,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked") / "g"
    synthesize(folder, 6000, degree=6, features=40, classes=3, seed=1)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "g")


def batches_of(folder, **options):
    """(n_id, x, edge_index) of batch after batch; what was read is closed at the end."""
    loader = Loader(Graph.open(folder), [5, 5], "train", 256, **OPTIONS, **options)
    try:
        for batch in loader:
            yield batch.n_id.clone(), batch.x.clone(), batch.edge_index.clone()
    finally:
        loader.close()


@pytest.fixture(scope="module")
def right(made):
    return list(batches_of(made))


READ = [
    ("features", "features"),
    ("features", "disk"),
    ("indices", "topology"),
    ("indices", "disk"),
]


@pytest.mark.parametrize(("name", "storage"), READ)
@pytest.mark.parametrize("which", range(3), ids=["first", "middle", "last"])
def test_no_wrong_batch_is_delivered(folder, right, name, storage, which):
    _, at, said = places(folder, name)[which]
    flip(folder / f"{name}.npy", at, bit=6)
    delivered = []
    with pytest.raises(FormatError, match=said):
        delivered.extend(batches_of(folder, storage=storage, memory="40MB"))
    assert len(delivered) < len(right)
    for ours, theirs in zip(delivered, right, strict=False):
        assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
def test_a_folder_without_checksums_is_read_as_before(folder, right, storage):
    (folder / "checks.json").unlink()
    assert not Graph.open(folder).checked
    found = list(batches_of(folder, storage=storage, memory="40MB"))
    for ours, theirs in zip(found, right, strict=True):
        assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("backend", ["io_uring", "pread", "buffered"])
def test_a_pass_over_the_topology(folder, backend):
    """Each backend checks, in blocks of any size; a block that is not read is no error."""
    rule = Neighbor([-1])
    for block in (4096, 32768):
        try:
            topology = DiskTopology(folder, "20MB", backend=backend, block=block, gap=0)
        except OSError as error:
            pytest.skip(f"{backend}: {error}")
        with topology:
            degrees = np.diff(np.load(folder / "indptr.npy"))
            ends = np.load(folder / "indptr.npy")[1:]
            _, at, said = places(folder, "indices")[1]
            row = int(np.searchsorted(ends, (at - 4096) // 4, side="right"))
            far = int(np.flatnonzero(degrees)[0])  # the first block, which is another one
            before = topology.sample_bulk(rule, [np.array([far])], seed=1).digest
            flip(folder / "indices.npy", at)
            with pytest.raises(FormatError, match=said):
                topology.sample_bulk(rule, [np.array([far, row])], seed=1)
            with DiskTopology(folder, "20MB", backend=backend, block=block, gap=0) as again:
                assert again.sample_bulk(rule, [np.array([far])], seed=1).digest == before
            flip(folder / "indices.npy", at)
            assert topology.shares()["checksums"] == 4 * len(np.load(folder / "indices.crc"))
