"""Whatever must be equal on all ranks is refused by name, on all of them, where one differs."""

import json

import pytest

from foregather.graph.synthetic import synthesize
from foregather.train.checkpoints.ranks import is_too_old
from tests.dist import rank_agree
from tests.dist.world import World
from tests.some import some

RANKS = 3


@pytest.fixture(scope="module")
def found(launcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("disagree")
    with World(launcher, RANKS, "disagree", folder) as world:
        assert world.wait(600) == [0] * RANKS, "\n".join(map(world.output, range(RANKS)))
    return [json.loads((folder / f"disagree{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.mark.parametrize("name", rank_agree.CASES)
def test_an_argument_of_a_loader_that_differs_on_one_rank(found, name):
    texts = {part[name] for part in found}
    assert len(texts) == 1, texts
    what = rank_agree.CASES[name][2]
    (text,) = texts
    assert text.startswith(f"InputError: the ranks differ in the {what}: rank 0 has ")
    assert "rank 2 has " in text and "rank 1" not in text and "\n" not in text
    assert text.endswith("; start all with the same")


def test_what_is_each_ranks_own(found):
    for part in some(found):
        assert isinstance(part["nothing"], list) and len(part["nothing"]) == 2
        assert {name: part[name] for name in rank_agree.OWN} == dict.fromkeys(rank_agree.OWN, True)
        assert isinstance(part["not compared"], list)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("epoch", "epoch: rank 0 has 2, rank 2 has 3"),
        ("first step of the loop", "first step of the loop: rank 0 has 0, rank 2 has 1"),
        ("seed of a state", "seed: rank 0 has 0, rank 2 has 5"),
        ("input nodes of a loader beside", "input nodes: rank 0 has 30 with digest "),
        ("timeout", "replication and timeout: rank 0 has 1, 300 s, rank 2 has 1, 301 s"),
    ],
)
def test_loops_and_grids_that_differ(found, name, what):
    for part in some(found):
        assert part[name].startswith(f"InputError: the ranks differ in the {what}"), part[name]
        assert part["the same"] == "accepted"


def test_a_setting_of_a_run_that_differs_on_one_rank(found):
    for part in some(found):
        assert len(part["settings"]) > 25
        for name, text in part["settings"].items():
            assert text.startswith(f"InputError: the ranks differ in the {name}: rank 0 has "), name


def test_a_sampler_that_cannot_be_compared_says_what_to_add(found):
    for part in some(found):
        assert part["lambda"].startswith("InputError: sampler is a Plain with .rule, a lambda,")
        assert "or give Plain a __repr__ that includes everything it depends on" in part["lambda"]


@pytest.mark.skipif(is_too_old(), reason="runs over ranks need torch 2.9")
@pytest.mark.parametrize(
    ("other", "what"),
    [
        (["--optimizer.lr", "0.5"], "optimizer.lr: rank 0 has 0.01, rank 1 has 0.5"),
        (
            ["--model.kind", "tests.dist.rank_agree:OwnWeights"],
            "initial weights (their digest): rank 0 has",
        ),
    ],
)
def test_runs_that_differ_end_before_they_start(launcher, tmp_path, other, what):
    graph, run = tmp_path / "graph", tmp_path / "run"
    synthesize(graph, 300, degree=4, features=4, classes=3, seed=0)
    line = ["train", "--graph", str(graph), "--run", str(run), "--grid.timeout", "300"]
    both = other if "model.kind" in other[0] else []
    commands = [json.dumps([*line, *both]), json.dumps([*line, *other])]
    of_rank = {str(rank): {"TEST_COMMAND": text} for rank, text in enumerate(commands)}
    error_file = str(tmp_path / "error.json")
    of_rank["1"]["TORCHELASTIC_ERROR_FILE"] = error_file
    with World(launcher, 2, "command", tmp_path, of_rank=of_rank) as world:
        assert world.wait(600) == [2, 2], world.output(0) + world.output(1)
        for rank in (0, 1):
            said = world.output(rank).strip().splitlines()[-1]
            assert said.startswith(f"foregather: rank {rank}: the ranks differ in the {what}"), said
    assert not run.exists()
    written = json.loads((tmp_path / "error.json").read_text())["message"]["message"]
    assert written.startswith("InputError: the ranks differ in the ")
