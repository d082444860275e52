"""What is left out of rows of other ranks: the minibatches of one rank; ranks are threads."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foregather.dist.sampling.dist_sampler import DistSampler
from foregather.dist.sampling.expand import layer_expander
from foregather.dist.sampling.layers import run
from foregather.dist.sampling.left_out import _ask_places, ask_sources, find_left_out
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.phase_clock import PhaseClock
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling import Excluded, Labor, Neighbor
from foregather.sampling.joined_trees import TreeSeeds
from foregather.sampling.seeds import distinct_seeds
from tests.dist.thread_wire import thread_wires
from tests.helpers_sampling import assert_same, skewed_graph
from tests.some import some

BATCHES = 5


def case(graph: Graph) -> tuple[list[np.ndarray], list[Excluded]]:
    """Seeds, and what is left out: edges of seeds and of others, twice, and what is no edge."""
    rng = np.random.default_rng(7)
    seeds, out = [], []
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    for _ in range(BATCHES):
        edges = rng.integers(0, graph.num_edges, 60)
        none = rng.integers(0, graph.num_nodes, (2, 8))
        ends = [
            np.concatenate([part[edges].astype(np.int64), part[edges[:5]].astype(np.int64), more])
            for part, more in ((target, none[0]), (graph.indices, none[1]))
        ]
        seeds.append(np.concatenate([ends[0][:6], ends[1][:6], rng.integers(0, 300, 4)]))
        out.append(Excluded.pairs([ends[0]], [ends[1]]))
    out[1] = Excluded.pairs([[]], [[]])  # one that leaves out nothing
    return seeds, out


def on_ranks(graph: Graph, size: int, body: Any) -> list[Any]:
    """body(channel, block, rank) of every rank, each in a thread."""
    wires = thread_wires(size)
    blocks = [Partition.of(graph, size, rank) for rank in range(size)]
    for wire in wires:
        wire.ask = lambda requests, answer, held, wire=wire: ask(wire, requests, answer, held)
    with ThreadPoolExecutor(size) as pool:
        tasks = [
            pool.submit(body, SimpleNamespace(column=wire, clock=PhaseClock()), block, rank)
            for rank, (wire, block) in enumerate(zip(wires, blocks, strict=True))
        ]
        return [task.result(120) for task in tasks]


def ask(wire: Any, requests: Any, answer: Any, held: Any) -> Any:
    asked = wire.exchange(requests, "rows: request")
    replies = [answer(held, request) if len(request) else request for request in asked]
    return wire.exchange(replies, "rows: reply")


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        Neighbor([6, 4]),
        Neighbor([5, 3], replace=True),
        Neighbor([-1, 2], expand="per-layer"),
        Labor([5, -1]),
        Labor([4, 4], debias="reference"),
    ],
    ids=repr,
)
def test_minibatches_are_those_of_one_rank(rule, wide):
    graph = skewed_graph(3, 300, 6000, wide=wide)
    seeds, out = case(graph)
    options = {"seed": 4, "epoch": 2}
    want = [
        rule.sample_bulk(graph, [ids], first_batch=b, exclude=gone, **options)[0]
        for b, (ids, gone) in enumerate(zip(seeds, out, strict=True))
    ]
    plain = rule.sample_bulk(graph, seeds, **options)
    assert any(not np.array_equal(a.edge, b.edge) for a, b in zip(want, plain, strict=True))

    def rank_part(channel: Any, block: Partition, rank: int) -> Any:
        numbers = list(range(rank, BATCHES, 3)) if rank < 2 else []  # one rank only answers
        left = find_left_out(channel, block, [out[b] for b in numbers])
        expand = layer_expander(channel, block, rule, 1, None, left)
        nodes, positions = distinct_seeds(block, [seeds[b] for b in numbers])
        dtype = block.indices.dtype
        return numbers, run(rule, expand, dtype, nodes, positions, numbers, 4, 2)

    parts = on_ranks(graph, 3, rank_part)
    for numbers, got in some(parts[:2]):
        made = [replace(s, batch=b) for s, b in zip(got, numbers, strict=True)]
        assert_same(made, [replace(want[b], batch=b) for b in numbers])
    assert len(parts[2][1]) == 0


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        Neighbor([6, 4]),
        Neighbor([5, 3], replace=True),
        Neighbor([3, 2], weights=True),
        Labor([5, -1]),
        Labor([4, 4], debias="reference", batch_dependency=2),
    ],
    ids=repr,
)
def test_trees_are_those_of_one_rank(rule, out):
    by_weight = isinstance(rule, Neighbor) and rule.weights is not None
    graph = skewed_graph(3, 300, 6000)
    if by_weight:
        weight = np.random.default_rng(1).random(graph.num_edges).astype(np.float32)
        graph = replace(graph, edge_weight=weight)
    seeds, gone = case(graph)
    rng = np.random.default_rng(2)
    rows = [rng.integers(0, 1 << 40, len(ids)) for ids in seeds]
    for b, one in enumerate(gone):
        tree = rng.integers(0, len(seeds[b]), int(one.ptr[-1]))
        gone[b] = replace(one, tree=tree)
    options: Any = [{"exclude": one} if out and not by_weight else {} for one in gone]
    want = [
        rule.sample_trees(graph, [seeds[b]], [rows[b]], seed=4, epoch=2, **options[b])[0]
        for b in range(BATCHES)
    ]

    def rank_part(channel: Any, block: Partition, rank: int) -> Any:
        numbers = list(range(rank, BATCHES, 3)) if rank < 2 else []  # one rank only answers
        sampler = DistSampler.__new__(DistSampler)
        sampler.sampler, sampler.topology, sampler.mode, sampler.threads = rule, block, "owner", 1
        sampler.channel, sampler._columns = channel, None
        sampler.grid = SimpleNamespace(rank=rank, watch=SimpleNamespace())  # type: ignore[assignment]
        trees = TreeSeeds.of([seeds[b] for b in numbers], [rows[b] for b in numbers])
        left = [gone[b] for b in numbers] if out and not by_weight else None
        return numbers, sampler._trees(trees, numbers, 4, 2, left)

    parts = on_ranks(graph, 3, rank_part)
    for numbers, got in some(parts[:2]):
        assert_same(got, [replace(want[b], batch=b) for b in numbers])
        for b, one in some(list(zip(numbers, got, strict=True))):
            np.testing.assert_array_equal(one.tree, want[b].tree)
    assert len(parts[2][1]) == 0


def test_edges_and_trees_are_refused():
    graph = skewed_graph(3, 30, 60)
    block = Partition.of(graph, 1, 0)
    channel: Any = SimpleNamespace(column=thread_wires(1)[0])
    with pytest.raises(InputError, match="partitioned over ranks by their two ends"):
        find_left_out(channel, block, [Excluded.edges([[0]])])


def test_damaged_messages_are_refused():
    graph = skewed_graph(3, 30, 60)
    block = Partition.of(graph, 2, 0)

    class Hostile:
        """Answers to a damaged request, or replies with what is damaged."""

        size, place = 2, 1

        def __init__(self, request: Any = None, reply: Any = None) -> None:
            self.request, self.reply = request, reply

        def ask(self, requests: Any, answer: Any, held: Any) -> Any:
            if self.request is not None:
                answer(block, np.array(self.request, np.uint8))
            return [np.array(self.reply, np.uint8), np.empty(0, np.uint8)]

    none, one = np.empty(0, np.int64), np.zeros(1, np.int64)
    other = Partition.of(graph, 2, 1)
    for request, words in (([29, 0], "does not have"), ([1, 1, 1], "shorter than it says")):
        channel: Any = SimpleNamespace(column=Hostile(request))
        with pytest.raises(InputError, match=words):
            _ask_places(channel, other, none, none)
    channel = SimpleNamespace(column=Hostile([100]))
    with pytest.raises(InputError, match="asks for edges that their owner does not have"):
        ask_sources(channel, other, none, none)
    for reply, words in (([], "shorter"), ([1, 1], "longer"), ([77], "not a node")):
        channel = SimpleNamespace(column=Hostile(reply=reply))
        with pytest.raises(InputError, match=words):
            ask_sources(channel, other, one, one)
