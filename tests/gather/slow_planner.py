"""A slow, obvious planner: random plans that are feasible, with free riders, for tests only."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from foregather import _core

NONE = 0xFFFFFFFF
PAGE = 4096


def geometry_of(
    path: Path, num_rows: int, row_bytes: int, block_bytes: int = PAGE
) -> _core.Geometry:
    return _core.Geometry(
        num_rows=num_rows,
        row_bytes=row_bytes,
        payload=PAGE,
        file_bytes=path.stat().st_size,
        block_bytes=block_bytes,
    )


def plan_of(parts: dict[str, Any]) -> _core.Plan:
    """A plan from its arrays by the names that it gives them."""
    parts = dict(parts)
    grouped = {
        "hits": ("hit_ptr", "hit_slot", "hit_position"),
        "requests": ("request_ptr", "request_offset", "request_length"),
        "copies": ("copy_ptr", "copy_row", "copy_position", "copy_slot"),
    }
    parts |= {group: tuple(parts.pop(name) for name in names) for group, names in grouped.items()}
    return _core.Plan(**parts)


def make_plan(geometry: _core.Geometry, num_slots: int, **arrays: Any) -> _core.Plan:
    longs = {"num_rows", "hit_ptr", "request_ptr", "request_offset", "request_length", "copy_ptr"}
    typed: dict[str, Any] = {
        name: np.asarray(values, np.int64 if name in longs else np.uint32).reshape(-1)
        for name, values in arrays.items()
    }
    return plan_of(typed | {"geometry": geometry, "num_slots": num_slots})


class SlowPlanner:
    """Keeps the cache as a dict and decides at random what a real planner would decide well."""

    def __init__(
        self,
        geometry: _core.Geometry,
        num_slots: int,
        seed: int = 0,
        keep: float = 0.5,
        gap: int | None = None,
    ) -> None:
        self.geometry, self.num_slots, self.keep = geometry, num_slots, keep
        self.gap = gap  # blocks; None: at random
        self.random = np.random.default_rng(seed)
        self.slots: dict[int, int] = {}  # slot -> row

    def span(self, row: int) -> tuple[int, int]:
        """First and last byte of the file, in whole blocks, that hold the row."""
        g = self.geometry
        first = g.payload + row * g.row_bytes
        begin = first // g.block_bytes * g.block_bytes
        end = -(-(first + g.row_bytes) // g.block_bytes) * g.block_bytes
        return begin, min(end, g.file_bytes)

    def requests(self, rows: Iterable[int]) -> list[list[int]]:
        """Merged spans of the rows, sometimes over a gap."""
        merged: list[list[int]] = []
        gap = int(self.random.choice([0, 0, 1, 3])) if self.gap is None else self.gap
        for begin, end in sorted(self.span(row) for row in rows):
            if merged and begin - merged[-1][1] <= gap * self.geometry.block_bytes:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([begin, end])
        return merged

    def rows_inside(self, begin: int, end: int) -> range:
        g = self.geometry
        first = max(0, -(-(begin - g.payload) // g.row_bytes))
        last = min(g.num_rows, (end - g.payload) // g.row_bytes)
        return range(first, last)

    def plan(self, batches: Iterable[Iterable[int]]) -> _core.Plan:
        a: dict[str, list[int]] = {
            name: []
            for name in [
                "num_rows",
                "hit_slot",
                "hit_position",
                "request_offset",
                "request_length",
                "copy_row",
                "copy_position",
                "copy_slot",
            ]
        }
        a |= {"hit_ptr": [0], "request_ptr": [0], "copy_ptr": [0]}
        for batch in batches:
            self.step([int(row) for row in batch], a)
        return make_plan(self.geometry, self.num_slots, **a)

    def step(self, batch: list[int], a: dict[str, list[int]]) -> None:
        where = {row: slot for slot, row in self.slots.items()}
        hits = {row for row in batch if row in where and self.random.random() < 0.95}
        position = {row: k for k, row in enumerate(batch)}
        for row in hits:
            a["hit_slot"].append(where[row])
            a["hit_position"].append(position[row])
        free = list(self.random.permutation(self.num_slots))  # any slot may be written, once
        for begin, end in self.requests([row for row in batch if row not in hits]):
            a["request_offset"].append(begin)
            a["request_length"].append(end - begin)
            for row in self.rows_inside(begin, end):
                wanted = row in position and row not in hits
                kept = bool(free) and self.random.random() < (self.keep if wanted else 0.2)
                if not wanted and not kept:
                    continue
                slot = int(free.pop()) if kept else NONE
                if kept:
                    self.slots[slot] = row
                a["copy_row"].append(row)
                a["copy_position"].append(position[row] if wanted else NONE)
                a["copy_slot"].append(slot)
            a["copy_ptr"].append(len(a["copy_row"]))
        a["num_rows"].append(len(batch))
        a["hit_ptr"].append(len(a["hit_slot"]))
        a["request_ptr"].append(len(a["request_offset"]))


def random_batches(num_rows: int, count: int, most: int, seed: int) -> list[np.ndarray]:
    """Batches of distinct rows; small ids are popular, so that rows come again."""
    random = np.random.default_rng(seed)
    batches = []
    for _ in range(count):
        size = int(random.integers(0, min(most, num_rows) + 1))
        drawn = (random.random(4 * size + 1) ** 2 * num_rows).astype(np.int64)
        batches.append(random.permutation(np.unique(drawn))[:size])
    return batches
