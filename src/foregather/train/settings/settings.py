"""settings: the options of a training run as typed values, read from and written to TOML.

The same fields are the sections of a config file and the flags of `foregather train`. Everything
read is checked: the error for an unknown key suggests the closest known one, and a value of the
wrong type is refused.
"""

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from foregather.errors import InputError
from foregather.loader.rank_options import Mode, WireFormat
from foregather.train.hetero.typed_settings import TypedSettings, check_typed
from foregather.train.links.link_settings import LinkSettings, check_link
from foregather.train.settings.full_graph_settings import FullGraphSettings, check_full_graph
from foregather.train.settings.toml_values import flat, to_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "CheckpointSettings",
    "FullGraphSettings",
    "GridSettings",
    "LinkSettings",
    "MemorySettings",
    "ModelSettings",
    "OptimizerSettings",
    "SamplerSettings",
    "Settings",
    "TrainSettings",
    "TypedSettings",
    "WatchSettings",
    "code_names",
    "difference",
    "shared_facts",
    "with_options",
    "write_settings",
]

_MOST = (1 << 62) - 1  # of what is counted
_MOST_RATE = 3e38  # the largest float32 weight
_MOST_SECONDS = 10**7  # the longest timeout that torch accepts


@dataclass(frozen=True)
class SamplerSettings:
    """The sampler."""

    kind: str = "neighbor"
    """neighbor, labor, ladies, fastgcn, saint-node, saint-edge, saint-walk, walk, cluster, full, or
    your own module:Class; of graphs with node types neighbor, labor, ladies, fastgcn or hgt. Listed
    above."""
    fanouts: tuple[int, ...] = (10, 5)
    """Neighbours kept at each layer; -1 for all."""
    replace: bool = False
    """Draw with replacement (neighbor only)."""
    norm: Literal["none", "gcn"] = "none"
    """gcn: edge weights 1 / sqrt(d_target d_source) of the whole graph; always for the models gcn
    and gcnii."""
    replay: int = 1
    """Epochs that use the samples of the first of them; its rows are packed where they are read
    from disk. Gradients are then not independent from epoch to epoch."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the sampler."""


@dataclass(frozen=True)
class ModelSettings:
    """The model."""

    kind: str = "sage"
    """sage, gcn, gat, gin, gcnii, mlp, or module:Class of your own or of PyG
    (torch_geometric.nn:PNA), listed above; typed graphs: hetero-sage, rgcn, hgt or module:Class;
    links also: lightgcn, distmult; full-graph: gcn, sage, gcnii, resgcn, gat,
    gin, module:Class, or module:function that makes a model or layers."""
    hidden: int = 64
    """Columns of hidden layers."""
    layers: int = 0
    """Layers; 0 takes as many as there are fan-outs."""
    dropout: float = 0.5
    """Share of hidden values dropped in training."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the class."""


@dataclass(frozen=True)
class OptimizerSettings:
    """The optimiser and its schedule."""

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    """Which of torch's optimisers."""
    lr: float = 0.01
    """Learning rate."""
    weight_decay: float = 0.0
    """Weight decay."""
    momentum: float = 0.0
    """Momentum of sgd."""
    clip: float = 0.0
    """The largest length of the gradient of all weights; a longer one is shortened. 0: any."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """How the learning rate falls to zero over the epochs."""
    warmup: int = 0
    """Epochs over which it first rises."""


@dataclass(frozen=True)
class TrainSettings:
    """Duration, splits, device and random seed."""

    epochs: int = 10
    """Maximum number of epochs."""
    batch_size: int = 1024
    """Input nodes per batch; over ranks, per rank."""
    split: str = "train"
    """The split to train on."""
    valid: str = "valid"
    """The split that chooses the best epoch; empty for none."""
    test: str = "test"
    """The split reported at the end; empty for none."""
    evaluate: Literal["sampled", "exact"] = "sampled"
    """Validation after each epoch. sampled: with the fan-outs, fast. exact: with every edge."""
    final: Literal["exact", "sampled"] = "exact"
    """The scores at the end, likewise; exact: layer by layer, within the training budget."""
    task: Literal["auto", "classification", "multilabel", "regression", "link"] = "auto"
    """What is learned; auto: by the labels. Listed above."""
    metric: str = "auto"
    """What scores are, and what chooses the best epoch; auto: the usual one of the task. Listed
    above."""
    loss: Literal["auto", "l2", "l1", "huber"] = "auto"
    """Of regression, on standardised numbers; auto: l2."""
    patience: int = 0
    """Stop after this many epochs without a better validation score; 0 never stops early."""
    device: str = "auto"
    """Device of the model: cpu, cuda, cuda:N, or auto: a GPU if there is one."""
    seed: int = 0
    """Random seed of weights, order, samples and dropout."""
    threads: int = 0
    """Threads of torch, sampling and gathering; 0 for all. Exact resume needs the same number."""
    torch_threads: str = "all"
    """Of these, those of torch: all, a number, or measured: what the first steps are fastest
    with."""
    accelerate: bool = True
    """Each layer computes only the rows that later ones need, where this was seen to be equal;
    --train.no-accelerate computes all rows."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: forward passes under torch's autocast, on a CPU or GPU that has it."""
    method: Literal["sampled", "full-graph", "full"] = "sampled"
    """sampled: batches of sampled neighbours; full-graph, or full: all nodes and edges, see
    full_graph."""

    def __post_init__(self) -> None:
        if self.method == "full":  # the same by a shorter name; one name is saved and compared
            object.__setattr__(self, "method", "full-graph")


@dataclass(frozen=True)
class MemorySettings:
    """Memory budget and storage; no value here changes a result."""

    budget: str = "none"
    """Bytes (2GB) for graph, cache and batches; auto: what the machine has; none: no limit. Over
    ranks: per rank, as `memory` of a Loader with a grid."""
    storage: Literal["auto", "memory", "features", "topology", "disk"] = "auto"
    """What is read from disk (disk: both); auto: the mode predicted to be the fastest."""
    bulk: str = "auto"
    """Batches sampled and planned together; auto: as many as the budget holds."""
    prefetch: int = 2
    """Batches made ahead; 0, for a graph in memory: a batch when it is asked for."""


@dataclass(frozen=True)
class GridSettings:
    """How several ranks share the work, under torchrun; `wire` may change a result."""

    replication: int = 1
    """Ranks that hold the same block; it must divide the number of ranks."""
    topology: Literal["auto", "partitioned", "replicated"] = "auto"
    """Neighbour lists: one block per rank, or all of them; auto: all if there is room."""
    mode: Mode = "owner"
    """How ranks sample together; paper: as published."""
    wire: WireFormat = "exact"
    """The format in which feature rows are sent."""
    weights: Literal["replicated", "sharded"] = "replicated"
    """Weights and optimiser: complete on each rank (DDP), or a part on each (FSDP)."""
    timeout: float = 600.0
    """Seconds until a silent rank is an error."""


@dataclass(frozen=True)
class CheckpointSettings:
    """When checkpoints are written; no value here changes a result."""

    minutes: float = 10.0
    """Minutes between checkpoints inside an epoch; 0: only at the end of an epoch."""
    keep: int = 3
    """Checkpoints kept; older ones are removed once a newer one is safe."""
    epochs: int = 1
    """Epochs between checkpoints where epochs end; there is one at the end in any case."""


@dataclass(frozen=True)
class WatchSettings:
    """What is recorded in addition to the metrics; no value here changes a result."""

    trace: bool = True
    """Write trace.json for Perfetto (of the first batches); --watch.no-trace leaves it out."""
    profile: bool = False
    """Also record torch's operators, with ranges of the same names (slow; first epoch)."""
    tensorboard: bool = False
    """Also write metrics for TensorBoard."""


@dataclass(frozen=True)
class Settings:
    """A training run."""

    graph: str = ""
    """The graph folder."""
    run: str = ""
    """The folder of the run; empty: runs/ with the name of the graph and the next free number."""
    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    grid: GridSettings = field(default_factory=GridSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    full_graph: FullGraphSettings = field(default_factory=FullGraphSettings)
    typed: TypedSettings = field(default_factory=TypedSettings)
    link: LinkSettings = field(default_factory=LinkSettings)

    def __post_init__(self) -> None:
        train, optimizer = self.train, self.optimizer
        counts = {
            "train.epochs": (train.epochs, int(train.method == "sampled"), _MOST),
            "train.batch_size": (train.batch_size, 1, _MOST),
            "train.patience": (train.patience, 0, _MOST),
            "train.threads": (train.threads, 0, _MOST),
            "model.hidden": (self.model.hidden, 1, 1 << 20),
            "model.layers": (self.model.layers, 0, 1 << 12),
            "optimizer.warmup": (optimizer.warmup, 0, _MOST),
            "optimizer.weight_decay": (optimizer.weight_decay, 0, _MOST_RATE),
            "optimizer.clip": (optimizer.clip, 0, _MOST_RATE),
            "optimizer.momentum": (optimizer.momentum, 0, _MOST_RATE),
            "memory.prefetch": (self.memory.prefetch, 0, _MOST),
            "grid.replication": (self.grid.replication, 1, _MOST),
            "checkpoint.keep": (self.checkpoint.keep, 1, _MOST),
            "checkpoint.epochs": (self.checkpoint.epochs, 1, _MOST),
            "checkpoint.minutes": (self.checkpoint.minutes, 0, math.inf),
        }
        for name, (value, least, most) in counts.items():
            if not value >= least:
                raise InputError(f"{name} is {value}, expected {least} or more")
            if not value <= most:
                raise InputError(f"{name} is {value}, expected at most {most}")
        if not 0 < self.grid.timeout <= _MOST_SECONDS:
            raise InputError(
                f"grid.timeout is {self.grid.timeout}, expected more than 0 seconds, up to "
                f"{_MOST_SECONDS}"
            )
        own = train.torch_threads
        if own not in ("all", "measured") and not (own.isdecimal() and 0 < int(own) <= _MOST):
            raise InputError(
                f"train.torch_threads is {own!r}, expected all, measured, or a number from 1 on"
            )
        if not 0 < optimizer.lr <= _MOST_RATE:
            raise InputError(
                f"optimizer.lr is {optimizer.lr}, expected more than 0, up to {_MOST_RATE}"
            )
        if not 0 <= self.model.dropout < 1:
            raise InputError(f"model.dropout is {self.model.dropout}, expected 0 to 1, without 1")
        check_full_graph(self)
        check_typed(self)
        check_link(self)


# ---- from and to TOML ----------------------------------------------------------------------


def code_names(settings: Settings) -> dict[str, str]:
    """Which settings name code to import, `module:Class`, and what."""
    kinds = {"sampler.kind": settings.sampler.kind, "model.kind": settings.model.kind}
    return {key: name for key, name in kinds.items() if ":" in name}


def with_options(settings: Settings, given: Sequence[str]) -> Settings:
    """The settings with options of classes added, written as `model.heads=2`, `sampler.k=3`.

    Raises:
        InputError: it is not in that form.
    """
    for text in given:
        name, equal, value = text.partition("=")
        section, dot, key = name.partition(".")
        if not equal or not dot or section not in ("model", "sampler"):
            raise InputError(f"options has {text!r}, expected model.NAME=VALUE or sampler.NAME=...")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value  # a text needs no quotes
        old = getattr(settings, section)
        new = dataclasses.replace(old, options={**old.options, key: parsed})
        settings = dataclasses.replace(settings, **{section: new})
    return settings


def write_settings(settings: Settings) -> str:
    """Returns the settings as TOML, which `read_settings` can read."""
    plain = dataclasses.asdict(settings)
    lines = [f"{key} = {to_toml(v)}" for key, v in plain.items() if not isinstance(v, dict)]
    for section, table in plain.items():
        if isinstance(table, dict):
            lines += ["", f"[{section}]"]
            lines += [f"{key} = {to_toml(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def difference(old: Settings, new: Settings, free: tuple[str, ...] = ()) -> list[str]:
    """The keys whose values differ, as sentences; sections and keys named in `free` may."""
    before, after = flat(old), flat(new)
    return [
        f"{key} was {before[key]!r} and is {after[key]!r}"
        for key in before
        if before[key] != after[key] and not {key, key.split(".")[0]} & set(free)
    ]


def shared_facts(settings: Settings) -> dict[str, str]:
    """Settings that must be equal on all ranks, as texts by name.

    The rest may differ: the path of the graph (its digest is compared), threads; and the folder and
    what is recorded in it, which rank 0 decides.
    """
    own = ("graph", "run", "train.threads", "train.torch_threads", "watch", "full_graph.timeline")
    return {
        key: repr(value)
        for key, value in flat(settings).items()
        if not {key, key.split(".")[0]} & set(own)
    }
