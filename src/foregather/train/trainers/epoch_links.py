"""epoch_links: what a record says of ranks: bytes by link, and who did what when in one epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from foregather.dist.transport.ledger import Entry

__all__ = ["epoch_phases", "sent_bytes", "sent_links", "stage_facts"]

_WAITED = {
    "rows": ("forward", "backward"),
    "exchange": ("exchange", "exchange_back"),
    "weights": ("weights",),
    "agreements": ("control", "state"),
}
_MOST_LINKS = 64  # that a record names

Entries = Mapping[tuple[int, int, str], Entry]


def sent_links(before: Entries, after: Entries) -> dict[str, int]:
    """Bytes that a rank sent between two looks at its ledger, by link."""
    found: dict[str, int] = {}
    for key, entry in after.items():
        old = before.get(key)
        size = entry.bytes - (0 if old is None else old.bytes)
        if size:
            name = f"{key[0]} > {key[1]}"
            found[name] = found.get(name, 0) + size
    return found


def stage_facts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Links of all ranks, unless there are too many to show; their tasks, if they were noted."""
    links = {name: size for part in parts for name, size in part["links"].items()}
    found: dict[str, Any] = {"links": links} if 0 < len(links) <= _MOST_LINKS else {}
    if any(part["tasks"] for part in parts):
        found["timeline"] = [
            [[what, round(at, 6), round(took, 6)] for what, at, took in part["tasks"]]
            for part in parts
        ]
    return found


def epoch_phases(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean over ranks of the seconds of an epoch: computing, and messages by what they are for."""
    count = len(parts)
    found = {
        name: sum(part["waited"][purpose] for part in parts for purpose in purposes) / count
        for name, purposes in _WAITED.items()
    }
    compute = sum(part["seconds"] for part in parts) / count - sum(found.values())
    return {"compute": max(0.0, compute), **{name: s for name, s in found.items() if s}}


def sent_bytes(counts: Mapping[str, float]) -> dict[str, Any]:
    """Bytes by purpose, and their sum."""
    return {
        "sent": int(sum(counts.values())),
        **{f"sent_{name}": int(count) for name, count in counts.items()},
    }
