"""A program of a user: torch's DDP, a Loader over ranks, and a rank that goes at some moment.

    RANK=... WORLD_SIZE=... MASTER_ADDR=... MASTER_PORT=... python -m tests.dist.ddp_program

TEST_VICTIM goes at TEST_MOMENT in the way TEST_WAY. Nothing here asks who is gone.
"""

import os
import signal
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from foregather import BatchContents, Loader
from foregather.dist import Grid
from foregather.dist.transport import wire
from foregather.nn import SAGE
from foregather.sampling.bulk import Sample
from tests.dist import rank_train

#: Moments at which a rank goes, in the order in which a program comes to them.
MOMENTS = (
    "start",
    "grid",
    "loader",
    "model",
    "exchange",
    "feed",
    "batch",
    "backward",
    "between",
    "epoch",
    "end",
)
WAYS = ("kill", "raise", "exit", "quit")
STEP = 5  # the step in which it happens


def go(moment: str) -> None:
    """Ends this rank if it is the one, and this is the moment."""
    victim, when = os.environ["TEST_VICTIM"], os.environ["TEST_MOMENT"]
    if (os.environ["RANK"], moment) != (victim, when):
        return
    way = os.environ["TEST_WAY"]
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    elif way == "raise":
        raise ValueError("the data of this rank are bad")
    elif way == "exit":
        sys.exit(3)
    os._exit(4)


def in_step(moment: str, number: int) -> None:
    if number == STEP:
        go(moment)


def disturb_exchange() -> None:
    """In the thread in which samples and rows cross."""
    whole, calls = wire.Wire.exchange, [0]

    def exchange(self: wire.Wire, parts: Any, purpose: Any) -> Any:
        calls[0] += 1
        in_step("exchange", calls[0] - 3)
        return whole(self, parts, purpose)

    wires: Any = wire.Wire
    wires.exchange = exchange


def train(grid: Grid) -> None:
    go("grid")
    graph = rank_train.train_graph()
    options: dict[str, Any] = {
        "shuffle": True,
        "contents": BatchContents(labels="seeds", pyg=False),
        "threads": 1,
        "bulk": 2,
    }
    loader = Loader(graph, [4, 3], "train", 6, grid=grid, **options)
    go("loader")
    model = SAGE([6, 16, 4], dropout=0.0)
    model.layers[0].register_full_backward_hook(lambda *_: in_step("backward", steps[0]))
    parallel = DistributedDataParallel(model)
    optimizer, steps = torch.optim.SGD(parallel.parameters(), lr=0.1), [0]
    assembler: Any = type(loader._maker.assembler)
    make = assembler.batch

    def batch_or_go(self: Any, sample: Sample, *rest: Any) -> Any:
        in_step("feed", sample.batch // grid.size)
        return make(self, sample, *rest)

    assembler.batch = batch_or_go
    go("model")
    for _ in range(2):
        for batch in loader:
            steps[0] += 1
            in_step("batch", steps[0])
            optimizer.zero_grad()
            scores = parallel(batch.x, batch.edge_index)[: batch.batch_size]
            (functional.cross_entropy(scores, batch.y) * batch.share).backward()
            optimizer.step()
            in_step("between", steps[0])
        go("epoch")
    go("end")
    dist.all_reduce(torch.ones(1))
    if grid.rank == 0:
        print("trained", flush=True)


def main() -> None:
    go("start")
    disturb_exchange()
    timeout = float(os.environ.get("TEST_TIMEOUT", "20"))
    if os.environ.get("TEST_INIT") == "own":
        dist.init_process_group("gloo")
    if os.environ.get("TEST_FORM") == "with":
        with Grid(timeout=timeout) as grid:
            train(grid)
    else:
        train(Grid(timeout=timeout))


if __name__ == "__main__":
    main()
