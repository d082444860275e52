"""load: the best model of a finished typed run, made to fit the graph that it is to be used on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import nn

from foregather.errors import FormatError, InputError
from foregather.graph.hetero.graph import HeteroGraph, is_typed_folder
from foregather.graph.hetero.names import find_node_type
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.nn.hetero.schema import Schema
from foregather.train.hetero.call import check_call
from foregather.train.hetero.describe_arrays import check_schema, describe_arrays
from foregather.train.hetero.make import make_typed, make_typed_sampler
from foregather.train.hetero.task import TypedTask, seed_times
from foregather.train.runs.run_folder import read_finished
from foregather.train.settings import Settings
from foregather.train.tasks.goal import goal_of_run

__all__ = ["TypedRun", "check_same_kind", "load_typed"]

_MOST_HOPS = 1 << 12


@dataclass(frozen=True, eq=False)
class TypedRun:
    """A finished run, and the graph that its model is used on.

    Attributes:
        model: with the best weights.
        settings: of the run.
        graph: the graph.
        task: the target type of the graph, and the times of seeds.
        hops: layers of the model.
    """

    model: nn.Module
    settings: Settings
    graph: HeteroGraph
    task: TypedTask
    hops: int


def check_same_kind(folder: Path, typed_run: bool, graph: Path) -> bool:
    """Whether a run and a graph are both typed.

    Raises:
        InputError: one of them is, and the other is not.
    """
    typed_graph = is_typed_folder(graph)
    if typed_run != typed_graph:
        kinds = ("a typed graph", "a plain one")
        trained, given = kinds if typed_run else kinds[::-1]
        raise InputError(
            f"{folder.name} was trained on {trained}, but {graph.name} is {given}; name a graph "
            "like that of the run"
        )
    return typed_graph


def load_typed(folder: Path, path: Path, trust_code: bool = False) -> TypedRun:
    """Loads the best model of a finished run for a graph.

    Args:
        folder: of the run.
        path: the graph folder.
        trust_code: the class that the run's settings name may be imported and run.

    Raises:
        InputError: the graph does not fit the model; or the run names code and is not trusted.
        FormatError: this is not a typed run, or it has not finished, or it is damaged.
    """
    settings, facts, data = read_finished(folder, trust_code)
    schema, hops = _read_schema(folder, facts)
    graph = HeteroGraph.open(path)
    target, wanted = find_node_type(schema.target, graph.nodes), settings.typed
    times = seed_times(graph.nodes[target], target, settings)
    goal = goal_of_run(facts, settings.train, graph.nodes[target].labels)
    task = TypedTask(target, graph.nodes[target], goal, times)
    if not task.table.num_nodes:
        raise InputError(f"node type {target!r} has no nodes, so there is nothing to infer")
    found = describe_arrays(graph, task, wanted.seed_time, wanted.encode_time)
    by_name = ":" not in settings.model.kind
    check_schema(schema, found, path.name, by_name)
    try:
        weights = load(data)
        if by_name:
            with torch.device("meta"):  # sizes are compared before memory is allocated
                sizes = {name: value.to("meta") for name, value in weights.items()}
                make_typed(settings, schema, hops).load_state_dict(sizes)
        model = make_typed(settings, schema, hops)
        if not by_name:  # parameters without a size get theirs
            check_call(model, _first_batch(graph, task, settings), target, task.classes)
        model.load_state_dict(weights)
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError(
            f"model.safetensors of {folder.name} does not fit its model: {error}"
        ) from error
    return TypedRun(model, settings, graph, task, hops)


def _read_schema(folder: Path, facts: Mapping[str, Any]) -> tuple[Schema, int]:
    try:
        schema, hops = Schema.from_dict(facts["typed"]), facts["hops"]
        if type(hops) is not int or not 0 < hops <= _MOST_HOPS:
            raise ValueError("the number of layers is impossible")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    return schema, hops


def _first_batch(graph: HeteroGraph, task: TypedTask, settings: Settings) -> Any:
    nodes = torch.arange(min(16, task.table.num_nodes)).numpy()
    loader = HeteroLoader(
        graph,
        None,
        (task.target, nodes),
        len(nodes),
        input_time=task.at(nodes),
        sampler=make_typed_sampler(graph, settings),
        threads=settings.train.threads,
        prefetch=0,
    )
    return next(iter(loader))
