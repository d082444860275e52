"""BatchNorm over nodes on four real ranks: stages of several ways, exact and fast."""

import copy
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from foregather.pipeline import FullGraph, Meter, Runtime
from foregather.pipeline.split.layers import SplitLayer
from tests.pipeline.cases import CLASSES, WIDTH, double, small_graph
from tests.pipeline.modules import MODULES, sgd
from tests.pipeline.ranks import end, start
from tests.pipeline.way_ranks import announced, noted, refusal

RANKS, EPOCHS, FAST_CHUNKS, ABREAST = 4, 3, 8, 2


class Two(nn.Module):
    """Two norms of the same rows and one of others; one of them keeps no running statistics."""

    def __init__(self, norms: bool = True) -> None:
        from torch_geometric.nn import GATConv, SAGEConv

        super().__init__()
        self.first, self.second = SAGEConv(WIDTH, 6), GATConv(6, 3, heads=2)
        self.one = nn.BatchNorm1d(6, momentum=None) if norms else nn.Identity()
        self.other = nn.BatchNorm1d(6, affine=False) if norms else nn.Identity()
        self.third = nn.BatchNorm1d(6, track_running_stats=False) if norms else nn.Identity()
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.first(x, edge_index)
        x = F.elu(self.one(x)) + 0.3 * torch.sigmoid(self.other(x))
        out: Tensor = self.last(self.third(self.second(x, edge_index)).tanh())
        return out


class Shared(nn.Module):
    """One norm in two places."""

    def __init__(self) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(WIDTH, 6), SAGEConv(6, 6), SAGEConv(6, CLASSES)])
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = self.norm(conv(x, edge_index)).relu()
        out: Tensor = self.convs[-1](x, edge_index)
        return out


#: name -> how it is made
NORMED = {name: MODULES[name] for name in ("batch norm", "batch norm before")} | {"two": Two}
#: (stages, ways, chunks, recompute); as many chunks as ways is graph-parallel
GRIDS = [
    (1, 2, 2, "none"),
    (1, 2, 2, "all"),
    (1, 2, 6, "none"),
    (1, 2, 6, "all"),
    (1, 4, 4, "none"),
    (2, 2, 4, "none"),
    (2, 2, 8, "all"),
]
#: (stages, ways) in which chunks read history
STALE = [(1, 2), (2, 2)]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    with double():
        return NORMED[name]().double()


def cases() -> list[tuple[Any, ...]]:
    """One model in all grids, the others in some; one that norms its features has one stage."""
    some = [grid for grid in GRIDS if grid[3] == "none" and grid[1] == 2]
    found: list[tuple[Any, ...]] = [("two", *grid) for grid in GRIDS]
    found += [("batch norm", *grid) for grid in some]
    return found + [("batch norm before", *grid) for grid in some if grid[0] == 1]


def train(model: nn.Module, mode: Any, chunks: int, **runtime: Any) -> dict[str, Any]:
    """One run on this rank, and what it found."""
    options: dict[str, Any] = {"runtime": Runtime(**runtime, timeout=300.0), "optimizer": sgd}
    if mode == "fast":
        options["meter"] = Meter(every=2, error=9.0, cosine=-1.0)
    run = FullGraph(small_graph(), model, chunks, mode, partition="random", **options)
    reports = run.fit(EPOCHS)
    program, layers = run.engine.stage.program, run.layers
    held = [layers[n] for n in range(program.first, program.last)]
    return {
        "losses": [report.loss for report in reports],
        "readings": [(r.reading.error, r.reading.cosine) for r in reports if r.reading],
        "weights": run.weights(),
        "buffers": {
            one.user_names[name]: buffer.clone()
            for one in held
            if isinstance(one, SplitLayer)
            for name, buffer in one.named_buffers()
        },
        "apart": len(program.apart),
        "announced": announced(run, mode),
        "noted": noted(run),
        "exchange": run.volume()["exchange"],
        "scores": run.infer(),
        "resumed": not isinstance(model, Two)
        or resumed(run, copy.deepcopy(model), mode, chunks, options),
    }


def resumed(
    run: FullGraph, model: nn.Module, mode: Any, chunks: int, options: dict[str, Any]
) -> bool:
    """Whether a run that goes on from the state of this one has the next loss of it."""
    state, own = copy.deepcopy(run.state_dict()), copy.deepcopy(run.rank_state())
    other = FullGraph(small_graph(), model, chunks, mode, partition="random", **options)
    other.load_state_dict(state)
    other.load_rank_state(own)
    return run.train_epoch().loss == other.train_epoch().loss


def norm_ranks(rank: int, port: int, folder: Path) -> None:
    """Every case of up to four ranks; results go to files."""
    found: dict[Any, Any] = {}
    try:
        start(rank, RANKS, port)
        groups = {n: dist.new_group(list(range(n))) for n in (2, 4)}
        for case in cases():
            name, stages, ways, chunks, recompute = case
            if rank < stages * ways:
                options = {"group": groups[stages * ways], "ways": ways, "recompute": recompute}
                found[case] = train(made(name), "exact", chunks, **options)
        for stages, ways in STALE:
            if rank < stages * ways:
                options = {"group": groups[stages * ways], "ways": ways, "abreast": ABREAST}
                found["fast", stages, ways] = train(made("two"), "fast", FAST_CHUNKS, **options)
        if rank < 2:
            options = {"group": groups[2], "ways": 2}
            found["without"] = train(Two(norms=False).double(), "exact", 2, **options)["exchange"]
            found["shared"] = train(Shared().double(), "exact", 4, **options)["weights"]
            found["stages"] = refusal(Shared().double(), 4, "exact", {"group": groups[2]})
            found["columns"] = refusal(made("two"), 2, "exact", {**options, "split": "columns"})
    except BaseException:
        found["error"] = traceback.format_exc()
    end(rank, found, folder)
