"""Runs examples/3_multi_rank.py, small, under torchrun; one rank may kill itself in the middle."""

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from foregather.sampling import Ladies, Neighbor

PATH = Path(__file__).parents[2] / "examples" / "3_multi_rank.py"


def main(folder: str, victim: str) -> None:
    spec = importlib.util.spec_from_file_location("multi_rank", PATH)
    assert spec is not None and spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.NODES, example.EPOCHS, example.STEP = 1500, 3, 128
    rules = {"SAGE": Neighbor([4, 3], expand="per-layer"), "LADIES": Ladies([64, 64])}
    example.RULES = rules
    train, number = example.train, {"models": 0, "steps": 0}

    def train_and_keep(*arguments: Any) -> Any:
        model = train(*arguments)
        torch.save(model.state_dict(), Path(folder, f"model{number['models']}.pt"))
        number["models"] += 1
        return model

    forward, first = example.Model.forward, os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"

    def forward_or_die(self: Any, batch: Any) -> Any:
        number["steps"] += 1
        if first and os.environ["RANK"] == victim and number["steps"] == 14:
            Path(folder, "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, batch)

    example.train, example.Model.forward = train_and_keep, forward_or_die
    sys.argv[1:] = [str(Path(folder, "checkpoint"))]
    example.main()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
