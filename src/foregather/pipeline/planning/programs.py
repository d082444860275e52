"""programs: turns the tasks of a schedule into costs: seconds of computing, bytes to send.

A setting has the engine's own schedule and its own messages, one by one.
"""

from collections.abc import Iterator, Sequence

from foregather.pipeline.partition.cut import Cut
from foregather.pipeline.planning.messages import Message, RankMessages, Sizes, trained_values
from foregather.pipeline.planning.schedule import Schedule, Task
from foregather.pipeline.planning.simulate import Action
from foregather.pipeline.planning.workload import Setting, Workload

__all__ = ["rank_programs"]


def rank_programs(work: Workload, setting: Setting, cut: Cut) -> list[list[Action]]:
    """Returns the programs of all ranks, stage by stage, in a steady epoch with ticks in order."""
    schedule = setting.schedule(work)
    sizes = Sizes(
        cut.nodes,
        cut.crossing,
        work.widths,
        trained_values(work.layers),
        work.itemsize,
        work.wire,
    )
    return [
        list(_Price(work, cut, schedule, sizes, rank).actions()) for rank in range(schedule.ranks)
    ]


class _Price:
    """What the tasks of one rank cost."""

    def __init__(
        self, work: Workload, cut: Cut, schedule: Schedule, sizes: Sizes, rank: int
    ) -> None:
        self._work, self._cut = work, cut
        self._schedule, self._rank = schedule, rank
        self._messages = RankMessages(schedule, sizes, rank)

    def actions(self) -> Iterator[Action]:
        """Yields computing and messages, in order; agreements cost next to nothing."""
        for task in self._schedule.tasks(self._rank):
            if task.kind == "again":
                for chunk in task.chunks:
                    yield self._compute(task, task.layers_run, chunk, False)
            elif task.kind == "run":
                yield from self._run(task)
            elif task.kind == "exchange":
                (layer,) = task.layers
                for exchange in self._messages.exchanges(task, layer):
                    yield from self._exchange(exchange, layer)
            else:
                yield from (_action(message) for message in self._messages.of(task))

    def _run(self, task: Task) -> Iterator[Action]:
        """Goes layer by layer if ways exchange; otherwise runs all layers at once."""
        if self._schedule.how == "columns":
            for layer in reversed(task.updates) if task.backward else task.updates:
                yield from self._columns(task, layer)
        elif self._schedule.ways == 1 or self._schedule.how == "layerwise":
            for chunk in task.chunks:
                yield self._compute(task, task.layers_run, chunk, task.backward)
        else:
            for layer in reversed(task.layers_run) if task.backward else task.layers_run:
                if layer in task.layers:
                    yield from self._overlapped(task, layer)
                else:
                    for chunk in task.chunks:
                        yield self._compute(task, [layer], chunk, task.backward)

    def _overlapped(self, task: Task, layer: int) -> Iterator[Action]:
        """Sums over own rows are computed while rows of other ways arrive.

        The rest comes after them in the forward pass, and before them in the backward pass.
        """
        cost, inner = self._work.costs[layer], 1 - self._cut.between
        nodes, edges, others = self._cut.nodes, self._cut.edges, self._cut.others
        edge = (cost.backward if task.backward else cost.forward)[1]
        rest = [
            self._named(
                task,
                c,
                cost.seconds(nodes[c], (1 - inner) * edges[c], task.backward, others[c]),
            )
            for c in task.chunks
        ]
        (exchange,) = self._messages.exchanges(task, layer)
        if task.backward:
            yield from rest
        yield from self._exchange([m for m in exchange if m.sending], layer)
        for c in task.chunks:
            yield self._named(task, c, inner * edge * edges[c])
        yield from self._exchange([m for m in exchange if not m.sending], layer)
        if not task.backward:
            yield from rest

    def _columns(self, task: Task, layer: int) -> Iterator[Action]:
        """Columns are summed between two trades; the dense part uses own rows.

        It comes after the sums in the forward pass, and before them in the backward pass.
        """
        cost, (chunk,) = self._work.costs[layer], task.chunks
        node, edge, call = cost.backward if task.backward else cost.forward
        dense = Action("compute", call + node * self._cut.nodes[chunk])
        if task.backward:
            yield dense
        if layer in task.layers:
            trades = self._messages.exchanges(task, layer)
            for trade in trades[:-1]:
                yield from self._exchange(trade, layer)
            yield Action("compute", edge * self._work.edges / self._schedule.ways)
            yield from self._exchange(trades[-1], layer)
        if not task.backward:
            yield dense

    def _compute(self, task: Task, layers: Sequence[int], chunk: int, backward: bool) -> Action:
        nodes, edges = self._cut.nodes[chunk], self._cut.edges[chunk]
        others, costs = self._cut.others[chunk], self._work.costs
        seconds = sum(costs[n].seconds(nodes, edges, backward, others) for n in layers)
        return self._named(task, chunk, seconds)

    def _exchange(self, messages: Sequence[Message], layer: int) -> Iterator[Action]:
        """Rows are packed and unpacked, which costs as much as reading rows of another chunk."""
        price = self._work.costs[layer].other[0]
        for message in messages:
            packing = Action("compute", price * message.rows)
            yield from (
                (packing, _action(message))
                if message.sending
                else (
                    _action(message),
                    packing,
                )
            )

    def _named(self, task: Task, chunk: int, seconds: float) -> Action:
        return Action("compute", seconds, name=f"{'b' if task.backward else 'f'}{chunk}")


def _action(message: Message) -> Action:
    kind = "send" if message.sending else "receive"
    return Action(kind, peer=message.peer, bytes=message.bytes)
