"""programs: what each rank of a setting computes, sends and receives in an epoch, for simulation.

The messages are those of the engine, one by one, so their bytes are those of the closed forms.
"""

from collections.abc import Sequence

from foregather.pipeline.dry_run import Widths
from foregather.pipeline.partition.cut import Cut
from foregather.pipeline.passes.segments import StageProgram
from foregather.pipeline.passes.tensor_parallel import column_bounds
from foregather.pipeline.planning.simulate import Action
from foregather.pipeline.planning.workload import Setting, Workload

__all__ = ["rank_programs"]


def rank_programs(work: Workload, setting: Setting, cut: Cut) -> list[list[Action]]:
    """The programs of all ranks, stage by stage, of a steady epoch in the order of ticks."""
    made = []
    for stage in range(setting.stages):
        for way in range(setting.ways):
            rank = _Rank(work, setting, cut, stage, way)
            if setting.split == "columns":
                rank.columns()
            elif setting.mode == "exact" and setting.scheme != "graph":
                rank.layerwise()
            else:
                rank.chunkwise()
            rank.weights()
            made.append(rank.actions)
    return made


class _Rank:
    """Writes the program of one rank."""

    def __init__(self, work: Workload, setting: Setting, cut: Cut, stage: int, way: int) -> None:
        self._work, self._setting, self._cut = work, setting, cut
        self._stage, self._way = stage, way
        self._program = setting.program(work, stage)
        self._ticks = setting.chunks // setting.ways
        self._again = setting.recompute == "all"
        self.actions: list[Action] = []

    # ---- passes ----------------------------------------------------------------------------

    def chunkwise(self) -> None:
        """Forward tick by tick, then backward."""
        numbers = range(self._program.first, self._program.last)
        for tick in range(self._ticks):
            chunk = self._chunk(tick)
            self._receive(-1, chunk)
            for number in self._groups(numbers):
                self._layers(number, tick, chunk, False)
            self._send(+1, chunk)
        for tick in reversed(range(self._ticks)):
            chunk = self._chunk(tick)
            self._receive(+1, chunk)
            for number in reversed(self._groups(numbers)):
                self._layers(number, tick, chunk, True)
            self._send(-1, chunk)

    def layerwise(self) -> None:
        """All chunks through a segment, then through the next; then backward."""
        segments = self._segments(self._program)
        for place, numbers in enumerate(segments):
            for tick in range(self._ticks):
                if place == 0:
                    self._receive(-1, self._chunk(tick))
                self._compute(numbers, self._chunk(tick), False)
                if place + 1 == len(segments):
                    self._send(+1, self._chunk(tick))
            if place + 1 < len(segments):
                self._exchange_all(segments[place + 1][0], False)
        for place in reversed(range(len(segments))):
            for tick in reversed(range(self._ticks)):
                if place + 1 == len(segments):
                    self._receive(+1, self._chunk(tick))
                self._compute(segments[place], self._chunk(tick), True)
                if place == 0:
                    self._send(-1, self._chunk(tick))
            if place:
                self._exchange_all(segments[place][0], True)

    def columns(self) -> None:
        """Dense parts by nodes, aggregations by columns."""
        work, count = self._work, self._setting.ways
        for backward in (False, True):
            numbers = list(range(len(work.layers)))
            for number in reversed(numbers) if backward else numbers:
                cost, layer = work.costs[number], work.layers[number]
                node, edge, call = cost.backward if backward else cost.forward
                raw = number == 0 and work.raw_first
                width = work.widths.message[number]
                if layer.aggregates and not (raw and backward):
                    if not raw:
                        self._trade(width, cost.other[0], rows=backward)
                    self._add("compute", edge * work.edges / count)
                    self._trade(width, cost.other[0], rows=not backward)
                self._add("compute", call + node * self._cut.nodes[self._way])

    def weights(self) -> None:
        """Sums of gradients, down a chain of ranks and back."""
        work, setting = self._work, self._setting
        shared = setting.shared(work)
        own = [n for n in range(self._program.first, self._program.last) if n not in shared]
        ways = [self._peer(self._stage, way) for way in range(setting.ways)]
        self._chain(ways, work.weights(own) * work.itemsize)
        everyone = list(range(setting.stages * setting.ways))
        self._chain(everyone, work.weights(shared) * work.itemsize)

    # ---- pieces ----------------------------------------------------------------------------

    def _segments(self, program: StageProgram) -> list[list[int]]:
        segments = [[op.layer for op in ops if op.kind == "update"] for ops in program.segments]
        first = program.first == 0 and self._work.raw_first
        return segments[1:] if first else segments

    def _groups(self, numbers: Sequence[int]) -> list[list[int]]:
        """Layers that run without a message in between."""
        if self._setting.ways > 1:
            return [[n] for n in numbers]
        return [list(numbers)]

    def _layers(self, numbers: list[int], tick: int, chunk: int, backward: bool) -> None:
        exchanged = self._setting.ways > 1 and self._exchanged(numbers[0])
        if not exchanged:
            self._compute(numbers, chunk, backward)
            return
        number, inner = numbers[0], 1 - self._cut.between
        cost, nodes, edges = self._work.costs[number], self._cut.nodes, self._cut.edges
        edge = (cost.backward if backward else cost.forward)[1]
        others = self._cut.others[chunk]
        rest = cost.seconds(nodes[chunk], (1 - inner) * edges[chunk], backward, others)
        if backward and self._again:
            self._compute(numbers, chunk, False)
        if backward:
            self._add("compute", rest, name=f"b{chunk}")
        self._ways(self._crossing([tick]), number, backward, True)
        self._add("compute", inner * edge * edges[chunk], name=f"{'b' if backward else 'f'}{chunk}")
        self._ways(self._crossing([tick]), number, backward, False)
        if not backward:
            self._add("compute", rest, name=f"f{chunk}")

    def _compute(self, numbers: Sequence[int], chunk: int, backward: bool) -> None:
        nodes, edges = self._cut.nodes[chunk], self._cut.edges[chunk]
        others = self._cut.others[chunk]
        costs = [self._work.costs[n] for n in numbers]
        seconds = sum(cost.seconds(nodes, edges, backward, others) for cost in costs)
        if backward and self._again:
            seconds += sum(cost.seconds(nodes, edges, False, others) for cost in costs)
        self._add("compute", seconds, name=f"{'b' if backward else 'f'}{chunk}")

    def _exchanged(self, number: int) -> bool:
        return self._work.layers[number].aggregates and not (number == 0 and self._work.raw_first)

    def _exchange_all(self, number: int, backward: bool) -> None:
        if self._setting.ways > 1 and self._exchanged(number):
            rows = self._crossing(range(self._ticks))
            for sending in (True, False):
                self._ways(rows, number, backward, sending)

    def _crossing(self, ticks: Sequence[int]) -> list[list[int]]:
        rows: list[list[int]] = self._cut.crossing[list(ticks)].sum(0).tolist()
        return rows

    def _ways(self, rows: list[list[int]], number: int, backward: bool, sending: bool) -> None:
        """Messages to or from the other ways; gradients go the other way round.

        Rows are packed and unpacked, which costs as much as to read rows of another chunk.
        """
        width, price = self._work.widths.message[number], self._work.costs[number].other[0]
        for other in range(self._setting.ways):
            gives = sending != backward
            count = rows[self._way][other] if gives else rows[other][self._way]
            if other != self._way and count:
                kind = "send" if sending else "receive"
                size = count * width * self._work.itemsize
                if sending:
                    self._add("compute", price * count)
                self._add(kind, peer=self._peer(self._stage, other), size=size)
                if not sending:
                    self._add("compute", price * count)

    def _trade(self, width: int, price: float, rows: bool) -> None:
        """Rows for columns, or columns for rows; a whole row is packed for a price."""
        bounds, nodes = column_bounds(width, self._setting.ways), self._cut.nodes
        for sending in (True, False):
            for other in range(self._setting.ways):
                giver, taker = (self._way, other) if sending else (other, self._way)
                n, d = (taker, giver) if rows else (giver, taker)
                columns = bounds[d + 1] - bounds[d]
                size = nodes[n] * columns * self._work.itemsize
                if other != self._way and size:
                    self._add("send" if sending else "receive", peer=other, size=size)
                    self._add("compute", price * nodes[n] * columns / width)

    def _chain(self, chain: Sequence[int], size: int) -> None:
        own = self._peer(self._stage, self._way)
        place = chain.index(own)
        if len(chain) == 1 or not size:
            return
        if place > 0:
            self._add("receive", peer=chain[place - 1])
        if place + 1 < len(chain):
            self._add("send", peer=chain[place + 1], size=size)
            self._add("receive", peer=chain[place + 1])
        if place > 0:
            self._add("send", peer=chain[place - 1], size=size)

    def _boundary(self, step: int) -> int | None:
        """Columns that cross to the next (1) or the previous stage (-1); None at the ends."""
        widths: Widths = self._work.widths
        if step > 0:
            if self._stage + 1 == self._setting.stages:
                return None
            skips = sum(widths.skip[name] for name in self._program.skips_out)
            return widths.x[self._program.last] + skips
        if self._stage == 0:
            return None
        skips = sum(widths.skip[name] for name in self._program.skips_in)
        return widths.x[self._program.first] + skips

    def _send(self, step: int, chunk: int) -> None:
        width = self._boundary(step)
        if width is not None:
            size = self._cut.nodes[chunk] * width * self._work.wire
            self._add("send", peer=self._peer(self._stage + step, self._way), size=size)

    def _receive(self, step: int, chunk: int) -> None:
        if self._boundary(step) is not None:
            self._add("receive", peer=self._peer(self._stage + step, self._way))

    def _chunk(self, tick: int) -> int:
        return self._way * self._ticks + tick

    def _peer(self, stage: int, way: int) -> int:
        return stage * self._setting.ways + way

    def _add(
        self, kind: str, seconds: float = 0.0, peer: int = -1, size: int = 0, name: str = ""
    ) -> None:
        self.actions.append(Action(kind, seconds, peer, size, name))
