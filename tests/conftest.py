"""Fixtures every test may use."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The machine may be busy: no test may fail because it was slow.
settings.register_profile("foregather", deadline=None)
settings.load_profile("foregather")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real graphs; tests that need it are skipped where it is not set."""
    folder = os.environ.get("FOREGATHER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FOREGATHER_DATA does not name the folder of real graphs")
    return Path(folder)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing a test stores reaches the user's own cache."""
    monkeypatch.setenv("FOREGATHER_CACHE", str(tmp_path_factory.mktemp("cache")))
