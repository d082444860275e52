"""One rank of a measured world: epochs whose parts follow each other, each with its seconds.

Called by `worlds.py` as `rank.py SPEC.json`; rank 0 writes `found.json` beside it. The parts
of an epoch are kept apart by a barrier, as in the published code, so that they can be stacked;
`Loader` overlaps them.
"""

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from dist_model import measure_link

from foregather import Graph
from foregather.dist import DistSampler, FeatureBlock, FeatureExchange, Grid, Partition
from foregather.dist.traffic import phase_times
from foregather.dist.transport.ledger import total
from foregather.nn import SAGEConv
from foregather.sampling import Ladies, Neighbor

CLASSES, HIDDEN = 16, 64


def rule_of(case: dict):
    if case["rule"] == "ladies":
        return Ladies(case["sizes"])
    return Neighbor(case["sizes"], expand="per-layer")


class Model(torch.nn.Module):
    """SAGE on layered minibatches, as wide as the figures say."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        sizes = [width, *[HIDDEN] * (layers - 1), CLASSES]
        pairs = itertools.pairwise(sizes)
        self.layers = torch.nn.ModuleList(SAGEConv(a, b) for a, b in pairs)

    def forward(self, x: torch.Tensor, sample) -> torch.Tensor:
        """Scores of the seeds."""
        ends = np.cumsum(sample.num_edges)
        for number, layer in enumerate(self.layers):
            at = len(self.layers) - 1 - number
            span = slice(ends[at] - sample.num_edges[at], ends[at])
            edges = np.stack([sample.row[span], sample.col[span]]).astype(np.int64)
            x = layer((x, x[: sample.num_nodes[at]]), torch.from_numpy(edges))
            x = x.relu() if at else x
        return x


def train(model: Model, optimizer, sample, rows: torch.Tensor, labels: np.ndarray) -> None:
    """A step; gradients are the mean over ranks."""
    optimizer.zero_grad()
    scores = model(rows, sample)
    wanted = torch.from_numpy(labels[sample.node[: sample.num_seeds]].astype(np.int64))
    torch.nn.functional.cross_entropy(scores, wanted).backward()
    for weight in model.parameters():
        dist.all_reduce(weight.grad)
        weight.grad /= dist.get_world_size()
    optimizer.step()


class Case:
    """A sampler and an exchange in one mode, ready for epochs."""

    def __init__(self, grid: Grid, graph: Graph, case: dict, spec: dict) -> None:
        self.grid, self.graph, self.case, self.spec = grid, graph, case, spec
        held = graph
        if case["mode"] != "replicated":
            held = Partition.of(graph, grid.num_rows, grid.row)
        mode = "paper" if case["mode"] == "paper" else "owner"
        self.sampler = DistSampler(rule_of(case), held, grid, mode=mode)
        self.channel = grid.channel()  # one for the exchanges of all epochs
        self.block = FeatureBlock.of(graph.features[:], grid.num_rows, grid.row)
        torch.manual_seed(0)
        self.model = Model(graph.features.width, len(case["sizes"]))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.003)

    def epoch(self, number: int) -> dict[str, float]:
        """Seconds of the parts, bytes and phases of all ranks; no row is cached at its start."""
        graph, mode = self.graph, "paper" if self.case["mode"] == "paper" else "planned"
        memory = graph.num_nodes * 4 * graph.features.width // 4 + (16 << 20)
        self.exchange = FeatureExchange(
            self.grid, self.block, memory=memory, mode=mode, channel=self.channel
        )
        found = self._epoch(number)
        self.exchange.close()
        return found

    def _epoch(self, number: int) -> dict[str, float]:
        parts = dict.fromkeys(("sampling", "features", "propagation"), 0.0)
        before = phase_times(self.sampler, self.exchange)
        sent = total(self.grid.gather_ledger(self.sampler.ledger)).bytes
        for bulk in self._bulks():
            began = self._clock()
            seeds = [self._seeds(number, batch) for batch in bulk]
            made = self.sampler.sample_bulk(
                seeds, seed=0, epoch=number, first_batch=bulk[0], step=self.grid.size
            )
            sampled = self._clock()
            rows = list(self.exchange.fetch(made))
            self.exchange.settle()
            gathered = self._clock()
            if self.spec.get("train", True):
                for sample, own in zip(made, rows, strict=True):
                    train(self.model, self.optimizer, sample, own, self.graph.labels)
            ended = self._clock()
            parts["sampling"] += sampled - began
            parts["features"] += gathered - sampled
            parts["propagation"] += ended - gathered
        after = phase_times(self.sampler, self.exchange)
        spent = torch.tensor([(after[name] - before[name]) / 1e9 for name in after])
        dist.all_reduce(spent)
        found = {name: s / self.grid.size for name, s in zip(after, spent.tolist(), strict=True)}
        ledger = total(self.grid.gather_ledger(self.sampler.ledger)).bytes - sent
        crossed = total(self.grid.gather_ledger(self.exchange.ledger)).bytes
        return {**parts, **found, "sampling_bytes": ledger, "feature_bytes": crossed}

    def _bulks(self) -> list[list[int]]:
        """Numbers of this rank's minibatches, bulk by bulk."""
        size, each = self.grid.size, self.spec["batches"] // self.grid.size
        own = [step * size + self.grid.rank for step in range(each)]
        k = self.case.get("bulk", self.spec["bulk"])
        return [own[at : at + k] for at in range(0, len(own), k)]

    def _seeds(self, epoch: int, batch: int) -> np.ndarray:
        rng = np.random.default_rng([epoch, batch])
        return rng.choice(self.graph.num_nodes, self.spec["seeds"], replace=False)

    def _clock(self) -> float:
        """After all ranks have come here."""
        dist.barrier()
        return time.perf_counter()

    def close(self) -> None:
        """Ends threads."""
        self.channel.close()
        self.sampler.close()


def main() -> None:
    path = Path(sys.argv[1])
    spec = json.loads(path.read_text())
    torch.set_num_threads(1)
    graph, found = Graph.open(spec["graph"]), []
    for c in sorted({case.get("c", 1) for case in spec["cases"]}):
        with Grid(c, timeout=300) as grid:
            for case in spec["cases"]:
                if case.get("c", 1) != c:
                    continue
                run = Case(grid, graph, case, spec)
                made = [run.epoch(number) for number in range(spec["repeats"] + 1)][1:]
                run.close()
                found.append({**case, "epochs": made})
            if grid.size > 1 and spec.get("probe"):
                line = measure_link(grid)
                found = [{**one, "line": line} for one in found]
            rank = grid.rank
    if rank == 0:
        path.with_name("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
