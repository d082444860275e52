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
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from foregather.train.hetero.task import TypedTask
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import own_model
from foregather.units import parse_count

__all__ = [
    "check_offered",
    "check_plain",
    "count_hops",
    "exact_sampler",
    "make_typed",
    "make_typed_loader",
    "make_typed_sampler",
    "model_kind",
]

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
    if sampler.kind != "neighbor" or sampler.options:
        what = "options" if sampler.kind == "neighbor" else "kind"
        raise InputError(
            f"sampler.{what} is {getattr(sampler, what)!r}, but typed graphs are sampled by "
            "neighbor, with the options of [typed]; leave it out"
        )
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


def make_typed_sampler(graph: HeteroGraph, settings: Settings) -> HeteroNeighbor:
    """The sampler of the training.

    Raises:
        InputError: fan-outs or options that do not fit the graph.
    """
    wanted = settings.typed
    own = bool(wanted.fanouts)
    fanouts = _by_relation(wanted.fanouts, graph.edge_types) if own else settings.sampler.fanouts
    with called_fanouts("typed.fanouts" if own else "sampler.fanouts"):
        return HeteroNeighbor(fanouts, replace=settings.sampler.replace, **_options(settings))


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
    given: dict[str, Any], edge_types: Sequence[EdgeType]
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
            raise InputError(f"typed.fanouts has {text!r}, which could be {shown}; rename one")
        try:
            name = meant.pop() if meant else find_edge_type(_parts(text), edge_types)
        except InputError as error:
            raise InputError(f"typed.fanouts: {error}") from None
        if name in found:
            raise InputError(f"typed.fanouts names {show_edge_type(name)} twice; leave one out")
        found[name] = numbers
    for name in edge_types:
        if name not in found:
            if "*" not in given:
                raise InputError(
                    f"typed.fanouts has no entry for {show_edge_type(name)}; add one, or "
                    '"*" = [10, 5] for all that are not named ([0, ...] leaves a relation out)'
                )
            found[name] = given["*"]
    return found


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.strip("()").split(","))


def count_hops(settings: Settings, sampler: HeteroNeighbor) -> int:
    """Layers of the model."""
    return settings.model.layers or sampler.num_layers


def make_typed_loader(
    graph: HeteroGraph,
    task: TypedTask,
    settings: Settings,
    sampler: HeteroNeighbor,
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
