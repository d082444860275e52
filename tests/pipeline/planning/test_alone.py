"""Plans of one rank that recompute segments, use a file or keep a budget: bytes are the run's own.

The slow way is to make each run that is considered, and to ask it; peaks are counted at allocators.
"""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from foregather.errors import BudgetError, InputError
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Line, Runtime, make_plan
from foregather.pipeline.planning import planner
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.whole import budget, scratch
from tests.pipeline.planning.memory_ranks import even_graph, most_bytes, warm_up
from tests.pipeline.whole.test_whole_memory import Counted

GRAPH, DEPTH = even_graph(1200, 8000), 12
CHUNKS = (1, 2, 4, 16)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small graphs are cut into pieces as large ones are, and the process counts nothing."""
    monkeypatch.setattr("foregather.pipeline.whole.pieces._VALUES", 1 << 12)
    monkeypatch.setattr(budget, "resident", lambda: 0)
    monkeypatch.setattr(budget, "set_block", lambda: None)
    monkeypatch.setattr(planner, "_SINGLE", CHUNKS)
    warm_up()


def layers():
    torch.manual_seed(0)
    return resgcn_layers(48, 32, 10, DEPTH, 0.0)


def gcn():
    torch.manual_seed(0)
    return pytest.importorskip("torch_geometric.nn").GCN(48, 32, 4, 10)


def plan(model, **options):
    """Layers that all cost the same, so that nothing depends on time."""
    count = 5 if isinstance(model, torch.nn.Module) else len(model)
    costs = [LayerCost((1e-7, 1e-9, 1e-5), (2e-7, 2e-9, 2e-5), (3000.0, 10.0))] * count
    return make_plan(GRAPH, model, partition="natural", costs=costs, **options)


def counted(run, monkeypatch):
    """The most bytes at once in a second epoch and an evaluation."""
    run.fit(1)
    gc.collect()
    monkeypatch.setattr(scratch.mmap, "mmap", Counted)
    Counted.now = Counted.most = 0
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run.fit(1)
        run.evaluate("train")
    return most_bytes(seen) + Counted.most


@pytest.mark.parametrize("model", [layers, gcn])
@pytest.mark.parametrize("recompute", ["segments", "disk"])
def test_the_bytes_of_a_plan_are_those_that_its_run_announces_and_holds(
    model, recompute, monkeypatch, tmp_path
):
    made = plan(model(), runtime=Runtime(scratch=tmp_path))
    found = [c for c in made.candidates if c.setting.recompute == recompute]
    assert [c.setting.chunks for c in found] == list(CHUNKS[model is gcn :])
    for one in found[1:]:
        asked = model()
        run = FullGraph(GRAPH, asked, **replace(made, chosen=one).options())
        whole = run.engine.whole
        held = counted(run, monkeypatch) + whole.adjacency.bytes
        assert abs(one.memory - whole.choice.most - whole.adjacency.bytes) < 0.02 * one.memory
        assert held <= one.memory < 4 * held


def test_files_are_only_considered_in_a_folder_of_ones_own(monkeypatch, tmp_path):
    kinds = {c.setting.recompute for c in plan(layers()).candidates}
    assert kinds == {"none", "all", "segments"}
    monkeypatch.setattr(
        budget, "MEMORY_FILESYSTEMS", {budget.describe_place(tmp_path)["filesystem"]}
    )
    there = plan(layers(), runtime=Runtime(scratch=tmp_path))
    assert {c.setting.recompute for c in there.candidates} == kinds


def test_recomputing_takes_its_time_and_memory_chooses_it():
    made = plan(layers(), line=Line())
    by = {(c.setting.chunks, c.setting.recompute): c for c in made.candidates}
    assert made.chosen.setting.recompute == "none"
    for chunks in CHUNKS:
        again, kept = by[chunks, "segments"], by[chunks, "none"]
        assert again.seconds == pytest.approx(kept.seconds + again.again) and again.again > 0
        assert again.memory < kept.memory
        assert again.seconds <= by[chunks, "all"].seconds  # the last stretch is not run again
    least = min(by.values(), key=lambda c: c.memory)
    chosen = plan(layers(), memory=least.memory).chosen
    assert chosen.setting == least.setting and chosen.setting.recompute == "segments"
    with pytest.raises(BudgetError) as error:
        plan(layers(), memory=least.memory - 1)
    assert error.value.least == least.memory


def least_of(model, tmp_path):
    """The smallest budget of any number of chunks, asking a run for each of them."""
    found = {}
    for chunks in CHUNKS:
        with pytest.raises(BudgetError) as error:
            FullGraph(GRAPH, model, chunks, partition="natural",
                      runtime=Runtime(memory=1, scratch=tmp_path))  # fmt: skip
        found[chunks] = error.value.least
    return found


def test_a_budget_chooses_the_fastest_number_of_chunks_that_fits(monkeypatch, tmp_path):
    minima = least_of(layers(), tmp_path)
    least, seconds, kinds = min(minima.values()), [], []
    for room in (0, 300_000, 1_500_000, 10_000_000):
        runtime = Runtime(memory=least + room, scratch=tmp_path)
        made = plan(layers(), runtime=runtime)
        fitting = [c for c in made.candidates if c.memory <= least + room]
        assert {c.setting.chunks for c in fitting} == {
            k for k, one in minima.items() if one <= least + room
        }
        in_memory = [c for c in fitting if c.setting.recompute != "disk"]
        fitting = in_memory or fitting  # a file only where nothing else fits
        assert all(not c.refused for c in fitting)
        assert made.chosen.seconds == min(c.seconds for c in fitting)
        run = FullGraph(GRAPH, layers(), **made.options())
        choice = run.engine.whole.choice
        assert len(run.chunks) == made.chosen.setting.chunks
        assert abs(choice.had + choice.most - made.chosen.memory) < 0.02 * choice.most
        assert counted(run, monkeypatch) <= choice.most
        seconds.append(made.chosen.seconds)
        kinds.append(made.chosen.setting.recompute)
    assert seconds == sorted(seconds, reverse=True)
    assert kinds[0] == "disk" and kinds[-1] == "none" and "segments" in kinds


def test_below_the_least_budget_the_error_names_it(tmp_path):
    least = min(least_of(layers(), tmp_path).values())
    with pytest.raises(BudgetError, match="expected at least") as error:
        plan(layers(), runtime=Runtime(memory=1 << 20, scratch=tmp_path))
    assert error.value.least == pytest.approx(least, abs=100_000)
    plan(layers(), runtime=Runtime(memory=error.value.least, scratch=tmp_path))
    with pytest.raises(BudgetError):
        plan(layers(), runtime=Runtime(memory=error.value.least - 1, scratch=tmp_path))


def test_a_budget_that_needs_a_file_wants_a_disk(monkeypatch, tmp_path):
    least = min(least_of(layers(), tmp_path).values())
    monkeypatch.setattr(
        budget, "MEMORY_FILESYSTEMS", {budget.describe_place(tmp_path)["filesystem"]}
    )
    with pytest.raises(InputError, match="held in memory"):
        plan(layers(), runtime=Runtime(memory=least + 5000, scratch=tmp_path))


def test_what_a_budget_is_not_for():
    with pytest.raises(InputError, match="with 2 ranks, whose bytes are modelled and not promised"):
        plan(layers(), ranks=2, runtime=Runtime(memory="4GB"))
    with pytest.raises(InputError, match="give one of them"):
        plan(layers(), memory="1GB", runtime=Runtime(memory="4GB"))


def test_training_under_a_plan_gives_the_weights_of_training_without(tmp_path):
    least = min(least_of(layers(), tmp_path).values())
    made = plan(layers(), runtime=Runtime(memory=least + 60_000, scratch=tmp_path))
    assert made.chosen.setting.recompute != "none"
    runs = [
        FullGraph(GRAPH, layers(), **made.options()),
        FullGraph(GRAPH, layers(), made.chosen.setting.chunks, partition="natural"),
    ]
    for run in runs:
        run.fit(2)
    for a, b in zip(*(run.engine.parameters().values() for run in runs), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-3, atol=1e-4)
