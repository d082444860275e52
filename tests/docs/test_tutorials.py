"""Docs: the tutorials run from their first block to their last, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes import python_path
from tests.some import some

PAGES = Path(__file__).parents[2] / "docs/tutorial"
_BLOCK = re.compile(r"^<!-- (run|file)(?:: ([\w.]+))? -->\n```(\w+)\n(.*?)^```", re.M | re.S)
COMMANDS = {"foregather": "foregather", "torchrun": "torch.distributed.run"}


def play(page, folder):
    """Runs the blocks of a page; returns what its commands said."""
    said, env = "", os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
    for kind, name, language, text in some(_BLOCK.findall(page.read_text(encoding="utf-8"))):
        if kind == "file":
            (folder / name).write_text(text, encoding="utf-8")
            continue
        if language == "python":
            calls = [[sys.executable, "-c", text]]
        else:
            words = [shlex.split(line) for line in text.splitlines()]
            calls = [[sys.executable, "-m", COMMANDS[first], *rest] for first, *rest in words]
        for call in calls:
            done = subprocess.run(
                call, cwd=folder, capture_output=True, text=True, env=env, check=False
            )
            assert done.returncode == 0, f"{call[2:6]}: {done.stderr[-2000:]}"
            said += done.stdout
    return said


@pytest.mark.slow
def test_from_a_csv_to_predictions(tmp_path):
    said = play(PAGES / "csv.md", tmp_path)
    assert "history" in said
    rows = (tmp_path / "predicted.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 601 and {row.rpartition(",")[2] for row in rows[1:]} <= {
        "history",
        "music",
        "physics",
    }
    assert (tmp_path / "runs/ranks/model.safetensors").is_file()
    assert (tmp_path / "runs/whole/model.safetensors").is_file()


@pytest.mark.slow
def test_tables_with_types_and_times(tmp_path):
    said = play(PAGES / "tables.md", tmp_path)
    found = [float(score) for score in re.findall(r"test +roc_auc ([01]\.\d+)", said)]
    honest, leaking = found[0], found[1]
    assert 0.6 < honest < leaking - 0.05  # what came later tells more, and must not be seen
    assert np.load(tmp_path / "scores.npy").shape == (400, 2)
