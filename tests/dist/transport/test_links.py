"""Ranks in network namespaces of their own: what the kernel counts, and a link that is cut."""

import json
import time

import pytest

from benchmarks.common.namespaces import Namespaces, why_not
from tests.dist.world import World

PORT = 29501
END = 600  # seconds; only a rank that hangs takes so long
HEADERS = 66  # bytes of Ethernet, IP and TCP with timestamps

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


def world_in(spaces, launcher, folder, task, **env):
    of_rank = {
        str(rank): {**spaces.environment(rank, PORT), "TEST_NETNS": spaces.name(rank)}
        for rank in range(spaces.size)
    }
    return World(launcher, spaces.size, task, folder, port=PORT, of_rank=of_rank, **env)


def wait_for(path, seconds=END):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} did not come"
        time.sleep(0.02)


@pytest.mark.parametrize(("task", "beside"), [("count", 0), ("count_loader", 100_000)])
def test_the_ledger_is_what_the_kernel_counts(launcher, tmp_path, task, beside):
    """Payload is at most what the interface sent, and that is payload and headers.

    A Loader also makes groups and compares its arguments with the other ranks; its first bulk alone
    is more than what that may take.
    """
    with (
        Namespaces(2) as spaces,
        world_in(spaces, launcher, tmp_path, task) as world,
    ):
        for rank in (0, 1):
            wait_for(tmp_path / f"ready{rank}")
        before = [spaces.sent(rank) for rank in (0, 1)]
        (tmp_path / "go").touch()
        for rank in (0, 1):
            wait_for(tmp_path / f"done{rank}.json")
        sent = [spaces.sent(rank) - start for rank, start in enumerate(before)]
        (tmp_path / "end").touch()
        assert world.wait(END) == [0, 0], world.output(0) + world.output(1)
    for rank in (0, 1):
        payload, messages, seconds = json.loads((tmp_path / f"done{rank}.json").read_text())
        assert payload > 500_000
        assert payload <= sent[rank], "the ledger counts bytes that were not sent"
        # A packet has at least 1448 bytes of payload, or ends a message; each is acknowledged at
        # most once. gloo adds 32 bytes to a message, the watch a few hundred a beat.
        packets = payload / 1448 + 4 * messages
        most = payload + HEADERS * 2 * packets + 64 * messages + 4000 * (1 + seconds) + beside
        assert sent[rank] <= most, (payload, messages, seconds)


@pytest.mark.slow
def test_a_link_that_is_cut_ends_every_rank(launcher, tmp_path):
    with (
        Namespaces(3) as spaces,
        world_in(spaces, launcher, tmp_path, "forever", TEST_TIMEOUT="6.0") as world,
    ):
        world.wait_for("under way", 2, END)
        spaces.cut(2)
        codes = world.wait(END)
        texts = [world.output(rank).strip().splitlines()[-1] for rank in range(3)]
        assert codes == [3, 3, 3], texts
        for rank in (0, 1):
            assert texts[rank].startswith(f"RankError: rank {rank} gives up: rank 2 (last seen")
            assert "layer" in texts[rank] and "step" in texts[rank]
        assert texts[2].startswith("RankError: rank 2 gives up: rank 0, which holds the store")
