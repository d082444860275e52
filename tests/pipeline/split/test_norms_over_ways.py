"""BatchNorm over nodes whose stage has several ways equals whole-graph training of PyG."""

import numpy as np
import pytest
import torch

from foregather.pipeline import FullGraph, make_plan, planned
from tests.pipeline.cases import double, small_graph
from tests.pipeline.modules import furthest, sgd, train_whole
from tests.pipeline.ranks import join, launch
from tests.pipeline.split.norm_ranks import (
    ABREAST,
    EPOCHS,
    FAST_CHUNKS,
    NORMED,
    RANKS,
    STALE,
    Shared,
    cases,
    made,
    norm_ranks,
    train,
)
from tests.some import some

pytest.importorskip("torch_geometric")


@pytest.mark.parametrize("name", NORMED)
def test_a_model_with_norms_is_planned(name):
    model = made(name)
    before = [value.clone() for value in model.state_dict().values()]
    options, text = planned(small_graph(), model, mode="exact", partition="random")
    assert "single" in text
    assert [r.ran for r in FullGraph(small_graph(), made(name), **options).fit(1)] == ["exact"]
    for value, old in some(zip(model.state_dict().values(), before, strict=True)):
        assert torch.equal(value, old)  # timing moves no running statistics


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("norms")
    join(launch(norm_ranks, RANKS, folder))
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]
    for one in found:
        assert "error" not in one, one.get("error")
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_ways_train_as_pyg_does_on_the_whole_graph(case, ranks):
    name, stages, ways, _, _ = case
    whole = made(name)
    losses = train_whole(whole, small_graph(), EPOCHS, sgd)
    for rank in some(range(stages * ways)):
        found = ranks[rank][case]
        assert np.allclose(found["losses"], losses, rtol=1e-10, atol=1e-12)
        again = made(name)
        again.load_state_dict(found["weights"])  # weights and running statistics of all stages
        assert furthest(whole, again) < 1e-10
        assert found["resumed"]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_running_statistics_are_the_same_bits_on_all_ways(case, ranks):
    _, stages, ways, _, _ = case
    seen = 0
    for stage in some(range(stages)):
        first = ranks[stage * ways][case]["buffers"]
        for way in range(ways):
            other = ranks[stage * ways + way][case]["buffers"]
            assert other.keys() == first.keys()
            seen += len(other)
            for name, value in other.items():
                assert torch.equal(value, first[name])
                if name.endswith("num_batches_tracked"):
                    assert int(value) == EPOCHS  # moved once in an epoch, not once a chunk
    assert seen


@pytest.mark.parametrize(("stages", "ways"), STALE)
def test_ways_change_nothing_where_statistics_are_those_of_the_last_epoch(stages, ways, ranks):
    alone = train(made("two"), "fast", FAST_CHUNKS, abreast=ABREAST)
    for rank in some(range(stages * ways)):
        found = ranks[rank]["fast", stages, ways]
        assert found["losses"] == pytest.approx(alone["losses"], abs=1e-11)
        for reading, other in zip(found["readings"], alone["readings"], strict=True):
            assert reading == pytest.approx(other, abs=1e-8)
        for name, value in some(alone["weights"].items()):
            assert torch.allclose(found["weights"][name], value, atol=1e-10, rtol=0)
        assert found["resumed"]


def test_no_row_crosses_for_a_mean_over_all_rows(ranks):
    """A norm of rows that no convolution reads at once adds words of agreement, and no rows."""
    case = ("two", 1, 2, 2, "none")
    found = [ranks[rank][case] for rank in range(2)]
    assert found[0]["apart"] == 2
    assert found[0]["exchange"] == ranks[0]["without"] > 0
    for every in some([key for key in ranks[0] if isinstance(key, tuple) and key[0] != "fast"]):
        for rank in range(every[1] * every[2]):
            one = ranks[rank][every]
            assert one["noted"] == one["announced"]


def test_a_module_whose_columns_are_split_is_refused_in_one_sentence(ranks):
    for rank in range(2):
        told = ranks[rank]["columns"]
        assert "reads rows of in-neighbours one by one, which split 'columns' cannot give" in told
        assert "use split 'nodes'" in told


def test_a_norm_that_several_stages_use_is_refused(ranks):
    """Each would move the running statistics by its own calls alone; ways of one stage do not."""
    torch.manual_seed(0)
    for rank in range(2):
        told = ranks[rank]["stages"]
        assert "the norm 'norm' is used in several of the 2 stages" in told
        assert "Runtime(ways=...)" in told
        assert int(ranks[rank]["shared"]["norm.num_batches_tracked"]) == 2 * EPOCHS


def test_no_plan_has_stages_that_share_a_norm():
    with double():
        found = make_plan(small_graph(), Shared().double(), 2, "exact", partition="random")
    assert {one.setting.stages for one in found.candidates} == {1}
