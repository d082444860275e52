"""Stages as real gloo ranks: equal weights, bytes by formula, faults with names."""

import pytest
import torch

from foregather.pipeline import FullGraph
from foregather.units import format_number
from tests.pipeline.cases import model, small_graph
from tests.pipeline.ranks import (
    CASES,
    CHUNKS,
    EPOCHS,
    all_cases,
    cases,
    failing_pair,
    join,
    launch,
    run_case,
)

STAGES = (2, 3, 4)
#: A silent rank is noticed when the timeout is over, 15 seconds.
FAILURES = ("killed", pytest.param("stalled", marks=pytest.mark.slow), "killed way")
NODES, WIDTH, DOUBLE = 60, 6, 8


@pytest.fixture(scope="session")
def alone():
    """Every case in one stage, in this process."""
    return {name: run_case(name)[1] for name in CASES}


@pytest.fixture(scope="session")
def ranks(tmp_path_factory, alone):
    """What four ranks found, launched once."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.save(alone["gcnii-exact"]["state"], folder / "state.pt")
    join(launch(all_cases, 4, folder))
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(4)]
    for one in found:
        assert "error" not in one, one.get("error")
    return found


def flat(state) -> torch.Tensor:
    return torch.cat([state["weights"][name].flatten() for name in sorted(state["weights"])])


@pytest.mark.parametrize(
    ("name", "stages"), [(n, s) for s in STAGES for n in cases(s) if n != "gcnii-bfloat16"]
)
def test_stages_never_change_results(name, stages, ranks, alone):
    for rank in range(stages):
        found = ranks[rank][name, stages]
        assert found["losses"] == pytest.approx(alone[name]["losses"], abs=1e-11)
        assert found["ran"] == alone[name]["ran"]
        assert found["accuracy"] == alone[name]["accuracy"]
        assert torch.allclose(flat(found["state"]), flat(alone[name]["state"]), atol=1e-9, rtol=0)
        for ours, theirs in zip(found["readings"], alone[name]["readings"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-8)
        last = rank == stages - 1
        assert (found["scores"] is not None) == last
        if last:
            assert torch.allclose(found["scores"], alone[name]["scores"], atol=1e-8, rtol=0)


def rows_sent(ranks, name, stages, epoch):
    sent = [ranks[rank][name, stages]["sent"][epoch] for rank in range(stages)]
    return sum(s["forward"] + s["backward"] for s in sent), sum(s["weights"] for s in sent)


@pytest.mark.parametrize("stages", STAGES)
def test_bytes_equal_the_closed_forms(stages, ranks):
    plain = 2 * (stages - 1) * NODES * WIDTH * DOUBLE  # 2 (S - 1) N d b
    weights = (7 * WIDTH + WIDTH) * DOUBLE  # the first layer of gcnii: 7 x 6 and a bias
    for epoch in range(1, EPOCHS):  # epoch 0 begins with a sweep
        assert rows_sent(ranks, "resgcn-exact", stages, epoch) == (plain, 0)
        assert rows_sent(ranks, "gcnii-fast", stages, epoch) == (2 * plain, 0)
        again = (plain, 2 * (stages - 1) * weights)
        assert rows_sent(ranks, "gcnii-exact-again", stages, epoch) == again
        if stages == 3:
            assert rows_sent(ranks, "gcnii-again", stages, epoch) == again
            assert rows_sent(ranks, "gcnii-bfloat16", stages, epoch) == (2 * plain // 4, 0)
    assert rows_sent(ranks, "gcnii-fast", stages, 0) == (3 * plain, 0)  # and the first sweep
    for name in cases(stages):
        if "bounded" in name or name == "resgcn-fast":
            continue  # measured epochs run an exact pass besides
        volume = ranks[0][name, stages]["volume"]
        assert rows_sent(ranks, name, stages, 2) == (volume["rows"], volume["weights"])


def test_bfloat16_boundaries_stay_near(ranks, alone):
    ours = ranks[0]["gcnii-bfloat16", 3]["losses"]
    theirs = alone["gcnii-bfloat16"]["losses"]
    assert ours == pytest.approx(theirs, abs=2e-2)
    assert ours != theirs


@pytest.mark.parametrize("stages", STAGES)
def test_nan_names_stage_and_chunk_on_all_ranks(stages, ranks):
    messages = {ranks[rank]["nan", stages] for rank in range(stages)}
    assert len(messages) == 1
    message = messages.pop()
    where = {2: 1, 3: 2, 4: 2}[stages]  # where the third of four layers is
    assert f"in stage {where};" in message and "rows of chunk" in message and "epoch 1" in message


@pytest.mark.parametrize("stages", STAGES)
def test_a_state_goes_on_with_another_number_of_stages(stages, ranks, alone):
    layers = model("gcnii", 0.3, seed=2)
    run = FullGraph(
        small_graph(), layers, CHUNKS, optimizer=lambda w: torch.optim.Adam(w, 0.05),
        partition="random",
    )  # fmt: skip
    run.load_state_dict(alone["gcnii-exact"]["state"])
    run.fit(2)
    for rank in range(stages):
        ours = ranks[rank]["resume", stages]
        assert torch.allclose(ours, flat(run.state_dict()), atol=1e-9, rtol=0)


@pytest.mark.parametrize("stages", STAGES)
def test_ranks_with_different_arguments_are_refused(stages, ranks):
    for rank in range(stages):
        assert "different graphs, layers or options" in ranks[rank]["differ", stages]
        assert "chunks is 5 on one rank and 6 on another" in ranks[rank]["chunks", stages]
        assert "chunks is 1 on one rank and 5 on another" in ranks[rank]["one chunk", stages]


@pytest.mark.parametrize("stages", STAGES)
def test_too_few_chunks_or_layers_are_refused_on_all_ranks(stages, ranks):
    for rank in range(stages):
        told = ranks[rank]["few", stages]
        assert f"chunks is {stages - 1}, 1 abreast, but there are {stages} stages" in told
        told = ranks[rank]["deep", stages]
        assert f"{stages} stages but {format_number(stages - 1, 'layer')};" in told
        assert f"at its {format_number(stages - 1, 'propagate call')}, so" in told


def test_four_stages_go_on_as_two_with_rebuilt_history(ranks):
    found = ranks[0]["fewer"]
    run = FullGraph(
        small_graph(), model("gcnii", 0.3, seed=4), CHUNKS, "fast", partition="random",
        optimizer=lambda w: torch.optim.Adam(w, 0.05),
    )  # fmt: skip
    run.load_state_dict(found["state"])
    assert run.train_epoch().loss == pytest.approx(found["loss"], abs=1e-11)
    assert torch.allclose(flat(run.state_dict()), flat(found["weights"]), atol=1e-9, rtol=0)
    sent = [ranks[rank]["fewer"]["sent"] for rank in range(2)]
    rows = sum(s["forward"] + s["backward"] for s in sent)
    assert rows == found["volume"]["rows"]  # with a sweep: history is rebuilt


@pytest.mark.parametrize("how", FAILURES)
def test_a_dead_or_silent_rank_is_a_named_error(how, tmp_path):
    join(launch(failing_pair, 2, tmp_path, how))
    message = torch.load(tmp_path / "told.pt", weights_only=True)
    own, other = ("stage 0 way 0", "stage 0 way 1") if "way" in how else ("stage 0", "stage 1")
    assert message.startswith(f"RankError: {own} waited for {other} (rank 1) to ")
