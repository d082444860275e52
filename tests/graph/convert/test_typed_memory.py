"""Typed conversion under a limit of the kernel, of tables several times as large as its budget."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foregather.graph.hetero import HeteroGraph

CGROUPS = Path("/sys/fs/cgroup/memory")
BUDGET = 110_000_000  # besides what the process has when it starts
ROWS = 4_000_000

# imports and a first small conversion come before the limit: they are not covered
CHILD = """
import os, sys
from pathlib import Path
from foregather.graph.convert import convert
group, folder, budget = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
(group / "cgroup.procs").write_text(str(os.getpid()))
convert(folder / "small/d.toml", folder / "first", memory="4GB", threads=1)
with open("/proc/self/statm") as file:
    resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
used = int((group / "memory.usage_in_bytes").read_text())
(group / "memory.limit_in_bytes").write_text(str(used + budget))
facts = convert(folder / "large/d.toml", folder / "g", memory=resident + budget, threads=1)
print(facts["num_edges"], facts["peak_memory"] - resident)
"""
SPEC = """
[nodes.user]
file = "user.parquet"
id = "id"
[[edges]]
type = ["user", "knows", "user"]
file = "knows.parquet"
source = "a"
target = "b"
time = "at"
reverse = true
[[edges]]
type = ["page", "names", "page"]
file = "knows.parquet"
source = "a"
target = "b"
[nodes.page]
"""


def write_tables(folder: Path, rows: int) -> None:
    folder.mkdir()
    users = max(2, rows // 8)
    names = pa.array([f"user number {k}" for k in range(users)])
    order = np.random.default_rng(1).permutation(users)
    pq.write_table(pa.table({"id": names.take(pa.array(order))}), folder / "user.parquet")
    schema = pa.schema({"a": pa.string(), "b": pa.string(), "at": pa.int64()})
    with pq.ParquetWriter(folder / "knows.parquet", schema) as out:
        for start in range(0, rows, 250_000):
            rng = np.random.default_rng(start)
            count = min(250_000, rows - start)
            # one user is in a tenth of the edges, so that a row is larger than a group
            ends = [np.where(rng.random(count) < 0.1, 0, rng.integers(0, users, count))
                    for _ in range(2)]  # fmt: skip
            columns = [names.take(pa.array(one)) for one in ends]
            out.write_table(pa.table([*columns, rng.integers(0, 99, count)], schema=schema))
    (folder / "d.toml").write_text(SPEC)


@pytest.mark.slow
def test_tables_larger_than_the_budget_convert_under_a_limit_of_the_kernel(tmp_path):
    write_tables(tmp_path / "small", 100)
    write_tables(tmp_path / "large", ROWS)
    group = CGROUPS / f"foregather-typed-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a memory cgroup (v1, root): {error.strerror}")
    try:
        command = [sys.executable, "-c", CHILD, str(group), str(tmp_path), str(BUDGET)]
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        group.rmdir()
    assert done.returncode == 0, done.stderr[-2000:]
    edges, more = map(int, done.stdout.split())
    assert edges == 3 * ROWS
    assert more < BUDGET
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.nbytes > 2 * BUDGET
    assert graph.verify().num_edges == edges
