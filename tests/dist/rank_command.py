"""What one rank of a test world does with the command line; the functions are tasks of rank.py."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch._dynamo  # what the first optimiser would import
import torch.distributed.fsdp  # imported before the forks
import torch_geometric.data  # noqa: F401
from torch import Tensor

with contextlib.suppress(ImportError):  # what the first checkpoint would; absent in older torch
    import torch.distributed.checkpoint.hf_storage  # noqa: F401

from foregather.cli.main import main
from foregather.dist.rank_batches import RankBatches
from foregather.dist.transport.ledger import total
from foregather.nn import SAGE
from foregather.pipeline.engine import Engine


def command(folder: str) -> None:
    """Runs the command line in TEST_COMMAND, and ends with its code.

    With TEST_LEDGER each rank's own ledger goes to a file there before its loader is closed. With
    TEST_FULL_GRAPH a signal reaches a rank in an epoch of full-graph training, before its step.
    """
    if "TEST_FULL_GRAPH" in os.environ:
        _disturb_full_graph(*map(int, os.environ["TEST_FULL_GRAPH"].split()))
    if "TEST_LEDGER" in os.environ:
        _keep_ledger(Path(os.environ["TEST_LEDGER"]))
    try:
        code: Any = main(json.loads(os.environ["TEST_COMMAND"]))
    except SystemExit as stop:
        code = stop.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _disturb_full_graph(number: int, rank: int, epoch: int) -> None:
    kind: Any = Engine
    real = kind._check_gradients

    def check(self: Engine, current: int) -> None:
        if current == epoch and rank == int(os.environ["RANK"]):
            signal.raise_signal(number)
        real(self, current)

    kind._check_gradients = check


def _keep_ledger(place: Path) -> None:
    kind: Any = RankBatches
    real = kind.close

    def close(self: Any) -> None:
        self.gather_ledger()
        sent = [total(part.ledger.entries()).bytes for part in (self.sampler, self.rows)]
        with open(place / f"ledger-{self.grid.rank}", "a", encoding="ascii") as file:
            file.write(f"{sum(sent)}\n")
        real(self)

    kind.close = close


class Disturbed(SAGE):
    """A model to which something happens on one rank in its 14th training step."""

    def __init__(self, in_channels: int, out_channels: int, what: str = "") -> None:
        super().__init__([in_channels, 16, out_channels])
        self.calls = 0
        what, _, rank = os.environ.get("TEST_DISTURB", "").partition(" ")
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        self.what = what if first and rank == os.environ["RANK"] else ""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        self.calls += self.training
        if self.training and self.calls == 14:
            if self.what.isdigit():
                signal.raise_signal(int(self.what))
            elif self.what == "full":
                self._fill()
            elif self.what:
                raise RuntimeError(f"the model has {self.what}")
        return super().forward(x, edge_index)

    def _fill(self) -> None:
        def full(descriptor: object) -> None:
            raise OSError(28, "No space left on device")

        module: Any = os
        module.fsync = full
