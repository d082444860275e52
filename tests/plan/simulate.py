"""simulate: carries out a plan with plain Python values and asserts that every step is feasible.

It knows nothing of how plans are made: only the batches, the rules of plan.hpp, and a cache that is
a list of rows. Used on every plan of every policy.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core

NONE = 2**32 - 1
Rows = npt.NDArray[np.uint32]


def geometry(
    num_rows: int, row_bytes: int = 4096, block: int = 4096, payload: int = 4096
) -> _core.Geometry:
    end = payload + num_rows * row_bytes
    return _core.Geometry(num_rows, row_bytes, payload, -(-end // 4096) * 4096, block)


class Cache:
    """Slots with the rows they hold; lives from plan to plan, as an executor does."""

    def __init__(self, num_slots: int) -> None:
        self.slots: list[int] = [NONE] * num_slots

    def run(self, plan: Any, batches: Sequence[Rows], disjoint: bool = True) -> dict[str, int]:
        """Executes the plan; returns what it counted."""
        g = plan.geometry
        assert plan.num_slots == len(self.slots)
        assert list(plan.num_rows) == [len(batch) for batch in batches]
        counted = {"hits": 0, "misses": 0, "requests": 0, "bytes": 0}
        for t, batch in enumerate(batches):
            output = [NONE] * len(batch)
            for h in range(plan.hit_ptr[t], plan.hit_ptr[t + 1]):
                slot, position = int(plan.hit_slot[h]), int(plan.hit_position[h])
                assert output[position] == NONE, "an output row is written twice"
                output[position] = self.slots[slot]
                counted["hits"] += 1
            written: set[int] = set()
            end_before = -1
            for r in range(plan.request_ptr[t], plan.request_ptr[t + 1]):
                lo = int(plan.request_offset[r])
                hi = lo + int(plan.request_length[r])
                assert lo % 4096 == 0 and hi % 4096 == 0 and 0 <= lo < hi <= g.file_bytes
                assert not disjoint or lo >= end_before, "requests overlap"
                end_before = hi
                counted["requests"] += 1
                counted["bytes"] += hi - lo
                counted["misses"] += self._copies(plan, r, lo, hi, output, written)
            assert output == batch.tolist(), f"step {t} delivers the wrong rows"
        return counted

    def _copies(
        self, plan: Any, r: int, lo: int, hi: int, output: list[int], written: set[int]
    ) -> int:
        g, used, before = plan.geometry, 0, -1
        for c in range(plan.copy_ptr[r], plan.copy_ptr[r + 1]):
            row, position, slot = (
                int(plan.copy_row[c]),
                int(plan.copy_position[c]),
                int(plan.copy_slot[c]),
            )
            assert before < row < g.num_rows, "rows of a request ascend"
            before = row
            start = g.payload + row * g.row_bytes
            assert lo <= start and start + g.row_bytes <= hi, "a request covers its rows"
            assert position != NONE or slot != NONE, "a copy that goes nowhere"
            if position != NONE:
                assert output[position] == NONE, "an output row is written twice"
                output[position] = row
                used += 1
            if slot != NONE:
                assert slot not in written, "a slot is written twice in a step"
                written.add(slot)
                self.slots[slot] = row
        return used


def fewest_reads(batches: Sequence[Sequence[int]], slots: int, cached: frozenset[int]) -> int:
    """Exhaustive search: tries every content of the cache after every step."""
    states = {cached: 0}
    for batch in batches:
        after: dict[frozenset[int], int] = {}
        for state, cost in states.items():
            paid = cost + len(set(batch) - state)
            have = sorted(state | set(batch))
            # a larger content is never worse, so only the largest ones are tried
            for chosen in itertools.combinations(have, min(slots, len(have))):
                key = frozenset(chosen)
                if paid < after.get(key, 10**9):
                    after[key] = paid
        states = after
    return min(states.values())


def fewest_blocks(
    batches: Sequence[Sequence[int]], slots: int, per_block: int, num_rows: int
) -> int:
    """Exhaustive search where a read brings a whole block and any of its rows may be kept."""
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for batch in batches:
        after: dict[frozenset[int], int] = {}
        for state, cost in states.items():
            read = {row // per_block for row in set(batch) - state}
            came = {row for row in range(num_rows) if row // per_block in read}
            have = sorted(state | came)
            for chosen in itertools.combinations(have, min(slots, len(have))):
                key = frozenset(chosen)
                if cost + len(read) < after.get(key, 10**9):
                    after[key] = cost + len(read)
        states = after
    return min(states.values())
