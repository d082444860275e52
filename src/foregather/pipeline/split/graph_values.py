"""graph_values: what a model computes from the graph alone, made once for all nodes and edges.

Degrees, normalised weights and added self-loops are those of the whole graph. A chunk takes from
them the rows of its nodes and of the edges that end in them.
"""

import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn import list_kernels as kernels
from foregather.nn.accelerated.passing import is_convolution
from foregather.nn.arguments import optional_arguments
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.split.program import ByMode, Number, Pair, Program
from foregather.pipeline.split.sums import Sum
from foregather.pipeline.split.tape import Call, Ref, refuse
from foregather.pipeline.split.trees import map_tree, tensors_of
from foregather.pipeline.whole.adjacency import Lists

__all__ = [
    "GraphTable",
    "GraphValues",
    "LocalEdges",
    "call_model",
    "graph_inputs",
    "leave_out",
    "run_call",
]

_STEP = 1 << 20  # edges that are looked up at a time


def graph_inputs(
    model: nn.Module, graph: Graph, dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """What a model is called with besides x, for the whole graph, by name."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    pairs = torch.from_numpy(np.stack([graph.indices.astype(np.int64), target]))
    weight, attr = graph.edge_weight, graph.edge_features
    every = np.arange(graph.num_edges)
    fields = SimpleNamespace(
        edge_weight=None if weight is None else torch.from_numpy(np.array(weight)).to(dtype),
        edge_attr=None if attr is None else torch.from_numpy(np.array(attr[every])).to(dtype),
    )
    optional = leave_out(model, optional_arguments(model, fields, dtype))
    found = {"edge_index": pairs, **optional}
    return {name: value.to(device) for name, value in found.items()}


def call_model(model: nn.Module, x: Tensor, inputs: dict[str, Tensor]) -> Any:
    """What a model gives; edges are passed by position, since their name is the user's choice."""
    named = {name: value for name, value in inputs.items() if name != "edge_index"}
    return model(x, inputs["edge_index"], **named)


def leave_out(model: nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """Leaves edge features out where every convolution was made without (edge_dim=None)."""
    made = [getattr(part, "edge_dim", 0) for part in model.modules() if is_convolution(part)]
    if made and all(one is None for one in made):
        given.pop("edge_attr", None)
    return given


def run_call(call: Call, resolve: Any, func: Any = None) -> list[Tensor]:
    """Makes a call again; returns the tensors that it gives."""
    args, kwargs = map_tree([call.args, call.kwargs], resolve)
    func = func or call.func
    if not call.changes:
        return tensors_of(func(*args, **kwargs))
    changed = args[0].clone()
    func(changed, *args[1:], **kwargs)
    return [changed]


@dataclass(frozen=True, slots=True)
class LocalEdges:
    """The edges of one set that end in a chunk.

    Attributes:
        positions: in the set; those of one target follow each other, targets in order.
        index: [2, edges] over own rows and the rows of others.
        ptr: where the edges of each own row begin, int64 [own + 1].
    """

    positions: Tensor
    index: Tensor
    ptr: Tensor


class GraphValues:
    """The constants of a program for one graph in chunks.

    Args:
        program: the program.
        model: says which fields of the graph it takes.
        topology: the graph, cut into chunks.
        like: those of the same graph in other chunks, whose tensors are shared.
    """

    def __init__(
        self,
        program: Program,
        model: nn.Module,
        topology: ChunkTopology,
        like: "GraphValues | None" = None,
    ) -> None:
        self._program = program
        # it is the key under which this is kept
        self._topology: ChunkTopology = weakref.proxy(topology)
        self.dtype, self.device = topology.dtype, topology.device
        self.num_nodes = topology.graph.num_nodes
        self._numbers: dict[Pair, Any] = {program.nodes: topology.graph.num_nodes}
        self._values: dict[int, Tensor] = {}
        self._model = model
        self._order: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._checked: set[tuple[int, int]] = set()
        if like is not None:
            self._numbers, self._values = like._numbers, like._values
            self._order, self._checked = like._order, like._checked
        else:
            with torch.no_grad():
                self._compute()
        self._edges: dict[tuple[int, int, int], LocalEdges] = {}
        self._lists: dict[Sum, Lists] = {}
        self._nodes: dict[int, Tensor] = {}

    def _compute(self) -> None:
        program = self._program
        inputs = graph_inputs(self._model, self._topology.graph, self.dtype, self.device)
        buffers = dict(self._model.named_buffers())
        for number, value in enumerate(program.values):
            if value.origin is None or value.kind != "const":
                continue
            kind, name = value.origin
            if kind == "literal":
                literal = program.literals[number]
                kept = self.dtype if literal.dtype == program.dtype else literal.dtype
                self._put(number, literal.to(self.device, kept))
            elif kind == "buffer":
                self._values[number] = buffers[name]
            elif name in inputs:
                self._put(number, inputs[name])
        for call in program.calls:
            if any(program.values[out].kind != "const" for out in call.outs):
                continue
            if call.number is not None:
                given = call.func(*map_tree(call.args, self._resolve))  # type: ignore[misc]
                self._numbers.setdefault(call.number.pair, given)
                continue
            made = run_call(call, self._resolve)
            for number, tensor in zip(call.outs, made, strict=True):
                self._put(number, tensor)

    def _put(self, number: int, tensor: Tensor) -> None:
        self._values[number] = tensor
        sizes = self._program.values[number].sizes
        for pair, real in zip(sizes, tensor.shape, strict=True):
            if pair[0] != pair[1]:
                self._numbers.setdefault(pair, real)

    def _resolve(self, leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return self._values[leaf.value]
        return self.plain(leaf, True, None)

    def plain(self, leaf: Any, training: bool, counts: dict[Pair, int] | None) -> Any:
        """A leaf of a tree that is no tensor; `counts` are those of a chunk."""
        if isinstance(leaf, ByMode):
            return leaf.train if training else leaf.evaluate
        if isinstance(leaf, Number):
            return self._number(leaf.pair, counts)
        if isinstance(leaf, torch.dtype):
            return self.dtype if leaf == self._program.dtype else leaf
        return self.device if isinstance(leaf, torch.device) else leaf

    def _number(self, pair: Pair, counts: dict[Pair, int] | None) -> Any:
        known = self._numbers if counts is None else counts
        if pair in known:
            return known[pair]
        times = self._program.rows_of(pair)
        if times is not None:
            return times * known[self._program.nodes]
        if counts is not None and pair in self._numbers and pair not in self._program.edges:
            return self._numbers[pair]  # a number such as the largest degree
        raise refuse("", f"uses a number that depends on the graph ({pair[0]} in a small one)")

    # ---- a chunk ---------------------------------------------------------------------------

    def own_nodes(self, chunk: int) -> Tensor:
        """Ids of a chunk's nodes."""
        chunks = self._topology.chunks
        return torch.from_numpy(chunks.order[chunks.span(chunk)]).to(self.device)

    def nodes(self, chunk: int) -> Tensor:
        """Ids of a chunk's nodes, then of the others that it reads."""
        if chunk not in self._nodes:
            place = self._topology
            own = place.chunks.order[place.chunks.span(chunk)]
            others = place.chunks.order[place.locals[chunk].others.cpu().numpy()]
            self._nodes[chunk] = torch.from_numpy(np.concatenate([own, others])).to(self.device)
        return self._nodes[chunk]

    def value(self, number: int, rows: Tensor | None) -> Tensor:
        """A constant; `rows` are the nodes or positions of edges to take, None for all."""
        found, axis = self._values[number], self._program.values[number].axis
        if axis is None or rows is None:
            return found
        return found.index_select(axis, rows)

    def edges(self, number: int, target: int, chunk: int) -> LocalEdges:
        """The edges of a set that end in a chunk; `target` is the row of the targets' ids.

        Raises:
            InputError: one of them begins in a node whose rows the chunk does not see.
        """
        key = (number, target, chunk)
        if key not in self._edges:
            self._edges[key] = self._local(number, target, chunk)
        return self._edges[key]

    def _local(self, number: int, target: int, chunk: int) -> LocalEdges:
        pairs, count = self._values[number], self._topology.graph.num_nodes
        if (number, target) not in self._order:
            order = torch.argsort(pairs[target], stable=True)
            degree = torch.bincount(pairs[target], minlength=count)
            start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
            self._order[number, target] = (order, start)
        order, start = self._order[number, target]
        ids, own = self.nodes(chunk), self._topology.locals[chunk].count
        mine = ids[:own]
        degree = start[mine + 1] - start[mine]
        first = torch.repeat_interleave(start[mine] - (degree.cumsum(0) - degree), degree)
        positions = order[first + torch.arange(first.shape[0], device=first.device)]
        row = torch.full((count,), -1, dtype=torch.int64, device=ids.device)
        row[ids] = torch.arange(ids.shape[0], device=ids.device)
        index = row[pairs[:, positions]]
        if bool((index < 0).any()):
            raise _other_edges()
        return LocalEdges(positions, index, torch.cat([degree.new_zeros(1), degree.cumsum(0)]))

    def check(self, number: int, target: int) -> None:
        """Checks that all edges of a set are edges of the graph, or self-loops.

        Raises:
            InputError: one of them is neither, so a chunk would not see where it begins.
        """
        if (number, target) in self._checked:
            return
        graph, pairs = self._topology.graph, self._values[number]
        count = graph.num_nodes
        known = np.repeat(np.arange(count) * count, graph.in_degree())
        known += np.asarray(graph.indices)
        known.sort()
        for first in range(0, pairs.shape[1], _STEP):
            ends = pairs[:, first : first + _STEP].cpu().numpy()
            ends = ends[:, ends[0] != ends[1]]
            key = ends[target] * count + ends[1 - target]
            place = np.searchsorted(known, key)
            if (place >= known.size).any() or (known[place] != key).any():
                raise _other_edges()
        self._checked.add((number, target))

    # ---- all chunks ------------------------------------------------------------------------

    def lists(self, total: Sum) -> Lists:
        """The edges of a sum in new numbers, by target and by source."""
        if total not in self._lists:
            self._lists[total] = self._make_lists(total)
        return self._lists[total]

    def _make_lists(self, total: Sum) -> Lists:
        pairs, chunks = self._values[total.edges], self._topology.chunks
        count = chunks.number.size
        kind = np.int64 if max(count, pairs.shape[1]) >= 1 << 31 else np.int32
        number = torch.from_numpy(chunks.number.astype(kind))
        target = number[pairs[1]]
        degree = torch.bincount(target, minlength=count)
        indptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        order = torch.argsort(target, stable=True)
        del target
        source = number[pairs[0]][order]
        weight = given = None
        if total.weight is not None:
            weight = self._values[total.weight].detach()[order].to(kernels.sum_dtype(self.dtype))
        del order
        ptr, edge, back = kernels.lists_by_source(indptr, source, count)
        if weight is not None:
            given = weight[edge.long()]
        return Lists(indptr, source, weight, ptr, back, given, total.mean)


class GraphTable:
    """`GraphValues` by topology, made when they are first asked for."""

    def __init__(self, program: Program, model: nn.Module) -> None:
        self._program, self._model = program, model
        self._known: WeakKeyDictionary[ChunkTopology, GraphValues] = WeakKeyDictionary()

    def of(self, topology: ChunkTopology) -> GraphValues:
        """Those of one graph in chunks."""
        if topology not in self._known:
            like = next((made for one, made in self._known.items() if _alike(one, topology)), None)
            self._known[topology] = GraphValues(self._program, self._model, topology, like)
        return self._known[topology]


def _alike(one: ChunkTopology, other: ChunkTopology) -> bool:
    return one.graph is other.graph and (one.dtype, one.device) == (other.dtype, other.device)


def _other_edges() -> InputError:
    return refuse(
        "",
        "passes messages along edges that are not those of the graph (the other way, or further "
        "than one hop)",
    )
