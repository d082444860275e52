"""traffic: reports what a Loader over ranks moved, planned and sent."""

from collections.abc import Mapping
from typing import Any

from foregather.dist.features.exchange import FeatureExchange
from foregather.dist.features.fetch_plan import REPLY, REQUEST
from foregather.dist.features.owner_sums import SUM_REPLY, SUM_REQUEST
from foregather.dist.features.sum_exchange import SumExchange
from foregather.dist.sampling.dist_sampler import DistSampler
from foregather.dist.transport.ledger import Ledger
from foregather.dist.transport.rank_grid import RankGrid
from foregather.units import format_bytes

__all__ = ["count_traffic", "explain_traffic", "phase_times"]


def _by_purpose(ledger: Ledger) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (_, _, purpose), entry in ledger.entries().items():
        sums = found.setdefault(purpose, {"bytes": 0, "messages": 0})
        sums["bytes"] += entry.bytes
        sums["messages"] += entry.messages
    return found


def count_traffic(
    sampler: DistSampler, rows: FeatureExchange | None, sums: SumExchange | None = None
) -> dict[str, Any]:
    """Counts what this rank used and sent so far.

    `sampling` and `features` are bytes and messages it sent, by purpose; `rows` counts feature
    rows of its own block (local), from the cache (hits) and fetched (misses); `announced` is the
    planned bytes: requests it sends, and replies it receives. `disk` is present if the own block is
    on disk: what was read of it, see `FeatureBlockReader.counters`. `sums` is present if owners may
    add up rows of leaves: bulks, those whose leaves came as sums, and these sums. `phases` is
    nanoseconds of the threads that sample and fetch, by phase and with those on links apart, see
    `phase_clock`.
    """
    found: dict[str, Any] = {"sampling": _by_purpose(sampler.ledger)}
    found["phases"] = phase_times(sampler, rows)
    if rows is not None:
        found["features"] = _by_purpose(rows.ledger)
        found |= rows.fetcher.counters()
    if sums is not None:
        found["sums"] = dict(sums.counts)
        found["announced"] = {**found.get("announced", {}), **sums.announced}
    return found


def explain_traffic(
    grid: RankGrid,
    sampler: DistSampler,
    rows: FeatureExchange | None,
    sums: SumExchange | None = None,
) -> str:
    """Describes the grid, how rows are exchanged, and what this rank used and sent so far."""
    counts = count_traffic(sampler, rows, sums)
    sent = sum(entry["bytes"] for entry in counts["sampling"].values())
    lines = [
        f"rank {grid.rank} of {grid.size}, a grid of {grid.num_rows} x {grid.replication}",
        f"sampling: mode {sampler.mode}, {format_bytes(sent)} sent",
    ]
    if rows is None:
        return "\n".join([*lines, "features: none"])
    used = counts["rows"]
    lines += rows.explain()
    lines.append(
        f"rows: {used['local']} of the own block, {used['hits']} from the cache, "
        f"{used['misses']} fetched"
    )
    if sums is not None:
        lines.append(sums.explain())
    for purpose, entry in counts["features"].items():
        line = f"{purpose}: {format_bytes(entry['bytes'])} sent"
        if purpose in (REQUEST, SUM_REQUEST):
            line += f", {format_bytes(counts['announced'][purpose])} planned"
        if purpose in (REPLY, SUM_REPLY):
            line += f"; {format_bytes(counts['announced'][purpose])} planned to be received"
        lines.append(line)
    lines.append(f"seconds: {show_phases(counts['phases'])}")
    return "\n".join(lines)


def phase_times(sampler: DistSampler, rows: FeatureExchange | None) -> dict[str, int]:
    """Nanoseconds of this rank by phase, of the sampler and of the exchange together."""
    found = dict(sampler.channel.clock.snapshot())
    if rows is not None and rows.channel is not sampler.channel:
        for name, spent in rows.channel.clock.snapshot().items():
            found[name] += spent
    return found


def show_phases(spent: Mapping[str, int]) -> str:
    """Seconds by phase in one line, without those that took none."""
    shown = [f"{name} {count / 1e9:.2f}" for name, count in spent.items() if count]
    return ", ".join(shown) or "none yet"
