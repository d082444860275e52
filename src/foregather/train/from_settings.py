"""from_settings: makes sampler, loader, model, optimiser and schedule from settings.

Names like `module:Class` are imported, also from the working folder. That runs the user's own code,
and only because the settings request it; no graph folder can.
"""

import importlib
import inspect
import math
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import nn

from foregather.errors import InputError, MissingDependencyError
from foregather.graph.graph import Graph
from foregather.loader.arguments import called_fanouts
from foregather.loader.loader import Loader
from foregather.loader.memory.budget import count_threads
from foregather.loader.memory.layout import topology_bytes
from foregather.loader.options import BatchContents
from foregather.loader.rank_options import GridOfRanks, RankOptions, Topology
from foregather.nn import MLP, SAGE
from foregather.observe.usable_memory import usable_memory
from foregather.sampling import Full, Labor, Neighbor, Sampler
from foregather.train.settings import ModelSettings, OptimizerSettings, SamplerSettings, Settings
from foregather.units import parse_count, parse_size

__all__ = [
    "board_writer",
    "budget_of",
    "infer_options",
    "check_used",
    "choose_topology",
    "count_layers",
    "import_name",
    "make_loader",
    "make_model",
    "make_optimizer",
    "make_sampler",
    "own_model",
    "share_threads",
]

_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def import_name(name: str, what: str) -> Any:
    """Imports the object called `module:Class`.

    Raises:
        InputError: the module or the class does not exist.
    """
    module, _, inside = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name == "torch_geometric":
            raise MissingDependencyError(
                f"{what} {name} needs PyG; install it with: pip install 'foregather[pyg]'"
            ) from error
        raise InputError(
            f"{what} is {name}, but there is no module {error.name}; run in its folder"
        ) from error
    except AttributeError as error:
        raise InputError(f"{what} is {name}, but {module} has no {inside}") from error
    return found


def _call(kind: Any, options: dict[str, Any], what: str) -> Any:
    try:
        return kind(**options)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{what} cannot be made with {options}: {error}") from error


def make_sampler(settings: SamplerSettings) -> Sampler:
    """Makes the sampler.

    Raises:
        InputError: it is unknown, or does not take these options.
    """
    name, fanouts, more = settings.kind, list(settings.fanouts), settings.options
    if ":" in name:
        made = _call(import_name(name, "sampler.kind"), dict(more), name)
        if not isinstance(made, Sampler):
            raise InputError(f"sampler.kind is {name}, which is not a Sampler; derive it from one")
        return made
    options: dict[str, Any] = {"num_neighbors": fanouts}
    with called_fanouts("sampler.fanouts"):
        if name == "neighbor":
            options["replace"] = settings.replace
            return Neighbor(**_known(Neighbor, options | more, name))
        if name == "labor":
            return Labor(**_known(Labor, options | more, name))
    if name == "full":
        return Full(**_known(Full, {"num_layers": len(fanouts)} | more, name))
    raise InputError(
        f"sampler.kind is {name!r}, expected neighbor, labor, full, or your own module:Class"
    )


def _known(kind: Any, options: dict[str, Any], name: str) -> dict[str, Any]:
    takes = inspect.signature(kind).parameters
    for key in options:
        if key not in takes:
            raise InputError(f"sampler.options has {key}, but {name} takes {', '.join(takes)}")
    return options


def make_loader(
    graph: Graph,
    settings: Settings,
    grid: GridOfRanks | None = None,
    device: torch.device | None = None,
    topology: Topology = "partitioned",
    edge_attr: bool | None = None,
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
    norm: Literal["gcn"] | None = "gcn" if settings.sampler.norm == "gcn" else None
    return Loader(
        graph,
        None,
        settings.train.split,
        settings.train.batch_size,
        sampler=make_sampler(settings.sampler),
        shuffle=True,
        seed=settings.train.seed,
        memory=budget_of(settings),
        storage=memory.storage,
        threads=share_threads(settings, grid is not None),
        contents=BatchContents("seeds", edge_attr, norm, pyg=False),
        prefetch=memory.prefetch,
        **options,
    )


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
        "norm": "gcn" if settings.sampler.norm == "gcn" else None,
    }


def make_model(settings: Settings, width: int, classes: int) -> nn.Module:
    """Makes the model for these feature columns and classes, with weights drawn from the seed.

    Raises:
        InputError: it is unknown, or cannot be made with these options.
    """
    wanted, layers = settings.model, count_layers(settings)
    torch.manual_seed(settings.train.seed)
    widths = [width, *[wanted.hidden] * (layers - 1), classes]
    if wanted.kind in ("sage", "mlp"):
        if wanted.options:
            raise InputError(f"model.options is for module:Class; {wanted.kind} takes none")
        model: nn.Module = (SAGE if wanted.kind == "sage" else MLP)(widths, wanted.dropout)
    elif ":" in wanted.kind:
        common = {
            "in_channels": width,
            "hidden_channels": wanted.hidden,
            "num_layers": layers,
            "out_channels": classes,
            "dropout": wanted.dropout,
        }
        model = own_model(wanted, common)
    else:
        raise InputError(f"model.kind is {wanted.kind!r}, expected sage, mlp or module:Class")
    return model


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
    model = _call(kind, options, wanted.kind)
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

    def factor(epoch: int) -> float:
        if epoch < settings.warmup:
            return (epoch + 1) / (settings.warmup + 1)
        left = 1 - (epoch - settings.warmup) / max(1, epochs - settings.warmup)
        if settings.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * (1 - left)))
        return left if settings.schedule == "linear" else 1.0

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
