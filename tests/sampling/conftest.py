"""Fixtures of the sampling tests: a graph folder to sample from disk."""

import shutil
from pathlib import Path

import pytest

from foregather.graph.synthetic import synthesize


@pytest.fixture(scope="session")
def disk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.2M edges: 4.8 MB of sources, several windows of the smallest staging buffers."""
    path = tmp_path_factory.mktemp("disk") / "g"
    synthesize(path, 60_000, degree=20, features=0, classes=4, seed=3)
    return path


@pytest.fixture
def own_folder(disk_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(disk_folder, tmp_path / "g"))
