"""infer_nodes: predictions for given nodes at once: `foregather infer RUN GRAPH --nodes 5 17`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.targets import check_file
from foregather.units import format_number, parse_size

if TYPE_CHECKING:
    from foregather.graph.graph import Graph
    from foregather.graph.hetero.node_table import NodeTable
    from foregather.train.tasks.task import Task

__all__ = ["Asked", "infer_nodes", "show_nodes"]

Ids = npt.NDArray[np.int64]
_SHOWN = 6  # numbers or labels of a node in the text


@dataclass(frozen=True)
class Asked:
    """What the command was asked for; fields as its own."""

    run_folder: Path
    graph: Path
    out: Path | None
    nodes: tuple[str, ...]
    memory: str | None
    overwrite: bool
    trust_code: bool


def infer_nodes(asked: Asked, typed: bool) -> dict[str, Any]:
    """Predicts the nodes; writes their rows if a file is named."""
    if asked.out is not None:
        check_file(asked.out, asked.overwrite)
    rows, task, seconds = (_typed if typed else _plain)(asked)
    facts: dict[str, Any] = {
        "task": task.name,
        "seconds": seconds,
        "predictions": [
            {"node": name, **_prediction(task, row)}
            for name, row in zip(asked.nodes, rows, strict=True)
        ],
    }
    if asked.out is not None:
        from foregather.files import write_safely

        write_safely(asked.out, _npy(rows))
        facts["out"] = str(asked.out)
    return facts


def _npy(rows: npt.NDArray[np.float32]) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, rows, allow_pickle=False)
    return file.getvalue()


def _plain(asked: Asked) -> "tuple[Any, Task, float]":
    from foregather.graph.graph import Graph
    from foregather.observe.usable_memory import usable_memory
    from foregather.train.predict import Predictor
    from foregather.train.runs.run_folder import load_goal, load_model
    from foregather.train.settings.from_settings import infer_options

    model, settings = load_model(asked.run_folder, asked.trust_code)
    graph = Graph.open(asked.graph)
    goal, options = load_goal(asked.run_folder, settings, graph), infer_options(settings)
    if asked.memory is not None:
        options["memory"] = parse_size(asked.memory)
        options["storage"] = "disk"  # a few rows are wanted: nothing is loaded for them
    elif options["memory"] == "auto":
        options["memory"] = usable_memory()
    nodes = _find(graph, asked.nodes)
    with Predictor(model, graph, finish=goal.task.finish, **options) as predictor:
        begin = time.perf_counter()
        rows = predictor.scores(nodes)
        return rows, goal.task, time.perf_counter() - begin


def _find(graph: "Graph", given: tuple[str, ...]) -> Ids:
    """Node numbers of ids as the user writes them."""
    from foregather.graph.original_ids import id_kind

    if id_kind(graph) == "text":
        return graph.nodes_of(list(given))
    return graph.nodes_of(_numbers(given))


def _numbers(given: tuple[str, ...]) -> Ids:
    try:
        return np.array([int(one) for one in given], np.int64)
    except (ValueError, OverflowError):
        wrong = next(one for one in given if not one.lstrip("-").isdecimal() or len(one) > 18)
        raise InputError(f"--nodes has {wrong!r}, expected whole numbers") from None


def _typed(asked: Asked) -> "tuple[Any, Task, float]":
    from foregather.train.hetero.load import load_typed
    from foregather.train.predict import predict_typed

    if asked.memory is not None:
        raise InputError(
            f"memory is {asked.memory}, but a typed graph is held in memory so far; leave it out"
        )
    run = load_typed(asked.run_folder, asked.graph, asked.trust_code)
    nodes = _find_typed(run.task.table, asked.nodes)
    begin = time.perf_counter()
    rows = predict_typed(run, nodes)
    return rows, run.task.goal.task, time.perf_counter() - begin


def _find_typed(table: "NodeTable", given: tuple[str, ...]) -> Ids:
    if table.ids is None:
        found = _numbers(given)
        if len(wrong := found[(found < 0) | (found >= table.num_nodes)]):
            raise InputError(
                f"--nodes has {wrong[0]}, but there are {table.num_nodes} nodes, numbered from 0"
            )
        return found
    places = {str(one): place for place, one in enumerate(table.ids)}
    for one in given:
        if one not in places:
            raise InputError(f"--nodes has {one!r}, which is no id of the node type")
    return np.array([places[one] for one in given], np.int64)


def _prediction(task: "Task", row: npt.NDArray[np.float32]) -> dict[str, Any]:
    """The answer by its task, and the row it comes from."""
    scores = [float(one) for one in row]
    if task.name == "classification":
        return {"class": int(np.argmax(row)), "scores": scores}
    if task.name == "multilabel":
        return {"labels": np.flatnonzero(row > 0).tolist(), "scores": scores}
    return {"values": scores}


def show_nodes(facts: dict[str, Any]) -> str:
    """A line for each node."""
    lines = []
    for one in facts["predictions"]:
        if "class" in one:
            shown = f"class {one['class']} (score {max(one['scores']):.4f})"
        elif "labels" in one:
            many = ", ".join(map(str, one["labels"][:_SHOWN])) or "none"
            shown = f"labels {many}{' ...' if len(one['labels']) > _SHOWN else ''}"
        else:
            shown = ", ".join(f"{value:.6g}" for value in one["values"][:_SHOWN])
        lines.append(f"{one['node']:<9} {shown}")
    count = format_number(len(lines), "node")
    lines.append(f"took      {1e3 * facts['seconds']:.1f} ms for {count}, exact: with every edge")
    if "out" in facts:
        lines.append(f"wrote     {facts['out']}")
    return "\n".join(lines)
