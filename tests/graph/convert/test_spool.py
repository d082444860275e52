"""Spool: any stream of records comes back sorted by key range, whole, stable and bounded."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import StorageError
from foregather.graph.convert.spool import Spool

RECORD = np.dtype([("target", "<u4"), ("source", "<u4"), ("order", "<u4")])
WIDE = np.dtype([("target", "<u8"), ("source", "<u8"), ("order", "<u4")])


def collect(
    path: Path, records: np.ndarray, run: int, limit: int, step: int
) -> tuple[np.ndarray, int]:
    spool = Spool(path, records.dtype, run * records.dtype.itemsize, ("target", "source"))
    for start in range(0, len(records), step):
        spool.append(records[start : start + step])
    parts, last, largest = [], 0, 0
    for group in spool.groups(limit * records.dtype.itemsize):
        key = group.records["target"]
        assert group.low <= key.min() and key.max() < group.high
        assert group.low >= last if not group.partial else group.low + 1 >= last
        last = group.high
        largest = max(largest, len(group.records))
        order = np.argsort(key, kind="stable")
        if group.partial:
            order = np.lexsort((group.records["source"], key))
        parts.append(group.records[order])
    spool.close()
    assert not list(path.parent.iterdir())
    return np.concatenate(parts) if parts else records[:0], largest


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equals_a_stable_sort(data, tmp_path_factory):
    count = data.draw(st.integers(0, 400))
    largest = data.draw(st.sampled_from([1, 3, 50, 10_000, 2**32 - 1]))
    seed = data.draw(st.integers(0, 1000))
    dtype = data.draw(st.sampled_from([RECORD, WIDE]))
    rng = np.random.default_rng(seed)
    records = np.empty(count, dtype)
    records["target"] = rng.integers(0, largest, count, endpoint=True)
    records["source"] = rng.integers(0, 100_000, count)
    records["order"] = np.arange(count)
    run = data.draw(st.integers(1, 200))
    limit = data.draw(st.integers(1, 300))
    step = data.draw(st.integers(1, 100))
    got, biggest = collect(tmp_path_factory.mktemp("spool") / "s", records, run, limit, step)
    assert biggest <= max(1, limit)
    # Inside a target, order of appending is kept unless the target had to be cut by source.
    np.testing.assert_array_equal(
        np.sort(got, order=["target", "source", "order"]),
        np.sort(records, order=["target", "source", "order"]),
    )
    assert (np.diff(got["target"].astype(np.int64)) >= 0).all()


def test_one_huge_key_is_cut_by_the_second_key(tmp_path):
    records = np.empty(1000, RECORD)
    records["target"], records["source"] = 7, np.arange(1000)[::-1]
    records["order"] = np.arange(1000)
    spool = Spool(tmp_path / "s", RECORD, 100 * 12, ("target", "source"))
    spool.append(records)
    groups = list(spool.groups(64 * 12))
    spool.close()
    assert all(g.partial and (g.low, g.high) == (7, 8) for g in groups)
    assert max(len(g.records) for g in groups) <= 64
    tops = [int(g.records["source"].max()) for g in groups]
    assert tops == sorted(tops)


def test_unwritable_scratch_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="making s failed"):
        Spool(tmp_path / "missing" / "s", RECORD, 100, ("target",))
