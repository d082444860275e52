"""Sums in place of leaf rows over ranks: those of one rank; as owners' sums, in a fixed order."""

import json
from collections import Counter

import numpy as np
import pytest

from foregather import BatchContents, InputError, Loader, RankOptions
from foregather.dist.features.memory_split import sum_staging
from foregather.dist.features.owner_sums import AskedSums, SumPlan, group_edges
from foregather.loader.rank_options import rank_setup
from foregather.sampling import Neighbor
from tests.dist import rank_leaves
from tests.dist.world import World
from tests.some import some


def run(launcher, folder, size):
    rank_leaves.leaf_graph().save(folder / "graph")
    with World(launcher, size, "leaves", folder) as world:
        codes = world.wait(600)
        assert codes == [0] * size, "\n".join(world.output(rank) for rank in range(size))
    return [
        (
            np.load(folder / f"leaves{rank}.npz"),
            json.loads((folder / f"leaves{rank}.json").read_text()),
        )
        for rank in range(size)
    ]


def added_up(batch, weighted, starts=None):
    """Sums one edge after the other; by owner, if borders of blocks are given."""
    targets = sum(batch.num_sampled_nodes[:-1])
    rows, ids = batch.x.numpy(), batch.n_id.numpy()
    parts = {}
    for e, (source, target) in enumerate(batch.edge_index.T.tolist()):
        part = 0
        if starts is not None and source >= targets:
            part = 1 + np.searchsorted(starts, ids[source], "right")
        row = rows[source] * batch.edge_weight[e].numpy() if weighted else rows[source]
        at = parts.setdefault(target, {})
        at[part] = at.get(part, np.zeros_like(row)) + row
    sums = np.zeros((targets, rows.shape[1]), np.float32)
    for target, found in parts.items():
        for part in sorted(found):
            sums[target] += found[part]
    return sums


@pytest.fixture(scope="module")
def whole():
    """The whole batches of one rank, by rule, epoch and number."""
    graph, made = rank_leaves.leaf_graph(), {}
    for rule in rank_leaves.RULES:
        loader = rank_leaves.leaf_loader(graph, "rows", rule, 8)
        for epoch in range(rank_leaves.EPOCHS + 1):
            made[rule, epoch] = list(loader)
    return made


def check_case(case, parts, whole):
    """What ranks have of a loader against whole batches; how many sums were compared."""
    name, _, kind, wire, rule, *_ = case
    checked = 0
    for kept, facts in parts:
        starts = facts[name]["starts"] if wire == "auto" else None
        for key in (key for key in kept.files if key.startswith(f"{name}/")):
            _, epoch, number, what = key.split("/")
            batches = whole[rule, int(epoch)]
            if int(number) >= len(batches):  # padding of the last step
                continue
            batch, found = batches[int(number)], kept[key]
            if what == "x":
                assert np.array_equal(found, batch.x[: len(found)])
                continue
            assert np.array_equal(found, added_up(batch, kind == "weighted", starts)), key
            near = added_up(batch, kind == "weighted")
            assert np.allclose(found, near, rtol=1e-5, atol=1e-5)
            checked += 1
    return checked


def check_bytes(name, parts, wire):
    """What crossed is what was announced, to the byte."""
    sent, announced = Counter(), Counter()
    for source, _, purpose, count in parts[0][1][name]["sent"]:
        sent[source, purpose] += count
        sent[purpose] += count
    for rank, (_, facts) in enumerate(parts):
        counters = facts[name]["counters"]
        for purpose, count in counters.get("announced", {}).items():
            announced[purpose] += count
            if "request" in purpose:
                assert count == sent[rank, purpose], (name, purpose)
    for purpose in ("features: reply", "sums: reply"):
        assert announced[purpose] == sent[purpose], (name, purpose)
    assert (wire == "auto") == ("leaves: as" in parts[0][1][name]["explain"])
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_sums_over_ranks(launcher, tmp_path, whole, size):
    parts = run(launcher, tmp_path, size)
    crossed = {}
    for case in some([one for one in rank_leaves.LOADERS if one[0] in parts[0][1]]):
        name, c, _, wire, rule, _, memory, storage = case
        assert check_case(case, parts, whole) > 20
        crossed[name] = check_bytes(name, parts, wire)
        counts = [facts[name]["counters"].get("sums") for _, facts in parts]
        assert (counts[0] is None) == (wire == "rows")
        if wire == "auto":
            by_owners = rule == "many" and storage == "memory" and memory is not None and size > c
            assert all((one["summed"] > 0) == by_owners for one in counts), (name, counts)
        for _, facts in parts:
            assert memory is None or facts[name]["memory"] <= memory
    features = ("features: reply", "features: request", "sums: reply", "sums: request")
    total = {name: sum(sent[one] for one in features) for name, sent in crossed.items()}
    assert total["auto"] < (0.75 if size == 2 else 0.85) * total["rows"], total
    assert crossed["auto"] == crossed["auto again"]
    for name in some(["auto one", "auto again", "auto rounds", "auto disk", "auto usual"]):
        for kept, _ in parts:
            for key in some([key for key in kept.files if key.startswith("auto/")]):
                assert np.array_equal(kept[key], kept[key.replace("auto/", f"{name}/")])


# ---- plans ---------------------------------------------------------------------------------------


def samples(rule="many", count=3):
    graph, rng = rank_leaves.leaf_graph(), np.random.default_rng(1)
    seeds = [rng.integers(0, rank_leaves.NODES, 6) for _ in range(count)]
    return rank_leaves.RULES[rule].sample_bulk(graph, seeds, seed=1).samples


def test_groups_are_all_edges_by_part_and_target():
    starts = np.array([0, 300, 301, 1200, rank_leaves.NODES])
    for sample in some(samples()):
        groups, targets = group_edges(sample, starts), sample.num_nodes[-2]
        assert sorted(groups.edge) == list(range(len(sample.row)))
        seen = []
        for target in range(targets):
            for group in groups.order[groups.by_target[target] : groups.by_target[target + 1]]:
                edges = groups.edge[groups.starts[group] : groups.starts[group + 1]]
                part = int(np.searchsorted(groups.parts, group, "right")) - 1
                assert len(edges) and (np.diff(edges) > 0).all()
                assert (sample.col[edges] == target).all()
                for node in sample.row[edges]:
                    leaf = np.searchsorted(starts, sample.node[node], "right")
                    assert part == (0 if node < targets else leaf)
                seen.append((target, part))
        assert seen == sorted(set(seen)) and len(seen) == groups.count


@pytest.mark.parametrize("weighted", [False, True])
def test_requests_have_the_bytes_that_are_announced(weighted):
    made, starts = samples(), np.array([0, 700, 1500, rank_leaves.NODES])
    groups = [group_edges(sample, starts) for sample in made]
    weights = [np.ones(len(s.row), np.float32) if weighted else None for s in made]
    plan = SumPlan(1, made, groups, weights, 160)
    messages = [plan.request(owner) for owner in (0, 2)]
    assert sum(map(len, messages)) == plan.request_bytes()
    asked = [AskedSums.read(message, weighted, len(made)) for message in messages]
    assert sum(int(one.counts.sum()) for one in asked) * 160 == plan.reply_bytes()
    for one in some(asked):
        assert one.starts[-1] == len(one.ids) and (np.diff(one.starts) > 0).all()
        assert (one.weight is not None) == weighted
    with pytest.raises(InputError, match="shorter"):
        AskedSums.read(messages[0][:-3], weighted, len(made))


def test_the_fewest_bytes_of_rows_count_each_row_once():
    made, starts = samples(), np.array([0, 700, rank_leaves.NODES])
    groups = [group_edges(sample, starts) for sample in made]
    plan = SumPlan(0, made, groups, [None] * len(made), 160)
    leaves = [set(s.node[s.num_nodes[-2] :].tolist()) for s in made]
    known = set().union(*(s.node[: s.num_nodes[-2]].tolist() for s in made))
    remote = {node for node in set().union(*leaves) - known if node >= 700}
    cached = np.array([*sorted(remote)[:5], -1])
    assert plan.least_row_bytes(0, 700, np.array([-1]), 100) == 104 * len(remote)
    assert plan.least_row_bytes(0, 700, cached, 100) == 104 * (len(remote) - 5)


def test_an_empty_bulk_asks_for_nothing():
    plan = SumPlan(0, [], [], [], 160)
    assert plan.request_bytes() == plan.reply_bytes() == 0


def test_staging_of_sums_is_a_part_of_the_budget():
    assert 2 * 3 * 160 * sum_staging(8_000_000, 160, 3) <= 1_000_000
    assert sum_staging(1, 160, 3) == sum_staging(None, 1 << 40, 1) == 1
    assert sum_staging(1 << 50, 1024, 1) == (64 << 20) // 2048


# ---- wrong uses ----------------------------------------------------------------------------------


def refused(text, leaves="sum", **options):
    """Ranks that do not fit to batches with these leaves."""
    loader = Loader(
        rank_leaves.leaf_graph(),
        sampler=Neighbor([2, 2]),
        contents=BatchContents(pyg=False, leaves=leaves),
    )
    with pytest.raises(InputError, match=text) as caught:
        rank_setup(loader._maker, RankOptions(**{"leaves": "auto", **options}), 2, None, "memory")
    assert "\n" not in str(caught.value)


def test_what_owners_cannot_add_up_is_refused():
    refused("batches have the rows of leaves", leaves="rows")
    refused("mode 'paper' sends rows", mode="paper")
    refused("rounds rows and not sums", wire="int8")
    loader = Loader(rank_leaves.leaf_graph(), [2])
    with pytest.raises(InputError, match="expected 'rows' or 'auto'"):
        rank_setup(loader._maker, RankOptions(leaves="sums"), 2, None, "memory")
