"""plan_ranks: forecasts the traffic of training over many ranks: `foregather plan --ranks`.

Bytes and messages are counted with the real graph for some ranks and extrapolated to all; seconds
come from a model of the links. The output says which is which.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from foregather.dist.forecast.cluster_forecast import Cost, Forecast, Model
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.loader.memory.layout import held_bytes, topology_bytes
from foregather.plan.candidate import Candidate, cheapest, rank_words, ranked
from foregather.plan.line import Line
from foregather.sampling.neighbor import Neighbor
from foregather.units import format_bytes, format_count, format_number

__all__ = ["forecast_facts", "show_forecast"]

_MODES = ("default", "paper")


def forecast_facts(
    graph: Graph,
    *,
    fanouts: tuple[int, ...],
    split: str,
    batch_size: int,
    seed: int,
    ranks: int,
    replication: int,
    link: str,
    bulk: int,
    memory: int,
    room: int,
    rehearse: tuple[int, int],
) -> dict[str, Any]:
    """The forecast as JSON; `rehearse` is the grid rows and bulks that are counted.

    Raises:
        InputError: the graph has no such split, or an option is impossible.
        BudgetError: the budget is below the minimum.
    """
    if split not in graph.splits:
        raise InputError(
            f"the graph has no split {split!r}; it has {', '.join(graph.splits) or 'none'}"
        )
    nodes = np.random.default_rng(seed).permutation(np.asarray(graph.splits[split]))
    features = graph.features
    model = Model(
        graph,
        Neighbor(list(fanouts)),
        nodes,
        ranks,
        replication,
        Line.parse(link),
        batch_size=batch_size,
        bulk=bulk,
        row_bytes=0 if features is None else features.width * features.dtype.itemsize,
        memory=memory,
        seed=seed,
    )
    made = model.forecast(*rehearse)
    return {
        "ranks": ranks,
        "replication": replication,
        "link": {"bandwidth": model.link.rate, "latency": model.link.latency},
        "batches": model.batches,
        "epoch_bulks": made.epoch_bulks,
        "rehearsed": {"ranks": made.ranks, "bulks": made.bulks},
        "exact_bytes": made.exact,
        "seconds_are": "modelled",
        **{mode: _costs(made, mode) for mode in _MODES},
        "layouts": _layouts(graph, made, ranks // replication, memory, room),
    }


@dataclass(frozen=True)
class TopologyCandidate(Candidate):
    """Where neighbour lists are, over ranks: "replicated" or "partitioned"."""

    topology: str


def _layouts(
    graph: Graph, made: Forecast, blocks: int, memory: int, room: int
) -> list[dict[str, Any]]:
    """Lists both placements of the topology, the cheaper one that fits first."""
    block = -(-held_bytes(graph) // blocks)
    lists = topology_bytes(graph)
    peaks = {"replicated": block - lists // blocks + lists + memory, "partitioned": block + memory}
    ways = []
    for topology, peak in peaks.items():
        costs = made.default.items()
        kept = [cost for name, cost in costs if topology == "partitioned" or name == "features"]
        ways.append(
            TopologyCandidate(
                topology,
                seconds=sum(cost.seconds for cost in kept),
                bytes=sum(cost.bytes for cost in kept),
                memory=peak,
                refused="" if peak <= room else "too large",
            )
        )
    found = ranked(ways)
    words = rank_words(found, cheapest(found), "too large")
    return [
        {
            "topology": one.topology,
            "bytes": one.bytes,
            "seconds": one.seconds,
            "peak": one.memory,
            "fits": not one.refused,
            "rank": rank,
        }
        for one, rank in zip(found, words, strict=True)
    ]


def _costs(made: Forecast, mode: str) -> dict[str, Any]:
    parts: dict[str, Cost] = getattr(made, mode)
    return {
        name: {"bytes": cost.bytes, "messages": cost.messages, "seconds": cost.seconds}
        for name, cost in parts.items()
    }


def show_forecast(facts: dict[str, Any]) -> str:
    """Returns the table as text."""
    head = f"{'':<10} {'mode':<8} {'bytes':>10} {'messages':>14} {'seconds':>10}"
    lines = [
        f"an epoch of {format_number(facts['batches'], 'batch')} over "
        f"{format_number(facts['ranks'], 'rank')}, "
        f"replication {facts['replication']}",
        head,
    ]
    for mode in _MODES:
        for name, cost in facts[mode].items():
            lines.append(
                f"{name:<10} {mode:<8} {format_bytes(cost['bytes']):>10} "
                f"{format_count(cost['messages']):>14} {cost['seconds']:>10.3g}"
            )
    if not facts["paper"]:
        lines.append(
            "paper      cannot use this grid: replication² must divide the number of ranks"
        )
    lines.append(f"{'':<10} {'topology':<11} {'bytes':>10} {'seconds':>10} {'peak of a rank':>16}")
    for one in facts["layouts"]:
        lines.append(
            f"{one['rank']:<10} {one['topology']:<11} {format_bytes(one['bytes']):>10} "
            f"{one['seconds']:>10.3g} {format_bytes(one['peak']):>16}"
        )
    seen = facts["rehearsed"]
    if facts["exact_bytes"]:
        lines.append("bytes and messages are exact; seconds of the links are modelled")
    else:
        lines.append(
            f"modelled: {seen['ranks']} of {facts['ranks']} ranks and {seen['bulks']} of "
            f"{facts['epoch_bulks']} bulks were rehearsed and extrapolated; seconds are for the "
            "links alone"
        )
    return "\n".join(lines)
