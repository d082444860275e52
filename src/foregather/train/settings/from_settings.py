"""from_settings: makes sampler, loader, model, optimiser and schedule from settings.

Names like `module:Class` are imported, also from the working folder. That runs the user's own code,
and only because the settings request it; no graph folder can.
"""

import inspect
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import nn

from foregather.errors import InputError, MissingDependencyError
from foregather.graph.graph import Graph
from foregather.loader.loader import Loader
from foregather.loader.memory.budget import count_threads
from foregather.loader.memory.layout import topology_bytes
from foregather.loader.options import BatchContents
from foregather.loader.rank_options import GridOfRanks, RankOptions, Topology
from foregather.nn.by_name import NORMED, ModelShape, make_plain_model
from foregather.observe.usable_memory import usable_memory
from foregather.sampling import Cluster, Sampler
from foregather.train.settings import ModelSettings, OptimizerSettings, Settings
from foregather.train.settings.import_name import call_class, import_name
from foregather.train.settings.samplers import check_sampler, make_sampler
from foregather.units import parse_count, parse_size

__all__ = [
    "board_writer",
    "budget_of",
    "infer_options",
    "check_used",
    "choose_topology",
    "count_layers",
    "make_loader",
    "make_model",
    "make_optimizer",
    "make_trained",
    "norm_of",
    "own_model",
    "share_threads",
    "torch_threads",
]

_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def make_loader(
    graph: Graph,
    settings: Settings,
    grid: GridOfRanks | None = None,
    device: torch.device | None = None,
    topology: Topology = "partitioned",
    edge_attr: bool | None = None,
    sampler: Sampler | None = None,
) -> Loader:
    """Makes the loader of the training split; with a grid, a collective call."""
    memory, bulk, over = settings.memory, settings.memory.bulk, settings.grid
    options: dict[str, Any] = {"bulk": "auto" if bulk == "auto" else parse_count(bulk)}
    if device is not None and device.type != "cpu":
        options["device"] = device
    if grid is not None:
        if memory.budget == "auto":
            raise InputError("memory.budget is 'auto', which ranks cannot share; pass bytes")
        if bulk == "auto":
            del options["bulk"]  # ranks need the same number: the Loader's own
        options |= {"grid": grid, "ranks": RankOptions(topology, over.mode, over.wire)}
    sampler = make_sampler(graph, settings) if sampler is None else sampler
    return Loader(
        graph,
        None,
        settings.train.split,
        batch_size_of(graph, settings, sampler),
        sampler=sampler,
        shuffle=True,
        seed=settings.train.seed,
        memory=budget_of(settings),
        storage=memory.storage,
        threads=share_threads(settings, grid is not None),
        contents=BatchContents("seeds", edge_attr, norm_of(settings), pyg=False),
        prefetch=memory.prefetch,
        replay=settings.sampler.replay,
        **options,
    )


def batch_size_of(graph: Graph, settings: Settings, sampler: Sampler) -> int:
    """Input nodes per batch; with a cluster sampler, enough for each part once per epoch."""
    if not isinstance(sampler, Cluster):
        return settings.train.batch_size
    return max(1, -(-len(graph.split(settings.train.split)) // sampler.rounds))


def choose_topology(graph: Graph, settings: Settings) -> Topology:
    """Chooses where neighbour lists are kept over ranks.

    With replicated lists nothing is sent for sampling, so that is always predicted to be faster; it
    is chosen if they take at most half of a rank's memory.
    """
    if settings.grid.topology != "auto":
        return settings.grid.topology
    room = budget_of(settings)
    if room is None:
        room = usable_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "replicated" if topology_bytes(graph) <= room // 2 else "partitioned"


def share_threads(settings: Settings, over_ranks: bool) -> int:
    """Threads for sampling and gathering: over ranks, this rank's share of the machine's cores."""
    if settings.train.threads or not over_ranks:
        return settings.train.threads
    return max(1, count_threads(0) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def torch_threads(settings: Settings) -> int:
    """Threads of torch when a run begins; how many of them it keeps may be measured then."""
    own = settings.train.torch_threads
    if own.isdecimal():
        return int(own)
    return settings.train.threads or torch.get_num_threads()


def budget_of(settings: Settings) -> int | None:
    """The budget in bytes; None without one."""
    budget = settings.memory.budget
    if budget == "auto":
        return usable_memory()
    return None if budget == "none" else parse_size(budget)


def infer_options(settings: Settings) -> dict[str, Any]:
    """Arguments of `infer` for a model that was trained with these settings."""
    return {
        "layers": count_layers(settings),
        "memory": "auto" if settings.memory.budget == "auto" else budget_of(settings),
        "storage": settings.memory.storage,
        "threads": settings.train.threads,
        "norm": norm_of(settings),
    }


def norm_of(settings: Settings) -> Literal["gcn"] | None:
    """The normalisation of edge weights; models by name that need one have it."""
    return "gcn" if settings.sampler.norm == "gcn" or settings.model.kind in NORMED else None


def make_model(settings: Settings, width: int, classes: int) -> nn.Module:
    """Makes the model for these feature columns and classes, with weights drawn from the seed.

    Raises:
        InputError: it is unknown, or cannot be made with these options.
    """
    return make_trained(False, settings, width, classes)


def make_trained(layered: bool, settings: Settings, width: int, classes: int) -> nn.Module:
    """Makes the model that batches are given to; the weights are those of `make_model`.

    Args:
        layered: whether the sampler expands per layer.
        settings: the settings.
        width: feature columns.
        classes: columns of scores.

    Raises:
        InputError: it is unknown, or cannot be made with these options.
    """
    wanted, layers = settings.model, count_layers(settings)
    torch.manual_seed(settings.train.seed)
    if ":" not in wanted.kind:
        shape = ModelShape(width, wanted.hidden, classes, layers, wanted.dropout)
        return make_plain_model(wanted.kind, shape, wanted.options, layered)
    common = {
        "in_channels": width,
        "hidden_channels": wanted.hidden,
        "num_layers": layers,
        "out_channels": classes,
        "dropout": wanted.dropout,
    }
    return own_model(wanted, common)


def count_layers(settings: Settings) -> int:
    """Layers of the model."""
    return settings.model.layers or len(settings.sampler.fanouts)


def own_model(wanted: ModelSettings, common: Mapping[str, Any]) -> nn.Module:
    """Makes a class of the user or of PyG.

    Args:
        wanted: names the class, and its options.
        common: arguments that are filled in where the class names them.

    Raises:
        InputError: it cannot be made, or is no module.
    """
    kind = import_name(wanted.kind, "model.kind")
    takes = _takes(kind)
    options = {name: value for name, value in common.items() if name in takes} | wanted.options
    model = call_class(kind, options, wanted.kind)
    if not isinstance(model, nn.Module):
        raise InputError(f"model.kind is {wanted.kind}, which makes no torch.nn.Module")
    return model


def _takes(kind: Any) -> set[str]:
    """Names of the arguments of a class; empty if they are not known."""
    try:
        return set(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return set()


def check_used(settings: Settings) -> None:
    """Refuses, for a new run, settings that sampler or model have no use for.

    A run that began with them goes on.

    Raises:
        InputError: the message has the setting.
    """
    check_sampler(settings)
    sampler, model = settings.sampler, settings.model
    if sampler.replace and sampler.kind != "neighbor":
        raise InputError(
            "sampler.replace is for the sampler neighbor, but sampler.kind is "
            f"{sampler.kind!r}; leave it out"
        )
    takes = _takes(import_name(model.kind, "model.kind")) if ":" in model.kind else set()
    for key, name in (("hidden", "hidden_channels"), ("dropout", "dropout")):
        usual = ModelSettings.__dataclass_fields__[key].default
        if takes and name not in takes and getattr(model, key) != usual:
            raise InputError(
                f"model.{key} is {getattr(model, key)}, but {model.kind} takes no {name}; leave "
                "it out, or pass what it takes by model.options"
            )


def board_writer() -> Any:
    """TensorBoard's writer, as torch has it.

    Raises:
        MissingDependencyError: the package is not there.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingDependencyError(
            "watch.tensorboard needs the package tensorboard; pip install "
            "'foregather[tensorboard]', or leave watch.tensorboard out"
        ) from error
    return SummaryWriter


def make_optimizer(
    weights: Iterable[nn.Parameter], settings: OptimizerSettings, epochs: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The optimiser and the schedule of its learning rate."""
    options: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.kind == "sgd":
        options["momentum"] = settings.momentum
    elif settings.momentum:
        raise InputError(f"optimizer.momentum is for sgd; {settings.kind} has none")
    optimizer = _OPTIMIZERS[settings.kind](weights, **options)
    if settings.clip:
        held = [weight for group in optimizer.param_groups for weight in group["params"]]
        optimizer.register_step_pre_hook(
            lambda *_: (nn.utils.clip_grad_norm_(held, settings.clip), None)[1]
        )

    def factor(epoch: int) -> float:
        if epoch < settings.warmup:
            return (epoch + 1) / (settings.warmup + 1)
        left = 1 - (epoch - settings.warmup) / max(1, epochs - settings.warmup)
        if settings.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * (1 - left)))
        return left if settings.schedule == "linear" else 1.0

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
