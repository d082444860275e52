"""orders: predicts what batches would read if feature rows lay in other orders, before any moves.

Every prediction is a plan of the same sampled batches with the same cache, in the way that is
cheapest for that order, priced by the disk's calibration. So an order is worth its rewrite if the
seconds it saves an epoch, times the epochs, exceed the seconds of the rewrite.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.observe.calibration import Calibration
from foregather.plan.choice import ReadCandidate, choose
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.planner import to_rows
from foregather.units import format_bytes, format_count

__all__ = ["OrderForecast", "explain_orders", "forecast_orders"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OrderForecast:
    """What an epoch reads in one order.

    Attributes:
        order: its name.
        way: the cheapest way of reading; counts are those of the sampled batches.
        gathered_bytes: bytes of the rows that the sampled batches ask for.
        batches: how many were sampled.
        epoch_batches: how many an epoch has.
        rewrite_seconds: reading and writing the feature file twice, at the disk's sequential rates.
    """

    order: str
    way: ReadCandidate
    gathered_bytes: int
    batches: int
    epoch_batches: int
    rewrite_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Predicted seconds of the disk for an epoch."""
        return self.way.seconds * self.epoch_batches / max(1, self.batches)

    @property
    def bytes_per_gathered(self) -> float:
        """Bytes moved for each byte that a batch gets."""
        return self.way.bytes / max(1, self.gathered_bytes)

    def pays_after(self, now: "OrderForecast") -> float | None:
        """Epochs after which the rewrite has paid, against reading as `now`; None: never."""
        saved = now.epoch_seconds - self.epoch_seconds
        return self.rewrite_seconds / saved if saved > 0 else None

    def facts(self, now: "OrderForecast") -> dict[str, Any]:
        """As JSON-able values."""
        return {
            "order": self.order,
            "caching": self.way.caching,
            "block_bytes": self.way.block_bytes,
            "requests": self.way.requests,
            "bytes": self.way.bytes,
            "batches": self.batches,
            "bytes_per_gathered": self.bytes_per_gathered,
            "epoch_seconds": self.epoch_seconds,
            "rewrite_seconds": self.rewrite_seconds,
            "pays_after": self.pays_after(now),
        }


def forecast_orders(
    bulks: Sequence[Sequence[Any]],
    places: Mapping[str, Callable[[], Array]],
    geometry: _core.Geometry,
    num_slots: int,
    disk: Calibration | None = None,
    *,
    epoch_batches: int,
    repack: bool = True,
) -> Iterable[OrderForecast]:
    """Yields the forecast of each order.

    Args:
        bulks: sampled bulks, by node id.
        places: makes the place of each node in an order, by its name; one is held at a time.
        geometry: the layout of the rows.
        num_slots: feature rows the cache holds.
        disk: the disk's calibration; None uses default figures.
        epoch_batches: batches of an epoch.
        repack: consider repacking too.
    """
    rows = [to_rows(bulk, geometry.num_rows) for bulk in bulks]
    used, size = disk or ASSUMED_DISK, geometry.num_rows * geometry.row_bytes
    moved = 2 * size / used.sequential_read + 2 * size / used.sequential_write
    asked = sum(len(batch) for bulk in rows for batch in bulk)
    for name, make in places.items():
        place = make()
        there = [[np.ascontiguousarray(place[batch]) for batch in bulk] for bulk in rows]
        best = choose(there, geometry, num_slots, disk, repack=repack).best
        yield OrderForecast(
            name,
            best,
            asked * geometry.row_bytes,
            sum(len(bulk) for bulk in rows),
            epoch_batches,
            moved,
        )


def explain_orders(found: Sequence[OrderForecast], now: OrderForecast) -> str:
    """The forecasts as a table, and which rewrite pays."""
    lines = [
        f"{'order':<16} {'way':<16} {'requests':>9} {'bytes':>9} {'of gathered':>11} "
        f"{'s/epoch':>9} {'pays after':>11}"
    ]
    for one in found:
        way = f"{one.way.caching}, {one.way.block_bytes >> 10} KiB"
        epochs = one.pays_after(now)
        pays = "as it is" if one is now else "never" if epochs is None else f"{epochs:.1f} epochs"
        lines.append(
            f"{one.order:<16} {way:<16} {format_count(one.way.requests):>9} "
            f"{format_bytes(one.way.bytes):>9} {one.bytes_per_gathered:>11.2f} "
            f"{one.epoch_seconds:>9.2f} {pays:>11}"
        )
    best = min(found, key=lambda one: one.epoch_seconds)
    lines.append(
        f"requests and bytes are of {now.batches} sampled batches; a rewrite takes about "
        f"{now.rewrite_seconds:.0f} s of the disk, finding an order comes on top"
    )
    if best is now:
        lines.append("no order is predicted to be faster: leave the rows where they are")
    else:
        lines.append(
            f"order {best.order} saves {now.epoch_seconds - best.epoch_seconds:.2f} s an epoch: "
            f"foregather reorder pays from epoch {int(best.pays_after(now) or 0) + 1} on"
        )
    return "\n".join(lines)
