"""typed: how long does a minibatch of a graph with types, or with times, take to be sampled?

pyg-lib reads the arrays that ours reads, as int64, with rows by time where times count. It has one
thread for a minibatch, or, where torch has several, one for the relations of each source type; on
two threads it also runs as two Python threads that call it at once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from foregather.graph.hetero import HeteroGraph
from foregather.sampling import HeteroFastGCN, HeteroLabor, HeteroLadies

from .found import Peers
from .rounds import Bar, Cell, Row, Turn, Work, compare

__all__ = ["TypedCase", "measure_rules", "measure_typed"]

BULK = 8


@dataclass
class TypedCase:
    """A typed graph, a rule, and the input rows of some minibatches.

    Args:
        name: as it stands in the table.
        graph: the graph.
        rule: the sampler; with its `time`, input rows have the times of their nodes.
        seeds: minibatches of nodes of `node_type`.
        bar: how many times as long as ours the peer takes at least.
    """

    name: str
    graph: HeteroGraph
    rule: Any
    node_type: str
    seeds: list[npt.NDArray[np.int64]]
    bar: float

    @cached_property
    def times(self) -> list[npt.NDArray[np.int64]]:
        """What the tree of each input row may see."""
        time = self.graph.nodes[self.node_type].time
        assert time is not None
        return [np.ascontiguousarray(time[part]) for part in self.seeds]


def ours(case: TypedCase, threads: int, bulk: int = BULK) -> Work:
    """Our sampler, a bulk after the other; each is dropped before the next."""
    rows = np.split(np.arange(sum(map(len, case.seeds))), np.cumsum(list(map(len, case.seeds))))
    kind, timed = case.node_type, case.rule.time is not None

    def turn(number: int) -> Turn:
        nodes = edges = 0
        begin = perf_counter()
        for first in range(0, len(case.seeds), bulk):
            own = slice(first, first + bulk)
            made = case.rule.sample_bulk(
                case.graph,
                {kind: case.seeds[own]},
                seed=0,
                epoch=number,
                first_batch=first,
                threads=threads,
                rows={kind: rows[own][: len(case.seeds[own])]} if case.rule.disjoint else None,
                times={kind: case.times[own]} if timed else None,
            )
            for one in made:
                nodes += sum(len(part.node) for part in one.nodes.values())
                edges += sum(len(part.row) for part in one.edges.values())
            del made, one
        return Turn(perf_counter() - begin, len(case.seeds), nodes, edges)

    return turn


class PygLib:
    """pyg-lib's kernel on the arrays of a case, which are copied to int64 once."""

    def __init__(self, case: TypedCase) -> None:
        self.case, graph, level = case, case.graph, case.rule.time
        self.colptr, self.row = {}, {}
        for name in graph.edge_types:
            walked = graph.relation(name, level)
            self.colptr["__".join(name)] = torch.from_numpy(np.array(walked.indptr, np.int64))
            self.row["__".join(name)] = torch.from_numpy(np.array(walked.indices, np.int64))
        fanouts = zip(graph.edge_types, case.rule.num_neighbors.of(graph.edge_types), strict=True)
        self.fanouts = {"__".join(name): list(own) for name, own in fanouts}
        self.time = None
        if level is not None:
            tables = {name: table.time for name, table in graph.nodes.items()}
            self.time = {
                name: torch.from_numpy(np.array(time, np.int64))
                for name, time in tables.items()
                if time is not None
            }

    def calls(self, python: int, torch_threads: int, edge_ids: bool) -> Work:
        """One call a minibatch, by several Python threads, each with its threads of torch."""
        case = self.case
        kind, names = case.node_type, list(case.graph.node_types)
        given = [torch.from_numpy(part) for part in case.seeds]
        limits: Sequence[Any] = [None] * len(given)
        if self.time is not None:
            limits = [{kind: torch.from_numpy(part)} for part in case.times]

        def sample(part: tuple[torch.Tensor, Any]) -> tuple[int, int]:
            made = torch.ops.pyg.hetero_neighbor_sample(
                names, case.graph.edge_types, self.colptr, self.row, {kind: part[0]}, self.fanouts,
                self.time, None, part[1], None, True, case.rule.replace, True, case.rule.disjoint,
                case.rule.temporal_strategy, edge_ids,
            )  # fmt: skip
            return sum(len(v) for v in made[2].values()), sum(len(v) for v in made[0].values())

        return take_turn(sample, list(zip(given, limits, strict=True)), python, torch_threads)


def take_turn(
    sample: Callable[[tuple[torch.Tensor, Any]], tuple[int, int]],
    given: list[tuple[torch.Tensor, Any]],
    python: int,
    torch_threads: int,
) -> Work:
    """All minibatches once."""

    def turn(number: int) -> Turn:
        before = torch.get_num_threads()
        torch.set_num_threads(torch_threads)
        begin = perf_counter()
        if python == 1:
            made = [sample(part) for part in given]
        else:
            with ThreadPoolExecutor(python) as pool:
                made = list(pool.map(sample, given))
        seconds = perf_counter() - begin
        torch.set_num_threads(before)
        return Turn(seconds, len(given), sum(m[0] for m in made), sum(m[1] for m in made))

    return turn


def measure_typed(what: str, case: TypedCase, peers: Peers, rounds: int) -> list[Row]:
    """One thread, two threads, and two threads that share one minibatch."""
    peer = PygLib(case) if peers.kernel else None
    one: dict[str, Work] = {"foregather, bulk 8": ours(case, 1)}
    two: dict[str, Work] = {
        "foregather, bulk 8, two threads": ours(case, 2),
        "foregather, bulk 8, one thread": ours(case, 1),
    }
    team: dict[str, Work] = {
        "foregather, bulk 1, two threads": ours(case, 2, 1),
        "foregather, bulk 1, one thread": ours(case, 1, 1),
    }
    if peer is not None:
        one["pyg-lib"] = peer.calls(1, 1, True)
        one["pyg-lib, no edge ids"] = peer.calls(1, 1, False)
        two["pyg-lib, two Python threads"] = peer.calls(2, 1, True)
        two["pyg-lib, two Python threads, no edge ids"] = peer.calls(2, 1, False)
        team["pyg-lib, two threads of torch"] = peer.calls(1, 2, True)
    rows: list[Row] = []
    for case_name, works, bars in (
        ("one thread", one, [Bar("pyg-lib", case.bar)]),
        ("two threads", two, [Bar("foregather", 1.8)]),
        ("two threads, one minibatch at a time", team, []),
    ):
        cell = Cell(what, f"{case.name}; {case_name}", next(iter(works)), works, bars)
        rows += compare(cell, rounds)
    return rows


def measure_rules(what: str, case: TypedCase, rounds: int) -> list[Row]:
    """What other rules take on one thread, beside neighbours; their batches differ."""
    fanouts = list(case.rule.num_neighbors.default)
    sizes = [len(case.seeds[0]) * number for number in (1, 2)]
    rules = {
        "HeteroNeighbor": case.rule,
        "HeteroLabor": HeteroLabor(fanouts),
        f"HeteroLadies, {sizes} nodes a relation": HeteroLadies(sizes),
        f"HeteroFastGCN, {sizes} nodes a relation": HeteroFastGCN(sizes),
    }
    works = {
        f"foregather, {name}": ours(replace(case, rule=rule), 1) for name, rule in rules.items()
    }
    return compare(Cell(what, f"{case.name}; one thread", next(iter(works)), works), rounds)
