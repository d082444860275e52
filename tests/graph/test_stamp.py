"""A graph edited behind an open loader: said at the start of the next epoch."""

import os
import shutil

import numpy as np
import pytest

from foregather import BatchContents, FormatError, Graph
from foregather.graph.on_disk.stamp import Stamp
from foregather.loader.loader import Loader
from tests.loader.graphs import small_graph


def opened(tmp_path, seed: int = 0) -> tuple[Graph, Loader]:
    folder = small_graph(seed=seed).save(tmp_path / "g.fg")
    graph = Graph.open(folder)
    return graph, Loader(graph, [3, 2], "train", 10, contents=BatchContents(pyg=False))


def flip(path) -> None:
    with open(path, "r+b") as file:
        file.seek(4096)
        byte = file.read(1)[0]
        file.seek(4096)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(1, 1))  # another time than before, however coarse the clock


def truncate(path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def swap(path) -> None:
    shutil.copy(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("indices.npy", flip, "indices.npy of g.fg was written to while a loader had it open"),
        ("features.npy", truncate, r"features.npy of g.fg went from \d+ to \d+ bytes"),
        ("labels.npy", swap, "labels.npy of g.fg was replaced by another file"),
        ("splits/train.npy", os.remove, "splits/train.npy of g.fg was removed"),
        ("meta.json", swap, "meta.json of g.fg was replaced"),
    ],
)
def test_an_edit_is_said_at_the_next_epoch(tmp_path, name, edit, message):
    graph, loader = opened(tmp_path)
    assert len(list(loader)) == len(list(loader)) == 5
    edit(graph.path / name)
    with pytest.raises(FormatError, match=message):
        iter(loader)


def test_a_folder_that_was_written_anew(tmp_path):
    graph, _ = opened(tmp_path)
    small_graph(seed=1).save(graph.path, overwrite=True)
    with pytest.raises(FormatError, match="has the digest .* but the graph was opened with"):
        Loader(graph, [2], contents=BatchContents(pyg=False))


def test_a_graph_in_memory_has_no_stamp():
    graph = small_graph()
    assert Stamp.of(graph) is None
    loader = Loader(graph, [2], contents=BatchContents(pyg=False), batch_size=60)
    assert len(list(loader)) == 2
    assert np.array_equal(graph.indptr, small_graph().indptr)
