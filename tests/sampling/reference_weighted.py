"""Reference: weighted neighbour sampling and Labor as slow, obvious Python."""

import math
from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np

from foregather.graph.graph import Graph
from foregather.sampling.bulk import Expand, Sample
from tests.sampling.reference import (
    GOLDEN,
    MASK,
    Pick,
    batch_key,
    derive,
    draw,
    layer_key,
    mix64,
    sample_one,
    vertex_key,
)

LOW = (1 << 32) - 1


def exponential(bits: int) -> float:
    """-log of a number in (0, 1), with the arithmetic of exact_math.hpp."""
    x = ((bits >> 12) + 0.5) * 2.0**-52
    m, k = math.frexp(x)
    m, k = m * 2, k - 1
    if m > 2.0**0.5:
        m, k = m / 2, k + 1
    s = (m - 1) / (2 + (m - 1))
    z, total = s * s, 0.0
    for term in range(11, 0, -1):
        total = z * (1 / (2 * term + 1) + total)
    high, low = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
    return -(k * high + ((s + s) + ((s + s) * total + k * low)))


def alias(weights: Sequence[float]) -> list[tuple[int, int]]:
    """Walker's cells: (32-bit probability of the own entry, the other entry)."""
    degree, largest = len(weights), max(weights)
    shares = [w / largest for w in weights]
    total = 0.0
    for share in shares:
        total += share
    shares = [share * (degree / total) for share in shares]
    poor = [i for i in range(degree) if shares[i] < 1]
    rich = [i for i in range(degree) if not shares[i] < 1]
    heaviest = list(weights).index(largest)
    cells = [(0, i if weights[i] > 0 else heaviest) for i in range(degree)]
    while poor and rich:
        i, j = poor.pop(), rich[-1]
        cells[i] = (int(shares[i] * 2**32), j)
        shares[j] = (shares[j] + shares[i]) - 1
        if shares[j] < 1:
            poor.append(rich.pop())
    return cells


def draw_cell(key: int, slot: int, cells: Sequence[tuple[int, int]]) -> int:
    bits, limit = draw(key, slot), len(cells)
    while ((bits >> 32) * limit & LOW) < (2**32 - limit) % limit:
        bits = mix64((bits + GOLDEN) & MASK)
    at = (bits >> 32) * limit >> 32
    keep, other = cells[at]
    return at if bits & LOW < keep else other


def whole_units(weights: Sequence[float]) -> list[int]:
    """Weights of a short row as whole numbers with a sum below 2^31."""
    largest, total = max(weights), 0.0
    for w in weights:
        total += w / largest
    scale = (2.0**31 - 1 - 32) / total
    return [max(1, int(w / largest * scale)) if w > 0 else 0 for w in weights]


def draw_unit(key: int, slot: int, units: Sequence[int]) -> int:
    """The entry on whose units draw `slot` falls."""
    drawn = draw(key, slot) * sum(units) >> 64
    return next(i for i in range(len(units)) if sum(units[: i + 1]) > drawn)


def choose_short(key: int, weights: Sequence[float], fanout: int, replace: bool) -> list[int]:
    """Picks of a short row: as many draws as picks, and for each repeat a draw of what is left."""
    if len(weights) == 1:
        return [0] * fanout
    units = whole_units(weights)
    drawn = [draw_unit(key, slot, units) for slot in range(fanout)]
    if replace:
        return sorted(drawn)
    taken = set(drawn)
    while len(taken) < fanout:
        left = [0 if i in taken else units[i] for i in range(len(units))]
        taken.add(draw_unit(key, fanout + len(taken), left))
    return sorted(taken)


def choose_weighted(key: int, weights: Sequence[float], fanout: int, replace: bool) -> list[int]:
    """Positions in a row that a fan-out picks by weight."""
    there = [i for i, w in enumerate(weights) if w > 0]
    if fanout < 0 or not there or (not replace and fanout >= len(there)):
        return there
    if len(weights) <= 32:
        return choose_short(key, weights, fanout, replace)
    cells = alias(weights)
    if replace:
        return sorted(draw_cell(key, slot, cells) for slot in range(fanout))
    taken: set[int] = set()
    for slot in range(6 * fanout + 16):
        if len(taken) < fanout:
            taken.add(draw_cell(key, slot, cells))
    own = derive(key, MASK - 1)
    rest = sorted((exponential(draw(own, i)) / weights[i], i) for i in there if i not in taken)
    return sorted([*taken, *(i for _, i in rest[: fanout - len(taken)])])


def sample_each(
    graph: Graph,
    seeds: Sequence[Sequence[int]],
    fanouts: Sequence[int],
    pick: Pick,
    expand: Expand,
    position: tuple[int, int, int],
) -> list[Sample]:
    """One minibatch after the other; `position` is (seed, epoch, first batch)."""
    seed, epoch, first_batch = position
    return [
        sample_one(graph, list(map(int, ids)), fanouts, pick, expand, key, number)
        for number, ids in enumerate(seeds, first_batch)
        for key in [batch_key(seed, epoch, number)]
    ]


def weighted_bulk(
    graph: Graph,
    seeds: Sequence[Sequence[int]],
    fanouts: Sequence[int],
    weights: Sequence[float],
    replace: bool,
    expand: Expand,
    *,
    seed: int,
    epoch: int = 0,
    first_batch: int = 0,
) -> list[Sample]:
    """What `Neighbor(fanouts, weights=...)` promises."""

    def pick(layer: int, key: int, v: int, fanout: int) -> list[int]:
        own = weights[graph.indptr[v] : graph.indptr[v + 1]]
        return choose_weighted(vertex_key(layer_key(key, layer), v), own, fanout, replace)

    return sample_each(graph, seeds, fanouts, pick, expand, (seed, epoch, first_batch))


def shared_number(layer: int, v: int) -> int:
    """The 32-bit number that vertex v has for all targets of a layer."""
    bits = derive(layer, v >> 32)
    x = (v + bits) & LOW
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & LOW
    x = (((x ^ (x >> 15)) + (bits >> 32)) * 0x846CA68B) & LOW
    return x ^ (x >> 16)


def labor_bulk(
    graph: Graph,
    seeds: Sequence[Sequence[int]],
    fanouts: Sequence[int],
    expand: Expand,
    same: bool,
    debias: str | None,
    *,
    seed: int,
    epoch: int = 0,
    first_batch: int = 0,
) -> list[Sample]:
    """What `Labor(fanouts, ...)` promises."""

    def limit(v: int, fanout: int) -> int:
        degree = int(graph.indptr[v + 1] - graph.indptr[v])
        return 2**32 if fanout < 0 or degree <= fanout else fanout * 2**32 // degree

    def pick(layer: int, key: int, v: int, fanout: int) -> list[int]:
        own = layer_key(key, 0 if same else layer)
        row = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        below = limit(v, fanout)
        return [i for i, u in enumerate(row) if shared_number(own, int(u)) < below]

    def weigh(sample: Sample) -> Sample:
        weight, fan = [], np.repeat(fanouts, sample.num_edges)
        for col, edge, fanout in zip(sample.col, sample.edge, fan, strict=True):
            v = int(sample.node[col])
            value = 1 / int(graph.indptr[v + 1] - graph.indptr[v])
            if graph.edge_weight is not None:
                value = float(graph.edge_weight[edge])
            weight.append(value / (limit(v, int(fanout)) / 2**32))
        if debias == "reference":
            layer = np.repeat(np.arange(len(fanouts)), sample.num_edges)
            sums: dict[tuple[int, int], float] = {}
            ends = list(zip(layer.tolist(), sample.col.tolist(), strict=True))
            for at, w in zip(ends, weight, strict=True):
                sums[at] = sums.get(at, 0.0) + w
            weight = [w / (sums[at] or 1.0) for at, w in zip(ends, weight, strict=True)]
        return changed(sample, weight=np.array(weight, np.float32))

    made = sample_each(graph, seeds, fanouts, pick, expand, (seed, epoch, first_batch))
    return made if debias is None else [weigh(sample) for sample in made]
