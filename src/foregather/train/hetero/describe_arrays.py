"""describe_arrays: from a typed graph to the schema of a model, and how its numbers are scaled.

Every array is read once. What a model could not use is refused here: infinite numbers, and numbers
of categories that have no name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.columns import as_matrix
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.mapped import hold
from foregather.nn.hetero.encode import TypeEncoder
from foregather.nn.hetero.model import TypedModel
from foregather.nn.hetero.schema import ArraySchema, Schema, TypeSchema
from foregather.train.hetero.task import TypedTask

__all__ = ["check_schema", "describe_arrays", "set_numbers"]

Array = npt.NDArray[Any]
_ROWS = 1 << 16  # of an array that are looked at together
_SMALL = 1e-12  # a column that varies by less, relative to its size, is constant


def describe_arrays(
    graph: HeteroGraph, task: TypedTask, leave: str = "", encode_time: bool = False
) -> Schema:
    """The schema of a graph for a task.

    Args:
        graph: the graph.
        task: what is learned.
        leave: an array of the target type that is no input: the times of seeds.
        encode_time: relative times are an input.

    Raises:
        InputError: an array cannot be an input; or relative times are, but no type has any.
    """
    nodes = []
    for name, table in graph.nodes.items():
        skip = {leave} if name == task.target and leave else set()
        named = _named(graph, name)
        with about(f"node type {name!r}"):
            arrays = tuple(
                _describe(key, table, named.get(key)) for key in table.features if key not in skip
            )
        nodes.append(TypeSchema(name, table.num_nodes, arrays, table.time is not None))
    span = 0
    if encode_time:
        ends = [_ends(table) for table in graph.nodes.values() if table.time is not None]
        if not ends:
            raise InputError("typed.encode_time is True, but no node type has times; leave it out")
        span = max(1, max(high for _, high in ends) - min(low for low, _ in ends))
    return Schema(task.target, task.classes, tuple(nodes), graph.edge_types, span)


def _ends(table: NodeTable) -> tuple[int, int]:
    assert table.time is not None
    times = hold(table.time)
    return (int(times.min()), int(times.max())) if times.size else (0, 0)


def _named(graph: HeteroGraph, node_type: str) -> Mapping[str, Sequence[str]]:
    """Names of the categories of a type's arrays."""
    every = graph.meta.get("categories")
    mine = every.get(node_type) if isinstance(every, Mapping) else None
    return mine if isinstance(mine, Mapping) else {}


def _describe(name: str, table: NodeTable, names: Sequence[str] | None) -> ArraySchema:
    values = hold(table.features[name])
    if names is not None and values.dtype.kind in "iu" and values.ndim == 1:
        low, high = (int(values.min()), int(values.max())) if values.size else (0, -1)
        if low < -1 or high >= len(names):
            raise InputError(
                f"array {name!r} holds category {low if low < -1 else high}, but there are names "
                f"of {len(names)} (and -1 for missing); convert the graph again"
            )
        text = "\0".join(map(str, names)).encode()
        digest = f"{_core.xxh64(np.frombuffer(text, np.uint8)):016x}" if text else ""
        return ArraySchema(name, 0, False, max(1, len(names)), digest)
    rows, missing = as_matrix(values), False
    if values.dtype.kind == "f":
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS]
            absent = np.isnan(part)
            missing = missing or bool(absent.any())
            wrong = np.argwhere(~(np.isfinite(part) | absent))
            if wrong.size:
                raise InputError(
                    f"array {name!r} holds {part[tuple(wrong[0])]} for node "
                    f"{first + int(wrong[0][0])}; replace infinite numbers, by NaN where they are "
                    "missing"
                )
    return ArraySchema(name, int(rows.shape[1]), missing)


def set_numbers(model: TypedModel, graph: HeteroGraph) -> None:
    """Sets how the encoders of a new model standardise numbers: by the nodes of each type."""
    for encoder, one in zip(model.encoders, model.schema.nodes, strict=True):
        assert isinstance(encoder, TypeEncoder)
        table = graph.nodes[one.name]
        parts = [_moments(table, array.name) for array in one.arrays if array.width]
        if parts:
            encoder.set_numbers(
                torch.cat([mean for mean, _ in parts]), torch.cat([scale for _, scale in parts])
            )


def _moments(table: NodeTable, name: str) -> tuple[Tensor, Tensor]:
    """Mean and 1 / deviation of each column, of the numbers that are there."""
    rows, scale = as_matrix(hold(table.features[name])), table.scales.get(name)
    count = np.zeros(rows.shape[1])
    mean, square = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for power in (1, 2):
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS].astype(np.float64)
            if power == 1:
                count += (~np.isnan(part)).sum(0)
                mean += np.nansum(part, axis=0)
            else:
                square += np.nansum((part - mean) ** 2, axis=0)
        if power == 1:
            mean /= np.maximum(1, count)
    deviation = np.sqrt(square / np.maximum(1, count))
    deviation[deviation <= _SMALL * np.abs(mean)] = 1.0  # a constant column becomes 0
    deviation[deviation == 0] = 1.0
    if scale is not None:  # int8 rows stand for row * scale
        factor = hold(scale).astype(np.float64)
        mean, deviation = mean * factor, np.where(factor == 0, 1.0, deviation * np.abs(factor))
    return torch.from_numpy(mean), torch.from_numpy(1 / deviation)


def check_schema(wanted: Schema, found: Schema, name: str, by_name: bool) -> None:
    """Checks that a graph is one that a model of another graph can be called with.

    Args:
        wanted: what the model was made for.
        found: of the graph.
        name: of the graph, for the message.
        by_name: it is a model by name, which uses every array and learned rows.

    Raises:
        InputError: it is not; the message says what differs.
    """
    if (wanted.node_types, wanted.edges) != (found.node_types, found.edges):
        odd = {*wanted.node_types, *map(str, wanted.edges)}
        odd ^= {*found.node_types, *map(str, found.edges)}
        raise InputError(
            f"{name} has other node types or relations than the run was trained with: "
            f"{min(odd)} is in one of them only; use a graph with the same ones"
        )
    for mine, other in zip(wanted.nodes, found.nodes, strict=True):
        given = {one.name: one for one in other.arrays}
        for array in mine.arrays:
            there = given.pop(array.name, None)
            if there is None or (there.width, there.categories) != (array.width, array.categories):
                what = "is not there" if there is None else "has another width"
                raise InputError(
                    f"array {array.name!r} of node type {mine.name!r} {what} in {name}, but the "
                    "run was trained with it; use a graph with the same arrays"
                )
            if there.names != array.names:
                raise InputError(
                    f"the categories of {array.name!r} of node type {mine.name!r} have other names "
                    f"in {name} than in the graph of the run; use a graph with the same ones"
                )
            if there.missing and not array.missing and by_name:
                raise InputError(
                    f"array {array.name!r} of node type {mine.name!r} has missing numbers (NaN) in "
                    f"{name}, but had none in training, so the model cannot tell; fill them in"
                )
        if by_name and mine.learned and mine.num_nodes != other.num_nodes:
            raise InputError(
                f"node type {mine.name!r} has no features, so each of its {mine.num_nodes} nodes "
                f"has a learned row, but in {name} there are {other.num_nodes}; use the graph of "
                "the run"
            )
        if given and by_name:
            raise InputError(
                f"array {sorted(given)[0]!r} of node type {mine.name!r} is in {name}, but not in "
                "the graph that the run was trained with; use a graph with the same arrays"
            )
        if wanted.span and mine.timed and not other.timed:
            raise InputError(f"node type {mine.name!r} has no times in {name}, but the run had")
