"""Worlds of several ranks that more than one module asks about, launched once each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pipeline.ranks import join, launch
from tests.pipeline.way_ranks import FEW, MANY, few_ways, many_ways


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What four ranks found, launched once."""
    return found_by(few_ways, FEW, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What eight ranks found, launched once."""
    return found_by(many_ways, MANY, tmp_path_factory.mktemp("many"))


def found_by(task: Callable[[int, int, Path], None], count: int, folder: Path) -> list[Any]:
    join(launch(task, count, folder))
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(count)]
    for one in found:
        assert "error" not in one, one.get("error")
    return found
