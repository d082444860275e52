"""What one rank does with an accelerated model; the function is a task of rank.py."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import torch

from foregather import BatchContents, Loader, _core
from foregather.dist import Grid
from foregather.nn import SAGE, accelerate
from tests.dist.rank_train import train_graph


def lists(folder: str) -> None:
    """Two epochs; says which threads made the lists of each batch of the second."""
    graph, built = train_graph(), []
    real: Any = _core.lists_by_source

    def counted(*given: Any) -> Any:
        built.append(threading.current_thread().name)
        return real(*given)

    core: Any = _core
    core.lists_by_source = counted
    assert graph.features is not None
    fast = accelerate(SAGE([graph.features.width, 8, 3]))
    with Grid(timeout=300) as grid:
        contents = BatchContents(pyg=False)
        loader = Loader(graph, [3, 2], None, 20, grid=grid, contents=contents)
        for _ in range(2):
            built.clear()
            for batch in loader:
                loss: torch.Tensor = fast(batch.x, batch.edge_index).sum()
                loss.backward()  # type: ignore[no-untyped-call]
        facts = {"plain": fast.plain, "steps": len(loader), "built": built}
        Path(folder, f"lists{os.environ['RANK']}.json").write_text(json.dumps(facts))
