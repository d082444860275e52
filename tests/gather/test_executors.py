"""Every executor keeps the protocol: plans in order, right rows, the bytes that were announced."""

import ast
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import foregather
from foregather import Features, Graph, InputError
from foregather.dist import FeatureBlock
from foregather.dist.baselines.fetch_paper import IDS, ROWS, PaperFetcher, PaperPlanner
from foregather.dist.features.block_plan import BlockPlanner
from foregather.dist.features.block_reader import FeatureBlockReader
from foregather.dist.features.column_plan import ColumnPlanner
from foregather.dist.features.fetch_plan import REPLY, REQUEST, FetchPlanner
from foregather.dist.features.memory_split import DiskShare
from foregather.dist.features.planned_fetcher import PlannedFetcher
from foregather.dist.transport.codec import Codec
from foregather.gather.disk import DiskFeatures
from foregather.gather.executor import DiskExecutor, Executor
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures
from foregather.gather.store import Store
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.planner import Planner
from foregather.plan.repack import RepackPlanner
from tests.dist.thread_wire import thread_wires

ROWS_OF_ALL, WIDTH, SLOTS, STAGING = 2000, 40, 150, 60
STARTS = np.array([0, 700, 1300, ROWS_OF_ALL])
ROOT = Path(foregather.__file__).parent


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).random((ROWS_OF_ALL, WIDTH), np.float32)


@pytest.fixture(scope="module")
def graph(rows, tmp_path_factory):
    ptr, none = np.zeros(ROWS_OF_ALL + 1, np.int64), np.empty(0, np.uint32)
    made = Graph(ROWS_OF_ALL, 0, ptr, none, features=Features(rows))
    return Graph.open(made.save(tmp_path_factory.mktemp("executors") / "g"))


def bulks_of(seed, low=0, high=ROWS_OF_ALL, steps=(3, 2, 4)):
    """Batches of distinct rows in any order; one of them is empty."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 200, count) for count in steps]
    sizes[1][0] = 0
    return [
        [rng.permutation(np.arange(low, high, dtype=np.uint32))[:size] for size in bulk]
        for bulk in sizes
    ]


@dataclass
class Case:
    """An executor with plans of one kind.

    `append` plans a bulk and appends it; `rows` are what its steps must give, by bulk; `moved` is
    what crossed or was read in bytes, `announced` what the plans said, filled as they are made.
    `waits`: whether the next plan may wait while one is carried out; ranks `finish` a bulk first.
    """

    executor: Any
    append: Callable[[int], None]
    rows: list
    moved: Callable[[], dict[str, int]]
    announced: dict[str, int] = field(default_factory=dict)
    waits: bool = True
    finish: Callable[[], None] = lambda: None

    def announce(self, **counts):
        for name, count in counts.items():
            self.announced[name] = self.announced.get(name, 0) + count


def keeps_the_protocol(case):
    executor, total = case.executor, sum(map(len, case.rows))
    assert isinstance(executor, Executor)
    with pytest.raises(InputError, match="no step is queued"):
        executor.step()
    done = appended = 0
    queue = deque(range(len(case.rows)))
    for bulk in case.rows:
        while queue and (appended == done or (case.waits and len(queue) > 1)):
            number = queue.popleft()
            case.append(number)
            appended += len(case.rows[number])
        for step, right in enumerate(bulk):
            assert executor.steps_left == appended - done
            if step == 0:
                for wrong in (torch.empty(len(right) + 1, WIDTH), torch.empty(len(right), 2)):
                    with pytest.raises(InputError, match="expected a contiguous tensor"):
                        executor.step(wrong)
                with pytest.raises(InputError, match="out is float64, expected float32"):
                    executor.step(torch.empty(len(right), WIDTH, dtype=torch.float64))
                assert executor.steps_left == appended - done
            given = torch.empty(right.shape) if step % 2 else None
            out = executor.step(given)
            assert given is None or out is given
            np.testing.assert_array_equal(out.numpy(), right)
            done += 1
        case.finish()
    assert done == total and executor.steps_left == 0
    with pytest.raises(InputError, match="no step is queued"):
        executor.step()
    assert case.moved() == case.announced and sum(case.announced.values()) > 0
    assert executor.memory_bytes >= 0 and isinstance(executor.counters(), dict)
    assert all(isinstance(line, str) for line in executor.explain())
    executor.close()
    executor.close()


# ---- one machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["disk", "repack"])
def test_files(graph, rows, kind):
    file, bulks = FeatureFile.of(graph), bulks_of(1)
    if kind == "disk":
        planner, disk = Planner(file.geometry(), SLOTS), DiskFeatures(file, SLOTS)
    else:
        planner, disk = RepackPlanner(file.geometry(), SLOTS), RepackFeatures(file, SLOTS)
    assert isinstance(disk, DiskExecutor)

    def append(number):
        later = bulks[number + 1] if number + 1 < len(bulks) else ()
        plan = planner.plan(bulks[number], later)
        plan = disk.prepare(plan) if number == 1 else plan  # or it is done when it is appended
        disk.append(plan)
        summary, cost = planner.announce(plan, ASSUMED_DISK)
        case.announce(requests=summary.requests, bytes=summary.bytes, hits=summary.hits)
        case.announce(written=cost.bytes - summary.bytes)

    def moved():
        counted = disk.counters()
        return {name: counted.get(name, 0) for name in ("requests", "bytes", "hits", "written")}

    case = Case(disk, append, [[rows[ids] for ids in bulk] for bulk in bulks], moved)
    keeps_the_protocol(case)


def test_block_reader(graph, rows):
    low, high = STARTS[1:3].tolist()
    block = FeatureBlock.on_disk(graph, 3, 1, STARTS)
    planner = BlockPlanner(block.file, low, SLOTS)
    disk = FeatureBlockReader(block.file, low, DiskShare(SLOTS, 1 << 20), 200, 1)
    bulks = bulks_of(2, low, high)

    def append(number):
        twice = [np.concatenate([ids, ids[:7]]) for ids in bulks[number]]  # two ranks want them
        plan = planner.plan(twice, bulks[number + 1] if number + 1 < len(bulks) else [])
        disk.append(plan)
        case.announce(requests=plan.announced["requests"], bytes=plan.announced["bytes"])

    def moved():
        counted = disk.counters()
        assert counted["planned_bytes"] == counted["bytes"]
        return {name: counted[name] for name in ("requests", "bytes")}

    case = Case(disk, append, [[rows[np.sort(ids)] for ids in bulk] for bulk in bulks], moved)
    keeps_the_protocol(case)


# ---- ranks ---------------------------------------------------------------------------------------


def rank_case(place, wire, rows, graph, kind):
    """One rank of a column; they have different numbers of minibatches."""
    steps = [(3, 2, 4), (1, 5, 2), (2, 2, 6)][place]
    bulks = bulks_of(10 + place, steps=steps)
    whole = Features(rows)
    block = FeatureBlock.of(whole, 3, place, STARTS)
    disk = own = None
    if kind == "planned, own disk":
        block = FeatureBlock.on_disk(graph, 3, place, STARTS)
        disk = FeatureBlockReader(
            block.file, block.first_row, DiskShare(SLOTS, 1 << 20), 3 * STAGING, 1
        )
        own = BlockPlanner(block.file, block.first_row, SLOTS)
    codec = Codec(block, "exact")
    if kind == "paper":
        planner, fetcher = PaperPlanner(STARTS), PaperFetcher(wire, block, codec)
    else:
        fetch = FetchPlanner(STARTS, place, SLOTS, reads_local=own is not None)
        planner = ColumnPlanner(fetch, STAGING, own)
        fetcher = PlannedFetcher(wire, block, codec, SLOTS, STAGING, disk)

    def append(number):
        later = bulks[number + 1] if number + 1 < len(bulks) else ()
        plan = planner.plan(bulks[number], later)
        fetcher.append(planner.complete(plan, fetcher.request(plan)))
        if kind == "paper":
            others = sum(int(((ids < STARTS[place]) | (ids >= STARTS[place + 1])).sum())
                         for ids in bulks[number])  # fmt: skip
            case.announce(sent=4 * others, misses=others)
        else:
            sent = sum(plan.request_bytes(owner) for owner in range(3) if owner != place)
            case.announce(sent=sent, misses=plan.core.counts()["misses"])

    def moved():
        purpose = IDS if kind == "paper" else REQUEST
        sent = [e.bytes for (_, _, p), e in wire.ledger.entries().items() if p == purpose]
        counted = fetcher.counters()
        if kind != "paper":
            assert counted["announced"][REQUEST] == sum(sent)
            assert counted["announced"][REPLY] == counted["rows"]["misses"] * codec.row_bytes
        if disk is not None:
            assert counted["disk"]["bytes"] == counted["disk"]["planned_bytes"] > 0
        return {"sent": sum(sent), "misses": counted["rows"]["misses"]}

    expected = [[rows[ids] for ids in bulk] for bulk in bulks]
    case = Case(fetcher, append, expected, moved, waits=False, finish=fetcher.drain)
    return case


@pytest.mark.parametrize("kind", ["planned", "planned, own disk", "paper"])
def test_ranks(graph, rows, kind):
    """Three ranks step together; what they sent one another in all is what was announced."""
    wires = thread_wires(3)
    cases = [rank_case(place, wire, rows, graph, kind) for place, wire in enumerate(wires)]
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(keeps_the_protocol, case) for case in cases]:
            done.result()
    purpose = ROWS if kind == "paper" else REPLY
    entries = [item for wire in wires for item in wire.ledger.entries().items()]
    replies = sum(entry.bytes for (_, _, given), entry in entries if given == purpose)
    assert replies == sum(case.announced["misses"] for case in cases) * 4 * WIDTH


def test_what_a_failed_step_leaves(graph, rows):
    """The ranks are no longer at one point: nothing that was queued goes on by itself."""

    class Broken:
        size, place = 3, 0

        def swap(self, *_):
            raise InputError("cut")

        exchange = swap

    case = rank_case(0, thread_wires(3)[0], rows, graph, "paper")
    fetcher = PaperFetcher(Broken(), case.executor.block, case.executor.codec)
    fetcher.append(PaperPlanner(STARTS).plan([np.array([5, 900], np.uint32)] * 2))
    with pytest.raises(InputError, match="cut"):
        fetcher.step()
    assert fetcher.steps_left == 0


# ---- who decides ---------------------------------------------------------------------------------

EXECUTORS = (
    "gather/disk.py",
    "gather/feature_reader.py",
    "gather/repack.py",
    "dist/features/block_reader.py",
    "dist/features/planned_fetcher.py",
)
KINDS = {
    DiskFeatures,
    RepackFeatures,
    FeatureBlockReader,
    PlannedFetcher,
    PaperFetcher,
    FeatureFile,
    Store,
}


def named(tree, kind):
    return {node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(tree) if isinstance(node, kind)}  # fmt: skip


def test_executors_do_not_plan():
    for path in EXECUTORS:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = named(tree, (ast.Name, ast.Attribute))
        assert len(names) > 20
        planning = {name for name in names if "Planner" in name} | names & {"choose", "cut_rounds"}
        assert not planning, f"{path} uses {planning}"


def test_nobody_asks_which_executor_or_source_it_has():
    """Their classes are not told apart; what a source is, it says by its protocol."""
    kinds, found, looked = {kind.__name__ for kind in KINDS}, set(), 0
    for path in ROOT.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance":
                looked += 1
                asked = kinds & named(call.args[1], (ast.Name, ast.Attribute))
                found |= {(str(path.relative_to(ROOT)), name) for name in asked}
    assert found == set()
    assert looked > 100
