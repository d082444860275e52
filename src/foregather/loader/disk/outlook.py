"""outlook: what a Loader that reads from disk says before its first epoch, and while one is slow.

The way of reading is chosen for this as the first loop would choose it, so nothing is done twice.
"""

from typing import TYPE_CHECKING

from foregather.loader.disk.out_of_core import OutOfCore
from foregather.plan.cost import ASSUMED_DISK
from foregather.units import format_bytes, format_count

if TYPE_CHECKING:
    from foregather.loader.loader import Loader

__all__ = ["outlook"]


def outlook(loader: "Loader") -> str:
    """Layout, way of reading and predicted seconds of an epoch; empty if all is in memory."""
    disk = loader._source
    if not isinstance(disk, OutOfCore):
        return ""
    maker, total = loader._maker, len(loader._maker.seeds)
    disk.decide(maker, 0, 0)
    lines = [disk.layout.summary()]
    if (choice := disk.choice) is not None and total > 0:
        best, share = choice.best, total / max(1, min(disk.layout.bulk, total))
        way = {"row": "rows", "page": "whole blocks", "repack": "repacked bulks"}[best.caching]
        lines.append(
            f"by its first bulk, an epoch of {total:,} batches is predicted to take "
            f"{best.disk * share:.1f} s of reading: "
            f"{format_count(int(best.requests * share))} requests, "
            f"{format_bytes(int(best.bytes * share))}, {way} by {best.block_bytes >> 10} KiB"
        )
    if again := disk.replayed(maker, disk.layout.rows):
        lines.append(again)
    if disk.disk is ASSUMED_DISK:
        where = loader.graph.path
        lines.append(
            "the disk was not measured, so this rests on assumed figures; run foregather doctor "
            f"{where} to measure it and choose better"
        )
    return "\n".join(lines)
