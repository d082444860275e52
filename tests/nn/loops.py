"""Aggregation in the most obvious way: loops over edges, in the order in which they come."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foregather.nn.neighborhoods import Neighborhoods

Numbers = NDArray[np.floating]

#: What values of a storage type are added up in.
SUMS = {
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.bfloat16: np.float32,
    torch.float16: np.float32,
}


@dataclass(frozen=True)
class Edges:
    """Edges that ascend by target."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    sources: int
    targets: int

    @property
    def index(self) -> Tensor:
        """As torch has them."""
        return torch.from_numpy(np.stack([self.source, self.target]).astype(np.int64))

    def lists(self) -> Neighborhoods:
        """What is under test."""
        return Neighborhoods.of(self.index, self.sources, self.targets)

    def first(self, targets: int) -> "Edges":
        """Those of the first targets; all sources stay."""
        keep = self.target < targets
        return Edges(self.source[keep], self.target[keep], self.sources, targets)


def random_edges(seed: int, sources: int, targets: int, count: int) -> Edges:
    """Repeated edges, targets without edges and sources without edges all occur."""
    rng = np.random.default_rng(seed)
    count = count if sources and targets else 0
    ends = np.sort(rng.integers(0, max(targets, 1), count))
    return Edges(rng.integers(0, max(sources, 1), count), ends, sources, targets)


def as_numbers(x: Tensor) -> Numbers:
    """The stored values in the type that they are added up in."""
    return np.asarray(x.detach().to(torch.float64).numpy(), SUMS[x.dtype])


def reduced(x: Numbers, edges: Edges, reduce: str, weight: Numbers | None) -> Numbers:
    """Rows [targets, ...] by the definition; weights are [edges] or [edges, heads]."""
    out = np.zeros((edges.targets, *x.shape[1:]), x.dtype)
    seen = np.zeros(edges.targets, np.int64)
    for k, (s, t) in enumerate(zip(edges.source, edges.target, strict=True)):
        row = x[s] if weight is None else x[s] * weight[k][..., None]
        if reduce == "max":
            out[t] = np.maximum(out[t], row) if seen[t] else row
        else:
            out[t] = out[t] + row
        seen[t] += 1
    if reduce == "mean":
        for t in range(edges.targets):
            out[t] = out[t] / x.dtype.type(max(seen[t], 1))
    return out


def gradients(
    x: Numbers, edges: Edges, reduce: str, weight: Numbers | None, grad: Numbers
) -> tuple[Numbers, Numbers]:
    """Of x, and of the weights (of ones where there are none)."""
    number = x.dtype.type
    size = np.maximum(np.bincount(edges.target, minlength=edges.targets), 1)
    weight = np.ones(len(edges.source), x.dtype) if weight is None else weight
    to_x = np.zeros_like(x)
    to_weight = np.zeros((len(edges.source), *x.shape[1:-1]), x.dtype)
    won = np.zeros((edges.targets, *x.shape[1:]), bool)
    best = reduced(x, edges, "max", weight) if reduce == "max" else None
    for k, (s, t) in enumerate(zip(edges.source, edges.target, strict=True)):
        part = number(1) / number(size[t]) if reduce == "mean" else number(1)
        given = grad[t]
        if best is not None:  # to the first that has it
            wins = (x[s] * weight[k] == best[t]) & ~won[t]
            won[t] |= wins
            given = np.where(wins, given, number(0))
        to_x[s] = to_x[s] + given * (weight[k][..., None] * part)
        to_weight[k] = (x[s] * given).sum(-1) * part
    return to_x, to_weight


def softmax(logits: Numbers, edges: Edges) -> Numbers:
    """Over the edges of each target."""
    out = np.zeros_like(logits)
    for t in range(edges.targets):
        own = edges.target == t
        if own.any():
            powers = np.exp(logits[own] - logits[own].max(0))
            out[own] = powers / powers.sum(0)
    return out
