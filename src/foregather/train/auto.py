"""auto: what a budget is spent on, which ways there are, and what each is predicted to cost.

`storage="auto"` of a Loader takes the first way that fits: everything in memory, feature rows on
disk, neighbour lists too. Here the same ways are laid out side by side with their reads, so that
the choice can be looked at before an epoch, and compared with what was measured after one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foregather.errors import BudgetError, InputError
from foregather.observe.calibration import load_calibration
from foregather.plan.cost import ASSUMED_DISK
from foregather.train.layout import held_bytes
from foregather.train.loader import Loader
from foregather.units import format_bytes

__all__ = ["Prospect", "compare_measured", "prospects"]

_WAYS = {
    "memory": "everything in memory",
    "features": "feature rows on disk",
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
        error: why it is not possible; the other numbers are then 0.
    """

    storage: str
    chosen: bool
    bytes: int = 0
    seconds: float = 0.0
    peak: int = 0
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
    return "disk" if layout.topology == "disk" else "features"


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
    try:
        plan = loader.plan(0, batches or None)
        factor = plan.total / max(1, plan.batches)
        read = 0 if plan.predicted is None else plan.predicted.bytes
        seconds = 0.0 if plan.predicted is None else plan.predicted.seconds
        topology = loader.counters().get("topology", {})
        if topology:  # neighbour lists were really read, for the sample of batches
            read += int(topology["bytes"])
            seconds += topology["bytes"] / _disk(loader).sequential_read
        peak = sum(plan.layout.shares.values())
        return Prospect(storage, False, int(read * factor), seconds * factor, peak)
    finally:
        loader.close()


def _in_memory(make: Callable[..., Loader], memory: int) -> Prospect:
    """The graph is read once, and stays."""
    loader = make(memory=None, storage="memory")
    held = held_bytes(loader.graph)
    if held >= memory:
        return Prospect("memory", False, error=f"needs more than {format_bytes(held)}")
    loader = make(memory=memory - held, storage="memory")
    budget = loader._maker.budget
    beside = 0 if budget is None else budget.need.least(loader.bulk)
    seconds = held / _disk(loader).sequential_read
    return Prospect("memory", False, held, seconds, held + beside)


def _disk(loader: Loader) -> Any:
    path = loader.graph.path
    return (None if path is None else load_calibration(path)) or ASSUMED_DISK


def compare_measured(loader: Loader, record: Mapping[str, Any]) -> str:
    """Predicted beside measured, after an epoch; empty where nothing is read by plan."""
    layout = loader.layout
    if layout is None or "predicted_bytes" not in record:
        return ""
    features = loader.counters().get("features", {})
    rows = [
        (
            "predicted",
            record["predicted_requests"],
            record["predicted_bytes"],
            record["predicted_seconds"],
            sum(layout.shares.values()),
        ),
        (
            "measured",
            record["feature_requests"],
            record["feature_bytes"],
            features.get("waiting", 0.0),
            record["peak_memory"],
        ),
    ]
    lines = [
        f"{'epoch ' + str(record['epoch']):<10} {'requests':>10} {'bytes':>9} "
        f"{'seconds':>9} {'peak':>9}"
    ]
    lines += [
        f"{name:<10} {requests:>10,} {format_bytes(size):>9} {seconds:>9.2f} "
        f"{format_bytes(peak):>9}"
        for name, requests, size, seconds, peak in rows
    ]
    lines.append(
        "seconds: of the disk, and waited for it; peak: of the Loader, and of the whole process"
    )
    return "\n".join(lines)
