"""mapped_worker: epochs of PyG whose feature rows are in a map of the file; see `mapped.py`."""

import json
import mmap
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .graphs import Case
from .loading import as_data, pyg_loader
from .models import Setting, Trainer
from .rounds import Work

__all__ = ["mapped_rows"]


def mapped_rows(path: Path, advice: str) -> torch.Tensor:
    """The array of a `.npy` file, read page by page when it is touched."""
    seen = np.load(path, mmap_mode="r")
    with open(path, "rb") as file:
        held = mmap.mmap(
            file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE
        )
    if advice == "random":
        held.madvise(mmap.MADV_RANDOM)
    rows = np.frombuffer(held, seen.dtype, seen.size, seen.offset).reshape(seen.shape)
    return torch.from_numpy(rows)


class Works:
    """What was prepared, by name; the graph is read once for all of them."""

    def __init__(self) -> None:
        self.case: Case | None = None
        self.data: dict[str, Any] = {}
        self.loaders: dict[Any, Any] = {}
        self.made: dict[str, Work] = {}

    def make(self, given: dict[str, Any]) -> None:
        """Prepares epochs of one model by one way of reading."""
        setting = Setting(**{**given["setting"], "fanouts": tuple(given["setting"]["fanouts"])})
        folder = Path(given["folder"])
        self.case = self.case or Case(given["name"], folder, features=False)
        advice, workers = given["advice"], given["workers"]
        if advice not in self.data:
            rows = mapped_rows(folder / "x.npy", advice)
            self.data[advice] = as_data(self.case, rows, weight=setting.kind == "GCN")
        data = self.data[advice]
        key = (advice, workers, given["nodes"])
        if key not in self.loaders:
            nodes = torch.from_numpy(np.load(given["nodes"]))
            fanouts, size = list(setting.fanouts), given["size"]
            loader = pyg_loader(data, fanouts, nodes, size, workers)
            self.loaders[key] = loader
        trainer = Trainer(setting, data.x.shape[1], given["way"])
        self.made[given["make"]] = trainer.on(self.loaders[key])


def main() -> None:
    """Answers a line for every line, until the other side closes the pipe."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(int(sys.argv[1]))
    works = Works()
    print(json.dumps({"version": ""}), file=answers, flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        said: dict[str, Any] = {}
        try:
            if "make" in given:
                works.make(given)
            else:
                said = vars(works.made[given["run"]](given["round"]))
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
