"""before_after: did a change of the code make anything slower?

Two trees of the project, each with its own build, do the same work in turns: sampling, an epoch of
the Loader in memory and from disk (with 120 MB of memory), an epoch over two ranks on loopback, and
an epoch of full-graph training on two ranks. The processes of a case stay alive, so a round is
nothing but the work; the order within a round is random. Each round gives a ratio, after over
before: below 1 the change is faster.

    python benchmarks/before_after.py OTHER_PYTHON [--rounds 9] [--cases loader disk]

OTHER_PYTHON is the interpreter of the tree to compare with, in which foregather is installed.
"""

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from foregather import Graph, Loader

CASES = ("sampling", "loader", "disk", "ranks", "pipeline")
RANKS = {"ranks": 2, "pipeline": 2}  # the others run in one process
FANOUT, SEEDS = [15, 10, 5], 1024


# ---- one side: only names that both trees have ---------------------------------------------------
def sampling(graph: Graph) -> Callable[[int], None]:
    """Bulks of the sampler alone."""
    from foregather.sampling import Neighbor

    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    graph = Graph(graph.num_nodes, graph.num_edges, indptr, indices)
    rule, order = Neighbor(FANOUT), np.random.default_rng(0).permutation(graph.num_nodes)
    seeds = [order[k * SEEDS : (k + 1) * SEEDS] for k in range(16)]
    return lambda turn: rule.sample_bulk(graph, seeds, seed=0, epoch=turn, threads=1) and None


def epochs(loader: Loader) -> Callable[[int], None]:
    """Epochs that use nothing of a batch."""

    def run(turn: int) -> None:
        loader.set_epoch(turn)
        for batch in loader:
            del batch

    return run


def seeds_of(graph: Graph, batches: int) -> np.ndarray:
    """Random input nodes."""
    return np.random.default_rng(1).permutation(graph.num_nodes)[: batches * SEEDS]


def pipeline() -> Callable[[int], None]:
    """An epoch of full-graph training, two stages, eight chunks."""
    import torch
    import torch.distributed as dist

    from foregather.nn import resgcn_layers
    from foregather.pipeline import FullGraph

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng, nodes = np.random.default_rng(0), 8192
    graph = Graph.from_edge_index(
        rng.integers(0, nodes, (2, nodes * 16)),
        nodes,
        x=rng.random((nodes, 64), np.float32),
        y=rng.integers(0, 40, nodes),
        splits={"train": np.arange(0, nodes, 2)},
    )
    run = FullGraph(graph, [*resgcn_layers(64, 64, 40, 8, dropout=0.5)], 8, "fast",
                    partition="natural")  # fmt: skip
    return lambda _: run.train_epoch() and None


def child(case: str, folder: Path) -> None:
    """Does a round for every line on standard input; prints its seconds. Other ranks follow."""
    if case == "pipeline":
        work = pipeline()
    elif case == "ranks":
        from foregather.dist import Grid

        grid, graph = Grid(timeout=600), Graph.open(folder)
        work = epochs(Loader(graph, FANOUT, seeds_of(graph, 16), SEEDS, grid=grid, threads=1))
    else:
        graph = Graph.open(folder)
        if case == "sampling":
            work = sampling(graph)
        elif case == "loader":
            work = epochs(Loader(graph, FANOUT, seeds_of(graph, 16), SEEDS, threads=1))
        else:
            options = {"memory": "120MB", "storage": "disk", "bulk": 4, "threads": 1}
            work = epochs(Loader(graph, [10, 10], seeds_of(graph, 8), SEEDS // 4, **options))
    rank = int(os.environ.get("RANK", "0"))
    for turn in range(1 << 30):
        if rank == 0 and sys.stdin.readline() == "":
            os._exit(0)  # other ranks wait in a collective, and are ended from outside
        began = time.perf_counter()
        work(turn)
        if rank == 0:
            print(time.perf_counter() - began, flush=True)


# ---- both sides ----------------------------------------------------------------------------------
class Side:
    """The processes of one tree for one case."""

    def __init__(self, python: str, case: str, folder: Path) -> None:
        command = [python, __file__, python, "--child", case, "--folder", str(folder)]
        ranks = RANKS.get(case, 1)
        world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        self._processes = []
        for rank in range(ranks):
            environment = dict(os.environ)
            if ranks > 1:
                environment |= {**world, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            pipe = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            self._processes.append(
                subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
            )

    def round(self) -> float:
        """Seconds of one round."""
        first = self._processes[0]
        assert first.stdin is not None and first.stdout is not None
        first.stdin.write("\n")
        first.stdin.flush()
        answer = first.stdout.readline()
        if not answer:
            raise SystemExit("a process ended; its error stands above")
        return float(answer)

    def close(self) -> None:
        """Ends the processes."""
        for process in reversed(self._processes):  # so that no rank complains about the first
            process.kill()
            process.wait()


def free_port() -> str:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def compare(case: str, before: str, after: str, rounds: int, folder: Path) -> list[object]:
    """A row of the table."""
    from common.report import median_spread

    sides = {"before": Side(before, case, folder), "after": Side(after, case, folder)}
    found: dict[str, list[float]] = {name: [] for name in sides}
    try:
        for turn in range(rounds + 2):
            for name in random.Random(turn).sample(sorted(sides), 2):
                seconds = sides[name].round()
                if turn > 1:  # the first two fill caches and buffers
                    found[name].append(seconds)
    finally:
        for side in sides.values():
            side.close()
    ratio = [a / b for a, b in zip(found["after"], found["before"], strict=True)]
    middle = f"**{statistics.median(ratio):.3f}** ({min(ratio):.3f} to {max(ratio):.3f})"
    print(f"{case}: {middle}", flush=True)
    return [case, median_spread(found["before"]), median_spread(found["after"]), middle]


def main() -> None:
    """Makes the graph, compares case by case, writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?", help="the other tree's Python")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--dry", action="store_true", help="write no report")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.folder)
        return
    from common.report import Report
    from common.skip import skip

    if given.other is None:
        skip("this compares with another tree; name its Python")
    from foregather.graph.synthetic import synthesize

    with tempfile.TemporaryDirectory(dir=given.folder, prefix="before-after-") as name:
        folder = Path(name) / "graph"
        synthesize(folder, given.nodes, edges=20 * given.nodes, features=64, classes=8)
        rows = [
            compare(case, given.other, sys.executable, given.rounds, folder) for case in given.cases
        ]
    if not given.dry:
        report = Report("before_after", __doc__)
        report.line(f"{given.rounds} rounds; seconds a round, median (least to most).")
        report.table(["case", "before", "after", "after / before"], rows)
        report.write()


if __name__ == "__main__":
    main()
