"""layers: the segments of a recorded model as layers that run in chunks and stages.

A layer holds the weights of the user's model itself, not copies. Its input has the values that are
read from other nodes in its first columns; these are its messages. Every call is the recorded one,
with the rows of a chunk in place of all rows; message passing is the module's own `propagate` on
the edges that end in the chunk.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn

from foregather.nn.layer import GraphLayer, Near, PlacedNear
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.split.graph_values import GraphTable, GraphValues, run_call
from foregather.pipeline.split.levels import Segment, Side, Step, sides_of, target_row
from foregather.pipeline.split.norms import Running, always, is_norm, norm_input, normalised
from foregather.pipeline.split.program import Pair, Program, axis_kind
from foregather.pipeline.split.sums import sum_of
from foregather.pipeline.split.tape import Call, Ref
from foregather.pipeline.split.trees import map_tree

__all__ = ["SplitLayer", "make_split_layers"]

Key = tuple[int, int | None]


def make_split_layers(
    program: Program, segments: list[Segment], model: nn.Module
) -> list["SplitLayer"]:
    """The layers of a model; the first segment is left out if it only hands features on."""
    table = GraphTable(program, model)
    first = segments[0]
    features = next(n for n, v in enumerate(program.values) if v.origin == ("input", "x"))
    idle = not first.steps and not first.gives and first.makes == [features]
    made: list[SplitLayer] = []
    for segment in segments[1:] if idle else segments:
        whole = not segment.carried and segment.level > 0
        kind = SplitLayer if whole or not segment.level else _PartlyRead
        made.append(kind(program, segment, model, table))
    return made


class SplitLayer(GraphLayer):
    """One segment of a model.

    Args:
        program: the recorded model.
        segment: what to run.
        model: whose weights and convolutions are used.
        table: what the model computes from the graph alone.
    """

    placed = True

    def __init__(
        self, program: Program, segment: Segment, model: nn.Module, table: GraphTable
    ) -> None:
        super().__init__()
        self.program, self.segment, self.table = program, segment, table
        self.aggregates = segment.level > 0
        self.needs = tuple(f"v{number}" for number in segment.needs)
        self.also_gives = tuple(f"v{number}" for number in segment.gives)
        self.does = tuple(program.calls[step.call].name for step in segment.steps)
        self.user_names: dict[str, str] = {}
        known = dict(model.named_parameters(remove_duplicate=False))
        self._weights = {name: known[name] for name in sorted(segment.weights)}
        for name, weight in self._weights.items():
            inner = name.replace(".", "/")
            self.user_names[inner] = name
            self.register_parameter(inner, weight)
        paths = {
            call.path
            for step in segment.steps
            if (call := program.calls[step.call]).passing is not None
        }
        self._add_norms(model)
        self.reads_rows = bool(paths)
        # not registered: weights are, under the names that they have in the user's model
        self.user_model = [model]
        self.__dict__["_convs"] = {path: model.get_submodule(path) for path in sorted(paths)}

    def _add_norms(self, model: nn.Module) -> None:
        """Takes over the running statistics of what is normalised here."""
        self.norms: dict[str, Running] = {}
        for step in self.segment.steps:
            call = self.program.calls[step.call]
            if not is_norm(self.program, call):
                continue
            module = model.get_submodule(call.path)
            self.norms[call.path] = Running(module)
            for name, buffer in module.named_buffers():
                whole = f"{call.path}.{name}" if call.path else name
                self.user_names[whole.replace(".", "/")] = whole
                self.register_buffer(whole.replace(".", "/"), buffer)

    def end_epoch(self) -> None:
        """Moves running statistics; called once after every epoch of training."""
        for one in self.norms.values():
            one.end_epoch()

    def train(self, mode: bool = True) -> "SplitLayer":
        """Sets the mode of this layer and of the convolutions that it calls."""
        super().train(mode)
        for conv in self.__dict__.get("_convs", {}).values():
            conv.train(mode)
        return self

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers in training."""
        return any(self.program.calls[step.call].random for step in self.segment.steps)

    def conv(self, path: str) -> nn.Module:
        """A convolution of the user's model."""
        found: nn.Module = self.__dict__["_convs"][path]
        return found

    def prepare(self, topology: ChunkTopology, chunks: Iterable[int]) -> None:
        """Finds the edges of chunks, or where all are one rank's only checks them.

        Raises:
            InputError: the model passes messages along edges that a chunk does not see.
        """
        graph, chunks = self.table.of(topology), list(chunks)
        alone = len(chunks) == len(topology.chunks)
        for step in self.segment.steps:
            call = self.program.calls[step.call]
            if call.passing is None:
                continue
            edges, target = call.args[0].value, target_row(self.conv(call.path))
            if alone:  # they are made when they are needed: sums need none of them
                graph.check(edges, target)
                continue
            for chunk in chunks:
                graph.edges(edges, target, chunk)

    @property
    def message_width(self) -> int:
        """Columns that are read from other nodes."""
        return sum(self.program.values[n].width for n in self.segment.reads)

    def width_in(self) -> int:
        """Columns of the input."""
        inside = [*self.segment.reads, *self.segment.carried]
        return sum(self.program.values[n].width for n in inside)

    def width_out(self) -> int:
        """Columns of the result."""
        return sum(self.program.values[n].width for n in self.segment.makes)

    def skip_widths(self) -> dict[str, int]:
        """Columns of the skip tensors that it gives."""
        return {f"v{n}": self.program.values[n].width for n in self.segment.gives}

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Any:
        """The rows of one level of the own nodes; with those that are kept for later layers."""
        assert near is not None
        return _Run(self, x, cast(PlacedNear, near), skips).result()


class _PartlyRead(SplitLayer):
    """A segment whose input has further columns, which other nodes do not read."""

    def message(self, x: Tensor) -> Tensor:
        """The columns that are read."""
        return x[:, : self.message_width]


class _Run:
    """One run of a segment on one chunk."""

    def __init__(
        self, layer: SplitLayer, x: Tensor, near: PlacedNear, skips: dict[str, Tensor]
    ) -> None:
        self.layer, self.near, self.program = layer, near, layer.program
        topology, self.chunk = near.place
        self.graph: GraphValues = layer.table.of(topology)
        self.count = x.shape[0]
        self.values: dict[Key, Tensor] = {}
        segment = layer.segment
        if not segment.level:
            self.values[self._features(), None] = x
        own = x if not segment.carried or not segment.level else x[:, layer.message_width :]
        if segment.level:
            self._unpack(near.own, segment.reads)
            self._unpack(own, segment.carried)
        for number in segment.needs:
            self._unpack(skips[f"v{number}"], [number])

    def _features(self) -> int:
        values = self.program.values
        return next(n for n, v in enumerate(values) if v.origin == ("input", "x"))

    def _unpack(self, rows: Tensor, numbers: list[int]) -> None:
        start = 0
        for number in numbers:
            width = self.program.values[number].width
            self.values[number, None] = self._shaped(number, rows[:, start : start + width])
            start += width

    def _shaped(self, number: int, rows: Tensor) -> Tensor:
        """Columns as the tensor that the model had."""
        value = self.program.values[number]
        assert value.axis is not None
        shape = [size for place, (size, _) in enumerate(value.sizes) if place != value.axis]
        found = rows.reshape(rows.shape[0], *shape).movedim(0, value.axis)
        return found.to(value.dtype) if value.dtype != self.program.dtype else found

    def _packed(self, numbers: list[int]) -> Tensor:
        parts = []
        for number in numbers:
            axis = self.program.values[number].axis
            assert axis is not None
            rows = self.values[number, None].movedim(axis, 0).reshape(self.count, -1)
            parts.append(rows.to(self.graph.dtype))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def result(self) -> Any:
        """Runs all calls."""
        segment = self.layer.segment
        for step in segment.steps:
            self._step(step)
        x = self._packed(segment.makes)
        if not segment.gives:
            return x
        return x, {f"v{number}": self._packed([number]) for number in segment.gives}

    # ---- calls -----------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        call = self.program.calls[step.call]
        if step.call in self.program.train_only and not self.layer.training:
            first = self._tensor(call.args[0].value, step.edges, None)
            self.values[call.outs[0], step.edges] = first
            return
        if call.passing is not None:
            kind = self.program.values[call.outs[0]].kind
            edges = call.args[0].value if kind == "edge" else None
            self.values[call.outs[0], edges] = self._pass(call)
            return
        counts = self._counts(step.edges)
        if is_norm(self.program, call) and (self.layer.training or always(call)):
            self.values[call.outs[0], None] = self._norm(call, counts)
            return
        with self._drawing(call, step.edges):
            made = run_call(call, lambda leaf: self._leaf(leaf, step.edges, counts))
        for number, tensor in zip(call.outs, made, strict=True):
            self.values[number, step.edges] = tensor

    def _drawing(self, call: Call, edges: int | None) -> AbstractContextManager[Any]:
        """Says that a call draws for edges, if it does."""
        if edges is None or not call.random:
            return nullcontext()
        return self.near.passing(self.graph.edges(edges, 1, self.chunk).ptr)

    def _norm(self, call: Call, counts: dict[Pair, int]) -> Tensor:
        number, start = norm_input(call), 0
        for read in self.layer.segment.reads:
            if read == number:
                break
            start += self.program.values[read].width
        columns = slice(start, start + self.program.values[number].width)
        mean, var = self.near.moments(columns)
        rows = int(self.graph.num_nodes)
        self.layer.norms[call.path].found = (mean.detach(), var.detach(), rows)
        resolve = lambda leaf: self._leaf(leaf, None, counts)  # noqa: E731 - one expression
        return normalised(call, self.values[number, None], mean, var, resolve)

    def _counts(self, edges: int | None) -> dict[Pair, int]:
        counts = {self.program.nodes: self.count}
        if edges is not None:
            local = self.graph.edges(edges, 1, self.chunk)
            counts[self.program.values[edges].sizes[1]] = local.positions.shape[0]
        return counts

    def _leaf(self, leaf: Any, edges: int | None, counts: dict[Pair, int]) -> Any:
        if isinstance(leaf, Ref):
            return self._tensor(leaf.value, edges, None)
        return self.graph.plain(leaf, self.layer.training, counts)

    def _tensor(self, number: int, edges: int | None, positions: Tensor | None) -> Tensor:
        """A value for the own rows, or for the edges that end in them."""
        value = self.program.values[number]
        if value.kind == "weight" and value.origin is not None:
            return self.layer._weights[value.origin[1]]
        if value.kind != "const":
            key = (number, edges if value.kind == "edge" else None)
            return self.values[key]
        if axis_kind(self.program, value) == "edge" and edges is not None:
            if positions is None:
                positions = self.graph.edges(edges, 1, self.chunk).positions
            return self.graph.value(number, positions)
        if value.axis is None:
            return self.graph.value(number, None)
        return self.graph.value(number, self.graph.own_nodes(self.chunk))

    # ---- message passing -------------------------------------------------------------------

    def _pass(self, call: Call) -> Tensor:
        assert call.passing is not None
        conv, along = self.layer.conv(call.path), call.args[0].value
        total = sum_of(self.program, self.layer.segment, call, conv)
        if total is not None:
            added = self.near.sum_along(total, lambda: self.graph.lists(total))
            if added is not None:
                return added
        forward = target_row(conv) == 1
        local = self.graph.edges(along, target_row(conv), self.chunk)
        sides = sides_of(conv, call.passing.method)
        none = Side(False, False, False)
        found = {name: sides.get(name, none) for name in call.kwargs}
        pair = forward and not any(
            side.plain and self._has_nodes(call.kwargs[name]) for name, side in found.items()
        )
        rows = self.near.rows.shape[0]
        kwargs = {
            name: self._argument(tree, found[name], pair, along, local.positions, rows)
            for name, tree in call.kwargs.items()
        }
        method: Callable[..., Tensor] = getattr(conv, call.passing.method)
        with self.near.passing(local.ptr if forward else None):
            out = method(local.index, size=(rows, self.count if pair else rows), **kwargs)
        value = self.program.values[call.outs[0]]
        if pair or value.kind != "node":
            return out
        assert value.axis is not None
        return out.narrow(value.axis, 0, self.count)

    def _has_nodes(self, tree: Any) -> bool:
        values = self.program.values
        refs = [leaf.value for leaf in _parts(tree) if isinstance(leaf, Ref)]
        return any(axis_kind(self.program, values[ref]) == "node" for ref in refs)

    def _argument(
        self, tree: Any, side: Side, pair: bool, along: int, positions: Tensor, rows: int
    ) -> Any:
        """An argument of message passing, with rows of others where it reads them."""
        if not self._has_nodes(tree):
            counts = {self.program.nodes: self.count}

            def plain(leaf: Any) -> Any:
                if isinstance(leaf, Ref):
                    return self._tensor(leaf.value, along, positions)
                return self.graph.plain(leaf, self.layer.training, counts)

            return map_tree(tree, plain)
        two = isinstance(tree, tuple)
        source, target = tree if two else (tree, tree)
        if not pair and not two:
            return self._rows(tree, True, rows)
        reads = side.source or side.plain
        return (
            self._rows(source, reads, rows) if reads else None,
            self._rows(target, side.plain, rows, pair) if side.target or side.plain else None,
        )

    def _rows(self, ref: Any, read: bool, rows: int, own: bool = False) -> Tensor | None:
        """A value of nodes: for the own rows, or for all rows that are there."""
        if not isinstance(ref, Ref):
            return None
        value = self.program.values[ref.value]
        if value.kind == "const":
            ids = self.graph.nodes(self.chunk)
            return self.graph.value(ref.value, ids[: self.count] if own else ids)
        if own:
            return self.values[ref.value, None]
        segment, start = self.layer.segment, 0
        for number in segment.reads:
            width = self.program.values[number].width
            if number == ref.value:
                return self._shaped(number, self.near.rows[:, start : start + width])
            start += width
        mine, axis = self.values[ref.value, None], value.axis
        assert axis is not None
        shape = [*mine.shape]
        shape[axis] = rows - self.count
        return torch.cat([mine, mine.new_zeros(shape)], axis)


def _parts(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, (tuple, list)) else [tree]
