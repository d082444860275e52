"""What the ranks fetch in the tests of features: matrices, bulks and options, in every process."""

from itertools import product

import numpy as np

from foregather import _core
from foregather.dist.features.fetch_plan import row_geometry
from foregather.graph.features import Features, column_scale, quantize
from foregather.loader.memory.division import longest_request
from foregather.plan.planner import file_geometry

ROWS, WIDTH = 500, 6
BULKS = 3

#: Budgets by name: no slot, few slots (below a minibatch), some, and room for everything.
MEMORY = {
    name: _core.planner_bytes(row_geometry(ROWS), 0, 0, 0) + extra
    for name, extra in {"none": 350, "few": 14_000, "some": 45_000, "all": 200_000}.items()
}
#: The same where the own block is read from disk: tables and reading, and room for rows.
LEAST_DISK = MEMORY["none"] - 350 + _core.planner_bytes(file_geometry(ROWS, 24), 0, 0, 0)
LEAST_DISK += 2 * longest_request(24)
MEMORY |= {"disk few": LEAST_DISK + 5_000, "disk some": LEAST_DISK + 40_000}


def matrix(stored: str) -> Features:
    """All rows; numbers of several magnitudes."""
    rng = np.random.default_rng(5)
    values = (rng.standard_normal((ROWS, WIDTH)) * 10.0 ** rng.integers(-3, 3, (ROWS, 1))).astype(
        np.float32
    )
    if stored == "scaled":
        scale = column_scale(np.abs(values).max(axis=0))
        return Features(quantize(values, scale), scale)
    if stored == "int64":
        return Features(np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH))
    return Features(values.astype(stored))


def batches(bulk: int, rank: int, size: int) -> list[np.ndarray]:
    """Ids of a rank's minibatches: popular rows often, some minibatches empty, a rank with none."""
    if rank == size - 1 and size > 1 and bulk == 1:
        return []
    made = []
    for step in range([5, 3, 4][bulk] - (rank % 2)):
        rng = np.random.default_rng([bulk, rank, step])
        count = 0 if step == 2 and rank == 0 else int(rng.integers(1, 200))
        ids = np.unique((ROWS * rng.random(count) ** 2).astype(np.uint32))
        made.append(rng.permutation(ids))
    return made


#: (replication, stored, where, memory, wire, mode, ahead)
Option = tuple[int, str, str, str | None, str, str, bool]


def options(size: int) -> list[Option]:
    """All cases of a world."""
    found: list[Option] = []
    for c in (c for c in (1, 2) if size % c == 0):
        found += [
            (c, "float32", "memory", memory, "exact", "planned", ahead)
            for memory, ahead in product(("none", "few", "some", "all"), (False, True))
        ]
        for stored in ("float16", "scaled", "int64"):
            found.append((c, stored, "memory", "some", "exact", "planned", False))
        for wire in ("float16", "int8"):
            found.append((c, "float32", "memory", "some", wire, "planned", False))
            found.append((c, "scaled", "memory", "few", wire, "planned", True))
            found.append((c, "float32", "memory", None, wire, "paper", False))
        for stored in ("float32", "scaled"):
            found.append((c, stored, "disk", "some", "exact", "planned", True))
            found.append((c, stored, "own folder", "some", "exact", "planned", False))
            found.append((c, stored, "memory", None, "exact", "paper", False))
            found.append((c, stored, "file", "disk few", "exact", "planned", True))
            found.append((c, stored, "own file", "disk some", "exact", "planned", False))
            found.append((c, stored, "file", "disk some", "int8", "planned", False))
        found.append((c, "float32", "opened", "some", "exact", "planned", False))
    return found
