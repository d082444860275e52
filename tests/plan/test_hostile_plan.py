"""Plans made by hand: what no executor may be given is refused in one sentence."""

import numpy as np
import pytest

from foregather.errors import InputError
from tests.gather.slow_planner import plan_of
from tests.plan.simulate import NONE, geometry


def good() -> dict:
    """Two steps over 6 rows of 4096 bytes: step 0 reads rows 1 and 2, step 1 hits row 1."""
    i64, u32 = np.int64, np.uint32
    return {
        "geometry": geometry(6),
        "num_slots": 2,
        "num_rows": np.array([2, 2], i64),
        "hit_ptr": np.array([0, 0, 1], i64),
        "hit_slot": np.array([0], u32),
        "hit_position": np.array([1], u32),
        "request_ptr": np.array([0, 1, 2], i64),
        "request_offset": np.array([8192, 20480], i64),
        "request_length": np.array([8192, 4096], i64),
        "copy_ptr": np.array([0, 2, 3], i64),
        "copy_row": np.array([1, 2, 4], u32),
        "copy_position": np.array([0, 1, 0], u32),
        "copy_slot": np.array([0, NONE, NONE], u32),
    }


def test_a_good_plan_is_taken_as_it_is():
    arrays = good()
    plan = plan_of(arrays)
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(getattr(plan, name), value)
            assert not getattr(plan, name).flags.writeable
    assert len(plan) == 2 and plan.geometry == arrays["geometry"]
    counts = plan.counts()
    assert (counts["hits"], counts["misses"], counts["bytes"]) == (1, 3, 12288)


CASES = {
    "slots": ("num_slots", -1, "slots"),
    "too many slots": ("num_slots", 2**32 - 1, "slots"),
    "negative rows": ("num_rows", [-1, 2], "a batch of -1 rows"),
    "more rows than copies": ("num_rows", [2, 7], "a batch of 7 rows"),
    "short pointer": ("hit_ptr", [0, 1], "hit_ptr has 2 entries"),
    "pointer from 1": ("hit_ptr", [1, 1, 1], "hit_ptr does not ascend"),
    "descending pointer": ("copy_ptr", [0, 4, 3], "copy_ptr does not ascend"),
    "pointer past the end": ("request_ptr", [0, 1, 3], "request_ptr does not ascend"),
    "lengths differ": ("hit_position", [1, 0], "differ in length"),
    "hit slot": ("hit_slot", [2], "uses slot 2 of 2"),
    "hit position": ("hit_position", [2], "writes output row 2 of 2"),
    "position twice": ("hit_position", [0], "output row 0 twice"),
    "unaligned offset": ("request_offset", [8191, 20480], "multiples of 4096"),
    "negative offset": ("request_offset", [-4096, 20480], "multiples of 4096"),
    "past the file": ("request_length", [8192, 12288], "inside the file"),
    "overflow": ("request_length", [8192, 2**63 - 4096], "inside the file"),
    "empty request": ("request_length", [8192, 0], "multiples of 4096"),
    "row outside its request": ("copy_row", [1, 3, 4], "does not cover row 3"),
    "row outside the file": ("copy_row", [1, 2, 6], "does not cover row 6"),
    "rows descend": ("copy_row", [2, 1, 4], "do not ascend"),
    "copy position": ("copy_position", [0, 9, 0], "writes output row 9 of 2"),
    "a row is missing": ("copy_position", [0, NONE, 0], "fills 1 of 2"),
    "copy slot": ("copy_slot", [5, NONE, NONE], "uses slot 5"),
    "slot twice": ("copy_slot", [1, 1, NONE], "writes slot 1 twice"),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hostile_plans_are_refused(case):
    name, value, message = CASES[case]
    arrays = good()
    arrays[name] = np.array(value, arrays[name].dtype) if isinstance(value, list) else value
    with pytest.raises(InputError, match=message) as caught:
        plan_of(arrays)
    assert "\n" not in str(caught.value)


def test_requests_of_a_step_ascend():
    arrays = good()
    arrays["num_rows"] = np.array([3, 1], np.int64)
    arrays["request_ptr"] = np.array([0, 2, 2], np.int64)
    arrays["hit_position"] = np.array([0], np.uint32)
    arrays["copy_position"] = np.array([0, 1, 2], np.uint32)
    plan_of(arrays)
    arrays["request_offset"] = np.array([20480, 8192], np.int64)
    arrays["request_length"] = np.array([4096, 8192], np.int64)
    arrays["copy_ptr"] = np.array([0, 1, 3], np.int64)
    arrays["copy_row"] = np.array([4, 1, 2], np.uint32)
    with pytest.raises(InputError, match="do not ascend"):
        plan_of(arrays)


def test_wrong_dtypes_are_refused():
    arrays = good()
    arrays["copy_row"] = arrays["copy_row"].astype(np.float64)
    with pytest.raises(TypeError):
        plan_of(arrays)
