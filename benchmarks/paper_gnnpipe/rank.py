"""One rank of full-graph training in several schemes, epochs by turns.

Called as `rank.py SPEC.json`; rank 0 writes `found.json` beside it: for each case the seconds of
its epochs on the slowest rank, seconds on messages by purpose (mean of the ranks), bytes that all
sent, and the memory that each rank took.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

from common.graphs import load_graph
from common.schemes import pin

from foregather import Graph
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.pipeline import FullGraph, Meter, Runtime


def layers_of(model: str, graph: Graph, width: int, depth: int) -> list[torch.nn.Module]:
    """A deep model, from the same weights always."""
    torch.manual_seed(0)
    columns, classes = graph.features.width, int(graph.labels.max()) + 1
    if model in ("gcn", "sage"):
        make = gcn_layers if model == "gcn" else sage_layers
        return [*make([columns, *[width] * (depth - 1), classes])]
    deep = gcnii_layers if model == "gcnii" else resgcn_layers
    return [*deep(columns, width, classes, depth)]


def resident() -> int:
    """Resident bytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def highest() -> int:
    """The most resident bytes since the kernel's mark was set back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


class Run:
    """A scheme that is ready for epochs, after a first one that is not counted."""

    def __init__(self, graph: Graph, case: dict) -> None:
        self.case, self.before = case, resident()
        Path("/proc/self/clear_refs").write_text("5")  # the mark of the peak starts again here
        self.seconds: list[float] = []
        self.waited: list[float] = []
        layers = layers_of(case["model"], graph, case["width"], case["depth"])
        meter = None if case["mode"] == "exact" else Meter(every=0)
        self.run = FullGraph(
            graph,
            layers,
            case["chunks"],
            case["mode"],
            meter=meter,
            partition="metis",
            runtime=Runtime(ways=case["ways"]),
        )
        self.run.train_epoch()

    def epoch(self) -> None:
        """One that counts: seconds of the slowest rank."""
        dist.barrier()
        self.report = self.run.train_epoch()
        own = torch.tensor([self.report.seconds], dtype=torch.float64)
        dist.all_reduce(own, dist.ReduceOp.MAX)
        spent = torch.tensor([*self.report.waited.values()], dtype=torch.float64)
        dist.all_reduce(spent)
        self.seconds.append(float(own))
        self.waited.append(float(spent.sum()) / dist.get_world_size())

    def found(self) -> dict:
        """What is known of it, on every rank."""
        sent = [n for name, n in self.report.sent.items() if name not in ("control", "state")]
        bytes_sent = torch.tensor([sum(sent)], dtype=torch.int64)
        dist.all_reduce(bytes_sent)
        peak = highest()
        took = torch.zeros(dist.get_world_size(), dtype=torch.int64)
        took[dist.get_rank()] = peak - self.before
        dist.all_reduce(took)
        facts = {"seconds": self.seconds, "waited": self.waited, "sent": int(bytes_sent)}
        return {**self.case, **facts, "memory": took.tolist()}


def main() -> None:
    path = Path(sys.argv[1])
    spec = json.loads(path.read_text())
    dist.init_process_group("gloo")
    pin(dist.get_rank())
    graph = load_graph(spec["graph"], columns=64)
    runs = [Run(graph, case) for case in spec["cases"]]
    for _ in range(spec["repeats"]):  # by turns, so that a busy while is not one scheme's
        for run in runs:
            run.epoch()
    found = [run.found() for run in runs]
    if dist.get_rank() == 0:
        path.with_name("found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
