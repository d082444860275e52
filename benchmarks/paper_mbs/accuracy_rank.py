"""One rank that trains on pubmed with a Loader over ranks, for some seeds; rank 0 writes scores.

Called as `accuracy_rank.py SPEC.json`; writes `found.json` beside the spec.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.graphs import load_graph

from foregather import BatchContents, Loader, RankOptions
from foregather.dist import Grid
from foregather.nn import SAGE
from foregather.sampling import Neighbor
from foregather.train.fit import Training, evaluate, fit
from foregather.train.parallel_model import spread
from foregather.train.rank_agreement import Together


def main() -> None:
    path = Path(sys.argv[1])
    spec = json.loads(path.read_text())
    os.environ["FOREGATHER_DATA"] = spec["data"]
    torch.set_num_threads(1)
    graph, found = load_graph("pubmed", columns=64), []
    with Grid(timeout=300) as grid:
        for seed in range(spec["seeds"]):
            torch.manual_seed(seed)
            model = SAGE([64, 64, 3])
            options = {"sampler": Neighbor([10, 5]), "grid": grid, "threads": 1, "seed": seed}
            options |= {"contents": BatchContents(pyg=False), "ranks": RankOptions()}
            each = max(1, 20 // grid.size)
            loader = Loader(graph, None, "train", each, shuffle=True, **options)
            test = Loader(graph, None, "test", 250, **options)
            together = Together(grid) if grid.size > 1 else Together()
            training = Training(
                model,
                loader,
                torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4),
                parallel=spread(model, "replicated", together),
                together=together,
            )
            fit(training, spec["epochs"])
            found.append(evaluate(model, test, together))
            dist.barrier()
            test.close()
            loader.close()
        if grid.rank == 0:
            path.with_name("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
