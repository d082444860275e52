"""memory=: what it needs is said beforehand, and it holds under a limit of the kernel."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from foregather import BatchContents, BudgetError, Graph, Loader
from foregather.loader.memory.budget import Budget, LoaderNeed, choose_bulk
from foregather.loader.memory.division import MOST_BULK

CGROUPS = Path("/sys/fs/cgroup/memory")

# The graph, torch and one batch (imports, threads) come before the limit: they are not covered.
CHILD = """
import os, sys
from pathlib import Path
import numpy as np
from foregather import BatchContents, Graph, Loader
plain = BatchContents(pyg=False)
folder, memory, allowed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
(folder / "cgroup.procs").write_text(str(os.getpid()))
rng = np.random.default_rng(0)
nodes = 200_000
graph = Graph.from_edge_index(
    rng.integers(0, nodes, (2, 10 * nodes)), nodes, x=np.ones((nodes, 64), np.float32)
)
if sys.argv[4] != "memory":
    graph = Graph.open(graph.save(sys.argv[4]))
    for array in (graph.indptr, graph.indices, graph.features.data):
        array.sum()
for _ in Loader(graph, [2], np.arange(10), 10, contents=plain):
    pass
used = int((folder / "memory.usage_in_bytes").read_text())
(folder / "memory.limit_in_bytes").write_text(str(used + allowed))
loader = Loader(
    graph, [10, 5], batch_size=2000, shuffle=True, memory=memory, bulk="auto", contents=plain
)
total = 0
for batch in loader:
    batch.x[0, 0] = 2  # the consumer writes to what it has
    total += batch.batch_size
    if total >= 60_000:
        break
print(loader.bulk, total)
"""


def run_limited(tmp_path, memory: int, allowed: int, where: str) -> subprocess.CompletedProcess:
    folder = CGROUPS / f"foregather-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a memory cgroup (v1, root): {error.strerror}")
    try:
        arguments = [str(folder), str(memory), str(allowed), where]
        return subprocess.run(
            [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, timeout=600
        )
    finally:
        folder.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "folder"])
def test_the_budget_holds_under_a_limit(tmp_path, where):
    memory = 400 << 20
    done = run_limited(
        tmp_path, memory, memory, "memory" if where == "memory" else str(tmp_path / "g.fg")
    )
    assert done.returncode == 0, done.stderr
    bulk, total = map(int, done.stdout.split())
    assert bulk > 1 and total == 60_000


@pytest.mark.slow
def test_the_limit_can_be_exceeded(tmp_path):
    """Without a budget that fits, the same loop is ended by the kernel: the test above can fail."""
    done = run_limited(tmp_path, 1 << 40, 60 << 20, "memory")
    assert done.returncode != 0 and "BudgetError" not in done.stderr


def test_choose_bulk():
    need = LoaderNeed(tables=100, sample=10, batch=50, prefetch=2)
    assert need.least(1) == 100 + 4 * 50 + 10
    assert choose_bulk(need, 310, None, 1000) == 1
    assert choose_bulk(need, 349, None, 1000) == 4
    assert choose_bulk(need, 10**6, None, 1000) == MOST_BULK
    assert choose_bulk(need, 10**6, None, 7) == 7
    assert choose_bulk(need, 10**6, 3, 1000) == 3
    for asked, least in ((None, 310), (5, 350)):
        with pytest.raises(BudgetError, match=rf"\({least} bytes\)"):
            choose_bulk(need, least - 1, asked, 1000)


@pytest.mark.parametrize("bulk", [1, 8])
def test_batches_a_quarter_larger_than_those_judged_by_stay_in_the_least_budget(bulk):
    need = LoaderNeed.judged(1000, [600, 800], [4000, 3000], 2)
    Budget(need.least(bulk), need).check(bulk * 1000, 5000)
    with pytest.raises(BudgetError, match="larger than the first"):
        Budget(need.least(bulk), need).check(bulk * 1000, 5100)


def test_a_batch_far_larger_than_the_first_is_said():
    Budget(350, LoaderNeed(100, 10, 50, 2)).check(10, 50)
    # in order, the first batches have no neighbours at all and the last have many
    pairs = np.random.default_rng(0).integers(500, 1000, (2, 20_000))
    graph = Graph.from_edge_index(pairs, 1000, x=np.ones((1000, 32), np.float32))
    options = {"batch_size": 10, "bulk": "auto", "contents": BatchContents(pyg=False)}
    with pytest.raises(BudgetError) as caught:
        Loader(graph, [10, 10], memory=1, **options)
    least = int(re.search(r"\((\d+) bytes\)(?=; give)", str(caught.value)).group(1))
    with pytest.raises(BudgetError, match="larger than the first ones"):
        list(Loader(graph, [10, 10], memory=least, **options))
    assert len(list(Loader(graph, [10, 10], memory="100MB", **options))) == 100
