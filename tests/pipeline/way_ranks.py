"""Stages of several ways as real gloo ranks: four and eight processes that run all cases once."""

import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch_geometric.nn import GATConv

from foregather.nn import Conv, resgcn_layers
from foregather.pipeline import FullGraph, Meter, Runtime, Techniques
from foregather.pipeline.planning.messages import RankMessages
from foregather.pipeline.planning.shared_plan import planned
from tests.pipeline.cases import double, model, small_graph
from tests.pipeline.ranks import end, start

CHUNKS, ABREAST, EPOCHS = 8, 2, 3
FEW, MANY = 4, 8  # ranks of the two worlds
#: name -> (model, dropout, mode, options)
HYBRID: dict[str, tuple[str, float, Any, dict[str, Any]]] = {
    "gcn-fast": ("gcn", 0.3, "fast", {}),
    "gcnii-fast": (
        "gcnii", 0.3, "fast",
        {"techniques": Techniques.published(), "runtime": {"recompute": "all"}},
    ),
    "resgcn-fast": ("resgcn", 0.3, "fast", {"meter": Meter(every=2, error=9.0, cosine=-1.0)}),
    "resgcn-exact": ("resgcn", 0.3, "exact", {"runtime": {"recompute": "all"}}),
    "gcnii-exact": ("gcnii", 0.3, "exact", {"runtime": {"initial_again": True}}),
    "jumping-fast": ("jumping", 0.0, "fast", {}),  # modules, split
    "jumping-exact": ("jumping", 0.0, "exact", {}),
    "tied-exact": ("tied", 0.0, "exact", {}),
}  # fmt: skip
#: (stages, ways, cases); with abreast 2 and one way the chunks of a tick share a rank
GRIDS = [
    (2, 1, ("gcn-fast", "resgcn-fast")),
    (1, 2, tuple(HYBRID)),
    (2, 2, tuple(HYBRID)),
    (3, 2, ("gcnii-fast", "gcnii-exact")),
    (4, 2, ("gcn-fast", "resgcn-exact")),
]
PARALLEL = [("nodes", 2), ("nodes", 4), ("columns", 2), ("columns", 3)]
MODELS = ("gcn", "sage", "gcnii", "resgcn")
RATES, SAMPLED_WAYS = (0.3, 0.7, 1.0), 3  # shares of boundary rows, and who exchanges them
#: exact training of eight ranks: (stages, ways, chunks, what ways divide)
EIGHT = [
    (8, 1, 8, "nodes"),
    (8, 1, 11, "nodes"),
    (4, 2, 8, "nodes"),
    (4, 2, 12, "nodes"),
    (2, 4, 8, "nodes"),
    (2, 4, 20, "nodes"),
    (1, 8, 8, "nodes"),
    (1, 8, 24, "nodes"),
    (1, 8, 8, "columns"),
]
#: Bytes and messages by peer and purpose.
Sent = dict[tuple[int, str], list[int]]


def announced(run: FullGraph, mode: str, techniques: Techniques | None = None) -> Sent:
    """What the schedules of all epochs have this rank send: bytes, messages by peer and purpose."""
    engine = run.engine
    total: Sent = {}
    exact = mode == "exact" or run.chunks.ticks == 1
    how = engine.exact_how if exact else "chunkwise"
    schedules = [(epoch, engine.schedule(how, epoch)) for epoch in range(EPOCHS)]
    if not exact and (techniques or Techniques()).first_sweep:
        schedules.append((0, engine.schedule(how, 0, gradients=False)))
    for epoch, schedule in schedules:
        messages = RankMessages(schedule, engine.sizes(epoch), run.link.own)
        for task in schedule.tasks(run.link.own):
            for message in messages.of(task):
                if message.sending:
                    entry = total.setdefault((message.peer, message.purpose), [0, 0])
                    entry[0] += message.bytes
                    entry[1] += 1
    return total


def noted(run: FullGraph) -> Sent:
    """The same of the ledger, but for words of agreement and for state."""
    return {
        (peer, purpose): [entry.bytes, entry.messages]
        for (_, peer, purpose), entry in run.link.ledger.entries().items()
        if purpose not in ("control", "state")
    }


def train(
    kind: str, drop: float, mode: Any, chunks: int, options: dict[str, Any], **runtime: Any
) -> dict[str, Any]:
    """One run on this rank; what it found."""
    options = dict(options)
    options["runtime"] = Runtime(**options.get("runtime", {}), timeout=300.0, **runtime)
    run = FullGraph(
        small_graph(), model(kind, drop), chunks, mode, partition="random",
        optimizer=lambda weights: torch.optim.Adam(weights, 0.05), **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = run.fit(EPOCHS)
    return {
        "losses": [r.loss for r in reports],
        "announced": announced(run, mode, options.get("techniques")),
        "noted": noted(run),
        "sent": [r.sent for r in reports],
        "readings": [(r.reading.error, r.reading.cosine) for r in reports if r.reading],
        "volume": run.volume(),
        "volumes": [run.volume(epoch=epoch) for epoch in range(EPOCHS)],
        "ran": [r.ran for r in reports],
        "crossing": run.engine.stage.reach.crossing,
        "scores": run.infer(),
        "accuracy": run.evaluate("valid"),
        "weights": run.state_dict()["weights"],
    }


def hybrid(name: str, **runtime: Any) -> dict[str, Any]:
    kind, drop, mode, options = HYBRID[name]
    return train(kind, drop, mode, CHUNKS, options, **runtime, abreast=ABREAST)


def parallel(kind: str, drop: float, count: int, **runtime: Any) -> dict[str, Any]:
    """Graph- or tensor-parallel where `runtime` says so, else the same chunks on one rank."""
    return train(kind, drop, "exact", count, {}, **runtime, abreast=count)


def refused(group: Any, ways: int) -> dict[str, str]:
    """What cannot be run, and what each is told."""
    found: dict[str, str] = {}
    base: dict[str, Any] = {"group": group, "ways": ways, "timeout": 300.0}
    tries: dict[str, tuple[Any, int, dict[str, Any], dict[str, Any]]] = {
        "odd": (model("gcn"), 4, {**base, "ways": 3}, {}),
        "abreast": (model("gcn"), 4, {**base, "abreast": 3}, {}),
        "multiple": (model("gcn"), 5, base, {}),
        "columns": (model("gcn"), 8, {**base, "split": "columns"}, {}),
    }
    for name, (layers, chunks, runtime, options) in tries.items():
        try:
            FullGraph(
                small_graph(), layers, chunks, partition="random", runtime=Runtime(**runtime),
                **options,
            ).train_epoch()  # fmt: skip
            found[name] = "no error"
        except ValueError as error:
            found[name] = str(error)
    return found


def other_seeds(group: Any, rank: int) -> torch.Tensor:
    """Ranks that made different layers: all must go on with those of the first."""
    run = FullGraph(
        small_graph(), model("gcn", seed=rank), 2, partition="random",
        runtime=Runtime(group=group, ways=2),
    )  # fmt: skip
    run.train_epoch()
    weights = run.state_dict()["weights"]
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def attention(group: Any) -> str:
    """A convolution that reads in-neighbours one by one, where columns are split."""
    with double():
        layers = [Conv(GATConv(7, 3))]
    return refusal(layers, 2, "exact", {"group": group, "ways": 2, "split": "columns"})


def fault(group: Any) -> str:
    """Rank 1 alone has an infinite feature row: all ranks must say where."""
    graph = small_graph()
    run = FullGraph(
        graph, model("resgcn"), 4, "fast", partition="random", runtime=Runtime(group=group, ways=2)
    )
    if dist.get_rank() == 1:
        own = run.chunks.order[run.chunks.span(run.engine.stage.reach.mine[0])]
        assert graph.features is not None
        graph.features.data[own[0]] = float("inf")
    try:
        run.train_epoch()
    except ArithmeticError as error:
        return str(error)
    return "no error"


def plan_together(rank: int) -> dict[str, Any]:
    """All ranks measure, one plans, all train by it; then one rank has layers that do not fit."""
    options, text = planned(small_graph(), model("resgcn"), mode="fast", partition="random")
    loss = FullGraph(small_graph(), model("resgcn"), **options).train_epoch().loss
    layers = model("resgcn")[1:] if rank == 3 else model("resgcn")
    try:
        planned(small_graph(), layers, partition="random")
        told = "no error"
    except ValueError as error:
        told = str(error)
    return {"text": text, "loss": loss, "told": told}


def few_ways(rank: int, port: int, folder: Path) -> None:
    """Every case of at most four ranks; results go to files."""
    start(rank, FEW, port)
    found: dict[Any, Any] = {}
    try:
        hybrids(rank, [grid for grid in GRIDS if grid[0] * grid[1] <= FEW], found)
        for split, ways in PARALLEL:
            group = dist.new_group(list(range(ways)))
            if rank < ways:
                options = {"group": group, "ways": ways, "split": split}
                for kind in MODELS:
                    drop = 0.3 if kind == "gcnii" else 0.0
                    found[kind, split, ways] = parallel(kind, drop, ways, **options)
                if (split, ways) == ("nodes", 4):
                    found["refused"] = refused(group, 2)
                    found["nan"] = fault(group)
                if (split, ways) == ("columns", 2):
                    found["attention"] = attention(group)
                    found["seeds"] = other_seeds(group, rank)
        group = dist.new_group(list(range(SAMPLED_WAYS)))
        if rank < SAMPLED_WAYS:
            found["sampled"] = sampled(rank, group)
        found["planned"] = plan_together(rank)
    except BaseException:
        found["error"] = traceback.format_exc()
    end(rank, found, folder)


def many_ways(rank: int, port: int, folder: Path) -> None:
    """The cases of more ranks."""
    start(rank, MANY, port)
    found: dict[Any, Any] = {}
    try:
        hybrids(rank, [grid for grid in GRIDS if grid[0] * grid[1] > FEW], found)
        for stages, ways, chunks, split in EIGHT:
            found["eight", stages, ways, chunks, split] = deep(chunks, ways=ways, split=split)
    except BaseException:
        found["error"] = traceback.format_exc()
    end(rank, found, folder)


def deep(chunks: int, **runtime: Any) -> dict[str, Any]:
    """Twelve layers, exact and without dropout, so that chunks make no difference either."""
    with double():
        torch.manual_seed(3)
        layers = resgcn_layers(7, 6, 3, 10, dropout=0.0)
    run = FullGraph(
        small_graph(), layers, chunks, partition="random", runtime=Runtime(**runtime, timeout=300.0)
    )
    losses = [report.loss for report in run.fit(EPOCHS)]
    sent = {k: v for k, v in run.reports[-1].sent.items() if k not in ("control", "state")}
    return {
        "losses": losses,
        "weights": run.state_dict()["weights"],
        "sent": sum(sent.values()),
        "volume": sum(run.volume().values()),
    }


def sampled(rank: int, group: Any) -> dict[Any, Any]:
    """Graph-parallel ranks that exchange some boundary rows, all of them, or may not."""
    options: dict[str, Any] = {"group": group, "ways": SAMPLED_WAYS}
    found: dict[Any, Any] = {}
    for kind in MODELS:
        for rate in RATES:
            for again in ("none", "all"):
                given = {**options, "boundary_rate": rate, "recompute": again}
                mode = "fast" if rate < 1 else "exact"
                drop = 0.3 if rate == 1 else 0.0
                found[kind, rate, again] = train(kind, drop, mode, SAMPLED_WAYS, {}, **given)
    bare = {**options, "recompute": "none"}
    found["no rate"] = train("gcn", 0.3, "exact", SAMPLED_WAYS, {}, **bare)
    tries: dict[str, tuple[int, Any, dict[str, Any]]] = {
        "chunks": (2 * SAMPLED_WAYS, "fast", {}),
        "exact": (SAMPLED_WAYS, "exact", {}),
        "columns": (SAMPLED_WAYS, "fast", {"split": "columns"}),
        "stages": (SAMPLED_WAYS, "fast", {"ways": 1}),
    }
    for name, (chunks, mode, more) in tries.items():
        given = {**options, "boundary_rate": 0.5, **more}
        found[name] = refusal(model("gcn"), chunks, mode, given)
    found["other"] = refusal(
        model("gcn"), 3, "fast", {**options, "boundary_rate": 0.5 + 0.1 * rank}
    )
    with double():
        layers = [Conv(GATConv(7, 3))]
    found["attention"] = refusal(layers, 3, "fast", {**options, "boundary_rate": 0.5})
    return found


def refusal(layers: Any, chunks: int, mode: Any, runtime: dict[str, Any]) -> str:
    """What is told of a run that cannot be."""
    try:
        FullGraph(
            small_graph(), layers, chunks, mode, partition="random", runtime=Runtime(**runtime)
        ).train_epoch()
    except ValueError as error:
        return str(error)
    return "no error"


def hybrids(rank: int, grids: list[tuple[int, int, tuple[str, ...]]], found: Any) -> None:
    """All ranks make the groups; those of a grid run its cases."""
    for stages, ways, names in grids:
        group = dist.new_group(list(range(stages * ways)))
        if rank < stages * ways:
            for name in names:
                found[name, stages, ways] = hybrid(name, group=group, ways=ways)
