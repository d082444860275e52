"""Graph folders from strangers: they run nothing and show nothing but themselves."""

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from foregather import FormatError, Graph
from foregather.dist.sampling.partition import Partition
from foregather.graph.integrity.verify import verify
from foregather.graph.on_disk.writer import meta_digest
from foregather.sampling import FastGCN, Full, Labor, Ladies, Neighbor, RandomWalk


@pytest.fixture
def folder(tmp_path):
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 2]]), 3, x=np.ones((3, 2), np.float32))
    return graph.save(tmp_path / "g")


def test_links_out_of_the_folder_are_refused(folder, tmp_path):
    secret = tmp_path / "secret.npy"
    os.rename(folder / "features.npy", secret)
    os.symlink(secret, folder / "features.npy")
    with pytest.raises(FormatError, match="features.npy is a link"):
        Graph.open(folder)


def test_a_link_to_the_folder_itself_is_fine(folder, tmp_path):
    os.symlink(folder, tmp_path / "name")
    assert Graph.open(tmp_path / "name").features.width == 2


@pytest.mark.parametrize("file", ["features.npy", "meta.json", "splits/train.npy", "splits"])
@pytest.mark.parametrize("use", [Graph.open, verify], ids=["open", "verify"])
def test_no_name_inside_the_folder_may_be_a_link(folder, file, use):
    graph = replace(Graph.open(folder), splits={"train": np.arange(2)})
    folder = graph.save(folder.with_name("split"))
    os.rename(folder / file, folder / "moved")
    os.symlink("../moved" if "/" in file else "moved", folder / file)
    with pytest.raises(FormatError, match="is a link, or lies behind one"):
        use(folder)


@pytest.mark.parametrize("file", ["features.npy", "meta.json"])
def test_a_pipe_is_refused_and_not_waited_for(folder, file):
    os.remove(folder / file)
    os.mkfifo(folder / file)
    with pytest.raises(FormatError, match=f"{file} is not a regular file"):
        Graph.open(folder)


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/passwd", "splits/../../secret.npy", ""])
def test_names_out_of_the_folder_are_refused(folder, tmp_path, name):
    os.rename(folder / "features.npy", tmp_path / "secret.npy")
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"]["features"]["file"] = name
    meta["digest"] = meta_digest(meta)
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(FormatError):
        Graph.open(folder)


class Evil:
    ran = False

    def __reduce__(self):
        return (setattr, (Evil, "ran", True))


def test_pickles_are_never_loaded(folder):
    array = np.array([Evil(), Evil(), Evil()], object)
    np.save(folder / "features.npy", array, allow_pickle=True)
    with pytest.raises(FormatError):
        Graph.open(folder)
    (folder / "features.npy").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(FormatError):
        Graph.open(folder)
    assert not Evil.ran


@pytest.mark.parametrize(
    "sampler",
    [Neighbor([2, 2]), Labor([2]), Ladies([2]), FastGCN([2]), Full(2), RandomWalk(2)],
    ids=lambda sampler: type(sampler).__name__,
)
@pytest.mark.parametrize(("file", "value"), [("indices.npy", 3), ("indptr.npy", 1 << 40)])
def test_a_topology_that_lies_is_refused_when_it_is_sampled(folder, sampler, file, value):
    # sizes and headers are right, so that Graph.open cannot know
    path, size = folder / file, 4 if file == "indices.npy" else 8
    data = bytearray(path.read_bytes())
    data[4096 + 8 : 4096 + 8 + size] = value.to_bytes(size, "little")
    if file == "indices.npy":
        data[4096:4100] = value.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"{file}: block 0 .* does not match its checksum"):
        sampler.sample_bulk(Graph.open(folder), [np.arange(3)], seed=0)
    (folder / "checks.json").unlink()  # who made the folder may have left the checksums out
    with pytest.raises(FormatError, match=f"{file} (holds node|falls)"):
        sampler.sample_bulk(Graph.open(folder), [np.arange(3)], seed=0)


def test_a_partition_of_ids_that_are_no_nodes_is_refused(folder):
    path = folder / "indices.npy"
    data = bytearray(path.read_bytes())
    data[4096:4100] = (7).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match="indices.npy: block 0 .* does not match its checksum"):
        Partition.open(folder, 1, 0)
    (folder / "checks.json").unlink()
    with pytest.raises(FormatError, match="holds node 7 at position 0"):
        Partition.open(folder, 1, 0)
