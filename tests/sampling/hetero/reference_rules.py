"""Reference: LABOR, LADIES and FastGCN relation by relation, as slow, obvious Python.

LABOR is written as it is defined. The layer-wise rules go through the verbs of the matrix framework
on one block at a time: the sources of a relation and, after them, its targets as one plain graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from foregather import Graph
from foregather.graph.hetero import EdgeType, HeteroGraph, Relation
from foregather.sampling import FastGCN, HeteroFastGCN, HeteroLabor, HeteroLadies, Ladies
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.sampling.matrix import multiply
from tests.sampling.hetero.reference_hetero import Seed, rows_of
from tests.sampling.reference import MASK, batch_key, derive
from tests.sampling.reference_weighted import shared_number


@dataclass
class Growing:
    """A minibatch as it grows: local numbers of (tree, node) by type, edges by relation."""

    graph: HeteroGraph
    trees: bool
    local: dict[str, dict[tuple[int, int], int]] = field(default_factory=dict)
    edges: dict[EdgeType, list[tuple[int, int, int, float]]] = field(default_factory=dict)
    num_nodes: dict[str, list[int]] = field(default_factory=dict)
    num_edges: dict[EdgeType, list[int]] = field(default_factory=dict)
    given: dict[str, list[int]] = field(default_factory=dict)

    def start(self, seeds: Sequence[Seed]) -> None:
        """Puts the seeds in."""
        self.local = {name: {} for name in self.graph.node_types}
        self.given = {name: [] for name in self.graph.node_types}
        for number, (name, v, _, _) in enumerate(seeds):
            self.given[name].append(self.number(name, number if self.trees else 0, v))
        self.num_nodes = {name: [len(own)] for name, own in self.local.items()}
        self.edges = {name: [] for name in self.graph.edge_types}
        self.num_edges = {name: [] for name in self.graph.edge_types}

    def number(self, name: str, tree: int, v: int) -> int:
        """The local number of a node, the next one if it is new."""
        own = self.local[name]
        return own.setdefault((tree, v), len(own))

    def end_layer(self) -> None:
        """Counts what the layer brought."""
        for name, own in self.local.items():
            self.num_nodes[name].append(len(own))
        for link, counts in self.num_edges.items():
            counts.append(len(self.edges[link]) - sum(counts))

    def done(self, batch: int, weighs: bool, expand: str) -> HeteroSample:
        """The minibatch."""
        nodes = {
            name: NodeSample(
                np.array([v for _, v in own], np.int64),
                tuple(self.num_nodes[name]),
                np.array([t for t, _ in own], np.uint32) if self.trees else None,
                np.array(self.given[name])
                if self.num_nodes[name][0] < len(self.given[name])
                else None,
            )
            for name, own in self.local.items()
        }
        edges = {}
        for link, found in self.edges.items():
            row, col, edge, weight = (
                (np.array(part) for part in zip(*found, strict=True))
                if (found)
                else (np.empty(0),) * 4
            )
            edges[link] = EdgeSample(
                row.astype(np.uint32),
                col.astype(np.uint32),
                edge.astype(np.int64),
                tuple(self.num_edges[link]),
                weight.astype(np.float32) if weighs else None,
            )
        return HeteroSample(nodes, edges, batch, "per-layer" if expand == "per-layer" else "once")


def relation_key(layer: int, relation: int) -> int:
    """The key of a relation in a layer."""
    return layer if relation == 0 else derive(layer, MASK - relation)


def debiased(values: list[float], chance: float, debias: str | None) -> list[float]:
    """Weights of the edges of one target."""
    weights = [value / chance for value in values]
    total = 0.0
    for weight in weights:
        total += weight
    divisor = total if debias == "reference" and total != 0 else 1.0
    return [weight / divisor for weight in weights]


def sample_labor(
    graph: HeteroGraph,
    rule: HeteroLabor,
    seeds: Sequence[Seed],
    seed: int,
    epoch: int,
    batch: int,
) -> HeteroSample:
    """One minibatch of LABOR."""
    fanouts = dict(zip(graph.edge_types, rule.num_neighbors.of(graph.edge_types), strict=True))
    rows = {name: rows_of(graph, name, rule.time) for name in graph.edge_types}
    made = Growing(graph, rule.disjoint)
    made.start(seeds)
    numbers = [row for _, _, row, _ in seeds] if rule.disjoint else [batch]
    keys = [batch_key(seed, epoch, number) for number in numbers]
    first = dict.fromkeys(made.local, 0)
    for layer in range(rule.num_layers):
        targets = {name: list(own)[first[name] :] for name, own in made.local.items()}
        first = {name: len(own) for name, own in made.local.items()}
        for relation, link in enumerate(graph.edge_types):
            fanout = fanouts[link][layer]
            for tree, v in targets[link[2]] if fanout else []:
                until = seeds[tree][3] if rule.time is not None else None
                row = [e for e in rows[link][v] if until is None or e[0] is None or e[0] <= until]
                limit = 2**32
                if fanout >= 0 and len(row) > fanout:
                    limit = fanout * 2**32 // len(row)
                own = derive(keys[tree], 0 if rule.layer_dependency else layer)
                own = relation_key(own, relation)
                picks = [p for p, e in enumerate(row) if shared_number(own, e[1]) < limit]
                values = [1 / len(row) if row[p][2] is None else row[p][2] for p in picks]
                weights = debiased(values, limit / 2**32, rule.debias)
                begin = int(graph.edges[link].indptr[v])
                for p, weight in zip(picks, weights, strict=True):
                    source = made.number(link[0], tree, row[p][1])
                    target = made.local[link[2]][tree, v]
                    made.edges[link].append((source, target, begin + p, weight))
        made.end_layer()
    return made.done(batch, rule.debias is not None, "once")


def block_of(relation: Relation, sources: int) -> Graph:
    """A relation as a plain graph: its sources, and then its targets."""
    indptr = np.concatenate([np.zeros(sources, np.int64), relation.indptr])
    nodes = len(indptr) - 1
    indices = np.array(relation.indices)
    return Graph(nodes, len(indices), indptr, indices, edge_weight=relation.weights)


def sample_layerwise(
    graph: HeteroGraph,
    rule: HeteroLadies,
    seeds: Sequence[Seed],
    seed: int,
    epoch: int,
    batch: int,
) -> HeteroSample:
    """One minibatch of LADIES or FastGCN."""
    sizes = dict(zip(graph.edge_types, rule.layer_sizes.of(graph.edge_types), strict=True))
    kind = FastGCN if isinstance(rule, HeteroFastGCN) else Ladies
    made = Growing(graph, False)
    made.start(seeds)
    for layer in range(rule.num_layers):
        known = {name: [v for _, v in own] for name, own in made.local.items()}
        for relation, link in enumerate(graph.edge_types):
            size, sources = sizes[link][layer], graph.nodes[link[0]].num_nodes
            if size == 0 or not known[link[2]] or graph.edges[link].num_edges == 0:
                continue
            block = block_of(graph.edges[link], sources)
            key = relation_key(derive(batch_key(seed, epoch, batch), layer), relation)
            targets = np.array(known[link[2]]).astype(block.indices.dtype) + sources
            p = multiply(block, [targets], [0], np.array([key], np.uint64), 0, 1)
            picks = kind((size,), rule.debias).sample(p)
            weights = np.ones(len(picks.entry)) if picks.weight is None else picks.weight
            rows = p.row[picks.entry]
            if rule.debias == "reference":
                sums = np.bincount(rows, weights, len(targets))
                weights = weights / np.where(sums == 0, 1, sums)[rows]
            for e, target, weight in zip(picks.entry, rows, weights, strict=True):
                source = made.number(link[0], 0, int(p.columns[e]))
                made.edges[link].append((source, int(target), int(p.edge[e]), float(weight)))
        made.end_layer()
    return made.done(batch, rule.debias is not None, "per-layer")
