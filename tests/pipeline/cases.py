"""Small graphs and models for the tests of full-graph training, in float64."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from foregather import Graph
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.nn.layer import GraphLayer
from foregather.pipeline.passes.segments import as_layers

WIDTH, CLASSES = 7, 3
T = TypeVar("T")


@contextmanager
def double() -> Iterator[None]:
    """float64 layers inside."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def small_graph(nodes: int = 60, edges: int = 260, seed: int = 0, **options: Any) -> Graph:
    """Directed, with self-loops, parallel edges and three isolated nodes."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes - 3, (2, edges))
    return Graph.from_edge_index(
        pairs,
        nodes,
        x=rng.random((nodes, WIDTH)) - 0.5,
        y=rng.integers(0, CLASSES, nodes),
        edge_attr=rng.random((edges, 2)),
        splits={"train": np.arange(0, nodes, 2), "valid": np.arange(1, nodes, 2), "none": []},
        **options,
    )


MODELS: dict[str, Callable[..., list[GraphLayer]]] = {
    "gcn": lambda drop=0.0: gcn_layers([WIDTH, 5, 6, 6, CLASSES], drop),
    "sage": lambda drop=0.0: sage_layers([WIDTH, 5, 8, 8, CLASSES], drop),
    "gcnii": lambda drop=0.0: gcnii_layers(WIDTH, 6, CLASSES, 4, dropout=drop),
    "resgcn": lambda drop=0.0: resgcn_layers(WIDTH, 6, CLASSES, 4, drop),
}


def plain_convolutions(drop: float = 0.0) -> list[GraphLayer]:
    """Every layer aggregates its input as it is, so a later stage begins with an aggregation."""
    from torch_geometric.nn import GCNConv

    return as_layers([GCNConv(WIDTH, 5), nn.Dropout(drop), GCNConv(5, 6), GCNConv(6, 6),
                      GCNConv(6, CLASSES)])  # fmt: skip


def model(name: str, drop: float = 0.0, seed: int = 0) -> Any:
    from tests.pipeline.modules import MODULES

    with double():
        torch.manual_seed(seed)
        if name in MODULES:
            return MODULES[name]()
        return plain_convolutions(drop) if name == "plain" else MODELS[name](drop)


def sgd(rate: float = 0.5) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda weights: torch.optim.SGD(weights, rate)


def weights_of(layers: Iterable[torch.nn.Module]) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for layer in layers for p in layer.parameters()]).clone()


def copy_of(layers: T) -> T:
    return copy.deepcopy(layers)
