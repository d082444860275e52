"""Features over ranks: rows are exact, what crossed is what the plans said, budgets hold."""

import json
import signal

import numpy as np
import pytest

from foregather.dist import FeatureBlock
from foregather.dist.baselines.fetch_paper import predict_paper
from foregather.dist.features.fetch_plan import FetchPlanner, Round, cut_rounds, predict
from foregather.dist.features.memory_split import OwnBlock, shares, shares_with_disk
from foregather.dist.transport.codec import Codec
from foregather.errors import BudgetError, InputError
from tests.dist import feature_cases as cases
from tests.dist.world import World
from tests.some import some

#: A world of four ranks has every case of two, and grids of two columns: more than eight seconds.
SIZES = [2, pytest.param(4, marks=pytest.mark.slow)]


@pytest.fixture(scope="session")
def fetched(worlds):
    """What a world of p ranks fetched (the ranks compare the rows)."""
    return worlds("features", cases.options, 600)


def row_bytes(stored, where, wire):
    if wire != "exact":
        return {"float16": 2 * cases.WIDTH, "int8": 4 + cases.WIDTH}[wire]
    size = {"float32": 4, "float16": 2, "int64": 8, "scaled": 4 if "d" in where[0] else 1}
    return cases.WIDTH * (4 if where in ("disk", "own folder") else size[stored])


def remote(ids, starts, place):
    return ids[(ids < starts[place]) | (ids >= starts[place + 1])]


def division(case, starts, each):
    """Slots and staging of a case."""
    _, stored, where, memory, *_ = case
    given = (cases.MEMORY[memory], cases.ROWS, each, len(starts) - 2)
    if "file" not in where:
        return shares(*given)
    own = OwnBlock(int(np.diff(starts).max()), cases.WIDTH * (1 if stored == "scaled" else 4))
    return shares_with_disk(*given, own)[:2]


def predicted(size, case):
    """By bulk: what the plans of all ranks say, with ranks for places."""
    c, stored, where, _, wire, mode, ahead = case
    blocks, each = size // c, row_bytes(stored, where, wire)
    starts = np.arange(blocks + 1) * cases.ROWS // blocks
    found = [{} for _ in range(cases.BULKS)]
    for column in range(c):
        ranks = [place * c + column for place in range(blocks)]
        if mode == "planned":
            slots, staging = division(case, starts, each)
            planners = [
                FetchPlanner(starts, place, slots, reads_local="file" in where)
                for place in range(blocks)
            ]
        for bulk in range(cases.BULKS):
            own = [cases.batches(bulk, rank, size) for rank in ranks]
            if mode == "planned":
                more = ahead and bulk < cases.BULKS - 1
                later = [cases.batches(bulk + 1, r, size) if more else [] for r in ranks]
                plans = [p.plan(i, a) for p, i, a in zip(planners, own, later, strict=True)]
                sent = predict(plans, each, staging)
            else:
                edges = [
                    np.array([np.histogram(ids, starts)[0] for ids in part]) if part else
                    np.zeros((0, blocks), np.int64) for part in own
                ]  # fmt: skip
                sent = predict_paper(edges, each)
            for (source, destination, purpose), entry in sent.items():
                link = (ranks[source], ranks[destination], purpose)
                found[bulk][link] = (entry.bytes, entry.messages)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_ledger_is_the_prediction(fetched, size):
    for case, parts in some(fetched(size).items()):
        for bulk, wanted in enumerate(predicted(size, case)):
            found = {
                (source, destination, purpose): (nbytes, messages)
                for part in parts
                for source, destination, purpose, nbytes, messages in part["ledger"][bulk]
            }
            assert found == wanted, (case, bulk)
        assert (size == case[0]) == all(not part["ledger"][0] for part in parts)


def belady(batches, slots):
    """Misses of the best policy, by trying the rule on sets."""
    held, misses = set(), 0
    for step, ids in enumerate(batches):
        wanted = set(ids.tolist())
        misses += len(wanted - held)
        later = [set(b.tolist()) for b in batches[step + 1 :]]
        use = {i: next((t for t, b in enumerate(later) if i in b), 10**6) for i in held | wanted}
        held = set(sorted(use, key=lambda i: use[i])[:slots])
    return misses


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("memory", ["none", "few", "some", "all"])
def test_rows_that_cross_are_the_fewest(fetched, size, memory):
    """Of the first bulk, by a count of our own; over all bulks where there is room for all."""
    case = (1, "float32", "memory", memory, "exact", "planned", False)
    starts = np.arange(size + 1) * cases.ROWS // size
    slots, _ = shares(cases.MEMORY[memory], cases.ROWS, 24, size - 1)
    assert slots < {"none": 25, "few": 110, "some": 350, "all": 501}[memory]
    for rank in range(size):
        bulks = [
            [remote(ids, starts, rank) for ids in cases.batches(bulk, rank, size)]
            for bulk in range(cases.BULKS)
        ]
        sent = [
            sum(
                link[3]
                for part in fetched(size)[case]
                for link in part["ledger"][bulk]
                if link[1:3] == [rank, "features: reply"]
            )
            for bulk in range(cases.BULKS)
        ]
        assert sent[0] == 24 * belady(bulks[0], slots)
        if memory == "all":
            every = np.concatenate([ids for bulk in bulks for ids in bulk])
            assert sum(sent) == 24 * len(np.unique(every))
        part = fetched(size)[case][rank]["counts"]
        assert part["hits"] + part["misses"] == sum(len(i) for bulk in bulks for i in bulk)
        assert part["misses"] * 24 == sum(sent)


@pytest.mark.parametrize("size", SIZES)
def test_rounded_rows_are_measured(fetched, size):
    for case, parts in some(fetched(size).items()):
        c, wire = case[0], case[4]
        if wire == "exact" or c == size:
            assert all(part["error"] == [0.0, 0] and part["off"] == 0 for part in parts)
            continue
        assert max(p["off"] for p in parts) == pytest.approx(max(p["error"][0] for p in parts))
        assert all(part["error"][1] > 0 for part in parts)


def test_partly_read_fetches_do_not_block_others(launcher, tmp_path):
    with World(launcher, 4, "overlapped", tmp_path) as world:
        assert world.wait(600) == [0] * 4, "".join(world.output(rank) for rank in range(4))
    parts = [json.loads((tmp_path / f"overlapped{rank}.json").read_text()) for rank in range(4)]
    assert [part[0] for part in parts] == [36.0] * 4
    assert parts[0][1] == 9 and parts[3][1] < 9


def test_a_rank_that_is_killed_is_named(launcher, tmp_path):
    with World(launcher, 3, "fetch_forever", tmp_path) as world:
        world.wait_for("under way", 1, 600)
        world.signal(1, signal.SIGKILL)
        assert world.wait(600, ranks=[0, 2])[::2] == [3, 3]
        for rank in (0, 2):
            assert "rank 1 (last seen" in world.output(rank), world.output(rank)
            assert "features" in world.output(rank)


def test_ranks_that_differ_are_refused(launcher, tmp_path):
    with World(launcher, 2, "wrong_memory", tmp_path) as world:
        assert world.wait(600) == [3, 3]
        assert "the ranks differ in the memory: rank 0 has" in world.output(0)


def test_a_number_that_does_not_fit_is_refused(launcher, tmp_path):
    with World(launcher, 2, "too_large", tmp_path) as world:
        assert world.wait(600) == [3, 3]
        assert "too large for float16" in world.output(0) + world.output(1)


def test_rounds_hold_no_more_than_staging():
    rng = np.random.default_rng(0)
    for staging in (1, 7, 50, 1000):
        most = [rng.integers(0, 60, n) for n in (9, 12, 0, 1)]
        rounds = cut_rounds(most, staging)
        need = np.max([np.pad(m, (0, 12 - len(m))) for m in most], axis=0)
        seen = np.zeros(12, int)
        for this in rounds:
            moved = np.clip(need[this.first : this.last] - this.skip, 0, this.take)
            assert moved.sum() <= staging
            seen[this.first : this.last] += moved
        assert (seen == need).all()
        ended = [this.last for this in rounds if this.done]
        assert ended == sorted(set(ended)) and ended[-1] == 12
    assert cut_rounds([], 5) == [] and cut_rounds([np.zeros(2, int)], 5) == [
        Round(0, 2, 0, 0, True)
    ]


def test_rounds_are_as_few_as_staging_allows():
    assert cut_rounds([np.array([2, 3, 1])], 5) == [
        Round(0, 2, 0, 5, True),  # exactly full
        Round(2, 3, 0, 1, True),
    ]
    assert cut_rounds([np.array([0, 5, 0])], 5) == [Round(0, 3, 0, 5, True)]
    assert cut_rounds([np.array([1, 10])], 5) == [
        Round(0, 1, 0, 1, True),
        Round(1, 2, 0, 5, False),
        Round(1, 2, 5, 5, True),
    ]


@pytest.mark.parametrize("next_one", [4, 5])
def test_what_the_next_bulk_needs_stays(next_one):
    planner = FetchPlanner(np.array([0, 4, 8]), 0, 1)
    first = planner.plan([[4, 1], [0, 5]], [[2, next_one]])
    second = planner.plan([[2, next_one]])
    assert first.needs.tolist() == [[0, 1], [0, 1]] and second.needs.tolist() == [[0, 0]]


def test_bad_input():
    whole = cases.matrix("float32")
    with pytest.raises(BudgetError, match="needs at least"):
        shares(1000, cases.ROWS, 24, 3)
    with pytest.raises(InputError, match="expected ascending borders"):
        FeatureBlock.of(whole, 2, 2)
    with pytest.raises(InputError, match="expected 3 up to 500"):
        FeatureBlock.of(whole, 2, 0, [0, 500])
    with pytest.raises(InputError, match="expected the 250 of block 0 or all 500"):
        FeatureBlock(np.array([0, 250, 500]), 0, cases.matrix("float32").__class__(whole.data[:9]))
    with pytest.raises(InputError, match="float32 rows"):
        Codec(FeatureBlock.of(cases.matrix("int64"), 1, 0), "int8")
    with pytest.raises(InputError, match="expected 'exact'"):
        Codec(FeatureBlock.of(whole, 1, 0), "bfloat16")
    planner = FetchPlanner(np.array([0, 250, 500]), 0, 10)
    with pytest.raises(InputError, match="500"):
        planner.plan([np.array([500], np.uint32)])
    with pytest.raises(InputError, match="twice"):
        planner.plan([np.array([300, 300], np.uint32)])
