"""layers: exact scores of a typed model by name, one sweep over the graph per layer.

Rows between layers are kept in memory. A part of a sweep is some targets of one type with all their
in-neighbours, so what is computed at once is bounded, whatever the size of the graph.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.hetero.columns import node_columns
from foregather.nn.hetero.model import TypedModel
from foregather.observe.progress import Progress
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor

__all__ = ["by_layers", "rows_by_layers"]

_PART_EDGES = 1 << 20  # edges that are computed together
_PART_NODES = 1 << 14  # targets, likewise


def by_layers(
    model: TypedModel, graph: HeteroGraph, threads: int, most: int | None = None
) -> Tensor:
    """Scores of all nodes of the target type, with every edge.

    Args:
        model: in evaluation mode; gradients should be off.
        graph: the graph, in memory.
        threads: of sampling and gathering.
        most: targets that are computed together, at most.
    """
    place = model.schema.place
    return model.scores(rows_by_layers(model, graph, threads, {place}, most)[place])


def rows_by_layers(
    model: TypedModel, graph: HeteroGraph, threads: int, kinds: set[int], most: int | None = None
) -> list[Tensor]:
    """Rows of all nodes of some types after the last layer; none of the other types.

    Args:
        model: see `by_layers`.
        graph: see `by_layers`.
        threads: see `by_layers`.
        kinds: numbers of the types.
        most: see `by_layers`.
    """
    schema = model.schema
    needed = [kinds]  # types whose rows each layer gives, the last layer first
    for _ in model.layers:
        needed.append(needed[-1] | {a for a, b in schema.ends if b in needed[-1]})
    sweeps = _Sweeps(model, graph, threads, min(most or _PART_NODES, _PART_NODES))
    rows = sweeps.encode(needed[-1])
    total = sum(len(kinds) for kinds in needed[:-1])
    with Progress("exact scores", total, "types") as bar:
        for place in range(len(model.layers)):
            after: list[Tensor] = [one[:0] for one in rows]
            for kind in sorted(needed[-2 - place]):
                after[kind] = sweeps.sweep(place, kind, rows)
                bar.advance(1)
            rows = after
    return rows


@dataclass(frozen=True, eq=False)
class _Sweeps:
    """What every sweep needs: the model, the graph, threads, and targets computed together."""

    model: TypedModel
    graph: HeteroGraph
    threads: int
    most: int

    def encode(self, kinds: set[int]) -> list[Tensor]:
        """The first rows of all nodes of these types; none of the others."""
        made, weight = [], self.model.head.weight
        for place, one in enumerate(self.model.schema.nodes):
            table, parts = self.graph.nodes[one.name], [weight.new_empty(0, weight.shape[1])]
            columns = node_columns(table, one.name)
            for first in range(0, table.num_nodes if place in kinds else 0, self.most):
                ids = np.arange(first, min(first + self.most, table.num_nodes))
                store = columns.rows(ids, self.threads, False) | {"n_id": torch.from_numpy(ids)}
                placed = {name: values.to(weight.device) for name, values in store.items()}
                parts.append(self.model.encoders[place](placed, len(ids)))
            made.append(torch.cat(parts))
        return made

    def sweep(self, place: int, kind: int, rows: list[Tensor]) -> Tensor:
        """The next rows of all nodes of a type."""
        schema, parts, device = self.model.schema, [rows[kind][:0]], rows[kind].device
        name, sampler = schema.node_types[kind], HeteroNeighbor([-1])

        def pick(ids: Any) -> Tensor:
            return torch.from_numpy(np.asarray(ids, np.int64)).to(device)

        for first, end in self._parts(name):
            ids = np.arange(first, end)
            found = sampler.sample_bulk(self.graph, {name: [ids]}, seed=0, threads=self.threads)[0]
            x = [rows[k][pick(found.nodes[one].node)] for k, one in enumerate(schema.node_types)]
            edges = [
                torch.stack([pick(found.edges[one].row), pick(found.edges[one].col)])
                for one in schema.edges
            ]
            targets = [len(ids) if k == kind else 0 for k in range(len(x))]
            parts.append(self.model.step(place, x, edges, targets)[kind])
        return torch.cat(parts)

    def _parts(self, node_type: str) -> list[tuple[int, int]]:
        """Ranges of the nodes of a type, with few nodes and edges each; one node may have more."""
        count = self.graph.nodes[node_type].num_nodes
        into = np.zeros(count + 1, np.int64)
        for name in self.graph.edge_types:
            if name[2] == node_type:
                into += np.asarray(self.graph.relation(name).indptr, np.int64)
        ends, first = [], 0
        while first < count:
            end = int(np.searchsorted(into, into[first] + _PART_EDGES, side="right")) - 1
            end = min(max(end, first + 1), first + self.most, count)
            ends.append((first, end))
            first = end
        return ends
