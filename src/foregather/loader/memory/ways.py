"""ways: lists the storage modes for a budget, their predicted cost, and what was measured.

A Loader's `storage="auto"` picks the cheapest mode (see `storage`). This module lists all of them,
so that the choice can be inspected before an epoch and compared with measurements after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from foregather.errors import BudgetError, InputError
from foregather.loader.disk.out_of_core import OutOfCore
from foregather.loader.disk.predict import EpochCost, disk_of, predict, sampling_seconds
from foregather.loader.loader import Loader
from foregather.loader.memory.layout import held_bytes
from foregather.plan.candidate import Candidate, Column, ranked, row
from foregather.plan.candidate import heading as table_heading
from foregather.units import format_bytes

__all__ = ["StorageCandidate", "compare_measured", "heading", "prospects"]

_WAYS = {
    "memory": "everything in memory",
    "features": "feature rows on disk",
    "topology": "topology on disk",
    "disk": "feature rows and topology on disk",
}


@dataclass(frozen=True)
class StorageCandidate(EpochCost):
    """One way to store a graph under a budget; if it is refused, nothing is predicted.

    Bytes are those read in an epoch (for everything in memory, once); seconds, which decide, are
    those of an epoch: sampling and planning (`work`) and the disk (`disk`; what is read once is
    left out); memory does not count the interpreter, torch and the model.

    Attributes:
        storage: as the Loader's argument.
        chosen: whether `storage="auto"` takes it.
    """

    storage: str
    chosen: bool = False

    def facts(self) -> dict[str, Any]:
        """What is predicted, for a report."""
        names = ("storage", "chosen", "bytes", "seconds", "disk", "work")
        made = {name: getattr(self, name) for name in names}
        return {**made, "peak": self.memory, "requests": self.requests, "error": self.refused}

    def line(self, rank: str) -> str:
        """One row of the table."""
        return f"  {rank:<10} " + row(_COLUMNS, self)


_COLUMNS: tuple[Column[StorageCandidate], ...] = (
    Column("way", "<34", lambda one: _WAYS[one.storage]),
    Column("bytes", ">9", lambda one: format_bytes(one.bytes), foretold=True),
    Column("work", ">9", lambda one: f"{one.work:.2f} s", foretold=True),
    Column("disk", ">9", lambda one: f"{one.disk:.2f} s", foretold=True),
    Column("seconds", ">9", lambda one: f"{one.seconds:.2f} s", foretold=True),
    Column("peak", ">9", lambda one: format_bytes(one.memory), foretold=True),
)


def prospects(make: Callable[..., Loader], memory: int, batches: int) -> list[StorageCandidate]:
    """Lists all ways within a budget: the choice, the runner-up (fewest seconds), and the others.

    Args:
        make: makes the Loader, given `memory` and `storage`.
        memory: the budget.
        batches: batches planned to predict an epoch; 0 plans all.
    """
    chosen, known = _chosen(make, memory)
    found = [_candidate(make, memory, storage, batches, known) for storage in _WAYS]
    least = found[0].work  # sampling lists from disk takes no less than sampling them in memory
    found = [
        replace(one, work=max(one.work, least), seconds=max(one.work, least) + one.disk)
        for one in found
    ]
    marked = ranked(replace(one, chosen=one.storage == chosen) for one in found)
    return sorted(marked, key=lambda one: not one.chosen)


def heading() -> str:
    """The heading of the lines."""
    return " " * 13 + table_heading(_COLUMNS)


def _chosen(make: Callable[..., Loader], memory: int) -> tuple[str, Mapping[str, Candidate]]:
    """The mode that a Loader takes, and what it based that on."""
    try:
        loader = make(memory=memory, storage="auto")
    except BudgetError:
        return "", {}
    layout, source = loader.layout, loader._source
    loader.close()
    if layout is None:
        return "memory", {}
    known = source.considered if isinstance(source, OutOfCore) else {}
    if layout.topology != "disk":
        return "features", known
    return "disk" if layout.features == "disk" else "topology", known


def _candidate(
    make: Callable[..., Loader],
    memory: int,
    storage: str,
    batches: int,
    known: Mapping[str, Candidate],
) -> StorageCandidate:
    if storage in known:
        return StorageCandidate(storage, **vars(known[storage]))
    try:
        if storage == "memory":
            return _in_memory(make, memory, batches)
        loader = make(memory=memory, storage=storage)
    except BudgetError as error:
        least = "" if error.least is None else f"needs {format_bytes(error.least)}"
        return StorageCandidate(storage, refused=least or "does not fit")
    except InputError as error:
        return StorageCandidate(storage, refused=f"not possible: {error}")
    disk = loader._source
    assert isinstance(disk, OutOfCore)
    try:
        return StorageCandidate(storage, **vars(predict(disk, loader._maker, batches or None)))
    finally:
        loader.close()


def _in_memory(make: Callable[..., Loader], memory: int, batches: int) -> StorageCandidate:
    """The prediction for a graph that is read once and stays in memory."""
    loader = make(memory=None, storage="memory")
    held = held_bytes(loader.graph, loader._maker.assembler.edge_attr)
    if held >= memory:
        return StorageCandidate("memory", refused=f"needs more than {format_bytes(held)}")
    loader = make(memory=memory - held, storage="memory")
    budget = loader._maker.budget
    beside = 0 if budget is None else budget.need.least(loader.bulk)
    seconds = sampling_seconds(loader._maker, batches or None)
    return StorageCandidate(
        "memory", seconds=seconds, work=seconds, bytes=held, memory=held + beside
    )


def compare_measured(loader: Loader, record: Mapping[str, Any]) -> str:
    """Compares predicted with measured reads after an epoch; empty if nothing is read from disk."""
    layout = loader.layout
    if layout is None:
        return ""
    counters, rows = loader.counters(), []
    if "predicted_bytes" in record:
        rows += [
            (
                "rows predicted",
                *(record[f"predicted_{name}"] for name in ("requests", "bytes", "seconds")),
            ),
            (
                "rows measured",
                *(record[f"feature_{name}"] for name in ("requests", "bytes")),
                counters.get("features", {}).get("waiting", 0.0),
            ),
        ]
    if (read := counters.get("topology")) is not None:
        requests, size = int(read["planned_requests"]), int(read["planned_bytes"])
        each = max(1, size // max(1, requests))
        seconds = disk_of(loader._maker).seconds(requests, each)
        rows += [
            ("lists predicted", requests, size, seconds),
            ("lists measured", int(read["requests"]), int(read["bytes"]), _waited(read)),
        ]
    if not rows:
        return ""
    head = f"epoch {record['epoch']}"
    lines = [f"{head:<16} {'requests':>10} {'bytes':>9} {'seconds':>9}"]
    lines += [
        f"{name:<16} {requests:>10,} {format_bytes(size):>9} {seconds:>9.2f}"
        for name, requests, size, seconds in rows
    ]
    lines.append(
        f"peak {format_bytes(sum(layout.shares.values()))} predicted, of the Loader; "
        f"{format_bytes(record['peak_memory'])} measured, of the whole process"
    )
    lines.append("seconds: disk time, and time waited for it; lists: since the Loader was created")
    return "\n".join(lines)


def _waited(counters: Mapping[str, Any]) -> float:
    seconds = counters.get("seconds", {})
    return float(seconds.get("wait", 0.0)) if isinstance(seconds, Mapping) else 0.0
