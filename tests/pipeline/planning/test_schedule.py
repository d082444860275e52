"""Schedules of all passes: complete, in order, free of deadlock, and of the bytes of the forms."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.pipeline import FullGraph
from foregather.pipeline.dry_run import Widths
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.way_rows import own_chunks
from foregather.pipeline.passes.segments import as_layers, cut_layers, shared_layers, stage_program
from foregather.pipeline.passes.tensor_parallel import column_bounds
from foregather.pipeline.planning.chunk_order import chunk_order
from foregather.pipeline.planning.messages import RankMessages, Sizes
from foregather.pipeline.planning.schedule import Schedule, exact_pass
from foregather.pipeline.planning.volume import (
    column_bytes,
    exchange_bytes,
    pipeline_bytes,
    schedule_bytes,
    shared_weight_bytes,
)
from tests.pipeline.cases import model, small_graph

UNSENT = 4  # messages a rank may have on their way before it waits, beside two for each other way
MODELS = {name: as_layers(model(name)) for name in ("gcn", "sage", "gcnii", "resgcn", "plain")}


@st.composite
def schedules(draw):
    """Layers with a schedule that an engine could be given."""
    layers = MODELS[draw(st.sampled_from(sorted(MODELS)))]
    how = draw(st.sampled_from(["chunkwise", "layerwise", "columns"]))
    ways = draw(st.integers(1, 4))
    stages = 1 if how == "columns" else draw(st.integers(1, 4))
    ticks = 1 if how == "columns" else stages + draw(st.integers(0, 3))
    abreast = ways if how == "columns" else ways * draw(st.integers(1, 2))
    again = draw(st.booleans())
    cuts = cut_layers(layers, stages)
    programs = tuple(stage_program(layers, cuts, stage, again) for stage in range(stages))
    order = tuple(chunk_order(ticks, draw(st.integers(0, 99)), 0))
    flags = draw(st.booleans()), draw(st.booleans()) and how != "columns"
    return layers, Schedule(how, programs, ways, abreast * ticks, order, *flags)


@st.composite
def sized(draw):
    """The same with rows of random number and width."""
    layers, schedule = draw(schedules())
    random = np.random.default_rng(draw(st.integers(0, 999)))
    shape = (len(schedule.order), schedule.ways, schedule.ways)
    crossing = random.integers(0, 3, shape) * (1 - np.eye(schedule.ways, dtype=np.int64))
    message = tuple(int(random.integers(1, 6)) if layer.aggregates else 0 for layer in layers)
    skip = {layer.gives: int(random.integers(1, 6)) for layer in layers if layer.gives}
    widths = Widths(tuple(random.integers(1, 6, len(layers) + 1).tolist()), message, skip)
    nodes = random.integers(1, 9, schedule.chunks).tolist()
    weights = random.integers(0, 9, len(layers)).tolist()
    return (
        layers,
        schedule,
        Sizes(nodes, crossing, widths, weights, 8, draw(st.sampled_from([2, 8]))),
    )


@given(schedules())
def test_every_chunk_passes_every_layer_once_each_way(case):
    layers, schedule = case
    done = {}  # (chunk, layer, backward): how often
    for rank in range(schedule.ranks):
        stage, way = divmod(rank, schedule.ways)
        mine = own_chunks(schedule.chunks, way, schedule.ways)
        last: dict = {}
        tasks = schedule.tasks(rank)
        turn = [task.backward for task in tasks]
        assert turn == sorted(turn)  # no forward task behind a backward one
        for task in tasks:
            if task.kind != "run":
                continue
            assert set(task.chunks) <= set(mine) and task.chunks
            numbers = task.updates[::-1] if task.backward else task.updates
            for chunk in task.chunks:
                assert chunk % len(schedule.order) in task.ticks
                for number in numbers:
                    key = (chunk, number, task.backward)
                    done[key] = done.get(key, 0) + 1
                    before = last.get((chunk, task.backward))
                    step = -1 if task.backward else 1
                    assert before is None or number == before + step  # layer by layer
                    last[chunk, task.backward] = number
        program = schedule.programs[stage]
        for chunk in mine:
            assert last[chunk, False] == program.last - 1
            assert not schedule.gradients or last[chunk, True] == program.first
    phases = (False, True) if schedule.gradients else (False,)
    every = {(c, n, b) for c in range(schedule.chunks) for n in range(len(layers)) for b in phases}
    assert done.keys() == every and set(done.values()) == {1}


@given(schedules())
def test_rows_are_there_before_they_are_read(case):
    _, schedule = case
    for rank in range(schedule.ranks):
        tasks, stage = schedule.tasks(rank), rank // schedule.ways
        runs = [(i, t) for i, t in enumerate(tasks) if t.kind == "run"]
        crossing = 0
        for place, task in enumerate(tasks):
            mine = [i for i, t in runs if t.backward is task.backward]
            if task.kind in ("receive", "send"):
                passed = [i for i in mine if tasks[i].chunks[0] == task.chunks[0]]
                passed = passed or [i for i in mine if task.chunks[0] in tasks[i].chunks]
                assert place < passed[0] if task.kind == "receive" else passed[-1] < place
            elif task.kind == "exchange":
                crossing += 1
                reads = [i for i in mine if task.layers[0] in tasks[i].updates]
                gives = [i for i in mine if tasks[i].segment == task.segment - 1]
                first, second = (reads, gives) if task.backward else (gives, reads)
                assert first[-1] < place < second[0]
        phases = 1 + schedule.gradients
        if schedule.how == "layerwise":
            assert crossing == phases * len(schedule.exchanging(stage))


@given(sized())
def test_gradients_go_where_rows_came_from(case):
    _, schedule, sizes = case
    for rank in range(schedule.ranks if schedule.gradients else 0):
        messages, found = RankMessages(schedule, sizes, rank), {False: {}, True: {}}
        for task in schedule.tasks(rank):
            for message in messages.of(task):
                if message.purpose != "weights" and schedule.how != "columns":
                    key = (message.peer, message.sending != task.backward)
                    found[task.backward][key] = found[task.backward].get(key, 0) + message.bytes
        assert found[False] == found[True]


@given(sized())
def test_sums_by_columns_begin_with_a_trade_for_columns(case):
    _, schedule, sizes = case
    for way in range(schedule.ways if schedule.how == "columns" else 0):
        messages = RankMessages(schedule, sizes, way)
        for task in (t for t in schedule.tasks(way) if t.kind == "run"):
            for layer in task.layers:
                bounds = column_bounds(sizes.widths.message[layer], schedule.ways)
                trades = messages.exchanges(task, layer)
                features = layer == 0 and schedule.programs[0].reads_features
                assert len(trades) == (1 if features else 2)
                for sent in (m for m in trades[0] if len(trades) == 2 and m.sending):
                    columns = bounds[sent.peer + 1] - bounds[sent.peer]
                    assert sent.bytes == sizes.nodes[way] * columns * 8  # own rows, its columns
                for sent in (m for m in trades[-1] if m.sending):
                    columns = bounds[way + 1] - bounds[way]
                    assert sent.bytes == sizes.nodes[sent.peer] * columns * 8


@given(schedules())
def test_ticks_go_in_the_order_and_back_in_its_reverse(case):
    _, schedule = case
    for rank in range(schedule.ranks):
        for backward in (False, True) if schedule.gradients else (False,):
            runs = [t for t in schedule.tasks(rank) if t.kind == "run" and t.backward is backward]
            segments = {t.segment for t in runs}
            order = schedule.order[::-1] if backward else schedule.order
            for segment in segments:
                seen = [t.ticks[0] for t in runs if t.segment == segment]
                assert list(dict.fromkeys(seen)) == list(order)
            if schedule.how == "layerwise":  # everyone's message is there before it is read
                place = [t.segment for t in runs]
                assert place == sorted(place, reverse=backward)
            again = [t for t in schedule.tasks(rank) if t.kind == "again"]
            if backward and schedule.recompute:
                assert [(t.chunks, t.segment) for t in again] == [
                    (t.chunks, t.segment) for t in runs
                ]
            else:
                assert backward or not schedule.gradients or schedule.recompute or not again


class Rank:
    """Runs its messages as a link does: a send waits where too many before it are on their way."""

    def __init__(self, schedule, sizes, number):
        messages, tasks = RankMessages(schedule, sizes, number), schedule.tasks(number)
        self.number, self.most = number, UNSENT + 2 * (schedule.ways - 1)
        self.unsent: deque = deque()  # a list [taken] for each message on its way
        self.todo: deque = deque()
        for task in tasks:
            if task.kind in ("agree", "sum"):
                self.todo.append(None)  # all that was sent must have been taken
            self.todo.extend(messages.of(task))

    def go(self, mail) -> bool:
        """Goes on as far as it can; whether it did anything."""
        moved = False
        while self.todo:
            while self.unsent and self.unsent[0][0]:
                self.unsent.popleft()
            message = self.todo[0]
            if len(self.unsent) > (0 if message is None else self.most):
                return moved
            if message is not None and message.sending:
                self.unsent.append([False])
                key = (self.number, message.peer, message.purpose)
                mail.setdefault(key, deque()).append((message, self.unsent[-1]))
            elif message is not None:
                box = mail.get((message.peer, self.number, message.purpose))
                if not box:
                    return moved
                sent, taken = box.popleft()
                assert sent.bytes == message.bytes  # both sides know the size
                taken[0] = True
            self.todo.popleft()
            moved = True
        return moved


@settings(max_examples=150)
@given(sized())
def test_no_rank_waits_for_ever(case):
    _, schedule, sizes = case
    ranks = [Rank(schedule, sizes, number) for number in range(schedule.ranks)]
    mail: dict = {}
    while any([rank.go(mail) for rank in ranks]):
        pass
    assert not any(rank.todo for rank in ranks), "ranks wait for each other"
    assert not any(mail.values()), "a message that nobody takes"


@settings(max_examples=150)
@given(sized(), st.integers(0, 2))
def test_bytes_of_a_schedule_are_the_closed_forms(case, sweeps):
    layers, schedule, sizes = case
    if not schedule.gradients:
        sweeps = 0
    share = 1 if schedule.gradients else 0.5  # forward alone: half of what goes there and back
    found = schedule_bytes(schedule, sizes, sweeps)
    programs, widths = schedule.programs, sizes.widths
    columns = [widths.x[p.last] + sum(widths.skip[n] for n in p.skips_out) for p in programs[:-1]]
    assert found["rows"] == share * pipeline_bytes(sum(sizes.nodes), columns, sizes.wire, sweeps)
    messages = [widths.message[n] for n, layer in enumerate(layers) if layer.aggregates]
    raw = messages.pop(0) if programs[0].reads_features else None
    if schedule.how == "columns":
        first = column_bytes(sizes.nodes, [], 8, raw)  # never has a gradient
        rest = column_bytes(sizes.nodes, messages, 8)
        assert found["exchange"] == first + share * rest
    else:
        crossing = int(sizes.crossing.sum())
        assert found["exchange"] == share * exchange_bytes(crossing, messages, 8, sweeps)
    shared = sum(sizes.weights[n] for n in shared_layers(programs))
    weights = shared_weight_bytes(schedule.ranks, shared, 8)
    weights += shared_weight_bytes(schedule.ways, sum(sizes.weights) - shared, 8)
    assert found["weights"] == (weights if schedule.gradients else 0)


def test_an_exact_epoch_goes_by_layers_unless_nothing_is_stale():
    assert exact_pass("nodes", 1, 8) == exact_pass("nodes", 2, 4) == "layerwise"
    assert exact_pass("nodes", 1, 1) == "layerwise"
    assert exact_pass("nodes", 4, 1) == "chunkwise"
    assert exact_pass("columns", 4, 1) == "columns"


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_the_engine_carries_out_its_schedule(mode, monkeypatch):
    """What is run on one rank is what the schedule says, task by task."""
    from foregather.pipeline.passes.executor import Executor

    done = []
    before = Executor.do
    monkeypatch.setattr(Executor, "do", lambda self, t: (done.append(t), before(self, t))[1])
    run = FullGraph(
        small_graph(), model("gcnii"), 4, mode, partition="random",
        runtime=Runtime(recompute="all"),
    )  # fmt: skip
    run.engine.whole = None  # one rank needs no schedule where epochs are exact
    run.train_epoch()
    done.clear()
    run.train_epoch()
    how = "layerwise" if mode == "exact" else "chunkwise"
    said = run.engine.schedule(how, 1).tasks(0)
    assert done == [task for task in said if task.kind not in ("agree", "sum")]
    assert {task.kind for task in said} >= {"run", "again", "agree"}


def test_a_schedule_is_shown_by_rank():
    layers = MODELS["resgcn"]
    cuts = cut_layers(layers, 2)
    programs = tuple(stage_program(layers, cuts, stage, False) for stage in range(2))
    told = Schedule("chunkwise", programs, 2, 8, (2, 0, 1, 3)).show(most=3)
    assert told.splitlines()[1] == (
        "stage 0 way 1, layers 0 to 2: chunks forward 6 4 5 ... 4 in all; "
        "backward 7 5 4 ... 4 in all"
    )
