"""make: the sampler, loader and model of a typed run, from its settings."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, find_edge_type, show_edge_type
from foregather.loader.arguments import called_fanouts
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.nn.hetero.by_name import TYPED_MODELS, make_typed_model
from foregather.nn.hetero.schema import Schema
from foregather.sampling.hetero.hetero_labor import HeteroLabor
from foregather.sampling.hetero.hetero_layerwise import HeteroFastGCN, HeteroLadies
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from foregather.sampling.hetero.hgt import Hgt
from foregather.train.hetero.task import TypedTask
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import own_model
from foregather.units import parse_count

__all__ = [
    "LAYERWISE",
    "TYPED_SAMPLERS",
    "check_offered",
    "check_plain",
    "count_hops",
    "exact_sampler",
    "make_typed",
    "make_typed_loader",
    "make_typed_sampler",
    "model_kind",
]

#: Samplers of typed graphs by name, with a line for people; options by sampler.options.
TYPED_SAMPLERS = {
    "neighbor": "in-neighbours of each node and relation, up to the fan-outs",
    "labor": "the same number on average, shared by the nodes of a relation",
    "ladies": "layer by layer in each relation, by the neighbours of the batch; layer_sizes",
    "fastgcn": "layer by layer in each relation, by degrees of the whole graph; layer_sizes",
    "hgt": "graphs with node types: so many nodes of each type, the best connected; num_samples",
}
#: Those whose batches have the edges of each layer, with weights.
LAYERWISE = ("ladies", "fastgcn")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "neighbor": (),
    "labor": ("layer_dependency", "debias"),
    "ladies": ("layer_sizes", "debias"),
    "fastgcn": ("layer_sizes", "debias"),
    "hgt": ("num_samples",),
}
_LAYER_SIZE = 512
_BULK = 8


def check_offered(settings: Settings, ranks: int) -> None:
    """Refuses what runs on typed graphs do not have yet.

    Raises:
        InputError: the message has the setting, and what to do.
    """
    if ranks > 1:
        raise InputError(
            f"the graph has node types, and {ranks} ranks train on plain graphs only so far; start "
            "one process"
        )
    if settings.train.method != "sampled":
        raise InputError(
            "train.method is 'full-graph', which is for plain graphs; leave it out to train on "
            "sampled batches of the typed graph"
        )
    memory, held = settings.memory, "but typed graphs are trained on in memory"
    if memory.budget != "none":
        raise InputError(f"memory.budget is {memory.budget!r}, {held} so far; leave it out")
    if memory.storage not in ("auto", "memory"):
        raise InputError(f"memory.storage is {memory.storage!r}, {held} so far; leave it out")
    sampler, model = settings.sampler, settings.model
    check_typed_sampler(settings)
    if sampler.norm != "none":
        raise InputError(
            f"sampler.norm is {sampler.norm!r}, which is for plain graphs; leave it out"
        )
    if model.kind not in (*TYPED_MODELS, "sage") and ":" not in model.kind:
        raise InputError(
            f"model.kind is {model.kind!r}, but the graph has node types; use "
            f"{', '.join(TYPED_MODELS)} or module:Class"
        )
    if ":" in model.kind and settings.typed.encode_time:
        raise InputError(
            f"typed.encode_time is for models by name, but model.kind is {model.kind}; leave it "
            "out: your class finds seed_time and time in the batch"
        )


def check_plain(settings: Settings) -> None:
    """Refuses, for a plain graph, what only typed ones have.

    Raises:
        InputError: the message has the setting, and what to do.
    """
    if settings.model.kind in TYPED_MODELS:
        raise InputError(
            f"model.kind is {settings.model.kind!r}, which is for graphs with node types, but "
            "this graph is plain; use sage, mlp or module:Class"
        )


def model_kind(settings: Settings) -> str:
    """The model; sage, the usual one of plain graphs, is hetero-sage on typed ones."""
    return "hetero-sage" if settings.model.kind == "sage" else settings.model.kind


def check_typed_sampler(settings: Settings) -> None:
    """Refuses a sampler that typed graphs do not have, or that does not fit other settings.

    Raises:
        InputError: the message has the setting, and what to do.
    """
    sampler, wanted, model = settings.sampler, settings.typed, settings.model
    kind = sampler.kind
    if kind not in TYPED_SAMPLERS:
        raise InputError(
            f"sampler.kind is {kind!r}, but typed graphs are sampled by "
            f"{', '.join(TYPED_SAMPLERS)}; use one of them"
        )
    for key in sampler.options:
        if key not in _OPTIONS[kind]:
            takes = ", ".join(_OPTIONS[kind]) or "none: its options are those of [typed]"
            raise InputError(f"sampler.options has {key}, but {kind} takes {takes}")
    if kind in ("neighbor", "labor"):
        return
    if wanted.fanouts:
        raise InputError(
            f"typed.fanouts is given, but {kind} has sampler.options {_OPTIONS[kind][0]}; leave "
            "it out"
        )
    for name, usual in (("time", "none"), ("disjoint", False)):
        if (value := getattr(wanted, name)) != usual:
            raise InputError(
                f"typed.{name} is {value!r}, but {kind} chooses nodes for all seeds of a batch "
                "together, so a seed has no tree of its own; use neighbor or labor"
            )
    if kind in LAYERWISE:
        aggr = model.options.get("aggr", "mean")
        if model.kind == "hgt" or (model_kind(settings) == "hetero-sage" and aggr != "mean"):
            given = "model.kind is 'hgt'" if model.kind == "hgt" else f"aggr is {aggr!r}"
            raise InputError(
                f"{given}, but {kind} weights the neighbours of a whole layer, which only means "
                "keep; use rgcn or hetero-sage with aggr mean"
            )


def make_typed_sampler(graph: HeteroGraph, settings: Settings) -> Any:
    """The sampler of the training.

    Raises:
        InputError: fan-outs or options that do not fit the graph.
    """
    sampler, wanted = settings.sampler, settings.typed
    kind, more = sampler.kind, dict(sampler.options)
    if kind in LAYERWISE or kind == "hgt":
        name, usual = _OPTIONS[kind][0], [_LAYER_SIZE] * _layers(settings)
        given = more.pop(name, usual)
        if isinstance(given, dict) and kind in LAYERWISE:
            given = _by_relation(given, graph.edge_types, "sampler.options.layer_sizes")
        made = {"ladies": HeteroLadies, "fastgcn": HeteroFastGCN, "hgt": Hgt}[kind](given, **more)
        if settings.model.layers not in (0, made.num_layers) and kind in LAYERWISE:
            raise InputError(
                f"model.layers is {settings.model.layers}, but {name} has numbers of "
                f"{made.num_layers} layers; give as many"
            )
        return made
    own = bool(wanted.fanouts)
    fanouts = _by_relation(wanted.fanouts, graph.edge_types) if own else sampler.fanouts
    with called_fanouts("typed.fanouts" if own else "sampler.fanouts"):
        if kind == "labor":
            return HeteroLabor(fanouts, **_options(settings), **more)
        return HeteroNeighbor(fanouts, replace=sampler.replace, **_options(settings))


def _layers(settings: Settings) -> int:
    return settings.model.layers or len(settings.sampler.fanouts)


def exact_sampler(settings: Settings, hops: int) -> HeteroNeighbor:
    """Takes every neighbour that a tree may see."""
    return HeteroNeighbor([-1] * hops, **_options(settings, exact=True))


def _options(settings: Settings, exact: bool = False) -> dict[str, Any]:
    wanted = settings.typed
    return {
        "disjoint": wanted.disjoint,
        "time": None if wanted.time == "none" else wanted.time,
        "temporal_strategy": "uniform" if exact else wanted.temporal_strategy,
    }


def _by_relation(
    given: dict[str, Any], edge_types: Sequence[EdgeType], where: str = "typed.fanouts"
) -> dict[EdgeType, Sequence[int]]:
    """Fan-outs by relation, as the config has them; "*" is for all that are not named."""
    spelt: dict[str, list[EdgeType]] = {}
    for name in edge_types:
        for text in (", ".join(name), ",".join(name), "__".join(name), show_edge_type(name)):
            spelt.setdefault(text, []).append(name)
    found: dict[EdgeType, Sequence[int]] = {}
    for text, numbers in given.items():
        if text == "*":
            continue
        meant = set(spelt.get(text, ()))
        if len(meant) > 1:
            shown = " and ".join(sorted(map(repr, meant)))
            raise InputError(f"{where} has {text!r}, which could be {shown}; rename one")
        try:
            name = meant.pop() if meant else find_edge_type(_parts(text), edge_types)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if name in found:
            raise InputError(f"{where} names {show_edge_type(name)} twice; leave one out")
        found[name] = numbers
    for name in edge_types:
        if name not in found:
            if "*" not in given:
                raise InputError(
                    f"{where} has no entry for {show_edge_type(name)}; add one, or "
                    '"*" = [10, 5] for all that are not named ([0, ...] leaves a relation out)'
                )
            found[name] = given["*"]
    return found


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.strip("()").split(","))


def count_hops(settings: Settings, sampler: Any) -> int:
    """Layers of the model."""
    hops: int = settings.model.layers or sampler.num_layers
    return hops


def make_typed_loader(
    graph: HeteroGraph,
    task: TypedTask,
    settings: Settings,
    sampler: Any,
    device: torch.device | None = None,
) -> HeteroLoader:
    """The loader of the training split."""
    nodes, bulk = task.table.split(settings.train.split), settings.memory.bulk
    return HeteroLoader(
        graph,
        None,
        (task.target, nodes),
        settings.train.batch_size,
        input_time=task.at(nodes),
        sampler=sampler,
        shuffle=True,
        seed=settings.train.seed,
        device=device if device is not None and device.type != "cpu" else None,
        threads=settings.train.threads,
        bulk=_BULK if bulk == "auto" else parse_count(bulk),
        prefetch=settings.memory.prefetch,
    )


def make_typed(
    settings: Settings, schema: Schema, hops: int, fill: Callable[[Any], None] | None = None
) -> nn.Module:
    """Makes the model, with weights drawn from the seed.

    Args:
        settings: the settings.
        schema: what it is made for.
        hops: its layers.
        fill: called with a model by name, to set how its numbers are standardised.

    Raises:
        InputError: it is unknown, or cannot be made with these options.
        MissingDependencyError: PyG is not installed.
    """
    wanted, kind = settings.model, model_kind(settings)
    torch.manual_seed(settings.train.seed)
    if ":" not in kind:
        made = make_typed_model(kind, schema, wanted.hidden, hops, wanted.dropout, wanted.options)
        if fill is not None:
            fill(made)
        return made
    widths = {
        one.name: array.width
        for one in schema.nodes
        for array in one.arrays
        if array.name == "x" and array.width
    }
    metadata = (list(schema.node_types), list(schema.edges))
    common = {
        "metadata": metadata,
        "node_types": metadata[0],
        "edge_types": metadata[1],
        "num_nodes_dict": {one.name: one.num_nodes for one in schema.nodes},
        "in_channels": widths,
        "hidden_channels": wanted.hidden,
        "num_layers": hops,
        "out_channels": schema.classes,
        "dropout": wanted.dropout,
    }
    return own_model(wanted, common)
