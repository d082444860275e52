"""ways: which ways there are to spend a budget, what each is predicted to cost, and what it did.

`storage="auto"` of a Loader takes the cheapest way (see `storage`). Here all of them are laid
out side by side, so that the choice can be looked at before an epoch, and compared with what was
measured after one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foregather.errors import BudgetError, InputError
from foregather.loader.disk.out_of_core import OutOfCore
from foregather.loader.disk.predict import disk_of, predict
from foregather.loader.loader import Loader
from foregather.loader.memory.layout import held_bytes
from foregather.units import format_bytes

__all__ = ["Prospect", "compare_measured", "prospects"]

_WAYS = {
    "memory": "everything in memory",
    "features": "feature rows on disk",
    "topology": "topology on disk",
    "disk": "feature rows and topology on disk",
}


@dataclass(frozen=True)
class Prospect:
    """One way to store a graph under a budget.

    Attributes:
        storage: as the Loader's argument.
        chosen: whether `storage="auto"` takes it.
        bytes: predicted to be read in an epoch; for everything in memory, once.
        seconds: of the disk, predicted for that.
        peak: bytes in memory, beside the interpreter, torch and the model.
        requests: reads of an epoch by plan.
        error: why it is not possible; the other numbers are then 0.
    """

    storage: str
    chosen: bool
    bytes: int = 0
    seconds: float = 0.0
    peak: int = 0
    requests: int = 0
    error: str = ""

    def line(self, rank: str) -> str:
        """One row of the table."""
        way = _WAYS[self.storage]
        if self.error:
            return f"  {rank:<10} {way:<34} {self.error}"
        return (
            f"  {rank:<10} {way:<34} {format_bytes(self.bytes):>9} {self.seconds:>8.2f} s "
            f"{format_bytes(self.peak):>9}"
        )


def prospects(make: Callable[..., Loader], memory: int, batches: int) -> list[Prospect]:
    """All ways under a budget: the choice, the runner-up (least seconds), and the others.

    Args:
        make: makes the Loader, given `memory` and `storage`.
        memory: the budget.
        batches: planned to predict an epoch from; 0 plans all.
    """
    found = [_prospect(make, memory, storage, batches) for storage in _WAYS]
    chosen = _chosen(make, memory)
    marked = [Prospect(**{**vars(one), "chosen": one.storage == chosen}) for one in found]
    return sorted(marked, key=lambda one: (not one.chosen, bool(one.error), one.seconds))


def _chosen(make: Callable[..., Loader], memory: int) -> str:
    try:
        loader = make(memory=memory, storage="auto")
    except BudgetError:
        return ""
    layout = loader.layout
    loader.close()
    if layout is None:
        return "memory"
    if layout.topology != "disk":
        return "features"
    return "disk" if layout.features == "disk" else "topology"


def _prospect(make: Callable[..., Loader], memory: int, storage: str, batches: int) -> Prospect:
    try:
        if storage == "memory":
            return _in_memory(make, memory)
        loader = make(memory=memory, storage=storage)
    except BudgetError as error:
        least = "" if error.least is None else f"needs {format_bytes(error.least)}"
        return Prospect(storage, False, error=least or "does not fit")
    except InputError as error:
        return Prospect(storage, False, error=f"not possible: {error}")
    disk = loader._source
    assert isinstance(disk, OutOfCore)
    try:
        found = predict(disk, loader._maker, batches or None)
        cost = found.cost
        return Prospect(storage, False, cost.bytes, cost.seconds, found.peak, cost.requests)
    finally:
        loader.close()


def _in_memory(make: Callable[..., Loader], memory: int) -> Prospect:
    """The graph is read once, and stays."""
    loader = make(memory=None, storage="memory")
    held = held_bytes(loader.graph, loader._maker.assembler.edge_attr)
    if held >= memory:
        return Prospect("memory", False, error=f"needs more than {format_bytes(held)}")
    loader = make(memory=memory - held, storage="memory")
    budget = loader._maker.budget
    beside = 0 if budget is None else budget.need.least(loader.bulk)
    seconds = held / disk_of(loader._maker).sequential_read
    return Prospect("memory", False, held, seconds, held + beside)


def compare_measured(loader: Loader, record: Mapping[str, Any]) -> str:
    """Predicted beside measured, after an epoch; empty where nothing is read by plan."""
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
    lines.append("seconds: of the disk, and waited for it; lists: since the Loader was made")
    return "\n".join(lines)


def _waited(counters: Mapping[str, Any]) -> float:
    seconds = counters.get("seconds", {})
    return float(seconds.get("wait", 0.0)) if isinstance(seconds, Mapping) else 0.0
