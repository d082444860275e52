"""Hundreds of epochs: memory stays flat in every storage mode, and no thread or file stays open."""

import os
import threading

import pytest
import torch

from foregather import BatchContents, Graph, Loader, Training, fit
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE

EPOCHS = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("soak") / "g"
    synthesize(path, 1000, degree=4, features=8, classes=3, seed=0)
    return path


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("storage", ["memory", "features", "disk"])
def test_memory_is_flat_over_hundreds_of_epochs(folder, storage):
    torch.set_num_threads(1)
    graph = Graph.open(folder)
    options = {} if storage == "memory" else {"memory": "80MB", "storage": storage}
    loader = Loader(
        graph,
        [3, 2],
        "train",
        200,
        shuffle=True,
        contents=BatchContents(labels="seeds", pyg=False),
        threads=1,
        **options,
    )
    model = SAGE([8, 8, 3])
    used: list[tuple[int, int, int]] = []

    def after_epoch(training, record):
        files = len(os.listdir("/proc/self/fd"))
        used.append((resident(), threading.active_count(), files))

    training = Training(model, loader, torch.optim.Adam(model.parameters()))
    history = fit(training, EPOCHS, after_epoch=after_epoch)
    loader.close()
    assert len(history) == EPOCHS and history[-1]["loss"] < history[0]["loss"]
    memory, threads, files = zip(*used, strict=True)
    quarter = EPOCHS // 4
    assert max(memory[-quarter:]) - max(memory[quarter : 2 * quarter]) < 4_000_000
    assert max(threads) <= max(threads[:10]) and max(files) <= max(files[:10])
