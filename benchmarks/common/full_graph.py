"""Full-graph training on one machine, plain and ours: what the benchmarks of its memory share.

`Plain` runs layers on the whole graph at once with torch's autograd, `Module` a model of PyG, and
`Ours` either of them by `FullGraph`. `Peak` has the largest resident memory of a part of a program.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from foregather import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.split.graph_values import graph_inputs
from foregather.pipeline.whole.adjacency import Adjacency, Lists

__all__ = ["Deep", "Module", "Ours", "Peak", "Plain", "few_nodes", "resident"]


class Products:
    """Means over in-neighbours as torch computes them: a sparse matrix and its transpose."""

    def __init__(self, lists: Lists) -> None:
        count = lists.indptr.shape[0] - 1
        degree = (lists.indptr[1:] - lists.indptr[:-1]).clamp(min=1)
        weight = torch.repeat_interleave(1 / degree, lists.indptr[1:] - lists.indptr[:-1])
        there = (lists.indptr.int(), lists.source, weight.float())
        back = (lists.ptr.int(), lists.target, (1 / degree)[lists.target.long()].float())
        self.there = torch.sparse_csr_tensor(*there, size=(count, count))
        self.back = torch.sparse_csr_tensor(*back, size=(count, count))

    def mean(self, rows: torch.Tensor) -> torch.Tensor:
        """Means."""
        found: torch.Tensor = Product.apply(rows, self)  # type: ignore[no-untyped-call]
        return found


class Product(torch.autograd.Function):
    """A product with constant weights; nothing is saved."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, products: Products) -> torch.Tensor:
        ctx.products = products
        return products.there @ rows

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.products.back @ gradient, None


class Sums:
    """The same by the core's sums."""

    def __init__(self, lists: Lists) -> None:
        self.lists, self.span = lists, slice(0, lists.indptr.shape[0] - 1)

    def mean(self, rows: torch.Tensor) -> torch.Tensor:
        """Means."""
        found: torch.Tensor = Sum.apply(rows, self)  # type: ignore[no-untyped-call]
        return found


class Sum(torch.autograd.Function):
    """A sum with constant weights; nothing is saved."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, sums: Sums) -> torch.Tensor:
        ctx.sums = sums
        return sums.lists.sums(rows, sums.span)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.sums.lists.gradient(gradient, ctx.sums.span), None


class Whole:
    """What a layer sees of the whole graph."""

    def __init__(self, rows: torch.Tensor, place: Products | Sums) -> None:
        self.rows = self.own = rows
        self.count, self._place = rows.shape[0], place

    def aggregate(self, norm: str = "mean") -> torch.Tensor:
        """Means over in-neighbours."""
        assert norm == "mean"
        return self._place.mean(self.rows)

    def dense(self, part: Any, *values: torch.Tensor) -> torch.Tensor:
        """`part(*values)`."""
        found: torch.Tensor = part(*values)
        return found


class Plain:
    """Epochs on the whole graph at once; `segment` layers are recomputed together, 0: none are."""

    def __init__(self, graph: Graph, layers: list[Any], ours: bool, segment: int) -> None:
        lists = Adjacency(graph, make_chunks(graph, 1, "natural"), torch.float32).lists("mean")
        self.place: Products | Sums = Sums(lists) if ours else Products(lists)
        self._target(graph)
        self.layers, self.segment = layers, segment
        weights = [p for layer in layers for p in layer.parameters()]
        self.optimizer = torch.optim.Adam(weights, 0.01)

    def _target(self, graph: Graph) -> None:
        assert graph.features is not None and graph.labels is not None
        self.features = torch.from_numpy(graph.features[:])
        self.train = torch.from_numpy(graph.split("train"))
        self.labels = torch.from_numpy(graph.labels[graph.split("train")].astype("i8"))

    def part(self, x: torch.Tensor, layers: list[Any]) -> torch.Tensor:
        """Some layers."""
        for layer in layers:
            near = Whole(layer.message(x), self.place) if layer.aggregates else None
            x = layer.update(x, near)
        return x

    def scores(self) -> torch.Tensor:
        """Scores of all nodes."""
        x = self.features
        step = self.segment or len(self.layers)
        for first in range(0, len(self.layers), step):
            some = self.layers[first : first + step]
            if self.segment and first + step < len(self.layers):  # the last one need not
                x = checkpoint(self.part, x, some, use_reentrant=False)
            else:
                x = self.part(x, some)
        return x

    def epoch(self) -> float:
        """One epoch; its loss."""
        x = self.scores()
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(x[self.train], self.labels)
        del x
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.detach())


class Deep(torch.nn.Module):
    """ResGCN+ as a user of PyG writes it."""

    def __init__(self, width_in: int, width: int, classes: int, depth: int) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.first = torch.nn.Linear(width_in, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(depth + 1))
        self.convs = torch.nn.ModuleList(SAGEConv(width, width) for _ in range(depth))
        self.last = torch.nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=False):
            x = x + conv(norm(x).relu(), edge_index)
        found: torch.Tensor = self.last(self.norms[-1](x).relu())
        return found


class Module(Plain):
    """Epochs of a model of PyG on the whole graph at once."""

    def __init__(self, graph: Graph, model: torch.nn.Module) -> None:
        self._target(graph)
        self.model = model
        self.edges = graph_inputs(model, graph, torch.float32, torch.device("cpu"))["edge_index"]
        self.optimizer = torch.optim.Adam(model.parameters(), 0.01)

    def scores(self) -> torch.Tensor:
        """Scores of all nodes."""
        found: torch.Tensor = self.model(self.features, self.edges)
        return found


class Ours:
    """The same by `FullGraph`."""

    def __init__(self, graph: Graph, layers: Any, chunks: int, options: Any) -> None:
        runtime = Runtime(**options)
        self.run = FullGraph(graph, layers, chunks, partition="natural", runtime=runtime)

    def epoch(self) -> float:
        """One epoch; its loss."""
        return self.run.train_epoch().loss


class Peak:
    """The largest resident memory while it watches, as the kernel marks it."""

    def __enter__(self) -> "Peak":
        self.most = resident()
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's own mark starts again here
        return self

    def __exit__(self, *_: Any) -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        marked = next(line for line in lines if line.startswith("VmHWM"))
        self.most = max(self.most, int(marked.split()[1]) * 1024)


def resident() -> int:
    """Resident bytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def few_nodes(nodes: int, features: int, classes: int) -> Graph:
    """A small graph: trained once, it has torch load and allocate what it needs once."""
    few = synthetic_arrays(nodes, degree=4, features=features, classes=classes)
    pairs = np.stack([few.indices.astype("i8"), np.repeat(np.arange(nodes), np.diff(few.indptr))])
    rest: dict[str, Any] = {"x": few.features, "y": few.labels, "splits": few.splits}
    return Graph.from_edge_index(pairs, nodes, **rest)
