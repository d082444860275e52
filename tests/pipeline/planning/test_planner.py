"""The planner and its simulator against closed forms, brute force and hand-made cases."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather.errors import BudgetError, InputError
from foregather.pipeline import FullGraph, Line, make_chunks, make_plan, measure_line
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.planning import measured_line
from foregather.pipeline.planning.planner import _choice, _settings
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import Action, simulate
from foregather.pipeline.planning.volume import (
    column_bytes,
    exchange_bytes,
    pipeline_bytes,
    shared_weight_bytes,
)
from foregather.pipeline.planning.workload import Setting, memory_of, split_layers, workload_of
from foregather.plan.candidate import ranked
from tests.pipeline.cases import double, model, small_graph
from tests.some import some

GRAPH = small_graph()
NO_TIME = Line(0.0, 1e18)


def even(count: int, forward: float = 1.0, backward: float = 2.0) -> list[LayerCost]:
    """Layers that cost seconds by call only."""
    return [LayerCost((0, 0, forward), (0, 0, backward), (100.0, 10.0))] * count


def test_simulated_messages():
    """Two messages of 100 bytes at 100 bytes per second, half a second away."""
    programs = [
        [Action("compute", 1.0, name="f0"), Action("send", peer=1, bytes=100),
         Action("send", peer=1, bytes=100)],
        [Action("receive", peer=0), Action("receive", peer=0), Action("compute", 2.0, name="f0")],
    ]  # fmt: skip
    found = simulate(programs, Line(0.5, 100.0))
    assert found.seconds == pytest.approx(1 + 0.5 + 1 + 1 + 2)  # one after the other on the line
    assert found.bytes == 200 and found.busy == [1.0, 2.0]
    assert found.bubble == pytest.approx(1 - 3 / 11)
    assert [(r.rank, r.begin, r.end) for r in found.runs] == [(0, 0.0, 1.0), (1, 3.5, 5.5)]
    with pytest.raises(InputError, match="rank 0 of the simulation waits"):
        simulate([[Action("receive", peer=1)], []], Line())


def test_bytes_make_work_where_ranks_have_no_core_for_them():
    one = [Action("send", peer=1, bytes=100), Action("compute", 2.0)]
    other = [Action("receive", peer=0), Action("compute", 4.0)]
    assert simulate([one, other], Line(0.5, 100.0)).seconds == 0.5 + 1 + 4
    found = simulate([one, other], Line(0.5, 100.0, work=0.03))
    assert found.seconds == pytest.approx(0.5 + 1 + 3 + 4) and found.busy == [2.0, 4.0]
    assert simulate([one, []], Line(0.5, 100.0, work=0.03)).seconds == pytest.approx(3 + 2)


def test_messages_take_time_from_computing_on_a_core_that_they_share():
    line = Line(0.0, 100.0, work=0.01, call=0.25)
    one = [Action("send", peer=1, bytes=100), Action("compute", 2.0, name="f0")]
    other = [Action("receive", peer=0), Action("compute", 4.0)]
    found = simulate([one, other], line)
    assert found.seconds == pytest.approx(1 + 1.25 + 4) and found.busy == [2.0, 4.0]
    more = [one[0], Action("compute", 0.5), Action("send", peer=1), *one[1:], one[0]]
    # sent together, though something is packed between them; work of a chunk parts them
    assert simulate([more, []], line).seconds == pytest.approx(1.25 + 0.5 + 2 + 1.25)
    reads = [Action("receive", peer=0), Action("receive", peer=0), Action("send", peer=0)]
    assert simulate([more[:3], reads], line).seconds == pytest.approx(1 + 1.25 + 0.25)
    with pytest.raises(InputError, match="-1 s per call"):
        Line(call=-1)


@pytest.mark.parametrize(
    ("rate", "cores", "seconds"), [(1e9, None, 0.004), (1e7, None, 0.001), (1e9, 2, 0.001)]
)
def test_what_messages_take_from_computing_is_told_by_exchanges_beside_it(
    rate, cores, seconds, monkeypatch
):
    """By the clock where bytes have passed by then, and ranks have cores; else by work done."""
    asked = []

    def beside(other, count, least, group):
        asked.append((other, count, least))
        return (0.002, 0.0005) if count == 1 else (0.006, 0.0015)

    monkeypatch.setattr(measured_line, "_beside", beside)
    work, call = measured_line._work(1, 1e-4, rate, cores, None)
    assert asked == [(1, 1, 4e-4), (1, measured_line._LARGE, 4e-4)]
    assert work == pytest.approx(seconds / (2 * 4 * measured_line._LARGE))
    assert call == 0.001  # half of an exchange is one message


def test_ranks_share_cores_while_they_work():
    """Three ranks on two cores, by hand: 2, 2 and 4 seconds of work, then one of them alone."""
    work = [[Action("compute", 2.0, name="f0")], [Action("compute", 2.0)], [Action("compute", 4.0)]]
    assert simulate(work, Line()).seconds == 4.0
    found = simulate(work, Line(cores=2))
    assert found.seconds == pytest.approx(3 + 2)  # two thirds of a core each, then a whole one
    assert found.busy == [2.0, 2.0, 4.0] and found.runs[0].end == pytest.approx(3.0)
    assert simulate(work, Line(cores=1)).seconds == pytest.approx(8.0)
    # a rank that waits leaves its core to the others
    pair = [
        [Action("receive", peer=1), Action("compute", 1.0)],
        [Action("compute", 3.0), Action("send", peer=0, bytes=100)],
    ]
    for cores in (None, 1, 2):
        assert simulate(pair, Line(0.5, 100.0, cores=cores)).seconds == pytest.approx(3 + 1.5 + 1)
    with pytest.raises(InputError, match="cores is 0, expected at least 1"):
        Line(cores=0)


@pytest.mark.parametrize(("stages", "ticks"), [(2, 2), (2, 8), (3, 6), (4, 4), (4, 16)])
def test_a_balanced_pipeline_takes_k_plus_s_minus_1_ticks(stages, ticks):
    work = workload_of(GRAPH, model("gcn") + model("gcn")[1:1], Runtime(), even(4))
    setting = next(
        s for s in _settings(work, stages, "fast")
        if (s.mode, s.stages, s.chunks, s.recompute) == ("fast", stages, ticks, "none")
    )  # fmt: skip
    cut = measure_cut(GRAPH, make_chunks(GRAPH, ticks, "random"), 1)
    found = simulate(rank_programs(work, setting, cut), NO_TIME)
    layers = max(b - a for a, b in itertools.pairwise(setting.cuts))
    assert layers == -(-4 // stages)
    if 4 % stages == 0:
        assert found.seconds == pytest.approx((ticks + stages - 1) * layers * 3)
        assert found.bubble == pytest.approx((stages - 1) / (ticks + stages - 1))


@pytest.mark.parametrize("name", ["gcn", "sage", "gcnii", "resgcn"])
@pytest.mark.parametrize("again", [False, True])
def test_simulated_bytes_are_the_closed_forms(name, again):
    runtime = Runtime(initial_again=again)
    layers = model(name)
    work = workload_of(GRAPH, layers, runtime, even(len(layers)))
    whole = sum(p.numel() for layer in layers for p in layer.parameters())
    for ranks in (2, 4, 6):
        for setting in some(_settings(work, ranks, "fast")):
            chunks = make_chunks(GRAPH, setting.chunks, "random", 0, setting.ways)
            cut = measure_cut(GRAPH, chunks, setting.ways)
            found = simulate(rank_programs(work, setting, cut), Line())
            first = sum(work.weights([n]) for n in setting.shared(work))
            expected = shared_weight_bytes(ranks, first, 8)
            expected += shared_weight_bytes(setting.ways, whole - first, 8)
            messages = [work.widths.message[n] for n in range(len(layers)) if layers[n].aggregates]
            raw = messages.pop(0) if work.raw_first else None
            if setting.split == "columns":
                expected += column_bytes(cut.nodes, messages, 8, raw)
            else:
                expected += exchange_bytes(int(cut.crossing.sum()), messages, 8)
            columns = []
            for boundary in setting.cuts[1:-1]:
                sends = not (again or setting.again)
                skip = name == "gcnii" and sends and 1 <= boundary <= 4
                columns.append(work.widths.x[boundary] + (6 if skip else 0))
            assert found.bytes == expected + pipeline_bytes(60, columns, 8)


def slowest(costs, cuts) -> float:
    return max(sum(c.forward[2] for c in costs[a:b]) for a, b in itertools.pairwise(cuts))


def test_layers_are_split_as_brute_force_would():
    rng = np.random.default_rng(0)
    layers = model("resgcn")  # six layers
    for _ in range(10):
        costs = [LayerCost((0, 0, t), (0, 0, 0), (0, 0)) for t in rng.random(6)]
        work = workload_of(GRAPH, layers, Runtime(), costs)
        for stages in (1, 2, 3, 4, 6):
            best = min(
                slowest(costs, (0, *inner, 6))
                for inner in itertools.combinations(range(1, 6), stages - 1)
            )
            assert slowest(costs, split_layers(work, stages)) == pytest.approx(best)


def test_the_cut_is_what_loops_find():
    for ways, count in ((1, 5), (2, 8), (3, 9)):
        chunks = make_chunks(GRAPH, count, "random", 1, ways)
        cut = measure_cut(GRAPH, chunks, ways)
        assert cut.between == pytest.approx(chunks.cut(GRAPH))
        chunk = chunks.chunk_of(chunks.number)
        edges, stale, read = np.zeros(count, int), 0, set()
        others = [set() for _ in range(count)]
        for v in range(60):
            for u in GRAPH.indices[slice(*GRAPH.indptr[v : v + 2])]:
                edges[chunk[v]] += 1
                if chunk[u] != chunk[v]:
                    others[chunk[v]].add(int(u))
                stale += chunk[u] % (count // ways) != chunk[v] % (count // ways)
                if chunk[u] * ways // count != chunk[v] * ways // count:
                    read.add((chunk[v] * ways // count, int(u)))
        assert list(cut.edges) == edges.tolist()
        assert list(cut.others) == [len(one) for one in others]
        assert cut.stale == pytest.approx(stale / GRAPH.num_edges / 2)
        assert int(cut.crossing.sum()) == len(read)
        assert cut.alpha == len(read) / 60


def test_rows_of_other_chunks_take_their_time():
    layers = model("resgcn")  # four aggregations between two dense layers
    dense, read = (
        LayerCost((0,) * 3, (0,) * 3, (0, 0)),
        LayerCost((0,) * 3, (0,) * 3, (0, 0), (1, 2)),
    )
    work = workload_of(GRAPH, layers, Runtime(), [dense, *[read] * 4, dense])
    for ways, count in ((1, 6), (2, 2)):
        cut = measure_cut(GRAPH, make_chunks(GRAPH, count, "random", 0, ways), ways)
        setting = Setting("nodes", "exact", 1, ways, count, (0, 6))
        found = simulate(rank_programs(work, setting, cut), NO_TIME)
        packed = 2 * 2 * int(cut.crossing.sum())  # there and back, by both ends
        assert sum(found.busy) == pytest.approx(4 * (3 * sum(cut.others) + packed))
        assert sum(cut.others) > 0


def plan(ranks, mode="exact", **options):
    layers = model("gcnii")
    costs = [LayerCost((1e-7, 1e-9, 1e-5), (2e-7, 2e-9, 2e-5), (100.0, 1.0))] * len(layers)
    return make_plan(GRAPH, layers, ranks, mode, partition="random", costs=costs, **options)


def test_the_choice_follows_mode_line_and_memory():
    exact = plan(4, "exact", line=Line(1e-6, 1e12))
    assert all(c.stale == 0 for c in exact.candidates)
    fast = plan(4, "fast", line=Line(1e-6, 1e6))
    fewest = min(fast.candidates, key=lambda c: c.bytes)
    assert fast.chosen.seconds == min(c.seconds for c in fast.candidates)
    assert fast.chosen.bytes == fewest.bytes  # a slow line: bytes are time
    assert not any(c.setting.mode == "fast" for c in plan(4, "fast", stale=0.0).candidates
                   if not c.refused)  # fmt: skip
    limit = sorted(c.memory for c in fast.candidates)[1]
    tight = plan(4, "fast", line=Line(1e-6, 1e6), memory=limit)
    assert tight.chosen.memory <= limit
    assert sum(c.refused == "over the memory limit" for c in tight.candidates) > 0
    with pytest.raises(BudgetError, match="the least memory of any is") as told:
        plan(4, memory=100)
    assert told.value.least == min(c.memory for c in exact.candidates)
    with pytest.raises(InputError, match="ranks is 0"):
        plan(0)
    with pytest.raises(InputError, match="a line of 0"):
        Line(rate=0)
    with pytest.raises(InputError, match="-1 s per byte and .* expected a rate above 0"):
        Line(work=-1)
    with pytest.raises(InputError, match="two ranks"):
        measure_line()


def test_columns_are_not_split_where_layers_read_rows():
    from torch_geometric.nn import GATConv

    with double():
        layers = [GATConv(7, 6), GATConv(6, 3)]
    found = make_plan(GRAPH, layers, 2, partition="random", costs=even(2))
    assert {c.setting.scheme for c in found.candidates} == {"graph", "pipeline"}


def test_explain_says_what_would_flip_the_choice():
    made = plan(4, "fast", line=Line(1e-6, 1e7))
    text = made.explain()
    rows = text.partition("\nchosen: ")[0].splitlines()
    assert len([r for r in rows if "%" in r]) == len(made.candidates)
    for scheme in ("tensor", "graph", "hybrid", "pipeline"):
        assert f"\n{scheme}" in text
    setting = made.chosen.setting
    assert text.count(": chunks forward ") == setting.stages * setting.ways
    flips = made.flips()
    assert len(flips) == 3
    named = [f for f in flips if f.startswith("at ")]
    for flip in named:  # what it says is true
        rate = float(flip.split()[1]) * 1e9
        other = plan(4, "fast", line=Line(1e-6, rate)).chosen.setting
        assert flip.split(": ")[1].startswith(other.scheme)


def priced(made, prices):
    """The same candidates with other seconds and stale shares, chosen anew."""
    found = [
        replace(one, seconds=seconds, stale=stale, refused=refused)
        for one, (seconds, stale, refused) in zip(made.candidates, prices, strict=False)
    ]
    chosen = _choice(found)
    assert chosen is not None
    return replace(made, candidates=ranked(found), chosen=chosen)


def test_skip_tensors_are_sent_or_made_again_as_the_line_asks():
    """A slow line: fewer bytes win; a fast one: the work of the first layer decides."""
    layers = model("gcnii")
    costs = [LayerCost((1e-7, 0, 1e-3), (2e-7, 0, 2e-3), (100.0, 1.0))] * len(layers)

    def made(rate, **options):
        line = Line(1e-6, rate)
        return make_plan(
            GRAPH, layers, 2, "fast", partition="random", costs=costs, line=line, **options
        )

    slow, fast = made(1e5), made(1e12)
    assert slow.chosen.setting.again and slow.options()["runtime"].initial_again
    assert not fast.chosen.setting.again and not fast.options()["runtime"].initial_again
    assert "skip tensors again" in slow.explain() and "skip tensors sent" in fast.explain()
    for one in fast.candidates:
        if one.setting.again:
            other = next(
                c for c in fast.candidates if replace(one.setting, again=False) == c.setting
            )
            assert one.bytes < other.bytes and one.busiest > other.busiest
    given = made(1e5, runtime=Runtime(initial_again=True))  # nothing is left to send
    assert not any(c.setting.again for c in given.candidates)
    assert given.options()["runtime"].initial_again


def test_of_equally_fast_ones_the_least_stale_is_chosen():
    made = plan(4, "fast")
    tied = priced(made, [(0.0626, 0.219, ""), (0.0630, 0.102, ""), (0.0660, 0.0, "")])
    assert tied.chosen.stale == 0.102
    said = tied.decided()
    assert "decided by staleness: 10.2% at 0.063 s" in said
    assert "reads 21.9% from history at 0.0626 s, which is within 3%" in said
    assert said in tied.explain()
    clear = priced(made, [(0.0626, 0.219, ""), (0.0660, 0.102, "")])
    assert clear.chosen.stale == 0.219 and "decided by seconds" in clear.decided()
    barred = priced(made, [(0.0626, 0.219, ""), (0.0630, 0.102, "over the memory limit")])
    assert barred.chosen.stale == 0.219 and "decided by seconds" in barred.decided()
    level = priced(made, [(2.0, 0.1, ""), (2.01, 0.1, ""), (2.02, 0.2, "")])
    assert level.chosen.seconds == 2.0
    assert _choice([replace(made.chosen, refused="too stale")]) is None


def test_memory_of_the_plan_falls_with_chunks_and_recomputation():
    made = plan(1)
    by = {(c.setting.chunks, c.setting.recompute): c.memory for c in made.candidates}
    assert by[16, "all"] <= by[2, "all"] < by[1, "none"]  # pieces may be larger than chunks
    work, cuts = made.work, made.cuts
    for candidate in made.candidates:
        setting = candidate.setting
        if setting.recompute == "segments":  # measured, see test_alone
            continue
        assert candidate.memory == memory_of(work, setting, cuts[setting.chunks, 1])


def test_a_plan_on_one_rank_trains_as_it_says(tmp_path):
    layers = model("gcnii")
    made = make_plan(GRAPH, layers, memory="1MB", partition="random")  # profiled here
    assert all(min(c.forward) >= 0 and c.kept[0] > 0 for c in made.work.costs)
    options = made.options()
    run = FullGraph(GRAPH, layers, **options)
    assert len(run.chunks) == made.chosen.setting.chunks
    assert np.isfinite(run.train_epoch().loss)
    assert all(p.grad is not None for layer in layers for p in layer.parameters())
    pytest.importorskip("matplotlib")
    plan(4, "fast").draw(tmp_path / "stages.png")
    assert (tmp_path / "stages.png").stat().st_size > 1000


def test_profiling_leaves_layers_as_they_were():
    layers = model("resgcn", 0.5)
    before = [p.detach().clone() for layer in layers for p in layer.parameters()]
    state = torch.random.get_rng_state()
    make_plan(GRAPH, layers, partition="random")
    assert torch.equal(state, torch.random.get_rng_state())
    for old, new in zip(before, (p for layer in layers for p in layer.parameters()), strict=True):
        assert torch.equal(old, new) and new.grad is None
