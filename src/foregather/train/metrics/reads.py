"""reads: what a loader read, sent and planned, for the records of epochs."""

from typing import Any

__all__ = ["PHASE", "plan_facts", "reads"]

PHASE = "phase."  # begins the names of nanoseconds by phase, over ranks


def reads(loader: Any) -> dict[str, int]:
    """What a loader read from disk so far: bytes, requests (also of feature rows alone), hits.

    Over ranks, also what this rank sent for samples and feature rows, where rows came from, and
    nanoseconds of its threads by phase.
    """
    counters = loader.counters()
    if loader.ranks is not None:
        return _crossed(counters)
    parts = [counters.get(name, {}) for name in ("features", "topology", "edge_features")]
    found = {key: sum(int(part.get(key, 0)) for part in parts) for key in ("bytes", "requests")}
    found |= {f"feature_{key}": int(parts[0].get(key, 0)) for key in ("bytes", "requests")}
    return found | {key: int(parts[0].get(key, 0)) for key in ("rows", "hits")}


def _crossed(counters: dict[str, Any]) -> dict[str, int]:
    rows, disk = counters.get("rows", {}), counters.get("disk", {})
    sent = {
        f"sent_{name}": sum(int(entry["bytes"]) for entry in counters.get(name, {}).values())
        for name in ("sampling", "features")
    }
    found = {"sent": sum(sent.values()), **sent}
    found |= {key: int(disk.get(key, 0)) for key in ("bytes", "requests")}
    found |= {f"{PHASE}{name}": spent for name, spent in counters.get("phases", {}).items()}
    found["rows"] = sum(int(rows.get(name, 0)) for name in ("local", "hits", "misses"))
    return found | {name: int(rows.get(name, 0)) for name in ("local", "hits")}


def plan_facts(loader: Any) -> dict[str, Any]:
    """Totals of the plans of the last epoch: blocks, their lower bound, seconds."""
    planned = loader.planned()
    if planned is None:
        return {}
    reads, cost = planned
    facts: dict[str, Any] = {"blocks": reads.blocks, "predicted_bytes": cost.bytes}
    if reads.block_bound >= 0:
        facts["block_bound"] = reads.block_bound
    return facts | {"predicted_seconds": cost.seconds, "predicted_requests": cost.requests}
