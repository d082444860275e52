"""Tables of a planner that sees few steps at once: half as large, and the plans are the same."""

import subprocess
import sys

import numpy as np
import pytest

from foregather import _core
from foregather.errors import InputError
from foregather.plan.planner import Planner, file_geometry
from tests.plan.simulate import NONE, Cache, geometry
from tests.plan.traces import random_bulk, random_geometry
from tests.processes import ROOT

MOST = 14  # steps that narrow tables tell apart
ARRAYS = (
    "num_rows",
    "hit_ptr",
    "hit_slot",
    "hit_position",
    "request_ptr",
    "request_offset",
    "request_length",
    "copy_ptr",
    "copy_row",
    "copy_position",
    "copy_slot",
)


def check_equal(narrow, wide):
    for name in ARRAYS:
        assert np.array_equal(getattr(narrow, name), getattr(wide, name)), name
    assert (narrow.row_bound, narrow.block_bound) == (wide.row_bound, wide.block_bound)


@pytest.mark.parametrize("seed", range(40))
def test_plans_are_equal_and_can_be_carried_out(seed):
    """Bulk after bulk, so that steps begin again many times while rows stay in the cache."""
    rng = np.random.default_rng(seed)
    g = random_geometry(rng)
    slots = int(rng.integers(0, g.num_rows + 3))
    options = {"merge_gap": int(rng.choice([0, 4096])), "riders": bool(rng.integers(0, 2))}
    options["max_request"] = 1 << 20 if g.block_bytes <= 8192 else 4 * g.block_bytes
    made = [_core.Planner(g, slots, steps=steps, **options) for steps in (MOST, 0)]
    cache = Cache(slots)
    if seed % 3 == 0:
        popularity = rng.integers(0, 4096, g.num_rows, dtype=np.uint16)
        for planner in made:
            planner.set_popularity(popularity)
    for number in range(25):
        steps = int(rng.integers(0, MOST + 1))
        trace = random_bulk(rng, g.num_rows, steps, 40)
        cut = int(rng.integers(0, steps + 1))
        plans = [planner.plan(trace[:cut], trace[cut:], fill=number == 7) for planner in made]
        check_equal(*plans)
        cache.run(plans[0], trace[:cut], disjoint=False)
        assert np.array_equal(made[0].cached(), made[1].cached())
        if number == 9:
            for planner in made:
                planner.begin_bound()
        if number == 12:
            wrong = [np.array([0, 0], np.uint32)]
            for planner in made:
                with pytest.raises(InputError, match="twice"):
                    planner.plan(wrong)
        if number == 18:
            cache = Cache(slots)
            for planner in made:
                planner.clear()
                assert (planner.cached() == NONE).all()


def test_large_caches_are_equal_too():
    """Rows enter and leave a cache of thousands, so that slots are looked up in long runs."""
    rng = np.random.default_rng(1)
    g = file_geometry(50_000, 512, 8192)
    made = [_core.Planner(g, 6_000, steps=steps) for steps in (6, 0)]
    for _ in range(12):
        picked = [rng.choice(50_000, 3000, replace=False).astype(np.uint32) for _ in range(6)]
        check_equal(*(planner.plan(picked[:3], picked[3:]) for planner in made))


def test_rows_are_told_apart_by_thousands_of_uses():
    """Ranks keep their 12 bits: a row used 1,000 times outlives one that was used 999 times."""
    g = geometry(4)
    made = [_core.Planner(g, 2, steps=steps) for steps in (1, 0)]
    bulks = [[0, 1]] * 999 + [[0], [2], [3], [0], [1]]
    for rows in bulks:
        plans = [planner.plan([np.array(rows, np.uint32)]) for planner in made]
        check_equal(*plans)


def test_more_steps_than_said_are_refused():
    planner = _core.Planner(geometry(5), 2, steps=3)
    batch = np.array([1], np.uint32)
    with pytest.raises(InputError, match="4 batches were given; expected at most 3"):
        planner.plan([batch] * 2, [batch] * 2)
    assert len(planner.plan([batch] * 3)) == 3
    with pytest.raises(InputError, match=r"plans of up to -1 steps .* expected 0"):
        _core.Planner(geometry(5), 2, steps=-1)


def test_bytes_by_row():
    g = file_geometry(10**7, 256)
    narrow, wide = (_core.planner_bytes(g, 1, 1000, steps) for steps in (MOST, MOST + 1))
    assert 19e6 < wide - narrow < 22e6  # 2 bytes a row


# what was touched at most, beside what was said
PEAK = """
import sys
import numpy as np
from foregather import _core
from foregather.plan.planner import Planner, file_geometry
def touched():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
pages, steps, slots = (int(word) for word in sys.argv[1:])
g = file_geometry(8_000_000, 256)
rng = np.random.default_rng(0)
bulk = [rng.choice(8_000_000, 20_000, replace=False).astype(np.uint32) for _ in range(4)]
Planner(file_geometry(100, 256), 10, pages=bool(pages)).plan([np.arange(9, dtype=np.uint32)])
before = touched()
planner = Planner(g, slots, pages=bool(pages), steps=steps)
for k in range(3):
    plan = planner.plan(bulk[:2], bulk[2:])
print(touched() - before, _core.planner_bytes(g, slots, 80_000, steps))
"""


@pytest.mark.parametrize("slots", [1, 200_000])
@pytest.mark.parametrize(("pages", "steps"), [(0, 4), (0, 40), (1, 4)])
def test_planners_keep_to_the_bytes_that_are_counted_for_them(pages, steps, slots):
    """Of rows and of whole pages: both are tried for every choice of a way to read."""
    command = [sys.executable, "-c", PEAK, str(pages), str(steps), str(slots)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    held, said = (int(word) for word in ended.stdout.split())
    plans = 80_000 * 3 * 32  # three that were returned, as the Loader counts them
    assert held < said + plans + (2 << 20), (held, said)


def test_a_planner_by_name_takes_steps():
    g = file_geometry(1000, 512, 8192)
    rng = np.random.default_rng(2)
    bulk = random_bulk(rng, 1000, 4, 200)
    plans = [Planner(g, 100, steps=steps).plan(bulk) for steps in (None, 4, 100)]
    check_equal(plans[0], plans[1])
    check_equal(plans[0], plans[2])
