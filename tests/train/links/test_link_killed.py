"""Runs on links that are killed at random moments end with the weights of undisturbed ones."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from foregather.train.settings import CheckpointSettings, write_settings
from tests.some import some
from tests.train.links.small_links import link_settings, plain_graph, saved, shop_graph
from tests.train.runs import records

KILLED = Path(__file__).parents[1] / "killed.py"


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    graphs = {
        "plain": saved(plain_graph(), tmp_path / "plain.fg"),
        "bare": saved(plain_graph(features=False), tmp_path / "bare.fg"),
        "shop": saved(shop_graph(times=True), tmp_path / "shop.fg"),
    }
    ways = {
        "sage": link_settings(graphs["plain"], ""),
        "lightgcn": link_settings(graphs["bare"], "", model={"kind": "lightgcn"}),
        "timed": link_settings(
            graphs["shop"], "", typed={"time": "edge"}, train={"metric": "average_precision"}
        ),
    }
    for name, settings in ways.items():
        settings = replace(settings, checkpoint=CheckpointSettings(minutes=1e-3, keep=2))
        settings = replace(settings, train=replace(settings.train, epochs=6, patience=5))
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(write_settings(settings))
    begin = "import runpy, sys, torch_geometric.nn; sys.argv = sys.argv[1:]; "
    begin += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", begin, str(KILLED), "1", "6"]
    command += [str(tmp_path / name) for name in ways]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in some(done.stdout.splitlines()):
        kills, resumes = map(int, line.split())
        assert kills >= 2 and resumes >= 1
    for name in some(ways):
        first, second = (load_file(tmp_path / name / run / "model.safetensors") for run in "ab")
        for key in some(first):
            assert np.array_equal(first[key], second[key]), (name, key)
        for one, other in zip(*(records(tmp_path / name / run) for run in "ab"), strict=True):
            assert (one["loss"], one["valid"]) == (other["loss"], other["valid"])
