"""Two stages of two ways are chosen where they are the fastest, and train as one rank does."""

from dataclasses import replace

import pytest
import torch

from foregather.pipeline import Runtime
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import simulate
from tests.pipeline.planning.hybrid_ranks import LINE, RANKS, plan_of, planned_ranks, trained
from tests.pipeline.ranks import join, launch


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_two_by_two_is_chosen_where_it_is_the_fastest(mode):
    """A graph of two halves on slow links: one cut for few rows, one for few layers."""
    made = plan_of(mode)
    setting = made.chosen.setting
    assert (setting.scheme, setting.stages, setting.ways) == ("hybrid", 2, 2)
    seconds: dict[str, float] = {}
    for one in made.candidates:
        cut = made.cuts[one.setting.chunks, one.setting.ways]
        took = simulate(rank_programs(made.work, one.setting, cut), LINE).seconds
        seconds[one.setting.scheme] = min(took, seconds.get(one.setting.scheme, took))
    fastest = seconds.pop("hybrid")
    assert set(seconds) == {"pipeline", "graph", "tensor"}
    assert min(seconds.values()) > 1.05 * fastest
    assert made.chosen.seconds < 1.03 * fastest
    other = replace(LINE, rate=1e3 * LINE.rate, latency=1e-2)  # with many messages it is not
    assert made._best(other).setting != setting


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hybrid")
    join(launch(planned_ranks, RANKS, folder))
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]
    for one in found:
        assert "error" not in one, one.get("error")
    return found


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_as_planned_on_four_ranks_it_trains_as_one_rank(mode, ranks):
    alone = trained(mode, runtime=Runtime(abreast=2))
    assert alone["grid"] == [1, 1]
    for one in ranks:
        assert one[mode]["grid"] == [2, 2]
        assert one[mode]["losses"] == pytest.approx(alone["losses"], abs=1e-12)
        assert torch.allclose(one[mode]["weights"], alone["weights"], atol=1e-10, rtol=0)
