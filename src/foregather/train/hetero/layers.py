"""layers: exact scores of a typed model by name, one sweep over the graph per layer.

Rows between layers are kept in memory. A part of a sweep is some targets of one type with all their
in-neighbours, so what is computed at once is bounded, whatever the size of the graph.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.hetero.columns import node_columns
from foregather.nn.hetero.model import TypedModel
from foregather.observe.progress import Progress
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor

__all__ = ["by_layers"]

_PART_EDGES = 1 << 20  # edges that are computed together
_PART_NODES = 1 << 14  # targets, likewise


def by_layers(model: TypedModel, graph: HeteroGraph, threads: int) -> Tensor:
    """Scores of all nodes of the target type, with every edge.

    Args:
        model: in evaluation mode; gradients should be off.
        graph: the graph, in memory.
        threads: of sampling and gathering.
    """
    schema = model.schema
    needed = [{schema.place}]  # types whose rows each layer gives, the last layer first
    for _ in model.layers:
        needed.append(needed[-1] | {a for a, b in schema.ends if b in needed[-1]})
    rows = _encode(model, graph, needed[-1], threads)
    sampler = HeteroNeighbor([-1])
    total = sum(len(kinds) for kinds in needed[:-1])
    with Progress("exact scores", total, "types") as bar:
        for place in range(len(model.layers)):
            after: list[Tensor] = [one[:0] for one in rows]
            for kind in sorted(needed[-2 - place]):
                after[kind] = _sweep(model, graph, sampler, place, kind, rows, threads)
                bar.advance(1)
            rows = after
    return model.scores(rows[schema.place])


def _encode(model: TypedModel, graph: HeteroGraph, kinds: set[int], threads: int) -> list[Tensor]:
    made = []
    weight = model.head.weight
    for place, one in enumerate(model.schema.nodes):
        table, parts = graph.nodes[one.name], []
        columns = node_columns(table, one.name)
        for first in range(0, table.num_nodes if place in kinds else 0, _PART_NODES):
            ids = np.arange(first, min(first + _PART_NODES, table.num_nodes))
            store = columns.rows(ids, threads, False) | {"n_id": torch.from_numpy(ids)}
            placed = {name: values.to(weight.device) for name, values in store.items()}
            parts.append(model.encoders[place](placed, len(ids)))
        made.append(torch.cat(parts) if parts else weight.new_empty(0, weight.shape[1]))
    return made


def _sweep(
    model: TypedModel,
    graph: HeteroGraph,
    sampler: HeteroNeighbor,
    place: int,
    kind: int,
    rows: list[Tensor],
    threads: int,
) -> Tensor:
    """The next rows of all nodes of a type."""
    schema, name = model.schema, model.schema.node_types[kind]
    device, parts = rows[kind].device, [rows[kind][:0]]

    def pick(ids: Any) -> Tensor:
        return torch.from_numpy(np.asarray(ids, np.int64)).to(device)

    for first, end in _parts(graph, name):
        ids = np.arange(first, end)
        sample = sampler.sample_bulk(graph, {name: [ids]}, seed=0, threads=threads)[0]
        x = [rows[k][pick(sample.nodes[one].node)] for k, one in enumerate(schema.node_types)]
        edges = [
            torch.stack([pick(sample.edges[one].row), pick(sample.edges[one].col)])
            for one in schema.edges
        ]
        targets = [len(ids) if k == kind else 0 for k in range(len(x))]
        parts.append(model.step(place, x, edges, targets)[kind])
    return torch.cat(parts)


def _parts(graph: HeteroGraph, node_type: str) -> list[tuple[int, int]]:
    """Ranges of the nodes of a type, with few nodes and edges each; one node may have more."""
    count = graph.nodes[node_type].num_nodes
    into = np.zeros(count + 1, np.int64)
    for name in graph.edge_types:
        if name[2] == node_type:
            into += np.asarray(graph.relation(name).indptr, np.int64)
    ends, first = [], 0
    while first < count:
        end = int(np.searchsorted(into, into[first] + _PART_EDGES, side="right")) - 1
        end = min(max(end, first + 1), first + _PART_NODES, count)
        ends.append((first, end))
        first = end
    return ends
