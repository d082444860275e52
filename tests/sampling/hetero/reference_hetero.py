"""Reference: neighbour sampling of graphs with types and times as slow, obvious Python.

A minibatch is written as it is defined: layer by layer, in a layer relation by relation, for each
node to expand choose among the edges that its tree may see; each edge chosen gives its source the
next number of its type unless it has one there.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from foregather.graph.hetero import EdgeType, HeteroGraph
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
from tests.sampling.reference import MASK, batch_key, choose, derive, draw, to_unit, vertex_key
from tests.sampling.reference_weighted import (
    alias,
    choose_short,
    choose_weighted,
    draw_cell,
    exponential,
)

Seed = tuple[str, int, int, int | None]  # type, node, row, time


def rows_of(graph: HeteroGraph, name: EdgeType, level: str | None) -> list[list[tuple[Any, ...]]]:
    """(time, source, weight) of the edges of each target, in the order of the row."""
    stored, source_time = graph.edges[name], graph.nodes[name[0]].time
    rows: list[list[tuple[Any, ...]]] = []
    for v in range(stored.num_targets):
        row = []
        for e in range(int(stored.indptr[v]), int(stored.indptr[v + 1])):
            u, time = int(stored.indices[e]), None
            if level == "node" and source_time is not None:
                time = int(source_time[u])
            if level == "edge" and stored.time is not None:
                time = int(stored.time[e])
            weight = None if stored.weights is None else float(stored.weights[e])
            given = e if stored.edge_ids is None else int(stored.edge_ids[e])
            row.append((time, u, given, weight))
        row.sort(key=lambda edge: (edge[0] or 0, *edge[1:3]))
        rows.append([(time, u, weight) for time, u, _, weight in row])
    return rows


def choose_in_part(
    key: int,
    weights: Sequence[float],
    seen: int,
    gaps: Set[int],
    fanout: int,
    replace: bool,
) -> list[int]:
    """Picks by weight among the first `seen` entries of a row but for the gaps."""
    if seen == len(weights) and not gaps:
        return choose_weighted(key, weights, fanout, replace)
    left = [i for i in range(seen) if i not in gaps]
    there = [i for i in left if weights[i] > 0]
    if fanout < 0 or not there or (not replace and fanout >= len(there)):
        return there
    if len(left) <= 32:
        return [left[i] for i in choose_short(key, [weights[i] for i in left], fanout, replace)]
    cells, own = alias(weights), derive(key, MASK - 1)
    picks: list[int] = []
    for slot in range(6 * fanout + 16):
        at = draw_cell(key, slot, cells)
        if len(picks) < fanout and at in there and (replace or at not in picks):
            picks.append(at)
    if replace:
        sums = np.cumsum(
            np.array([0 if i in gaps else weights[i] for i in range(seen)], np.float64)
        )
        for slot in range(len(picks), fanout):
            found = int(np.searchsorted(sums, to_unit(draw(own, slot)) * sums[-1], "right"))
            picks.append(min(found, there[-1]))
        return sorted(picks)
    rest = sorted((exponential(draw(own, i)) / weights[i], i) for i in there if i not in picks)
    return sorted([*picks, *(i for _, i in rest[: fanout - len(picks)])])


#: (relation, tree, target, position in its row, source) -> whether an edge is left out.
LeftOut = Callable[[EdgeType, int, int, int, int], bool]


def sample_hetero(
    graph: HeteroGraph,
    rule: HeteroNeighbor,
    seeds: Sequence[Seed],
    seed: int,
    epoch: int,
    batch: int,
    left_out: LeftOut = lambda *_: False,
) -> HeteroSample:
    """One minibatch of a directional sampler."""
    fanouts = dict(zip(graph.edge_types, rule.num_neighbors.of(graph.edge_types), strict=True))
    rows = {name: rows_of(graph, name, rule.time) for name in graph.edge_types}
    local: dict[str, dict[tuple[int, int], int]] = {name: {} for name in graph.node_types}
    given: dict[str, list[int]] = {name: [] for name in graph.node_types}
    for number, (name, v, _, _) in enumerate(seeds):
        own = local[name]
        given[name].append(own.setdefault((number if rule.disjoint else 0, v), len(own)))
    numbers = [row for _, _, row, _ in seeds] if rule.disjoint else [batch]
    keys = [batch_key(seed, epoch, number) for number in numbers]
    num_nodes = {name: [len(own)] for name, own in local.items()}
    edges: dict[EdgeType, list[tuple[int, int, int]]] = {name: [] for name in rows}
    num_edges: dict[EdgeType, list[int]] = {name: [] for name in rows}
    first = dict.fromkeys(local, 0)
    for layer in range(rule.num_layers):
        targets = {name: list(own)[first[name] :] for name, own in local.items()}
        first = {name: len(own) for name, own in local.items()}
        for relation, link in enumerate(graph.edge_types):
            before, fanout = len(edges[link]), fanouts[link][layer]
            for tree, v in targets[link[2]] if fanout else []:
                row, limit = rows[link][v], seeds[tree][3] if rule.disjoint else None
                seen = sum(limit is None or e[0] is None or e[0] <= limit for e in row)
                key = derive(keys[tree], layer)
                key = vertex_key(key if relation == 0 else derive(key, MASK - relation), v)
                gaps = {p for p in range(seen) if left_out(link, tree, v, p, row[p][1])}
                left = [p for p in range(seen) if p not in gaps]
                if rule.temporal_strategy == "last" and row and row[0][0] is not None:
                    picks = left if fanout < 0 else left[max(len(left) - fanout, 0) :]
                elif rule.weights is not None and row and row[0][2] is not None:
                    weights = [e[2] for e in row]
                    picks = choose_in_part(key, weights, seen, gaps, fanout, rule.replace)
                else:
                    picks = [left[p] for p in choose(key, len(left), fanout, rule.replace)]
                begin = int(graph.edges[link].indptr[v])
                for p in picks:
                    own = local[link[0]]
                    source = own.setdefault((tree, row[p][1]), len(own))
                    edges[link].append((source, local[link[2]][tree, v], begin + p))
            num_edges[link].append(len(edges[link]) - before)
        for name, own in local.items():
            num_nodes[name].append(len(own))
    return HeteroSample(
        {
            name: NodeSample(
                np.array([v for _, v in own], np.int64),
                tuple(num_nodes[name]),
                np.array([t for t, _ in own], np.uint32) if rule.disjoint else None,
                np.array(given[name]) if num_nodes[name][0] < len(given[name]) else None,
            )
            for name, own in local.items()
        },
        {link: _edges(edges[link], tuple(num_edges[link])) for link in graph.edge_types},
        batch,
    )


def _edges(found: list[tuple[int, int, int]], counts: tuple[int, ...]) -> EdgeSample:
    row, col, edge = np.array(found or np.empty((0, 3)), np.int64).T
    return EdgeSample(row.astype(np.uint32), col.astype(np.uint32), edge, counts)
