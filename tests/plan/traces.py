"""traces: random batches for the tests of planning."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from foregather import _core
from tests.plan.simulate import geometry

Rows = npt.NDArray[np.uint32]

ROW_SIZES = [1, 100, 512, 1000, 1536, 4095, 4096, 5000, 9000, 20000]
BLOCKS = [4096, 8192, 12288, 32768]


def random_bulk(rng: np.random.Generator, num_rows: int, steps: int, most: int) -> list[Rows]:
    """Batches of 0 to `most` distinct rows; small ids are popular."""
    bulk = []
    for _ in range(steps):
        size = int(rng.integers(0, min(num_rows, most) + 1))
        weight = 1 / (1.0 + np.arange(num_rows))
        picked = rng.choice(num_rows, size, replace=False, p=weight / weight.sum())
        bulk.append(picked.astype(np.uint32))
    return bulk


def random_trace(
    rng: np.random.Generator, num_rows: int, bulks: int, most: int = 40
) -> list[list[Rows]]:
    return [random_bulk(rng, num_rows, int(rng.integers(0, 7)), most) for _ in range(bulks)]


def random_geometry(rng: np.random.Generator) -> _core.Geometry:
    """Any row size, block size and payload, often such that rows straddle blocks."""
    return geometry(
        int(rng.choice([1, 2, 30, 150])),
        int(rng.choice(ROW_SIZES)),
        int(rng.choice(BLOCKS)),
        int(rng.choice([4096, 0, 128])),
    )


@st.composite
def small_bulks(draw: st.DrawFn) -> tuple[int, int, list[list[list[int]]]]:
    """(rows, slots, bulks): small enough for exhaustive search."""
    rows = draw(st.integers(1, 6))
    slots = draw(st.integers(0, 4))
    batch = st.lists(st.integers(0, rows - 1), unique=True, max_size=4)
    bulk = st.lists(batch, max_size=6)
    return rows, slots, draw(st.lists(bulk, min_size=1, max_size=3))
