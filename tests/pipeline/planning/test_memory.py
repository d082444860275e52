"""Memory: what the planner says a rank needs is what the allocators count, within a quarter."""

import pytest
import torch

from tests.pipeline.planning.memory_ranks import SHARED, all_memory, compare, warm_up
from tests.pipeline.ranks import join, launch

#: (model, dropout, mode, chunks, recompute)
ALONE = [
    ("gcnii", 0.0, "exact", 1, "none"),
    ("gcnii", 0.5, "exact", 8, "none"),
    ("gcnii", 0.5, "exact", 8, "all"),
    ("gcnii", 0.5, "fast", 8, "none"),
    ("gcnii", 0.5, "fast", 8, "all"),
    ("resgcn", 0.5, "exact", 8, "all"),
    ("resgcn", 0.5, "fast", 8, "none"),
    ("sage", 0.5, "exact", 8, "none"),
    ("sage", 0.5, "fast", 8, "all"),
]


@pytest.fixture(scope="module")
def warm():
    warm_up()


@pytest.mark.slow
@pytest.mark.parametrize("case", ALONE, ids=str)
def test_formula_of_one_rank(case, warm):
    name, drop, mode, chunks, recompute = case
    told, counted = compare(name, drop, "nodes", mode, 1, 1, chunks, recompute)
    assert 0.75 * counted < told < 1.25 * counted


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    join(launch(all_memory, 2, folder))
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    for one in found:
        assert "error" not in one, one.get("error")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", SHARED, ids=str)
def test_formula_of_two_ranks(case, shared):
    for rank in range(2):
        told, counted = shared[rank][case]
        assert 0.75 * counted < told < 1.25 * counted
