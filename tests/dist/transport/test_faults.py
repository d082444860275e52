"""A dead, stalled, different or missing rank ends every rank with an error that names it."""

import signal
import socket
from contextlib import ExitStack

import pytest

from tests.dist.world import World

TIMEOUT = 12.0  # of worlds in which it must pass, which run at the same time
END = 600  # seconds; only a rank that hangs takes so long


@pytest.fixture(scope="module")
def slow(launcher, tmp_path_factory):
    """Worlds that end only when the timeout is over, all started together."""
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        kinds = {
            "stop 0": {"size": 3},
            "stop 1": {"size": 3},
            "late": {"size": 2, "of_rank": {"1": {"TEST_SLEEP": "600"}}},
            "port": {"size": 2, "port": taken.getsockname()[1], "TEST_MEETING": str(TIMEOUT)},
            "missing": {"size": 3, "processes": 2, "TEST_MEETING": "25.0"},
        }
        worlds = {}
        for name, options in kinds.items():
            folder = tmp_path_factory.mktemp("slow")
            world = World(
                launcher, task="forever", folder=folder, TEST_TIMEOUT=str(TIMEOUT), **options
            )
            worlds[name] = stack.enter_context(world)
        for victim in (0, 1):
            world = worlds[f"stop {victim}"]
            world.wait_for("under way", victim, END)
            world.signal(victim, signal.SIGSTOP)
        yield worlds


def errors(world, ranks):
    codes = world.wait(END, ranks)
    for rank in ranks:
        assert codes[rank] == 3, f"rank {rank}: {codes[rank]}\n{world.output(rank)}"
    return [world.output(rank).strip().splitlines()[-1] for rank in ranks]


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["owner", "paper"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_named_everywhere(launcher, tmp_path, victim, topology):
    options = {"TEST_TOPOLOGY": topology, "TEST_TIMEOUT": str(TIMEOUT)}
    with World(launcher, 3, "forever", tmp_path, **options) as world:
        world.wait_for("under way", victim, END)
        world.signal(victim, signal.SIGKILL)
        for text in errors(world, [rank for rank in range(3) if rank != victim]):
            assert text.startswith("RankError: rank ")
            assert f"rank {victim}" in text and "layer" in text and "step" in text


def test_a_rank_killed_in_the_loop_of_a_loader_is_named(launcher, tmp_path):
    with World(launcher, 3, "loop_forever", tmp_path, TEST_TIMEOUT=str(TIMEOUT)) as world:
        world.wait_for("under way", 1, END)
        world.signal(1, signal.SIGKILL)
        for text in errors(world, [0, 2]):
            assert text.startswith("RankError: rank ") and "rank 1 (last seen in step" in text
            assert "epoch" in text and "minibatch" in text


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_named_everywhere(slow, victim):
    for text in errors(slow[f"stop {victim}"], [rank for rank in range(3) if rank != victim]):
        assert f"rank {victim}" in text and "layer" in text


@pytest.mark.slow
def test_a_rank_that_does_not_take_part_is_named(slow):
    (text,) = errors(slow["late"], [0])
    assert "rank 1" in text and f"did not take part within {TIMEOUT:g} s" in text


@pytest.mark.slow
def test_a_port_that_is_taken(slow):
    first, second = errors(slow["port"], [0, 1])
    port = slow["port"].command["env"]["MASTER_PORT"]
    assert f"port {port} is taken by another program" in first
    assert f"at port {port} within {TIMEOUT:g} s" in second


@pytest.mark.slow
def test_a_rank_that_never_starts(slow):
    for text in errors(slow["missing"], [0, 1]):
        assert text.startswith("RankError: rank 2 did not arrive at port")


def test_a_rank_with_bad_seeds_says_so_and_the_others_name_it(launcher, tmp_path):
    bad = {"1": {"TEST_BAD_SEEDS": "yes"}}
    with World(launcher, 2, "forever", tmp_path, of_rank=bad) as world:
        other, own = errors(world, [0, 1])
        assert "seeds hold node 1000000, but the graph has 400 nodes" in own
        assert other.startswith("RankError") and "rank 1" in other


def test_different_graphs(launcher, tmp_path):
    other = {"1": {"TEST_GRAPH": "weighted"}}
    with World(launcher, 2, "forever", tmp_path, of_rank=other) as world:
        for text in errors(world, [0, 1]):
            assert "InputError: the ranks differ in the graph (its digest): rank 0 has" in text


def test_different_samplers(launcher, tmp_path):
    other = {"1": {"TEST_SAMPLER": "ladies"}}
    with World(launcher, 2, "forever", tmp_path, of_rank=other) as world:
        for text in errors(world, [0, 1]):
            assert "the ranks differ in the sampler: rank 0 has Neighbor" in text


def test_different_versions(launcher, tmp_path):
    with World(launcher, 2, "other_version", tmp_path) as world:
        for text in errors(world, [0, 1]):
            assert "differ in the version of foregather" in text and "rank 1 has 0.0.1" in text


def test_grids_that_do_not_fit(launcher, tmp_path):
    with World(launcher, 3, "forever", tmp_path, TEST_REPLICATION="2") as world:
        for text in errors(world, range(3)):
            assert "replication is 2, but there are 3 ranks" in text


def test_paper_mode_needs_a_multiple_of_c_squared(launcher, tmp_path):
    options = {"TEST_REPLICATION": "2", "TEST_TOPOLOGY": "paper"}
    with World(launcher, 2, "forever", tmp_path, **options) as world:
        for text in errors(world, range(2)):
            assert "replication 2 needs a number of ranks that 4 divides, there are 2" in text


def test_samplers_that_need_the_whole_graph(launcher, tmp_path):
    options = {"TEST_SAMPLER": "fastgcn", "TEST_TOPOLOGY": "paper"}
    with World(launcher, 1, "forever", tmp_path, **options) as world:
        (text,) = errors(world, [0])
        assert "mode 'paper' supports Neighbor and Ladies, not FastGCN" in text
