"""A Loader over ranks: one rank's batches, dealt out; equal steps; gradients by DDP."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from foregather import Features, InputError, _core
from foregather.dist.features.fetch_plan import row_geometry
from foregather.dist.features.fetch_rows import default_memory
from foregather.dist.features.memory_split import shares
from foregather.loader.rank_options import RankOptions, rank_setup
from tests.dist import rank_train
from tests.dist.world import World


def run(launcher, folder, size, task, name):
    with World(launcher, size, task, folder) as world:
        codes = world.wait(600)
        assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
    return [json.loads((folder / f"{name}{rank}.json").read_text()) for rank in range(size)]


def serial(rule, size, bulk, epochs):
    loader = rank_train.loader_of(rank_train.train_graph(), rule, size, bulk)
    return [[rank_train.digest(batch) for batch in loader] for _ in range(epochs)]


def check_what_crossed(rank, parts, name, memory):
    """The counters of a rank are its part of the ledger, and plans announce what crosses."""
    crossed, counters, text = parts[rank][name][5:]
    sent = Counter()
    for source, _, purpose, count in crossed:
        sent[source, purpose] += count
    for purpose, entry in counters["features"].items():
        if purpose != "lengths":
            assert entry["bytes"] == sent[rank, purpose]
    assert ("by plan" in text) == ("announced" in counters)
    if memory is None:
        return
    announced = [part[name][6]["announced"] for part in parts]
    request, reply = "features: request", "features: reply"
    assert announced[rank][request] == sent[rank, request] > 0
    replies = sum(sent[source, reply] for source in range(len(parts)))
    assert sum(each[reply] for each in announced) == replies > 0
    assert counters["rows"]["hits"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4])
def test_batches_are_those_of_one_rank(launcher, tmp_path, size):
    if size == 2:  # from a folder, of which a rank reads its block
        rank_train.train_graph().save(tmp_path / "graph")
    parts = run(launcher, tmp_path, size, "batches", "batches")
    assert set(parts[0]) >= {"owner", "replicated", "ladies", "fastgcn", "paper"}
    for name, c, _, _, rule, batch_size, bulk, memory in rank_train.LOADERS:
        if name not in parts[0]:
            continue
        wanted = serial(rule, batch_size, bulk, 4)
        steps = -(-len(wanted[0]) // size)
        for rank, part in enumerate(parts):
            one, two, resumed, after, length = part[name][:5]
            check_what_crossed(rank, parts, name, memory if size > c else None)
            assert length == len(one) == len(two) == len(after) == steps
            assert len(resumed) == steps - 1
            for epoch, found, first in ((0, one, 0), (1, two, 0), (2, resumed, 1), (3, after, 0)):
                for step, batch in enumerate(found, first):
                    number = step * size + rank
                    assert batch[0] == number
                    if number < len(wanted[epoch]):
                        assert batch[2:] == wanted[epoch][number][2:], (name, epoch, step)
        for step in range(steps):
            shares = [part[name][0][step][1] for part in parts]
            seeds = [part[name][0][step][2] for part in parts]
            real = [step * size + rank < len(wanted[0]) for rank in range(size)]
            assert np.isclose(sum(shares), size)
            assert [share > 0 for share in shares] == real
            weights = np.array(seeds) * real
            assert np.allclose(shares, size * weights / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_blocks_on_disk_give_the_same_batches(launcher, tmp_path, size):
    rank_train.train_graph().save(tmp_path / "graph")
    parts = run(launcher, tmp_path, size, "stored", "stored")
    for name in parts[0]:
        made = [part[name] for part in parts]
        if " least " in name:
            assert len({least for least, _ in made}) == 1
            wanted = serial("once", 7, 3, 1)
        else:
            wanted = serial("ladies" if "features" in name else "once", 7, 3, 3)
        steps = -(-len(wanted[0]) // size)
        for rank, part in enumerate(made):
            batches = part[1] if " least " in name else part[0]
            assert len(batches) == (steps if " least " in name else 2 * steps + 2)
            for place, batch in enumerate(batches):  # two batches of epoch 1
                epoch, step = divmod(place if place < steps + 2 else place + steps - 2, steps)
                number = step * size + rank
                assert batch[0] == number
                if "int8" in name:  # rounded alike, wherever the rows were
                    assert batch[2:] == parts[rank][name.replace("disk", "memory")][0][place][2:]
                elif number < len(wanted[epoch]):
                    assert batch[2:] == wanted[epoch][number][2:], (name, epoch, step)
            if "disk exact" in name:
                disk = part[1]["disk"]
                assert disk["bytes"] == disk["planned_bytes"] > 0
                assert disk["requests"] == disk["planned_requests"]
                assert "own block: on disk" in part[2] and "planned in" in part[2]
            elif "memory" in name:
                assert "disk" not in part[1] and "own block: on disk" not in part[2]


def test_bulks_are_sampled_while_features_cross(launcher, tmp_path):
    rank_train.train_graph().save(tmp_path / "graph")
    for part in run(launcher, tmp_path, 2, "sampled_ahead", "sampled"):
        _, sampled, fetched, rest, steps, refusal = part
        assert fetched >= 2 and sampled >= fetched + 2, part
        assert rest == steps - 1 and fetched < steps
        assert "foregather plan --ranks" in refusal


def test_a_rank_that_loses_its_disk_is_named(launcher, tmp_path):
    with World(launcher, 2, "disk_lost", tmp_path) as world:
        assert world.wait(600) == [3, 3], world.output(0) + world.output(1)
        assert "StorageError: features.npy" in world.output(1), world.output(1)
        assert "RankError" in world.output(0) and "rank 1 (" in world.output(0), world.output(0)


def test_a_block_larger_than_the_budget_is_not_resident(launcher, tmp_path):
    rank_train.wide_graph().save(tmp_path / "graph")
    block = rank_train.WIDE_NODES // 2 * rank_train.WIDE * 4
    for part in run(launcher, tmp_path, 2, "resident", "resident"):
        taken, counters, text = part["auto"]
        assert taken < 0.8 * block, taken
        assert "own block: on disk" in text and counters["disk"]["bytes"] > 0
        assert part["memory"][0] > block


def test_ranks_train_to_the_same_weights_and_loss(launcher, tmp_path):
    losses = {}
    for size in (1, 2, 4):
        folder = tmp_path / str(size)
        folder.mkdir()
        parts = run(launcher, folder, size, "train", "train")
        assert all(part["weights"] == parts[0]["weights"] for part in parts)
        losses[size] = parts[0]["losses"]
    assert losses[1][-1] < 0.8 * losses[1][0]
    for size in (2, 4):
        assert np.allclose(losses[size], losses[1], rtol=0.1)


def test_fewer_batches_than_ranks(launcher, tmp_path):
    parts = run(launcher, tmp_path, 2, "no_seeds", "none")
    assert parts == [[[2.0], 0], [[0.0], 0]]


def test_rounded_rows_small_budgets_and_closed_loaders(launcher, tmp_path):
    for part in run(launcher, tmp_path, 2, "rounded", "rounded"):
        assert part["exact"] == [0, 0]
        assert part["float16"][0] == part["int8"][0] == 0
        assert 0 < part["float16"][1] < 0.01 and 0 < part["int8"][1] < 0.05
        assert part["small"][0] == "BudgetError" and "needs at least" in part["small"][1]
        assert part["closed"][0] == "InputError" and "was closed" in part["closed"][1]


def test_arguments_that_do_not_go_with_a_grid():
    graph = rank_train.train_graph()
    for options, message in (
        ({"memory": "auto"}, "memory='auto' do not work with grid="),
        ({"memory": "1GB", "mode": "paper"}, "keeps no rows of other ranks"),
        ({"memory": "1GB", "storage": "disk"}, "the graph is in memory; save it"),
        ({"storage": "features"}, "set each rank's budget with memory="),
    ):
        with pytest.raises(InputError, match=message):
            rank_train.loader_of(graph, "once", 8, 2, grid=object(), **options)
    with pytest.raises(InputError, match="neighbour lists of ranks are in memory"):
        rank_setup(None, RankOptions(), 2, "1GB", "topology")
    bare = replace(graph, features=None)
    with pytest.raises(InputError, match="the graph has no features"):
        rank_train.loader_of(bare, "once", 8, 2, grid=object(), memory="1GB")


def test_the_default_budget():
    rows, starts = 100_000, np.array([0, 40_000, 100_000])
    wide = Features(np.zeros((rows, 128), np.float32))
    tables = _core.planner_bytes(row_geometry(rows), 0, 0, 0)
    assert default_memory(wide, starts) == tables + (64 << 20)  # more than a tenth of a block
    shares(default_memory(wide, starts), rows, 512, 1)  # is enough
    assert default_memory(wide, np.array([0, rows])) is None
    assert default_memory(Features(np.zeros((rows, 2), np.float32)), starts) is None
